-- enqueue: people ask for a number of an event in mode buffered. They are numbered
-- later, in the order of this queue.
-- KEYS: as common.lua says, then 15 asks, 16 queue, 17 numbers, 18 codes (keys.go says what each is)
-- ARGV: 1 the most that may wait in queue (0: they wait in another one); then three for each: entry, request id, subject
--   (base64url, or "-"), perhaps with what eligible.lua's eligible takes behind it.
--   "+" before a request id: the other queue has it now
-- Reply: {"ok", answer, …}, one for each, in order:
--   "q request"               waits to be numbered; where the queue is another one, "?" before
--                             the request says that it is not known to be there
--   "n request seq winner"    has its number
--   "not_open", "closed", "b", "full", "x …" as eligible.lua's eligible says
--   "-"                       was put into the other queue for an event that is gone
--   {"wrong_mode"}, {"no_event"}
-- Sent again: whoever waits already waits once.
if not load() then return {'no_event'} end
if E.mode ~= 'buffered' then
  tell()
  return {'wrong_mode'}
end
local ASKS, QUEUE, NUMBERS = KEYS[15], KEYS[16], KEYS[17]
local most, waiting = tonumber(ARGV[1]), nil
local refusal
if E.state == 'draining' or E.state == 'closed' then
  refusal = 'closed'
elseif E.state == 'scheduled' then
  refusal = 'not_open'
end
local reply = {'ok'}
for i = 2, #ARGV, 3 do
  local entry, request, subject = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local asked = call('HGET', ASKS, entry)
  local answer, chosen
  if asked and asked == '?' .. string.sub(request, 2) and string.sub(request, 1, 1) == '+' then
    asked = string.sub(request, 2)
    call('HSET', ASKS, entry, asked)
  end
  subject, chosen = string.match(subject, '^(%S+)(.*)$')
  if call('SISMEMBER', BLOCKED, entry) == 1 then
    answer = 'b'
  elseif asked then
    local number = call('HGET', NUMBERS, entry)
    answer = number and ('n ' .. asked .. ' ' .. number) or ('q ' .. asked)
  elseif refusal then
    answer = refusal
  elseif string.sub(request, 1, 1) == '+' then
    answer = '-' -- deleted, and made anew, meanwhile
  else
    waiting = waiting or call('XLEN', QUEUE)
    answer = eligible(chosen, KEYS[18], entry) or most > 0 and waiting >= most and 'full'
    if not answer then
      spend(KEYS[18], entry)
      waiting = waiting + 1
      if most > 0 then
        call('XADD', QUEUE, '*', 'e', entry, 'r', request, 's', subject)
      else
        request = '?' .. request
      end
      call('HSET', ASKS, entry, request)
      answer = 'q ' .. request
    end
  end
  reply[#reply + 1] = answer
end
tell()
return reply
