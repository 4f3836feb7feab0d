-- promote: the first n of the line get grants, as far as the cap allows.
-- KEYS: as common.lua says, then 15 log  16 owed
-- ARGV: 1 fence  2 n (of this tick; the opening's burst comes on top)  3 request id,
--   never used before  4 the most to let in by one call
--   5 the rate  6 the reason  7 the usage that n was decided by, for the log
--   8 "1": everybody passes, if the event is set to that (else as if it were not said)
--   9 the lane, from 0; "" for an event without
--   10 how many ms the caller's term has run, by the caller's own clock; "" for not said
-- Reply: {outcome, lines, state, waiting, inside, rate, now}, of the lane where there is one
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
-- A clock of the store that is set ahead looks like time that passed. So the caller's
-- clock counts too, as the lesser of both: what passed beyond it since its last call,
-- and SKEW for the ways of two calls, is no time. The first call of a term has no such
-- witness, and there a leap is worth LATE, once.
-- A lane with a rate of its own has both beside the event's, which bind over all lanes:
-- whoever is asked for first in a tick has the event's rate first.
-- An event that passes everybody through is outside it, at most PASS a call; whoever
-- passed counts, so that the second after its end is not above the cap either.
local PASS = 2000
local TICK, LATE, SLOT, SKEW = 100, 150, 25, 50 -- ms: a tick, the most that one call accrues for, a slot of the window
if not load() then return {'no_event'} end
local fence, n, id, most_grants = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])

local m = call('HMGET', META, 'fence', 'rate_per_s', 'max_active', 'pass_through')
local rate, max_active = tonumber(m[2]), tonumber(m[3])
local number = E.lanes and tonumber(ARGV[9]) or 0
local lane = E.lanes and E.lanes[number]
local ran = tonumber(ARGV[10] or '')
local ring = lane and 'tick:' .. int(number) or 'tick'
local from, to = '-inf', '+inf'
if lane then from, to = ends_of(number) end

local function inside() return tonumber(call('HGET', META, in_lane('inside', number)) or '0') end
local function answer(outcome, lines)
  tell()
  local waits, are = call('ZCOUNT', LINE, from, to), lane and inside() or call('ZCARD', CLAIMS)
  return {outcome, lines, E.state, int(waits), int(are), lane and lane.rate and tostring(lane.rate) or m[2], int(E.now)}
end

local highest = tonumber(m[1] or '0')
if fence < highest then return answer('fenced', '') end
if fence > highest then call('HSET', META, 'fence', int(fence)) end
local pass = ARGV[8] == '1' and m[4] == '1'
if E.lanes and not lane then return answer('empty', '') end -- of settings that are gone
local before = again(ring, id)
if before then return answer('', before) end

-- cap is a bucket and a window by one rate, kept in the fields with this end.
local slot, oldest = floor(E.now / SLOT), floor((E.now - 1000) / SLOT)
local function cap(by, ending)
  local names = {'tokens' .. ending, 'refilled' .. ending, 'window' .. ending, 'witness' .. ending}
  local k = call('HMGET', META, unpack(names))
  local c = {slots = {}}
  -- How far the store's clock went ahead of the caller's since the last call.
  local since, ahead, leap = E.now - tonumber(k[2] or '0'), 0, 0
  local term, then_at, then_ahead = string.match(k[4] or '', '^(%d+) (%d+) (%d+)$')
  if ran and tonumber(term) == fence then
    ahead = math.max(0, tonumber(then_ahead) + since - (ran - tonumber(then_at)))
    leap = math.max(0, ahead - SKEW)
    ahead = ahead - leap
  end
  local most_passed = by > 0 and math.max(LATE, 1000 / by) or LATE
  local passed = math.max(0, math.min(since - leap, most_passed))
  c.tokens = math.min(tonumber(k[1] or '0') + by * passed / 1000, by * LATE / 1000 + 1)
  -- The window: slots of the last second, of which the oldest counts whole.
  local recent = 0
  for at, n in string.gmatch(k[3] or '', '(%d+):(%d+)') do
    -- A clock that leapt takes them along; one that went back: as if just now.
    at, n = math.min(tonumber(at) + math.ceil(leap / SLOT), slot), tonumber(n)
    if at >= oldest then
      c.slots[at] = (c.slots[at] or 0) + n
      recent = recent + n
    end
  end
  local most = math.ceil(by + by * TICK / 1000 - 1e-9)
  c.allowed = math.max(0, math.min(floor(c.tokens + 1e-9), most - recent))
  function c.take(n)
    c.tokens = pass and math.min(c.tokens, 0) or c.tokens - n
    if n > 0 then c.slots[slot] = (c.slots[slot] or 0) + n end
  end
  function c.keep()
    local window = {}
    for at, n in pairs(c.slots) do window[#window + 1] = int(at) .. ':' .. int(n) end
    call('HSET', META, names[1], string.format('%.6f', c.tokens), names[2], int(E.now), names[3], table.concat(window, ' '),
      names[4], ran and table.concat({int(fence), int(ran), int(ahead)}, ' ') or '')
  end
  return c
end
local caps = {cap(rate, '')}
if lane and lane.rate then caps[2] = cap(lane.rate, ':' .. int(number)) end
local allowed = caps[1].allowed
if caps[2] then allowed = math.min(allowed, caps[2].allowed) end

local burst = 0 -- a large one takes several calls
opening()
if n > 0 and not pass and E.now < E.burst_until then burst = math.min(E.burst_left, most_grants - n) end

local want, outcome = pass and PASS or n + burst, ''
local take = want
if (E.state ~= 'open' and E.state ~= 'draining') or (E.drawn and E.drawn ~= 'done') then
  take, outcome = 0, 'not_open'
elseif lane and lane.paused then -- whoever asks, for an opening's burst or for all
  take, outcome = 0, 'rate_cap'
else
  local function limit(to, why)
    if to < take then take, outcome = math.max(0, to), why end
  end
  if not pass then limit(math.min(allowed, n) + burst, 'rate_cap') end
  if max_active > 0 then
    -- Whoever has a credit goes first: the service owes them a place.
    limit(max_active - call('ZCARD', CLAIMS) - call('ZCOUNT', KEYS[16], int(E.now), '+inf'), 'max_active')
  end
  if lane and lane.max > 0 then limit(lane.max - inside(), 'max_active') end
  limit(call('ZCOUNT', LINE, from, to), pass and outcome or 'empty')
end

local lines = ''
if take > 0 then
  local picked = call('ZRANGEBYSCORE', LINE, from, to, 'WITHSCORES', 'LIMIT', 0, int(take))
  lines = grant(picked, id)
  remember(ring, id, lines)
  local bursting = math.min(take, burst)
  -- Who stands below somebody who went before came back late: the store had lost the place.
  local first = in_lane('top', number)
  local top, kept = tonumber(call('HGET', META, first) or '0'), 0
  while 2 * kept < #picked and tonumber(picked[2 * kept + 2]) < top do kept = kept + 1 end
  call('HSET', META, first, int(math.max(top, tonumber(picked[#picked]))))
  leaf(KEYS[15], pass and 'p' or 'r', table.concat({int(fence), int(n), int(bursting), int(kept)}, ' '), {ARGV[5], ARGV[6], ARGV[7]}, outcome, picked)
  if bursting > 0 then call('HSET', META, 'burst_left', E.burst_left - bursting) end
  for _, c in ipairs(caps) do c.take(take - bursting) end
end
for _, c in ipairs(caps) do c.keep() end
return answer(outcome, lines)
