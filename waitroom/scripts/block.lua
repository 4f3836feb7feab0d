-- block: an operator puts an entry out for good.
-- KEYS: as common.lua says, then 15 asks
-- ARGV: 1 entry  2 by  3 "1": also one that has never been here, or "0"
-- Reply: {"ok"}; {"no_event"}; {"unknown"} no such entry
-- Sent again: it is blocked already, and not logged twice.
if not load() then return {'no_event'} end
local entry, by = ARGV[1], ARGV[2]
if ARGV[3] == '0' and not (call('ZSCORE', LINE, entry) or call('HEXISTS', GRANTS, entry) == 1 or call('HEXISTS', ENDED, entry) == 1
  or call('SISMEMBER', BLOCKED, entry) == 1 or call('HEXISTS', KEYS[15], entry) == 1) then
  tell()
  return {'unknown'}
end
if call('SADD', BLOCKED, entry) == 1 then log(by, 'block', '', entry) end
local seq = call('ZSCORE', LINE, entry)
if seq then depart({entry, seq}, 'blocked') end
local g = call('HGET', GRANTS, entry)
if g then finish(entry, g, 'blocked') end
tell()
return {'ok'}
