-- draw: the steps of a draw, each by one node at a time.
-- KEYS: as common.lua says, then 15 drawn
-- ARGV: 1 step  2 the node that does it  3 how long it may keep the draw to itself (ms)
--   "commit": 4 seed  5 draw (JSON): the seed is chosen, once
--   "claim": nothing more
--   "forget": the list begins anew
--   "list": 4… entries, behind those that are in the list
--   "listed": 4 draw (JSON)  5 how many are in the list
--   "reveal": 4 draw (JSON)
--   "place": 4 how many are placed already  5… entry, place (from 0) of the next
--   "open": nothing more
--   Of an event that was made again, its draw with it, before anybody draws:
--   "look": nothing more, and nothing is done
--   "relist": 4… entries, behind those that are in the list
--   "restore": 4 seed  5 draw (JSON)  6 sequence below the places  7 moment of the lobby's
--     close (ms)  8 how many are in the list  9 phase  10 "1": it has been open before
-- Reply: {"ok", phase, sequence below the places, moment of the lobby's close (ms), how
--   many are placed, draw (JSON), seed}; {"busy"} another node is at it; {"stale"} the
--   draw is elsewhere by now; {"no_event"}
-- Sent again: "stale" where the step is done, so that nothing is done twice; the
--   caller claims, and finds where the draw is.
local LEASE_OF = 'draw_node'
if not load() then return {'no_event'} end
local step, node = ARGV[1], ARGV[2]

local function answer(outcome)
  tell()
  local m = call('HMGET', META, 'draw_base', 'draw_closed', 'draw_placed', 'draw', 'seed')
  return {outcome, E.drawn or '', m[1] or '0', m[2] or '0', m[3] or '0', m[4] or '', m[5] or ''}
end

local function publish(phase, doc)
  E.drawn, E.version, V = phase, E.version + 1, true
  call('HSET', META, 'draw_phase', phase, 'draw', doc, 'version', int(E.version))
end

if step == 'commit' then
  if E.drawn == 'undrawn' and call('HSETNX', META, 'seed', ARGV[4]) == 1 then publish(E.drawn, ARGV[5]) end
  return answer('ok')
end

if step == 'look' then return answer('ok') end
if step == 'relist' or step == 'restore' then
  if E.drawn ~= 'undrawn' or call('HEXISTS', META, 'seed') == 1 then return answer('stale') end
  if step == 'relist' then
    many('RPUSH', KEYS[15], {unpack(ARGV, 4)})
  elseif call('LLEN', KEYS[15]) ~= tonumber(ARGV[8]) then
    return answer('stale')
  else
    call('HSET', META, 'seed', ARGV[4], 'draw_base', ARGV[6], 'redrawn', ARGV[6], 'draw_closed', ARGV[7], 'draw_placed', 0, 'opened', ARGV[10])
    publish(ARGV[9], ARGV[5])
  end
  return answer('ok')
end

local holder = call('HMGET', META, LEASE_OF, 'draw_until')
if holder[1] and holder[1] ~= node and tonumber(holder[2]) > E.now then return answer('busy') end
if holder[1] ~= node and step ~= 'claim' then return answer('busy') end
call('HSET', META, LEASE_OF, node, 'draw_until', int(E.now + tonumber(ARGV[3])))

local wants = {forget = 'listing', list = 'listing', listed = 'listing', reveal = 'waiting', place = 'placing', open = 'placing'}
if wants[step] and wants[step] ~= E.drawn then return answer('stale') end
if step == 'forget' then
  call('UNLINK', KEYS[15])
elseif step == 'list' then
  local entries = {}
  for i = 4, #ARGV do entries[#entries + 1] = ARGV[i] end
  many('RPUSH', KEYS[15], entries)
elseif step == 'listed' then
  if call('LLEN', KEYS[15]) ~= tonumber(ARGV[5]) then return answer('stale') end
  publish('waiting', ARGV[4])
elseif step == 'reveal' then
  call('HSET', META, 'draw_placed', 0)
  publish('placing', ARGV[4])
elseif step == 'place' then
  local placed = tonumber(call('HGET', META, 'draw_placed'))
  if placed ~= tonumber(ARGV[4]) then return answer('stale') end
  local base = tonumber(call('HGET', META, 'draw_base'))
  local moved, n = {}, 0
  for i = 5, #ARGV, 2 do
    local entry = ARGV[i]
    local seq = call('ZSCORE', LINE, entry)
    -- Who left since has no place; who joined anew since stands behind.
    if seq and tonumber(seq) <= base then
      moved[n + 1], moved[n + 2] = int(base + 1 + tonumber(ARGV[i + 1])), entry
      n = n + 2
    end
    if E.redrawn then -- may come back with a receipt of the lobby: see known
      call('HSET', META, 'place:' .. entry, int(base + 1 + tonumber(ARGV[i + 1])))
    end
  end
  many('ZADD', LINE, moved)
  call('HSET', META, 'draw_placed', int(placed + (#ARGV - 4) / 2))
elseif step == 'open' then
  if tonumber(call('HGET', META, 'draw_placed') or '0') ~= call('LLEN', KEYS[15]) then return answer('stale') end
  -- The places are sequences of a new epoch: every node reads the line anew.
  if E.redrawn then -- and of an old one, where others have joined meanwhile
    epoch(E.seqs[0])
  else
    E.base = tonumber(call('HGET', META, 'draw_base'))
  end
  E.drawn = 'done'
  call('HSET', META, 'base', int(E.base), 'draw_phase', E.drawn)
  call('HDEL', META, LEASE_OF, 'draw_until')
  if E.state == 'lobby' then
    become('open', call('HGET', META, 'reason'))
    log('schedule', 'state', 'lobby', 'open')
  else
    E.version, V = E.version + 1, true
    call('HSET', META, 'version', int(E.version))
  end
end
return answer('ok')
