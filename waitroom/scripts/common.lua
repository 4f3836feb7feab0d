-- common.lua stands before every script, entries.lua and eligible.lua behind it. Its
-- KEYS are the same for all:
--   1 meta  2 line  3 away  4 grants  5 jtis  6 claims  7 ended  8 blocked
--   9 subs  10 nodes  11 reqs  12 feed  13 audit  14 grave  (keys.go says what each is)
-- A script that takes more says so at its head. Every reply is an array whose
-- first element names the outcome; "no_event" may come from all of them.
--
-- Time is the store's own, in ms, moved by meta's clock_offset_ms, which only
-- rehearsals set, or standing at its clock_ms, which only tests set. It makes
-- deadlines; order comes from the counter alone.
local META, LINE, AWAY, GRANTS, JTIS = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local CLAIMS, ENDED, BLOCKED, SUBS, NODES = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local REQS, FEED, AUDIT, GRAVE = KEYS[11], KEYS[12], KEYS[13], KEYS[14]
local call, floor = redis.call, math.floor

local FEED_LENGTH, AUDIT_LENGTH = 10000, 10000
-- How many requests' answers are kept for those that are sent again: the leader's
-- ticks, and an operator's deeds, which may come again much later. Apart, since ten
-- ticks a second would push out a deed within one.
local RINGS = {tick = 8, deed = 32}

-- int writes a number that may be near 2^53 in full.
local function int(n) return string.format('%.0f', n) end

-- many calls a command with a list of arguments in bounded pieces; size must be
-- a multiple of what the command takes together.
local function many(command, key, args)
  for i = 1, #args, 400 do
    call(command, key, unpack(args, i, math.min(i + 399, #args)))
  end
end

local E -- the event as it is now
local F -- what this script has to tell the feed
local V = false -- settings or state have changed

-- clock is the store's time in ms.
local function clock()
  local t = call('TIME')
  return t[1] * 1000 + floor(t[2] / 1000)
end

-- note adds a line to a list of the feed record.
local function note(list, line)
  local l = F[list]
  if not l then
    l = {}
    F[list] = l
  end
  l[#l + 1] = line
end

-- grace_end is when the grace of somebody who is away from now on ends.
local ends = {}
local function grace_end(mobile)
  mobile = mobile and true or false
  if not ends[mobile] then ends[mobile] = int(E.now + (mobile and E.grace_mobile or E.grace)) end
  return ends[mobile]
end

-- log writes one audit record.
local function log(by, what, before, after)
  call('XADD', AUDIT, 'MAXLEN', '~', AUDIT_LENGTH, '*', 'at', int(E.now), 'by', by, 'what', what, 'before', before, 'after', after)
end

-- An event with lanes has one line for each: its sequences begin SPAN above those of
-- the lane before it, so that a score tells the lane, and one sorted set, one feed and
-- one set of grants hold all. A sequence without its lane's share is as in any event,
-- but for the PACE of bases, which leaves room for 16 lanes until the year 2059.
local SPAN = 562949953421312 -- 2^49, as lanes.go has it
local PACE, LANED_PACE = 1000, 200 -- of bases: sequences for each ms of the store's clock

-- lane_of is the number of a sequence's lane, from 0.
local function lane_of(seq) return E.lanes and floor(seq / SPAN) or 0 end

-- in_lane writes the name of a field of the meta hash that each lane has.
local function in_lane(name, lane) return lane == 0 and name or name .. ':' .. int(lane) end

-- ends_of are the bounds of a lane's scores, for commands by score.
local function ends_of(lane) return int(lane * SPAN), '(' .. int((lane + 1) * SPAN) end

-- epoch begins a new base above everything that was ever given out: this store
-- has lost sequences that somebody holds. Nobody may know how many more than that
-- it has lost: LOSABLE is more than can be given out in the seconds that a replica
-- may be behind (views wait for news of an epoch where they see half of it), and
-- stands for clocks of servers that differ.
local LOSABLE = 2000000
local function epoch(above)
  above = above - lane_of(above) * SPAN
  for lane = 0, #E.seqs do above = math.max(above, E.seqs[lane] - lane * SPAN) end
  E.base = math.max(E.now * (E.lanes and LANED_PACE or PACE), above + LOSABLE)
  call('HSET', META, 'base', int(E.base))
  for lane = 0, #E.seqs do
    E.seqs[lane] = lane * SPAN + E.base
    call('HSET', META, in_lane('seq', lane), int(E.seqs[lane]))
  end
  V = true
end

-- same_store begins a new epoch if another server wrote here last than this one: a
-- replica that was promoted, or a server that has come back, may not have what was
-- given out last. A server that does not say who it is counts as the same.
local function same_store()
  local info = redis.pcall('INFO', 'replication')
  local id = type(info) == 'string' and string.match(info, 'master_replid:(%x+)')
  if not id then return end
  local was = call('HGET', META, 'store')
  if was == id then return end
  call('HSET', META, 'store', id)
  if was then epoch(E.seqs[0]) end
end

-- caught_up makes sure that what is given out from now on is above told, the highest
-- sequences that the caller was ever given (with commas, one for each lane). A "?" before it says that the server had
-- not got this script until now, as one that has just become master: then it is
-- asked who it is, which is too dear for each call.
local function caught_up(told)
  if string.sub(told, 1, 1) == '?' then
    same_store()
    told = string.sub(told, 2)
  end
  for seq in string.gmatch(told, '%d+') do
    seq = tonumber(seq)
    local given = E.seqs[lane_of(seq)]
    if given and seq > given then epoch(seq) end
  end
end

-- opening reads what only an opening and its burst need.
local function opening()
  if E.opened then return end
  local m = call('HMGET', META, 'opened', 'burst', 'burst_left', 'burst_until')
  E.opened, E.burst, E.burst_left, E.burst_until = tonumber(m[1]), tonumber(m[2]), tonumber(m[3]), tonumber(m[4])
end

-- draw begins the draw: who stands in the line now is an entrant, and the next
-- sequences, one for each, are kept for them; whoever joins from here on stands
-- behind. package waitroom's drawing.go does the rest.
local function draw()
  E.drawn = 'listing'
  call('HSET', META, 'draw_phase', E.drawn, 'draw_base', int(E.seqs[0]), 'draw_closed', int(E.now))
  E.seqs[0] = E.seqs[0] + call('ZCARD', LINE)
  call('HSET', META, 'seq', int(E.seqs[0]))
end

-- become changes the event's state. An event whose order is drawn goes to the lobby
-- instead of opening for the first time: the end of its draw opens it.
local function become(state, reason)
  local before = E.state
  opening()
  if state == 'open' and E.drawn and E.drawn ~= 'done' then
    if E.drawn == 'undrawn' then draw() end
    state = 'lobby'
  end
  if state == 'open' and E.opened == 0 then
    E.opened = 1
    if (before == 'scheduled' or before == 'lobby') and E.burst > 0 then
      E.burst_left, E.burst_until = E.burst, E.now + 1000
    end
  end
  if state ~= before then call('HSET', META, 'since', int(E.now)) end
  E.state, E.version, V = state, E.version + 1, true
  call('HSET', META, 'state', state, 'reason', reason, 'version', int(E.version), 'opened', E.opened,
    'burst_left', E.burst_left, 'burst_until', int(E.burst_until))
end

-- turn makes the one move that the schedule has due. Moments up to E.sched are
-- done with: an operator has set the state by hand since.
local function turn()
  local function due(at) return at > E.sched and at <= E.now end
  local before, to = E.state, nil
  if before == 'closed' then return end
  if due(E.closes_at) then
    to = 'closed'
  elseif due(E.opens_at) and (not E.drawn or E.drawn == 'undrawn') and (before == 'scheduled' or before == 'lobby') then
    to = 'open'
  elseif due(E.lobby_opens_at) and before == 'scheduled' then
    to = 'lobby'
  end
  if to then
    become(to, 'schedule')
    log('schedule', 'state', before, to)
  end
end

-- lanes reads the lanes as lanes.go writes them: "name rate max;" each, "-" for no rate
-- of its own, "-0" for a lane that is paused.
local function lanes(text)
  if not text or text == '' then return end
  E.lanes = {}
  local n = 0
  for name, rate, max in string.gmatch(text, '(%S+) (%S+) (%d+);') do
    local paused = rate == '-0'
    E.lanes[n] = {name = name, rate = paused and 0 or tonumber(rate), max = tonumber(max), paused = paused}
    n = n + 1
  end
  local fields = {}
  for lane = 1, n - 1 do fields[lane] = in_lane('seq', lane) end
  local seqs = n > 1 and call('HMGET', META, unpack(fields)) or {}
  for lane = 1, n - 1 do E.seqs[lane] = tonumber(seqs[lane]) or lane * SPAN + E.base end
end

-- load reads the event into E and makes due moves; false when there is none.
local function load()
  local m = call('HMGET', META, 'state', 'base', 'seq', 'version', 'lobby_opens_at', 'opens_at', 'closes_at', 'sched',
    'clock_offset_ms', 'grace', 'grace_mobile', 'dead', 'identity', 'clock_ms', 'mode', 'draw_phase', 'groups', 'lanes', 'redrawn', 'party')
  if not m[1] then return false end
  E = {
    state = m[1], base = tonumber(m[2]), seqs = {[0] = tonumber(m[3])}, version = tonumber(m[4]), lobby_opens_at = tonumber(m[5]),
    opens_at = tonumber(m[6]), closes_at = tonumber(m[7]), sched = tonumber(m[8]),
    grace = tonumber(m[10]), grace_mobile = tonumber(m[11]), dead = tonumber(m[12]), identity = m[13],
    mode = m[15] or 'queue', -- an event that was stored before has none
    groups = m[17] and m[17] ~= '' and m[17], -- as groups.go writes them; false for an event without
    drawn = m[16], -- undrawn, listing, waiting, placing, done; false where the order is another
    party = tonumber(m[20] or '0') > 0 and tonumber(m[20]), -- the most members of a party; false for an event without
    redrawn = tonumber(m[19]), -- the lobby's last sequence, where the store has lost the event and its draw was put back
  }
  E.now = tonumber(m[14] or clock() + tonumber(m[9] or '0'))
  F = {}
  lanes(m[18])
  turn()
  return true
end

-- tell writes what happened as one record of the feed, and nothing if nothing did.
local function tell()
  if not (V or F.g or F.d or F.r or F.x or F.n or F.p) then return end
  local args = {'XADD', FEED, 'MAXLEN', '~', FEED_LENGTH, '*', 'b', int(E.base), 'm', int(E.now)}
  for _, list in ipairs({'g', 'd', 'r', 'x', 'n', 'p'}) do
    if F[list] then
      args[#args + 1] = list
      args[#args + 1] = table.concat(F[list], '\n')
    end
  end
  if V then
    args[#args + 1] = 'v'
    args[#args + 1] = int(E.version)
  end
  call(unpack(args))
end

-- again is the answer that a request of this ring with this id was given, or false.
local function again(ring, id)
  local ids = {}
  for i = 1, RINGS[ring] or RINGS.tick do ids[i] = ring .. '_id' .. i end
  local known = call('HMGET', REQS, unpack(ids))
  for i = 1, #ids do
    if known[i] == id then return call('HGET', REQS, ring .. '_answer' .. i) or '' end
  end
  return false
end

-- remember keeps a request's answer for the case that it is sent again.
local function remember(ring, id, answer)
  local i = call('HINCRBY', REQS, ring, 1) % (RINGS[ring] or RINGS.tick) + 1
  call('HSET', REQS, ring .. '_id' .. i, id, ring .. '_answer' .. i, answer)
end
