-- event: an event as it is now. Each view asks once a second, and so a store that is
-- another one by now begins a new epoch, and the lost are put back by their receipts.
-- KEYS: as common.lua says.
-- ARGV: none
-- Reply: {"ok", waiting, inside, now, settings, state, reason, version, base, seq, admitted,
--   entered, unclaimed, draw (JSON, or ""), draw phase, "0" when the last
--   piece is sold, since when in this state (ms; 0: not known),
--   "waiting inside seq admitted;" of each lane}; {"no_event"}
-- Sent again: no difference.
if not load() then return {'no_event'} end
same_store()
tell()
local m = call('HMGET', META, 'settings', 'state', 'reason', 'version', 'base', 'seq', 'admitted', 'entered', 'unclaimed', 'draw', 'draw_phase',
  'unsold', 'since')
m[8], m[9], m[10], m[11], m[12], m[13] = m[8] or '0', m[9] or '0', m[10] or '', m[11] or '', m[12] or '', m[13] or '0'
local each = {}
for lane = 0, E.lanes and #E.lanes or -1 do
  local k = call('HMGET', META, in_lane('inside', lane), in_lane('let_in', lane))
  each[lane + 1] = table.concat({int(call('ZCOUNT', LINE, ends_of(lane))), k[1] or '0', int(E.seqs[lane]), k[2] or '0'}, ' ') .. ';'
end
m[14] = table.concat(each)
return {'ok', int(call('ZCARD', LINE)), int(call('ZCARD', CLAIMS)), int(E.now), unpack(m)}
