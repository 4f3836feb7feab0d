-- publish: append messages to the log, each deduplication id once.
--
-- KEYS[1] log (stream), KEYS[2] seen (sorted set: deduplication id by time in ms)
-- ARGV[1] most records in the log (trimmed approximately)
-- ARGV[2] most ids in seen
-- ARGV[3…] five a message: deduplication id, event, topic, key, payload
-- reply: number of messages appended; the others were there already.
--
-- Repetition is harmless: a second run finds the ids in seen. The caller bounds
-- the number of messages.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local added = 0
for i = 3, #ARGV, 5 do
  if redis.call('ZADD', KEYS[2], 'NX', now, ARGV[i]) == 1 then
    redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*',
      'id', ARGV[i], 'event', ARGV[i + 1], 'topic', ARGV[i + 2], 'key', ARGV[i + 3], 'payload', ARGV[i + 4])
    added = added + 1
  end
end
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -1 - ARGV[2])
return added
