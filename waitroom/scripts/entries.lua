-- entries.lua stands before every script, after common.lua: what becomes of an entry and
-- of its grant, and how a decision is written down.

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
