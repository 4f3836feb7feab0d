-- leave: an entry gives up its place, or its grant; a member of a party leaves the party,
-- which goes on with the others.
-- KEYS: as common.lua says, then 15 party
-- ARGV: 1 entry, or the member  2 an id that nobody has used before
-- Reply: {"ok"}, also when there was nothing to give up; {"no_event"}
-- Sent again: nothing is left to give up.
if not load() then return {'no_event'} end
local entry = ARGV[1]
local party = E.party and call('HGET', PARTY, 'm' .. entry)
if party and party ~= '!' then
  steps_out(entry, party, ARGV[2])
  tell()
  return {'ok'}
end
if E.party and call('HEXISTS', PARTY, 'p' .. entry) == 1 then -- which is nobody's alone
  tell()
  return {'ok'}
end
local seq = call('ZSCORE', LINE, entry)
if seq then depart({entry, seq}, 'left') end
local g = call('HGET', GRANTS, entry)
if g then finish(entry, g, 'left') end
tell()
return {'ok'}
