-- supply: the seller says whether anything is left.
-- KEYS: as common.lua says.
-- ARGV: 1 "0": the last piece is sold; "1": something may still be had
-- Reply: {"ok"}; {"no_event"}
-- Sent again: no difference. An event whose on_sold_out is close is closed by it.
if not load() then return {'no_event'} end
call('HSET', META, 'unsold', ARGV[1])
if ARGV[1] == '0' and call('HGET', META, 'on_sold_out') == 'close' then
  local before = E.state
  if before == 'open' or before == 'paused' or before == 'draining' then
    become('closed', 'sold_out')
    log('stock', 'state', before, 'closed')
  end
end
tell()
return {'ok'}
