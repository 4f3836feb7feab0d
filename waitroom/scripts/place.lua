-- place: a batch of people asks where they stand.
-- KEYS: as common.lua says, then 15 party
-- ARGV: one for each entry, as join's "k" and "K"
-- Reply: {"ok", answer, …}, one an entry, in order, as entries.lua's known says, and as
--   parties.lua's in_party for members of a party; {"no_event"}
-- Sent again: a place that was put back waits, at the same sequence.
if not load() then return {'no_event'} end
local reply = {'ok'}
for i = 1, #ARGV do
  local kind, name, receipt, subject = string.match(ARGV[i], '^(%a)(%S+) (%d+) (%S*)$')
  local answer, own, party = standing(name, tonumber(receipt), kind == 'K', subject)
  if party and party ~= '!' then answer = in_party(answer, own, party) end
  reply[i + 1] = answer
end
tell()
return reply
