-- log: a page of the admission log, and its sealed head.
-- KEYS: as common.lua says, then 15 log  16 seals
-- ARGV: 1 how many leaves to pass over  2 the most to give
-- Reply: {"ok", chain, order, first, length, start, head, leaf, …}; {"no_event"}
--   chain: names this log; a store that began empty has another
--   first, start: how many leaves are gone from the front, and the hash behind them
--   length: leaves that there ever were; head: the newest sealed one, or ""
--   leaves: from the one that ARGV 1 asks for on, or from the first that is left
-- Sent again: no difference.
local m = call('HMGET', META, 'made_by', 'settings')
if not m[1] then return {'no_event'} end
local s = call('HMGET', KEYS[16], 'first', 'start', 'head')
local first = tonumber(s[1] or '0')
local from = math.max(tonumber(ARGV[1]), first) - first
local order = cjson.decode(m[2]).order or ''
return {'ok', m[1], order, int(first), int(first + call('LLEN', KEYS[15])), s[2] or '', s[3] or '',
  unpack(call('LRANGE', KEYS[15], from, from + tonumber(ARGV[2]) - 1))}
