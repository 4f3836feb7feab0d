-- bury: move a message that always fails to the dead letters, and acknowledge it.
--
-- KEYS[1] log (stream), KEYS[2] dead (stream)
-- ARGV[1] group, ARGV[2] record id, ARGV[3] most records in dead
-- ARGV[4…] field and value pairs of the dead letter
-- reply: 1 if it was moved now, 0 if it was not pending any more.
--
-- Repetition is harmless: only the run that acknowledges the record writes.
if redis.call('XACK', KEYS[1], ARGV[1], ARGV[2]) == 0 then
  return 0
end
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[3], '*', unpack(ARGV, 4))
return 1
