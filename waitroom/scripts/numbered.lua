-- numbered: people of the queue have their numbers. They leave the queue, and
-- every node is told.
-- KEYS: as common.lua says, then 15 asks, 16 queue, 17 numbers
-- ARGV: four for each: the queue's record ("-": of another queue), entry, sequence, "1" for a winner or "0"
-- Reply: {"ok"}; {"no_event"}
-- Sent again: they are told once more, of the same.
if not load() then return {'no_event'} end
for i = 1, #ARGV, 4 do
  call('HSET', KEYS[17], ARGV[i + 1], ARGV[i + 2] .. ' ' .. ARGV[i + 3])
  if ARGV[i] ~= '-' then call('XDEL', KEYS[16], ARGV[i]) end
  note('n', ARGV[i + 1] .. ' ' .. ARGV[i + 2] .. ' ' .. ARGV[i + 3])
end
tell()
return {'ok'}
