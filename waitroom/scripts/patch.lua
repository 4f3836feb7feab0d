-- patch: an operator changes settings or state.
-- KEYS: as common.lua says.
-- ARGV: 1 request id  2 by  3 state ("": as it is)  4 settings (JSON)  5 the version that they are made from
--   6… names and values of the fields that scripts read
-- Reply: {"ok"}; {"conflict"} the event has another version by now; {"no_event"}
-- Sent again: "ok" to the request that made the last change.
if not load() then return {'no_event'} end
local m = call('HMGET', META, 'patched_by', 'settings', 'reason', 'lobby_opens_at', 'opens_at', 'closes_at')
if m[1] == ARGV[1] then
  tell()
  return {'ok'}
end
if E.version ~= tonumber(ARGV[5]) then
  tell()
  return {'conflict'}
end
local before = E.state
call('HSET', META, 'patched_by', ARGV[1], 'settings', ARGV[4], unpack(ARGV, 6))
local s = call('HMGET', META, 'lobby_opens_at', 'opens_at', 'closes_at', 'order')
if s[4] ~= 'draw' then -- which changes only while nobody has joined
  call('HDEL', META, 'draw_phase', 'draw', 'seed')
  E.drawn = false
elseif not E.drawn then
  E.drawn = 'undrawn'
  call('HSET', META, 'draw_phase', E.drawn)
end
local moved = s[1] ~= m[4] or s[2] ~= m[5] or s[3] ~= m[6]
E.burst = tonumber(call('HGET', META, 'burst'))
E.lobby_opens_at, E.opens_at, E.closes_at = tonumber(s[1]), tonumber(s[2]), tonumber(s[3])
if ARGV[3] ~= '' then
  become(ARGV[3], 'operator')
  call('HSET', META, 'sched', int(E.now))
else
  E.version, V = E.version + 1, true
  call('HSET', META, 'version', int(E.version))
  if moved and m[3] == 'schedule' then -- new times count from the beginning while the schedule rules
    E.sched = 0
    call('HSET', META, 'sched', 0)
    turn()
  end
end
log(ARGV[2], 'patch', cjson.encode({state = before, settings = m[2]}), cjson.encode({state = E.state, settings = ARGV[4]}))
tell()
return {'ok'}
