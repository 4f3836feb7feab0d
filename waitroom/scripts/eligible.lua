-- eligible.lua stands before every script, after entries.lua: who may join now.

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
