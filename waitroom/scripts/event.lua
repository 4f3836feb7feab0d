-- event: an event as it is now.
-- KEYS: as common.lua says.
-- ARGV: none
-- Reply: {"ok", waiting, inside, now, settings, state, reason, version, base, seq, admitted,
--   entered, unclaimed}; {"no_event"}
-- Sent again: no difference.
if not load() then return {'no_event'} end
tell()
local m = call('HMGET', META, 'settings', 'state', 'reason', 'version', 'base', 'seq', 'admitted', 'entered', 'unclaimed')
m[8], m[9] = m[8] or '0', m[9] or '0'
return {'ok', int(call('ZCARD', LINE)), int(call('ZCARD', CLAIMS)), int(E.now), unpack(m)}
