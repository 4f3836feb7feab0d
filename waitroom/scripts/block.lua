-- block: an operator puts an entry out for good.
-- KEYS: as common.lua says.
-- ARGV: 1 entry  2 by
-- Reply: {"ok"}; {"no_event"}
-- Sent again: it is blocked already, and not logged twice.
if not load() then return {'no_event'} end
local entry, by = ARGV[1], ARGV[2]
if call('SADD', BLOCKED, entry) == 1 then log(by, 'block', '', entry) end
local seq = call('ZSCORE', LINE, entry)
if seq then depart({entry, seq}, 'blocked') end
local g = call('HGET', GRANTS, entry)
if g then finish(entry, g, 'blocked') end
tell()
return {'ok'}
