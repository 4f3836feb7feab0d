-- block: an operator puts an entry out for good; a member of a party out of it too.
-- KEYS: as common.lua says, then 15 asks  16 party
-- ARGV: 1 entry, or the member  2 by  3 "1": also one that has never been here, or "0"
--   4 an id that nobody has used before
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
local party = E.party and call('HGET', PARTY, 'm' .. entry)
if party and party ~= '!' then steps_out(entry, party, ARGV[4]) end
local seq = call('ZSCORE', LINE, entry)
if seq then depart({entry, seq}, 'blocked') end
local g = call('HGET', GRANTS, entry)
if g then finish(entry, g, 'blocked') end
tell()
return {'ok'}
