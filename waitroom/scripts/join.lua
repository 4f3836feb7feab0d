-- join: a batch of people joins the line. Whoever has a place keeps it.
-- KEYS: as common.lua says, then 15 codes  16 party
-- ARGV: 1 the highest sequence that the caller was ever given, as caught_up takes it; then one or several for all joins:
--   "f" .. entry .. entry .. …   a run of ids of 12 characters that were made for this call ("F": for phones)
--   "k" .. name .. " " .. seq .. " " .. subject   somebody with a receipt (its sequence;
--     0: none) or a subject (base64url, or empty) ("K": on a phone); the name as
--     parties.lua's standing takes it
--   one entry, of either, with " " .. groups .. " " .. code behind it, as eligible.lua's eligible takes them
-- Reply: {"ok", answer, …}, one answer a join, in order:
--   "n first count"  so many new places from that sequence on ("n first count l" in the
--     lobby of a draw): strangers.lua's, which stands before this and deals with most batches
--   "c seq"      a new place at the end ("c seq l": in the lobby of a draw)
--   "w seq", "r seq", "g packed deadline", "b": as entries.lua's known says, and with a
--     party's name before it for its members, as parties.lua's in_party says
--   "x …": as eligible.lua says; "x turn": they have had their turn in a party
--   "x lane": a place in this lane is for another entry than this one, which was in a
--     lane behind it
--   "not_open" or "closed": the event's state takes nobody
--   {"no_event"}
-- Sent again: an entry that has a place gets the same one.
if not load() then return {'no_event'} end
caught_up(ARGV[1])
local refusal
if E.state == 'scheduled' then
  refusal = 'not_open'
elseif E.state == 'draining' or E.state == 'closed' then
  refusal = 'closed'
end

-- All made ids of a batch came in together or not at all, so one tells for all
-- whether this batch is here for the second time. Not so in an event with groups,
-- where each is let in or refused by what they said.
local resent
local function again_here(entry)
  if resent == nil or E.groups then
    resent = call('ZSCORE', LINE, entry) or call('HEXISTS', GRANTS, entry) == 1 or call('HEXISTS', ENDED, entry) == 1
  end
  return resent
end

local line, away, reply = {}, {}, {'ok'}
local n = 0
local moved = {} -- lanes that have a new place
local function join(entry, made, mobile, receipt, subject, chosen)
  local answer, was, party
  if not made or again_here(entry) then
    made = false
    answer, entry, party = standing(entry, tonumber(receipt), mobile, subject)
    local word = string.sub(answer, 1, 1)
    if word == 'e' and E.lanes then was = lane_of(tonumber(string.match(answer, '(%d+)$'))) end
    if word ~= '-' and word ~= 'e' then
      if party then answer = in_party(answer, entry, party) end
    elseif party and had_turn(entry, party) then
      answer = 'x turn'
    else
      answer = nil
    end
  end
  answer = answer or refusal or eligible(chosen, KEYS[15], entry)
  -- Of two places of an entry the later one is the higher: old receipts and news are told
  -- by that. So a lane further ahead takes nobody who was behind, but as somebody else.
  if not answer and was and into < was then
    if subject == '' and not party then
      give_back(KEYS[15], entry)
      answer = 'x lane'
    else
      into, spending = was, false
    end
  end
  if not answer then
    spend(KEYS[15], entry)
    if party then steps_out(entry, party) end -- whose place has ended
    local lane = into
    E.seqs[lane], moved[lane] = E.seqs[lane] + 1, true
    local seq, grace = int(E.seqs[lane]), grace_end(mobile)
    if made then
      n = n + 2
      line[n - 1], line[n] = seq, entry
      away[n - 1], away[n] = grace, entry
    else -- the same person may stand in this batch again
      call('ZADD', LINE, seq, entry)
      call('ZADD', AWAY, grace, entry)
      if subject ~= '' then call('HSET', SUBS, entry, subject) end
    end
    answer = stands('c', seq)
  end
  reply[#reply + 1] = answer
end
for i = 2, #ARGV do
  local kind, who = string.sub(ARGV[i], 1, 1), string.sub(ARGV[i], 2)
  local mobile = kind == 'F' or kind == 'K'
  if kind ~= 'f' and kind ~= 'F' then
    local entry, receipt, subject, chosen = string.match(who, '^(%S+) (%d+) (%S*)(.*)$')
    join(entry, false, mobile, receipt, subject, chosen)
  elseif string.find(who, ' ', 1, true) then
    local entry, chosen = string.match(who, '^(%S+)(.*)$')
    join(entry, true, mobile, '0', '', chosen)
  else
    for at = 1, #who, 12 do join(string.sub(who, at, at + 11), true, mobile, '0', '', '') end
  end
end
for lane in pairs(moved) do call('HSET', META, in_lane('seq', lane), int(E.seqs[lane])) end
many('ZADD', LINE, line)
many('ZADD', AWAY, away)
tell()
return reply
