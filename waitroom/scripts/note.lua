-- note: keeps in the event's trail what an operator did beside the line, such as to
-- what is sold.
-- KEYS: as common.lua says.
-- ARGV: 1 request id  2 by  3 what  4 before  5 after
-- Reply: {"ok"}; {"no_event"}
-- Sent again: it is not logged twice.
if not load() then return {'no_event'} end
if not again('deed', ARGV[1]) then
  log(ARGV[2], ARGV[3], ARGV[4], ARGV[5])
  remember('deed', ARGV[1], 'noted')
end
tell()
return {'ok'}
