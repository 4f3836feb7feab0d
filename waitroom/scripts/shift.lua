-- shift: a rehearsal moves an event's clock.
-- KEYS: as common.lua says.
-- ARGV: 1 the event's clock from now on, in ms ahead of the store's
-- Reply: {"ok"}; {"no_event"}
-- Sent again: no difference.
if call('EXISTS', META) == 0 then return {'no_event'} end
call('HSET', META, 'clock_offset_ms', ARGV[1])
return {'ok'}
