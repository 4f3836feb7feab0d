-- sweep: what is over by the store's clock ends: graces, claims, sessions.
-- KEYS: as common.lua says, then 15… the here sets of the nodes of ARGV
-- ARGV: 1 the most of each to end in this call  2… nodes
-- Reply: {"ok", departed, ended, "more" or "", dead nodes (joined by blanks)}; {"stale"} another node has come: ask again; {"no_event"}
-- Sent again: it goes on with the next.
if not load() then return {'no_event'} end
local limit = tonumber(ARGV[1])
local listed = {}
for i = 2, #ARGV do listed[ARGV[i]] = true end
for _, node in ipairs(call('ZRANGE', NODES, 0, -1)) do
  if not listed[node] then
    tell()
    return {'stale'}
  end
end

local left, stay = {}, {} -- stay: another tab is open on some node, or it waits no longer
local gone = call('ZRANGEBYSCORE', AWAY, '-inf', int(E.now), 'LIMIT', 0, limit)
for _, entry in ipairs(gone) do
  local seq = call('ZSCORE', LINE, entry)
  for k = 15, #KEYS do
    if seq and call('SISMEMBER', KEYS[k], entry) == 1 then seq = false end
  end
  if seq then
    left[#left + 1], left[#left + 2] = entry, seq
  else
    stay[#stay + 1] = entry
  end
end
depart(left, 'expired')
many('ZREM', AWAY, stay)

local ended = call('ZRANGEBYSCORE', CLAIMS, '-inf', int(E.now), 'LIMIT', 0, limit)
for _, entry in ipairs(ended) do
  local g = call('HGET', GRANTS, entry)
  if g then over(entry, g) else call('ZREM', CLAIMS, entry) end
end
tell()
return {'ok', int(#left / 2), int(#ended), (#gone == limit or #ended == limit) and 'more' or '',
  table.concat(call('ZRANGEBYSCORE', NODES, '-inf', int(E.now)), ' ')}
