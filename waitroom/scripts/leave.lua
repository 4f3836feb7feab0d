-- leave: an entry gives up its place, or its grant.
-- KEYS: as common.lua says.
-- ARGV: 1 entry
-- Reply: {"ok"}, also when there was nothing to give up; {"no_event"}
-- Sent again: nothing is left to give up.
if not load() then return {'no_event'} end
local entry = ARGV[1]
local seq = call('ZSCORE', LINE, entry)
if seq then depart({entry, seq}, 'left') end
local g = call('HGET', GRANTS, entry)
if g then finish(entry, g, 'left') end
tell()
return {'ok'}
