-- place: a batch of people asks where they stand.
-- KEYS: as common.lua says.
-- ARGV: one for each entry, as join's "k" and "K"
-- Reply: {"ok", answer, …}, one an entry, in order, as common.lua's known says; {"no_event"}
-- Sent again: a place that was put back waits, at the same sequence.
if not load() then return {'no_event'} end
local reply = {'ok'}
for i = 1, #ARGV do
  local kind, entry, receipt, subject = string.match(ARGV[i], '^(%a)(%S+) (%d+) (%S*)$')
  reply[i + 1] = known(entry, tonumber(receipt), kind == 'K', subject)
end
tell()
return reply
