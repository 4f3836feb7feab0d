-- place: a batch of people asks where they stand.
-- KEYS: as common.lua says.
-- ARGV: for each entry, the receipt's sequence (0: none), flags (m: a phone),
--   subject (base64url, or empty)
-- Reply: {"ok", answer, …}, one an entry, in order, as common.lua's known says; {"no_event"}
-- Sent again: a place that was put back waits, at the same sequence.
if not load() then return {'no_event'} end
local reply = {'ok'}
for i = 1, #ARGV, 4 do
  reply[#reply + 1] = known(ARGV[i], tonumber(ARGV[i + 1]), string.find(ARGV[i + 2], 'm', 1, true), ARGV[i + 3])
end
tell()
return reply
