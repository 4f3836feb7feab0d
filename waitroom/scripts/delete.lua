-- delete: an operator ends an event for good. Its audit trail stays, and a mark
-- that keeps old receipts from coming back should the id be used again.
-- KEYS: as common.lua says, then 15… log, seals, issued, party and the here sets of its nodes
-- ARGV: 1 request id  2 by
-- Reply: {"ok"}; {"no_event"}
-- Sent again: "ok" to the request that did it.
if not load() then return {call('HGET', GRAVE, 'made_by') == ARGV[1] and 'ok' or 'no_event'} end
log(ARGV[2], 'delete', call('HGET', META, 'settings'), '')
call('HSET', GRAVE, 'dead', int(E.seqs[#E.seqs]), 'made_by', ARGV[1])
E.version, V, F = E.version + 1, true, {}
tell()
call('XTRIM', FEED, 'MAXLEN', 1)
call('UNLINK', META, LINE, AWAY, GRANTS, JTIS, CLAIMS, ENDED, BLOCKED, SUBS, NODES, REQS)
for i = 15, #KEYS do call('UNLINK', KEYS[i]) end
return {'ok'}
