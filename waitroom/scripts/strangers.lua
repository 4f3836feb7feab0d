-- strangers: what stands before join's script for the batch that is nearly all of them:
-- people without a receipt join an event where nothing else is to be looked at. It says
-- what join.lua would say of them, for half of what that costs the store, since it needs
-- nothing of common.lua, whose functions are made anew for each call. Anything else, in
-- the event or in the batch, goes on to join.lua, before anything is written.
-- KEYS, ARGV: as join.lua
-- Reply: {"ok", answer, …}, one answer a run: "n first count" or "n first count l"
do
  local call = redis.call
  local m = call('HMGET', KEYS[1], 'state', 'seq', 'grace', 'grace_mobile', 'groups', 'lanes', 'draw_phase',
    'sched', 'lobby_opens_at', 'opens_at', 'closes_at', 'clock_ms', 'clock_offset_ms')
  local plain = (m[1] == 'open' or m[1] == 'paused' or m[1] == 'lobby') and (m[5] or '') == '' and (m[6] or '') == ''
    and not string.find(ARGV[1], '?', 1, true)
  for i = 2, #ARGV do
    local kind = string.byte(ARGV[i])
    if kind ~= 102 and kind ~= 70 or string.find(ARGV[i], ' ', 1, true) then plain = false end -- f, F
  end
  if plain then
    local seq, sched, now = tonumber(m[2]), tonumber(m[8]), tonumber(m[12])
    if not now then
      local t = call('TIME')
      now = t[1] * 1000 + math.floor(t[2] / 1000) + tonumber(m[13] or '0')
    end
    for i = 9, 11 do -- a move of the schedule is due
      local at = tonumber(m[i])
      if at > sched and at <= now then plain = false end
    end
    for told in string.gmatch(ARGV[1], '%d+') do -- the store has lost sequences
      if tonumber(told) > seq then plain = false end
    end
    local first = string.sub(ARGV[2], 2, 13) -- tells for all whether this batch was here before
    if plain and not call('ZSCORE', KEYS[2], first) and call('HEXISTS', KEYS[4], first) == 0 and call('HEXISTS', KEYS[7], first) == 0 then
      local lobby = m[7] and m[7] ~= 'done' and ' l' or ''
      local line, away, reply, n = {}, {}, {'ok'}, 0
      for i = 2, #ARGV do
        local run = ARGV[i]
        local grace = now + tonumber(string.byte(run) == 102 and m[3] or m[4])
        reply[i] = string.format('n %.0f %d', seq + 1, (#run - 1) / 12) .. lobby
        for at = 2, #run, 12 do
          local entry = string.sub(run, at, at + 11)
          seq = seq + 1
          line[n + 1], line[n + 2], away[n + 1], away[n + 2] = seq, entry, grace, entry
          n = n + 2
        end
      end
      call('HSET', KEYS[1], 'seq', seq)
      for i = 1, n, 400 do
        local last = math.min(i + 399, n)
        call('ZADD', KEYS[2], unpack(line, i, last))
        call('ZADD', KEYS[3], unpack(away, i, last))
      end
      return reply
    end
  end
end
