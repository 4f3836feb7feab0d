-- issue: people ask for a token of an event in mode instant, and have an answer
-- at once. A token is a grant, given without a line.
-- KEYS: as common.lua says, then 15 issued, 16 archive, 17 codes (keys.go says what each is)
-- ARGV: 1 what the jtis begin with, never used before  2 the highest sequence that the
--   caller was ever given  3 the most of archive that may wait; then one for each who
--   asks, as join.lua's "f", "F", "k" and "K"
-- Reply: {"ok", answer, …}, one for each, in order:
--   "i rank line"      issued by this call; the line is grant's
--   "a rank packed deadline" issued before, and still held
--   "u rank jti seq admitted claim subject" issued before, and used up
--   "exhausted ms"     none is left, but one may come back in so long
--   "sold_out"         none is left, and none comes back
--   "behind"           archive is full: nothing is given out that could not be kept
--   "b", "not_open", "closed", "x …" as eligible.lua's eligible says
--   {"wrong_mode"}, {"no_event"}
-- Sent again: whoever was issued a token by this call is told so again.
if not load() then return {'no_event'} end
if E.mode ~= 'instant' then
  tell()
  return {'wrong_mode'}
end
local ISSUED, ARCHIVE = KEYS[15], KEYS[16]
local id, most = ARGV[1], tonumber(ARGV[3])
caught_up(ARGV[2])

local m = call('HMGET', META, 'quota', 'returns', 'used', 'ranks', 'unsold', 'max_active', 'durable')
local quota, never, used = tonumber(m[1]), m[2] == 'never', tonumber(m[3] or '0')
local rank, sold_out, max_active = tonumber(m[4] or '0'), m[5] == '0', tonumber(m[6])

-- left is how many tokens there are to give: those never given, and those that came
-- back. What is over by the clock comes back first.
local RECLAIM = 500
local function left()
  if not never then
    for _, entry in ipairs(call('ZRANGEBYSCORE', CLAIMS, '-inf', int(E.now), 'LIMIT', 0, RECLAIM)) do
      local g = call('HGET', GRANTS, entry)
      if g then over(entry, g) else call('ZREM', CLAIMS, entry) end
    end
    used = tonumber(call('HGET', META, 'used') or '0')
  end
  local inside = call('ZCARD', CLAIMS)
  local n = quota - (never and rank or inside + used)
  if max_active > 0 then n = math.min(n, max_active - inside) end
  return n
end

local refusal -- what the state of the event says to all who have no token
if E.state == 'draining' or E.state == 'closed' then
  refusal = 'closed'
elseif E.state ~= 'open' then
  refusal = 'not_open'
elseif sold_out then
  refusal = 'sold_out'
elseif call('XLEN', ARCHIVE) >= most then
  refusal = 'behind'
end

local people, entries = {}, {}
for i = 4, #ARGV do
  local kind, entry = string.sub(ARGV[i], 1, 1), string.sub(ARGV[i], 2)
  local p = {made = kind == 'f' or kind == 'F', mobile = kind == 'F' or kind == 'K', entry = entry, subject = ''}
  if p.made then
    p.entry, p.chosen = string.match(entry, '^(%S+)(.*)$')
  else
    p.entry, p.subject, p.chosen = string.match(entry, '^(%S+) %d+ (%S*)(.*)$')
  end
  people[#people + 1], entries[#entries + 1] = p, p.entry
end
local had = call('HMGET', ISSUED, unpack(entries))

local free
local picked, taken, reply = {}, {}, {'ok'}
for i, p in ipairs(people) do
  local answer, seq
  local r, jti = string.match(had[i] or '', '^(%d+) (%S+)')
  if had[i] or not p.made then
    local at = known(p.entry, 0, p.mobile, p.subject)
    local word = string.sub(at, 1, 1)
    if word == 'b' then
      answer = 'b'
    elseif word == 'g' and had[i] and string.sub(jti, 1, #id) == id and not taken[p.entry] then -- sent again
      taken[p.entry] = 0
      local _, s, admitted, claim, _, subject = packed(string.match(at, '^g (.+) %d+$'))
      answer = table.concat({'i', r, p.entry, s, jti, admitted, claim, subject}, ' ')
    elseif word == 'g' then
      answer = 'a ' .. (r or '0') .. string.sub(at, 2)
    elseif had[i] and (never or call('HGET', JTIS, jti) == '!completed') then
      answer = 'u ' .. had[i]
    elseif word == 'w' then -- was in the line of an event that had one
      seq = string.sub(at, 3)
    end
  end
  answer = answer or refusal
  if not answer and taken[p.entry] then
    answer = -taken[p.entry] -- the same person stands in this batch twice
  end
  answer = answer or eligible(p.chosen, KEYS[17], p.entry)
  if not answer then
    if not free then free = left() end
    if free > 0 then
      free = free - 1
      spend(KEYS[17], p.entry)
      if not seq then
        E.seqs[0] = E.seqs[0] + 1
        seq = int(E.seqs[0])
      end
      if p.subject ~= '' then call('HSET', SUBS, p.entry, p.subject) end
      picked[#picked + 1], picked[#picked + 2] = p.entry, seq
      answer = #picked / 2
      taken[p.entry] = answer
    elseif never and rank + #picked / 2 >= quota or used >= quota then
      answer = 'sold_out'
    else
      local next = call('ZRANGE', CLAIMS, 0, 0, 'WITHSCORES')
      answer = 'exhausted ' .. int(math.max(0, tonumber(next[2] or E.now) - E.now))
    end
  end
  reply[i + 1] = answer
end

if #picked > 0 then
  call('HSET', META, 'seq', int(E.seqs[0]), 'ranks', int(rank + #picked / 2))
  grant(picked, id)
  local issued, kept = {}, {}
  for n, line in ipairs(F.g) do
    local entry, seq, jti, rest = string.match(line, '^(%S+) (%S+) (%S+) (.+)$')
    local r = int(rank + n)
    issued[2 * n - 1] = entry
    issued[2 * n] = r .. ' ' .. jti .. ' ' .. seq .. ' ' .. rest
    kept[n] = r .. ' ' .. line
  end
  many('HSET', ISSUED, issued)
  call('XADD', ARCHIVE, '*', 'l', table.concat(kept, '\n'))
  for i = 2, #reply do
    local n = reply[i]
    if type(n) == 'number' and n > 0 then
      reply[i] = 'i ' .. kept[n]
    elseif type(n) == 'number' then
      local r, seq, jti, admitted, claim, subject = string.match(kept[-n], '^(%S+) %S+ (%S+) (%S+) (%S+) (%S+) (%S+)$')
      reply[i] = table.concat({'a', r, jti, seq, admitted, claim, 'admitted', subject, claim}, ' ')
    end
  end
elseif m[7] == '1' then
  -- A replica is waited for by the last write of a connection: also whoever is told
  -- again of a token has one.
  call('HSET', META, 'asked', int(E.now))
end
tell()
return reply
