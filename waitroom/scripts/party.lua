-- party: a person makes a party, joins one, leaves it, or says who buys.
-- KEYS: as common.lua says, then 15 codes  16 party
-- ARGV: 1 what, of those below  2 the person, as join's "k" and "K"  3 an id that nobody
--   has used before
--   "make": 4 hash of the code of the party whose entry is that id; the person's place
--     becomes the party's
--   "join": 4 hash of the code that they say  5 how they may join, as eligible.lua's
--     eligible takes it, or empty
--   "see": nothing more
--   "list": 4 hash of the code of the person's party, which the store does not know
--   "leave": nothing more
--   "buy": the person is the buyer from now on
-- Reply: {"ok", answer as place's, "1" where the party's code can be joined by, else "0"};
--   {"left"} they are in no party (any more); {"no_entry"} they have no place to make a
--   party of; {"unknown"} no party has this code; {"exists"} they are in another one;
--   {"full"} it is; {"not_open"}, {"closed"} the lobby is; {"used"} it has entered;
--   {"refused", answer} blocked, or not eligible; {"wrong_mode"} there are no parties
--   here; {"no_event"}
-- Sent again: they are in the party already, or in none, or buy.
if not load() then return {'no_event'} end
local what, id, hash = ARGV[1], ARGV[3], ARGV[4]
local kind, name, receipt, subject = string.match(ARGV[2], '^(%a)(%S+) (%d+) (%S*)')
local mobile = kind == 'K'
local function answer(...)
  tell()
  return {...}
end
if not E.party then return answer('wrong_mode') end
local at, own, entry = standing(name, tonumber(receipt), mobile, subject)
if entry == '!' then entry = nil end
local word = string.sub(at, 1, 1)
if word == 'b' then return answer('refused', at) end
local alive = entry and string.find(word, '[wrg]') ~= nil -- is in a party whose place has not ended

local function member()
  local p = party_of(entry)
  return answer('ok', in_party(at, own, entry), call('HEXISTS', PARTY, 'c' .. p[1]) == 1 and '1' or '0')
end

local function enter(party, p)
  p[#p + 1] = own
  if subject ~= '' then call('HSET', PARTY, 's' .. own, subject) end
  entry = party
  names(entry, p, id)
  changed(entry, p)
  at = known(entry, 0, mobile, '')
  return member()
end

if what == 'make' then
  if alive then return member() end
  local why = gathering()
  if why then return answer(why) end
  if word ~= 'w' and word ~= 'r' then return answer('no_entry') end
  local seq = moves(own, id)
  call('ZADD', LINE, seq, id)
  call('ZADD', AWAY, grace_end(mobile), id)
  note('r', id .. ' ' .. int(tonumber(seq)))
  call('HSET', PARTY, 'c' .. hash, id)
  return enter(id, {hash, own})
end

if what == 'join' then
  local party = call('HGET', PARTY, 'c' .. hash)
  if not party or not call('ZSCORE', LINE, party) then
    return answer(gathering() == 'closed' and 'closed' or 'unknown')
  end
  if alive then
    if party ~= entry then return answer('exists') end
    return member()
  end
  local why = gathering()
  if why then return answer(why) end
  local p = party_of(party)
  if #p - 2 >= E.party then return answer('full') end
  if word ~= 'w' and word ~= 'r' then
    local refused = eligible(ARGV[5], KEYS[15], own)
    if refused then return answer('refused', refused) end
    spend(KEYS[15], own)
  end
  if entry then steps_out(own, entry, id) end
  moves(own, party)
  return enter(party, p)
end

if what == 'leave' then
  if entry then steps_out(own, entry, id) end
  return answer('left')
end
if not alive then return answer('left') end
if what == 'list' then
  local p = party_of(entry)
  p[1] = hash
  call('HSET', PARTY, 'c' .. hash, entry, 'p' .. entry, table.concat(p, ' '))
elseif what == 'buy' then
  local p = party_of(entry)
  if p[2] ~= own then
    if had_turn(own, entry) then return answer('used') end
    p[2] = own
    names(entry, p, id)
    changed(entry, p)
    at = known(entry, 0, mobile, '')
  end
end
return member()
