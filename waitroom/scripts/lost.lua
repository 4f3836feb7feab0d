-- lost: a node's heartbeat is over; the graces of those whose sockets it held begin,
-- the longer one, since nobody can say who had a phone.
-- KEYS: as common.lua says, then 15 the node's here set
-- ARGV: 1 node  2 the most to move in this call
-- Reply: {"alive"}; {"more"}; {"done"} the node is off the list; {"no_event"}
-- Sent again: it goes on with the next.
if not load() then return {'no_event'} end
local beat = call('ZSCORE', NODES, ARGV[1])
if beat and tonumber(beat) > E.now then
  tell()
  return {'alive'}
end
call('ZADD', NODES, 0, ARGV[1]) -- given up: should it beat again, it is told
local grace = grace_end(E.grace_mobile > E.grace)
for _, entry in ipairs(call('SPOP', KEYS[15], ARGV[2])) do
  if call('ZSCORE', LINE, entry) then call('ZADD', AWAY, 'NX', grace, entry) end
end
local outcome = 'more'
if call('SCARD', KEYS[15]) == 0 then
  call('ZREM', NODES, ARGV[1])
  outcome = 'done'
end
tell()
return {outcome}
