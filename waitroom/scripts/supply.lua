-- supply: the seller says whether anything is left.
-- KEYS: as common.lua says.
-- ARGV: 1 "0": the last piece is sold; "1": something may still be had
-- Reply: {"ok"}; {"no_event"}
-- Sent again: no difference.
if not load() then return {'no_event'} end
call('HSET', META, 'unsold', ARGV[1])
tell()
return {'ok'}
