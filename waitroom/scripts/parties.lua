-- parties.lua stands between eligible.lua and the scripts that know of parties. Its key
-- is the last of theirs: the party hash, as keys.go has it.
--
-- A party's place is one entry of the line, which no person has of their own. Who is
-- in a party has no entry beside it: joining one takes it, in the same script.
local PARTY = KEYS[#KEYS]

-- party_of is the party whose entry this is: {hash of its code ("-": not known), who
-- buys, member, …}, members in the order in which they came, or nil.
local function party_of(entry)
  local text = call('HGET', PARTY, 'p' .. entry)
  if not text then return end
  local p = {}
  for word in string.gmatch(text, '%S+') do p[#p + 1] = word end
  return p
end

-- changed writes a party, and tells the feed, so that every member hears of it.
local function changed(entry, p)
  call('HSET', PARTY, 'p' .. entry, table.concat(p, ' '))
  note('p', entry)
end

-- gathering says why no party can be made or joined any more, or yet; false if it can.
local function gathering()
  if E.state == 'scheduled' then return 'not_open' end
  return (E.state ~= 'lobby' or E.drawn ~= 'undrawn') and 'closed'
end

-- last_seq is the sequence up to which receipts of an entry are old when it ends now.
local function last_seq(entry)
  local g = call('HGET', GRANTS, entry)
  local ended = call('HGET', ENDED, entry)
  local _, seq = nil, call('ZSCORE', LINE, entry)
  if not seq and g then _, seq = packed(g) end
  if not seq and ended then seq = string.match(ended, ' (%d+)$') end
  return tonumber(seq or '0')
end

-- over_by marks what a person had of their own as left, and with it every receipt up
-- to this sequence.
local function over_by(own, seq)
  call('HSET', ENDED, own, 'left ' .. int(math.max(seq, last_seq(own))))
end

-- moves takes away the entry that a person has of their own, since they are in a party
-- from now on. Their sockets are told of the party, not of the end.
local function moves(own, entry)
  local seq = call('ZSCORE', LINE, own)
  if seq then
    over_by(own, tonumber(seq))
    call('ZREM', LINE, own)
    call('ZREM', AWAY, own)
    call('HDEL', SUBS, own)
    note('d', own .. ' ' .. int(tonumber(seq)) .. ' left')
  end
  note('p', entry .. ' ' .. own)
  call('HSET', PARTY, 'm' .. own, entry)
  return seq
end

-- names says as whose the party's grant counts: the buyer's subject, where the site has
-- names of its own. What was given to the buyer before is worth nothing any more: id is
-- what the new jti begins with.
local function names(entry, p, id)
  local subject = E.identity == 'jwt' and call('HGET', PARTY, 's' .. p[2]) or false
  if call('ZSCORE', LINE, entry) then
    if subject then call('HSET', SUBS, entry, subject) else call('HDEL', SUBS, entry) end
  end
  local g = call('HGET', GRANTS, entry)
  if g then
    local jti, seq, admitted, claim, state = packed(g)
    call('HSET', GRANTS, entry, table.concat({id .. '.1', seq, admitted, claim, state, subject or '-'}, ' '))
    call('HSET', JTIS, id .. '.1', entry, jti, '!revoked')
  end
end

-- had_turn says that a person's party has entered with them in it.
local function had_turn(own, entry)
  if entry == '!' then return true end
  local g, ended = call('HGET', GRANTS, entry), call('HGET', ENDED, entry)
  return (g and select(5, packed(g)) == 'entered') or (ended and string.match(ended, '^%a+') == 'completed') or false
end

-- steps_out takes a person out of their party. The buyer's part goes to who has been in
-- it the longest; once it has entered to nobody, for what is bought is the leaver's. The
-- entry leaves with its last member, or with a buyer who has entered.
local function steps_out(own, entry, id)
  local p = party_of(entry)
  if not p or call('SISMEMBER', BLOCKED, entry) == 1 then return end
  for i = #p, 3, -1 do
    if p[i] == own then table.remove(p, i) end
  end
  over_by(own, last_seq(entry))
  call('HDEL', PARTY, 's' .. own)
  local had = had_turn(own, entry)
  if had then call('HSET', PARTY, 'm' .. own, '!') else call('HDEL', PARTY, 'm' .. own) end
  note('p', entry .. ' ' .. own)
  local g = call('HGET', GRANTS, entry)
  if #p == 2 or (g and had and p[2] == own) then
    local seq = call('ZSCORE', LINE, entry)
    if seq then depart({entry, seq}, 'left') end
    if g then finish(entry, g, had and 'completed' or 'left') end
  end
  if #p == 2 then
    call('HDEL', PARTY, 'p' .. entry, 'c' .. p[1])
    return
  end
  if p[2] == own and not had then
    p[2] = p[3]
    names(entry, p, id)
  end
  changed(entry, p)
end

-- comes_back puts a person into the party that their receipt names, and of which the
-- store does not know them: it has lost that. The party's entry is put back at the
-- receipt's sequence, if it is lost too. The answer is as known's; behind it comes the
-- party's entry, unless they stand alone: who has left it since, who has an entry of their
-- own that takes part in the draw, and who finds no room.
local function comes_back(own, entry, receipt, mobile, subject)
  local alone, ended = call('ZSCORE', LINE, own), call('HGET', ENDED, own)
  if (alone and gathering()) or call('HEXISTS', GRANTS, own) == 1 or call('SISMEMBER', BLOCKED, own) == 1
    or (ended and receipt <= tonumber(string.match(ended, ' (%d+)$'))) then
    return known(own, 0, mobile, subject)
  end
  if call('SISMEMBER', BLOCKED, entry) == 1 then return 'b' end
  local p = party_of(entry)
  local waits = call('ZSCORE', LINE, entry)
  local over = not waits and call('HEXISTS', GRANTS, entry) == 0 and call('HEXISTS', ENDED, entry) == 1
  if over or (p and #p - 2 >= E.party) then return known(own, 0, mobile, subject) end
  -- Nobody gives up what they have before the party's place is there for them: an old
  -- receipt may be of an event that is no more.
  local maker = not waits and not p and call('ZRANGEBYSCORE', LINE, int(receipt), int(receipt), 'LIMIT', 0, 1)[1]
  local answer = known(entry, receipt, mobile, '')
  if not string.find(answer, '^[wrg]') then return (alone or answer == '-') and known(own, 0, mobile, subject) or answer end
  p = p or {'-', own}
  if maker then -- whoever stands at its sequence has made it: that alone is what the store has lost
    moves(maker, entry)
    p[2] = maker
    if maker ~= own then p[3] = maker end
    alone = maker ~= own and alone
  end
  if alone then moves(own, entry) end
  p[#p + 1] = own
  call('HSET', PARTY, 'm' .. own, entry)
  if subject ~= '' then
    call('HSET', PARTY, 's' .. own, subject)
    if p[2] == own and call('ZSCORE', LINE, entry) then call('HSET', SUBS, entry, subject) end
  end
  changed(entry, p)
  return answer, entry
end

-- standing is known for a person: name is their entry, or where their receipt is a
-- party's its entry .. "/" .. the person. It gives the answer as known's; the person; and
-- the entry of the party in which they are ("!" where they have had their turn in one), or
-- nil.
local function standing(name, receipt, mobile, subject)
  local entry, own = string.match(name, '^([^/]+)/?(.*)$')
  if own == '' then own = entry end
  if not E.party then
    if own ~= entry then return '-', own end
    return known(entry, receipt, mobile, subject), own
  end
  local party = call('HGET', PARTY, 'm' .. own)
  if party == '!' then return known(own, 0, mobile, ''), own, party end
  if party then
    if subject ~= '' and call('HSETNX', PARTY, 's' .. own, subject) == 1 then
      local p = party_of(party)
      if p and p[2] == own and call('ZSCORE', LINE, party) then call('HSET', SUBS, party, subject) end
    end
    return known(party, party == entry and receipt or 0, mobile, ''), own, party
  end
  if own == entry then
    -- Where the store has lost both, a party may be back before whoever made it, at the
    -- sequence that was theirs.
    local there = receipt > 0 and not call('ZSCORE', LINE, own) and call('ZRANGEBYSCORE', LINE, int(receipt), int(receipt), 'LIMIT', 0, 1)[1]
    if not there or call('HEXISTS', PARTY, 'p' .. there) == 0 then return known(own, receipt, mobile, subject), own end
    entry = there
  end
  local answer, back = comes_back(own, entry, receipt, mobile, subject)
  return answer, own, back
end

-- in_party is an answer for a member of a party: "p entry members buys " before it; buys
-- is 1 for the buyer.
local function in_party(answer, own, entry)
  local p = party_of(entry)
  if not p then return answer end
  return table.concat({'p', entry, int(#p - 2), p[2] == own and '1' or '0', answer}, ' ')
end
