-- admit: an operator lets people in by hand: outside the rate, inside max_active.
-- KEYS: as common.lua says, then 15 log
-- ARGV: 1 request id  2 count (0 with an entry)  3 entry (empty with a count)  4 by
--   5 what the jtis begin with, never used before  6 the name of the lane of the count; ""
--   for an event without, or for whichever lanes come first
-- Reply: {"ok", lines} as promote's; an entry that has a grant already is answered with it;
--   fewer than count when the line or the room is smaller
--   {"no_entry"} the named entry does not wait; {"full"} no room inside; {"closed"}; {"no_event"}
-- Sent again: the same answer, and nobody more.
if not load() then return {'no_event'} end
local id, count, entry, by = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local before = again('deed', id)
local function answer(...)
  tell()
  return {...}
end
if before then return answer('ok', before) end
if E.state == 'closed' then return answer('closed') end

local room = tonumber(call('HGET', META, 'max_active'))
room = room > 0 and math.max(0, room - call('ZCARD', CLAIMS)) or count + 1
local picked
if entry ~= '' then
  local seq = call('ZSCORE', LINE, entry)
  if not seq then
    local g = call('HGET', GRANTS, entry)
    if g and tonumber(call('ZSCORE', CLAIMS, entry) or '0') <= E.now then
      over(entry, g)
      g = nil
    end
    if not g then return answer('no_entry') end
    local jti, at, admitted, claim, _, subject = packed(g)
    return answer('ok', table.concat({entry, at, jti, admitted, claim, subject}, ' '))
  end
  if room < 1 then return answer('full') end
  picked = {entry, seq}
else
  if room < 1 then return answer('full') end
  local from, to = '-inf', '+inf'
  if ARGV[6] ~= '' then
    local named
    for lane = 0, E.lanes and #E.lanes or -1 do
      if E.lanes[lane].name == ARGV[6] then named = lane end
    end
    if not named then return answer('no_entry') end
    from, to = ends_of(named)
  end
  picked = call('ZRANGEBYSCORE', LINE, from, to, 'WITHSCORES', 'LIMIT', 0, int(math.min(count, room)))
end
local lines = ''
if #picked > 0 then
  lines = grant(picked, ARGV[5])
  remember('deed', id, lines)
  log(by, 'admit', '', lines)
  local of = {} -- a leaf for each lane
  for i = 1, #picked, 2 do
    local lane = lane_of(tonumber(picked[i + 1]))
    local l = of[lane] or {}
    l[#l + 1], l[#l + 2], of[lane] = picked[i], picked[i + 1], l
  end
  for lane = 0, #E.seqs do
    if of[lane] then leaf(KEYS[15], 'h', '0 ' .. int(math.max(1, count)) .. ' 0 0', {'0', 'by_hand', '-'}, '', of[lane]) end
  end
end
return answer('ok', lines)
