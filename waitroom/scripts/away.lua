-- away: a node lost the sockets of these entries; their graces begin.
-- KEYS: as common.lua says, then 15 the node's here set
-- ARGV: 1 "m" for phones, else empty  2… entries
-- Reply: {"ok"}; {"no_event"}
-- Sent again: the graces begin anew.
if not load() then return {'no_event'} end
local grace = grace_end(ARGV[1] == 'm')
call('SREM', KEYS[15], unpack(ARGV, 2))
for i = 2, #ARGV do
  if call('ZSCORE', LINE, ARGV[i]) then call('ZADD', AWAY, grace, ARGV[i]) end
end
tell()
return {'ok'}
