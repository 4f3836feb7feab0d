-- create: an event begins, or begins again in a store that has lost it.
-- KEYS: as common.lua says.
-- ARGV: 1 request id  2 by  3 state ("": by the schedule)  4 settings (JSON)
--   5… names and values of the fields that scripts read
-- Reply: {"ok"}; {"exists"}
-- Sent again: "ok" to the request that made it.
local function exists() return call('HGET', META, 'made_by') == ARGV[1] and 'ok' or 'exists' end
if call('EXISTS', META) == 1 then return {exists()} end
local now = clock()
local dead = call('HGET', GRAVE, 'dead') or '0'
local base = math.max(now * 1000, tonumber(dead))
local state, reason, sched = ARGV[3], 'operator', now
call('HSET', META, 'made_by', ARGV[1], 'settings', ARGV[4], 'version', 1, 'base', int(base), 'seq', int(base), 'dead', dead,
  'admitted', 0, 'opened', 0, 'burst_left', 0, 'burst_until', 0, unpack(ARGV, 5))
if state == '' then
  reason, sched = 'schedule', 0
  state = call('HGET', META, 'opens_at') == '0' and 'open' or 'scheduled'
end
call('HSET', META, 'state', state, 'reason', reason, 'sched', int(sched), 'since', int(now))
local lanes = call('HGET', META, 'lanes')
if lanes ~= '' then -- common.lua says why: sequences of their own, which no event without lanes has
  base = now * LANED_PACE
  call('HSET', META, 'base', int(base), 'dead', dead == '0' and '0' or int(base), 'seq', int(base))
end
local drawn = call('HGET', META, 'order') == 'draw'
if drawn then
  call('HSET', META, 'draw_phase', 'undrawn')
elseif state == 'open' then
  call('HSET', META, 'opened', 1)
end
load()
same_store()
if drawn and state == 'open' then become(state, reason) end -- by its draw
V = true
log(ARGV[2], 'create', '', ARGV[4])
tell()
return {'ok'}
