-- codes: an operator adds codes to a group.
-- KEYS: as common.lua says, then 15 codes
-- ARGV: 1 by  2 group  3 uses of each ("*": any number)  4… hashed codes
-- Reply: {"ok", how many were new}; {"no_group"} no group of this name; {"no_event"}
-- Sent again: none is new, and those that are there stay as they are.
if not load() then return {'no_event'} end
local by, group, uses = ARGV[1], ARGV[2], ARGV[3]
if not string.find(';' .. (E.groups or ''), ';' .. string.gsub(group, '%-', '%%-') .. ' ') then
  tell()
  return {'no_group'}
end
local new = 0
for i = 4, #ARGV do
  new = new + call('HSETNX', KEYS[15], ARGV[i], group .. ' ' .. uses)
end
if new > 0 then log(by, 'codes', '', int(new) .. ' of ' .. group) end
tell()
return {'ok', int(new)}
