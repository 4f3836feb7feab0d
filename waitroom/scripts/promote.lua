-- promote: the first n of the line get grants, as far as the cap allows.
-- KEYS: as common.lua says, then 15 log  16 owed
-- ARGV: 1 fence  2 n (of this tick; the opening's burst comes on top)  3 request id,
--   never used before  4 the most to let in by one call
--   5 the rate  6 the reason  7 the usage that n was decided by, for the log
--   8 "1": everybody passes, if the event is set to that (else as if it were not said)
-- Reply: {outcome, lines, state, waiting, inside, rate, now}
--   outcome: "fenced" (a higher fence was here; nothing was done), or what kept it
--   below n: "not_open", "empty", "max_active", "rate_cap", or "" for nothing; where
--   everybody passes, "not_open", "max_active" or ""
--   lines: the grants, "entry seq jti admitted_ms claim_ms subject" each
--   {"no_event"}
-- Sent again: the same answer, and nobody more.
--
-- The cap is here, so that it holds whoever calls, and however often:
--   tokens accrue at rate_per_s for at most LATE, or the time that one person
--   takes, since the last call, so that a gap is never made up for; fractions are
--   carried, up to one;
--   the people of the last second, counted in slots, never exceed the rate and
--   one tick's rounding.
-- An event that passes everybody through is outside it, at most PASS a call; whoever
-- passed counts, so that the second after its end is not above the cap either.
local PASS = 2000
local TICK, LATE, SLOT = 100, 150, 25 -- ms: a tick, the most that one call accrues for, a slot of the window
if not load() then return {'no_event'} end
local fence, n, id, most_grants = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])

local m = call('HMGET', META, 'fence', 'rate_per_s', 'max_active', 'tokens', 'refilled', 'window', 'top', 'pass_through')
local rate, max_active = tonumber(m[2]), tonumber(m[3])

local function answer(outcome, lines)
  tell()
  return {outcome, lines, E.state, int(call('ZCARD', LINE)), int(call('ZCARD', CLAIMS)), m[2], int(E.now)}
end

local highest = tonumber(m[1] or '0')
if fence < highest then return answer('fenced', '') end
if fence > highest then call('HSET', META, 'fence', int(fence)) end
local pass = ARGV[8] == '1' and m[8] == '1'
local before = again('tick', id)
if before then return answer('', before) end

-- The bucket.
local tokens, refilled = tonumber(m[4] or '0'), tonumber(m[5] or '0')
local most_passed = rate > 0 and math.max(LATE, 1000 / rate) or LATE
local passed = math.max(0, math.min(E.now - refilled, most_passed))
tokens = math.min(tokens + rate * passed / 1000, rate * LATE / 1000 + 1)

-- The window: slots of the last second, of which the oldest counts whole.
local slot, oldest = floor(E.now / SLOT), floor((E.now - 1000) / SLOT)
local slots, recent = {}, 0
for s, c in string.gmatch(m[6] or '', '(%d+):(%d+)') do
  s, c = math.min(tonumber(s), slot), tonumber(c) -- a clock that went back: as if just now
  if s >= oldest then
    slots[s] = (slots[s] or 0) + c
    recent = recent + c
  end
end
local most = math.ceil(rate + rate * TICK / 1000 - 1e-9)
local allowed = math.max(0, math.min(floor(tokens + 1e-9), most - recent))

local burst = 0 -- a large one takes several calls
opening()
if n > 0 and not pass and E.now < E.burst_until then burst = math.min(E.burst_left, most_grants - n) end

local want, outcome = pass and PASS or n + burst, ''
local take = want
if (E.state ~= 'open' and E.state ~= 'draining') or (E.drawn and E.drawn ~= 'done') then
  take, outcome = 0, 'not_open'
else
  local function limit(to, why)
    if to < take then take, outcome = math.max(0, to), why end
  end
  if not pass then limit(math.min(allowed, n) + burst, 'rate_cap') end
  if max_active > 0 then
    -- Whoever has a credit goes first: the service owes them a place.
    limit(max_active - call('ZCARD', CLAIMS) - call('ZCOUNT', KEYS[16], int(E.now), '+inf'), 'max_active')
  end
  limit(call('ZCARD', LINE), pass and outcome or 'empty')
end

local lines = ''
if take > 0 then
  local picked = call('ZRANGE', LINE, 0, take - 1, 'WITHSCORES')
  lines = grant(picked, id)
  remember('tick', id, lines)
  local bursting = math.min(take, burst)
  -- Who stands below somebody who went before came back late: the store had lost the place.
  local top, kept = tonumber(m[7] or '0'), 0
  while 2 * kept < #picked and tonumber(picked[2 * kept + 2]) < top do kept = kept + 1 end
  call('HSET', META, 'top', int(math.max(top, tonumber(picked[#picked]))))
  leaf(KEYS[15], pass and 'p' or 'r', table.concat({int(fence), int(n), int(bursting), int(kept)}, ' '), {ARGV[5], ARGV[6], ARGV[7]}, outcome, picked)
  if bursting > 0 then call('HSET', META, 'burst_left', E.burst_left - bursting) end
  local counted = take - bursting
  tokens = pass and math.min(tokens, 0) or tokens - counted
  if counted > 0 then slots[slot] = (slots[slot] or 0) + counted end
end
local window = {}
for s, c in pairs(slots) do window[#window + 1] = int(s) .. ':' .. int(c) end
call('HSET', META, 'tokens', string.format('%.6f', tokens), 'refilled', int(E.now), 'window', table.concat(window, ' '))
return answer(outcome, lines)
