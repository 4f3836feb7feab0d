-- fold: the archive of an event that is gone is put away, once it is empty.
-- KEYS: as common.lua says, then 15 archive
-- ARGV: none
-- Reply: {"done"}; {"alive"} the event is there, or something is left
-- Sent again: no difference.
if call('EXISTS', META) == 1 or call('XLEN', KEYS[15]) > 0 then return {'alive'} end
call('DEL', KEYS[15])
return {'done'}
