-- here: a node holds sockets of these entries, or only says that it lives.
-- KEYS: as common.lua says, then 15 the node's here set
-- ARGV: 1 node  2 time to live of its heartbeat, ms  3… entries
-- Reply: {"known"}; {"new"} the node was not listed, or was being given up, so what it
--   said before counts no more; {"no_event"}
-- Sent again: "known" instead of "new"; a hub says again now and then who is here.
if not load() then return {'no_event'} end
local beat = tonumber(call('ZSCORE', NODES, ARGV[1]) or '0')
local outcome = beat > 0 and 'known' or 'new'
call('ZADD', NODES, int(E.now + tonumber(ARGV[2])), ARGV[1])
if #ARGV > 2 then
  call('SADD', KEYS[15], unpack(ARGV, 3))
  call('ZREM', AWAY, unpack(ARGV, 3))
end
tell()
return {outcome}
