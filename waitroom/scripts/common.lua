-- common.lua stands before every script. Its KEYS are the same for all:
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

-- packed splits a grant: jti, seq, admitted (ms), claim end (ms), state, subject.
local function packed(g)
  return string.match(g, '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$')
end

-- finish ends a grant: its person is inside no longer. Whoever had entered has used
-- it up, however it ends; what ends unused may be given to another.
local function finish(entry, grant, state)
  local jti, seq, _, _, was = packed(grant)
  local used = state == 'completed' or was == 'entered'
  if used then call('HINCRBY', META, 'used', 1) end
  call('HDEL', GRANTS, entry)
  call('ZREM', CLAIMS, entry)
  call('HSET', ENDED, entry, state .. ' ' .. seq)
  if state == 'blocked' then
    call('HSET', JTIS, jti, '!revoked')
  elseif used then
    call('HSET', JTIS, jti, '!completed')
  else
    call('HDEL', JTIS, jti)
  end
  if E.lanes then call('HINCRBY', META, in_lane('inside', lane_of(tonumber(seq))), -1) end
  note('x', entry .. ' ' .. jti .. ' ' .. state)
end

-- over ends a grant whose time is up, and says how.
local function over(entry, grant)
  local _, _, _, _, state = packed(grant)
  if state ~= 'entered' then call('HINCRBY', META, 'unclaimed', 1) end
  state = state == 'entered' and 'completed' or 'expired'
  finish(entry, grant, state)
  return state
end

-- depart takes out of the line whom nobody promoted: left = {entry, seq, …}.
local function depart(left, state)
  local gone, ended = {}, {}
  for i = 1, #left, 2 do
    local entry, seq = left[i], int(tonumber(left[i + 1]))
    gone[#gone + 1] = entry
    ended[i], ended[i + 1] = entry, state .. ' ' .. seq
    note('d', entry .. ' ' .. seq .. ' ' .. state)
  end
  many('ZREM', LINE, gone)
  many('ZREM', AWAY, gone)
  many('HSET', ENDED, ended)
  if E.identity == 'jwt' then many('HDEL', SUBS, gone) end
end

-- grant moves picked = {entry, score, …} from the line to the grants, and returns
-- their lines: "entry seq jti admitted_ms claim_ms subject". Their jtis begin with
-- id, which nobody may ever have used before.
local function grant(picked, id)
  local claim = tonumber(call('HGET', META, 'claim_ttl'))
  local by = math.ceil((E.now + claim) / 1000) * 1000 -- a token's exp has whole seconds
  local admitted, by_text = int(E.now), int(by)
  local gone, grants, jtis, claims, lines = {}, {}, {}, {}, {}
  for i = 1, #picked, 2 do
    local entry, seq = picked[i], int(tonumber(picked[i + 1]))
    local n = #gone + 1
    local jti = id .. '.' .. n
    local subject = '-'
    if E.identity == 'jwt' then subject = call('HGET', SUBS, entry) or '-' end
    gone[n] = entry
    grants[2 * n - 1], grants[2 * n] = entry, jti .. ' ' .. seq .. ' ' .. admitted .. ' ' .. by_text .. ' admitted ' .. subject
    jtis[2 * n - 1], jtis[2 * n] = jti, entry
    claims[2 * n - 1], claims[2 * n] = by_text, entry
    lines[n] = entry .. ' ' .. seq .. ' ' .. jti .. ' ' .. admitted .. ' ' .. by_text .. ' ' .. subject
  end
  many('ZREM', LINE, gone)
  many('ZREM', AWAY, gone)
  if E.identity == 'jwt' then many('HDEL', SUBS, gone) end
  many('HSET', GRANTS, grants)
  many('HSET', JTIS, jtis)
  many('ZADD', CLAIMS, claims)
  call('HINCRBY', META, 'admitted', #gone)
  if E.lanes then
    local into = {} -- how many come in from each lane
    for i = 2, #picked, 2 do
      local lane = lane_of(tonumber(picked[i]))
      into[lane] = (into[lane] or 0) + 1
    end
    for lane, n in pairs(into) do
      call('HINCRBY', META, in_lane('inside', lane), n)
      call('HINCRBY', META, in_lane('let_in', lane), n) -- since the event was made
    end
  end
  F.g = lines
  return table.concat(lines, '\n')
end

-- runs writes rising sequences briefly: the first, then for each run of neighbours
-- how far it begins behind the end of the run before ("+2"); "*n" is for n of them.
local function runs(picked)
  local out, last, n = {}, nil, 0
  local function close()
    if n > 1 then out[#out] = out[#out] .. '*' .. n end
  end
  for i = 2, #picked, 2 do
    local seq = tonumber(picked[i])
    if last and seq == last + 1 then
      n = n + 1
    else
      close()
      out[#out + 1] = last and '+' .. int(seq - last) or int(seq)
      n = 1
    end
    last = seq
  end
  close()
  return table.concat(out, ',')
end

-- leaf adds to the admission log (key) who was let in just now, and why so many. It
-- is written in the same script as the grants, so that there is one for each
-- exactly; an event with lanes has one for each lane, and names it. Its
-- parts, with blanks between, "-" for nothing:
--   kind (r: by the rate, h: by hand, p: passed through)  ms  lane  fence
--   asked for  of the opening's burst  kept (how many of the first came back late)
--   rate decided  reason  what held the rest back  usage  sequences, as runs writes them
--   behind (how many sequences of the lane had been given out behind the last of these)
local function leaf(key, kind, parts, why, held, picked)
  if held == '' then held = '-' end
  local lane, last = lane_of(tonumber(picked[2])), tonumber(picked[#picked])
  local name = E.lanes and E.lanes[lane].name or '-'
  call('RPUSH', key, table.concat({kind, int(E.now), name, parts, why[1], why[2], held, why[3], runs(picked),
    int(E.seqs[lane] - last)}, ' '))
end

-- known is where an entry stands, by what the store knows and by the sequence of
-- its receipt (0: none). Somebody who waits and is away gets a new grace, never a
-- shorter one: who asks with a subject does not say that it is a phone. A place
-- that the store has lost is put back at the receipt's sequence, where there is a
-- line to be put back in. The answers:
--   "w seq"              waits ("w seq l": in the lobby of a draw)
--   "r seq"              waits again: was put back just now (likewise)
--   "g packed deadline"  holds a grant
--   "b"                  blocked
--   "e state seq"        ended
--   "-"                  nothing is known
local function stands(kind, seq)
  local lobby = E.drawn and E.drawn ~= 'done'
  return kind .. ' ' .. int(tonumber(seq)) .. (lobby and ' l' or '')
end
local function known(entry, receipt, mobile, subject)
  local seq = call('ZSCORE', LINE, entry)
  if seq then
    call('ZADD', AWAY, 'XX', 'GT', grace_end(mobile), entry)
    return stands('w', seq)
  end
  local g = call('HGET', GRANTS, entry)
  if g then
    local deadline = tonumber(call('ZSCORE', CLAIMS, entry) or '0')
    if deadline > E.now then return 'g ' .. g .. ' ' .. int(deadline) end
    over(entry, g)
  end
  if call('SISMEMBER', BLOCKED, entry) == 1 then return 'b' end
  local ended = call('HGET', ENDED, entry)
  if ended then
    local at = tonumber(string.match(ended, ' (%d+)$'))
    if receipt <= at then return 'e ' .. ended end
  end
  if E.redrawn and receipt <= E.redrawn then -- was in a lobby whose draw is known
    local place = call('HGET', META, 'place:' .. entry)
    if not place and E.drawn == 'done' then return '-' end -- had left it before the draw
    receipt = tonumber(place or receipt)
  elseif E.drawn == 'done' and receipt <= tonumber(call('HGET', META, 'draw_base') or '0') then
    return '-' -- was in a lobby that was lost, and not in the draw
  end
  local lane = lane_of(receipt)
  if receipt - lane * SPAN <= E.dead or not E.seqs[lane] or E.state == 'closed' or E.mode ~= 'queue' then return '-' end
  if receipt > E.seqs[lane] then epoch(receipt) end
  call('ZADD', LINE, int(receipt), entry)
  call('ZADD', AWAY, grace_end(mobile), entry)
  if subject ~= '' then call('HSET', SUBS, entry, subject) end
  note('r', entry .. ' ' .. int(receipt))
  return stands('r', receipt)
end

-- eligible says whether somebody may join now: false if so, else the answer that says
-- why not. chosen is what groups.go adds to a person: the groups that take them, with
-- commas, and a hashed code ("-" for nothing), or ''; codes is the key of the codes.
-- Whoever joins by a code spends it then. The answers:
--   "x wait opens now" (ms)  "x over"  "x none" no group takes them
--   "x code" is unknown  "x used holder" (of a code for one: whom it has brought in)
local windows
local into -- the lane of whom eligible let pass last
local spending -- the code by which whom eligible let pass last joins, or false
local function eligible(chosen, codes, entry)
  into, spending = 0, false
  if not E.groups then return false end
  if not windows then
    windows = {}
    for name, opens, closes, lane in string.gmatch(E.groups, '(%S+) (%d+) (%d+) (%d+);') do
      windows[name] = {opens = tonumber(opens), closes = tonumber(closes), lane = tonumber(lane)}
    end
  end
  local soonest, over
  local function open(name)
    local w = windows[name]
    if not w then return false end
    if w.opens > E.now then
      if not soonest or w.opens < soonest then soonest = w.opens end
      return false
    end
    if w.closes == 0 or w.closes > E.now then
      into = w.lane
      return true
    end
    over = true
    return false
  end
  local names, code = string.match(chosen, '(%S+) (%S+)$')
  if code and code ~= '-' then
    local group, left, holder = string.match(call('HGET', codes, code) or '', '^(%S+) (%S+) ?(%S*)$')
    if not group then return 'x code' end
    if open(group) then
      if left == '0' and holder ~= entry then return holder == '-' and 'x used' or 'x used ' .. holder end
      spending = code
      return false
    end
  end
  for name in string.gmatch(names or '', '[^,]+') do
    if open(name) then return false end
  end
  if soonest then return 'x wait ' .. int(soonest) .. ' ' .. int(E.now) end
  return over and 'x over' or 'x none'
end

-- give_back makes the code by which somebody would join unused again, if it is one that
-- brought in this entry alone.
local function give_back(codes, entry)
  local group, left, holder = string.match(spending and call('HGET', codes, spending) or '', '^(%S+) (%S+) ?(%S*)$')
  if left == '0' and holder == entry then call('HSET', codes, spending, group .. ' 1') end
end

-- spend uses up the code by which somebody joins, if it has an end. A code for one
-- names who it brought in; one for several has no holder.
local function spend(codes, entry)
  if not spending then return end
  local group, left, shared = string.match(call('HGET', codes, spending), '^(%S+) (%S+) ?(%S*)$')
  if left == '*' or left == '0' then return end
  left = tonumber(left) - 1
  call('HSET', codes, spending, group .. ' ' .. int(left) .. ' ' .. (left == 0 and shared == '' and entry or '-'))
end
