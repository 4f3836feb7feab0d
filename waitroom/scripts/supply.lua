-- supply: the seller says whether anything is left.
-- KEYS: as common.lua says.
-- ARGV: 1 "0": the last piece is sold; "1": something may still be had
-- Reply: {"ok"}; {"no_event"}
-- Sent again: no difference. An event whose on_sold_out is close is closed by it; every
-- node is told of it, and of the moment when something has come back.
if not load() then return {'no_event'} end
local m = call('HMGET', META, 'unsold', 'on_sold_out')
call('HSET', META, 'unsold', ARGV[1])
local before = E.state
if ARGV[1] == '0' and m[2] == 'close' and (before == 'open' or before == 'paused' or before == 'draining') then
  become('closed', 'sold_out')
  log('stock', 'state', before, 'closed')
elseif (m[1] or '1') ~= ARGV[1] then
  E.version, V = E.version + 1, true
  call('HSET', META, 'version', int(E.version))
  log('stock', 'sold_out', ARGV[1] == '0' and 'false' or 'true', ARGV[1] == '0' and 'true' or 'false')
end
tell()
return {'ok'}
