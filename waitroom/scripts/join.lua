-- join: a batch of people joins the line. Whoever has a place keeps it.
-- KEYS: as common.lua says.
-- ARGV: 1 the highest sequence that the caller was ever given; then for each join
--   entry, the receipt's sequence (0: none), flags (f: the id was made for this
--   call; m: a phone), subject (base64url, or empty)
-- Reply: {"ok", answer, …}, one answer a join, in order:
--   "c seq"      a new place at the end
--   "w seq", "r seq", "g packed deadline", "b": as common.lua's known says
--   "not_open" or "closed": the event's state takes nobody
--   {"no_event"}
-- Sent again: an entry that has a place gets the same one.
if not load() then return {'no_event'} end
local highest = tonumber(ARGV[1])
if highest > E.seq then epoch(highest) end
local refusal
if E.state == 'scheduled' then
  refusal = 'not_open'
elseif E.state == 'draining' or E.state == 'closed' then
  refusal = 'closed'
end

-- All made ids of a batch came in together or not at all, so one tells for all
-- whether this batch is here for the second time.
local resent
local function fresh(entry, flags)
  if not string.find(flags, 'f', 1, true) then return false end
  if resent == nil then
    resent = call('ZSCORE', LINE, entry) or call('HEXISTS', GRANTS, entry) == 1 or call('HEXISTS', ENDED, entry) == 1
  end
  return not resent
end

local line, away, reply = {}, {}, {'ok'}
local began = E.seq
for i = 2, #ARGV, 4 do
  local entry, receipt, flags, subject = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2], ARGV[i + 3]
  local mobile = string.find(flags, 'm', 1, true)
  local answer = '-'
  local new = fresh(entry, flags)
  if not new then answer = known(entry, receipt, mobile, subject) end
  local kind = string.sub(answer, 1, 1)
  if kind == '-' or kind == 'e' then
    if refusal then
      answer = refusal
    else
      E.seq = E.seq + 1
      local seq = int(E.seq)
      local grace = int(E.now + (mobile and E.grace_mobile or E.grace))
      if new then
        line[#line + 1], line[#line + 2] = seq, entry
        away[#away + 1], away[#away + 2] = grace, entry
      else -- the same person may stand in this batch again
        call('ZADD', LINE, seq, entry)
        call('ZADD', AWAY, grace, entry)
        if subject ~= '' then call('HSET', SUBS, entry, subject) end
      end
      answer = 'c ' .. seq
    end
  end
  reply[#reply + 1] = answer
end
if E.seq ~= began then call('HSET', META, 'seq', int(E.seq)) end
many('ZADD', LINE, line)
many('ZADD', AWAY, away)
tell()
return reply
