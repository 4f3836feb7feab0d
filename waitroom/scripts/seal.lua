-- seal: the admission log's newest head, and the trimming of a very long log. The
-- head follows from the leaves, so that whoever seals writes the same.
-- KEYS: as common.lua says, then 15 log  16 seals
-- ARGV: 1 chain  2 n, the leaves that the head covers  3 the head
--   4 the hash at n, if n is a mark where the log may be cut, or ""
--   5 how many leaves there are between marks  6 the most leaves to keep
-- Reply: {"ok"}; {"stale"} this is another log now, or it has fewer leaves; {"no_event"}
-- Sent again: no difference. An older head than the one that is there does nothing.
local chain = call('HGET', META, 'made_by')
if not chain then return {'no_event'} end
local s = call('HMGET', KEYS[16], 'first', 'n')
local first, n = tonumber(s[1] or '0'), tonumber(ARGV[2])
local length = first + call('LLEN', KEYS[15])
if chain ~= ARGV[1] or n > length then return {'stale'} end
if n < tonumber(s[2] or '0') then return {'ok'} end
call('HSET', KEYS[16], 'n', ARGV[2], 'head', ARGV[3])
if ARGV[4] ~= '' then call('HSET', KEYS[16], 'at' .. ARGV[2], ARGV[4]) end
local cut = int(first + tonumber(ARGV[5]))
local start = length - first > tonumber(ARGV[6]) and call('HGET', KEYS[16], 'at' .. cut)
if start then
  call('LTRIM', KEYS[15], ARGV[5], -1)
  call('HSET', KEYS[16], 'first', cut, 'start', start)
  call('HDEL', KEYS[16], 'at' .. cut)
end
return {'ok'}
