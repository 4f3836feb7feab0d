-- credit: somebody whom the service failed comes in once more: outside the rate,
-- inside max_active, once for each turn that went wrong.
-- KEYS: as common.lua says, then 15 log  16 owed  17 the mark of the credit's jti
--   18 issued  19 archive, of mode instant  20 party
-- ARGV: 1 the highest sequence that the caller was ever given, as caught_up takes it
--   2 entry (of a member of a party, it is for the party)  3 jti of the turn that went wrong  4 the credit's end, ms
--   5 subject (base64url, or empty)  6 what the new jti begins with, never used before
--   7 "late": the turn counts only if it was entered; or empty
-- Reply: {"ok", line} as promote's; {"alive", packed, deadline, entry} the entry holds a grant
--   that runs, and the credit is kept; {"known"} the credit was used; {"expired"};
--   {"revoked"} the turn was, or its person is blocked; {"full"} no room inside: the
--   next that gets free is kept for OWED, or in mode instant the quota is given out;
--   {"sold_out"} nothing is left to buy; {"not_open"}, {"closed"}, {"wrong_mode"},
--   {"no_event"}
-- Sent again: "alive", with the same grant.
local OWED = 15000 -- ms
if not load() then return {'no_event'} end
caught_up(ARGV[1])
local entry, subject = ARGV[2], ARGV[5]
local party = E.party and call('HGET', PARTY, 'm' .. entry)
if party and party ~= '!' then entry = party end
local function answer(...)
  tell()
  return {...}
end
local quota = false -- of mode instant
if E.mode == 'instant' then
  local m = call('HMGET', META, 'quota', 'returns', 'unsold', 'ranks')
  if m[2] ~= 'never' then quota = {most = tonumber(m[1]), sold_out = m[3] == '0', ranks = tonumber(m[4] or '0')} end
end
if E.mode ~= 'queue' and not quota then return answer('wrong_mode') end
local g = call('HGET', GRANTS, entry)
if g then
  local deadline = tonumber(call('ZSCORE', CLAIMS, entry) or '0')
  if deadline > E.now then return answer('alive', g, int(deadline), entry) end
  over(entry, g)
end
if call('EXISTS', KEYS[17]) == 1 then return answer('known') end
if call('SISMEMBER', BLOCKED, entry) == 1 or call('HGET', JTIS, ARGV[3]) == '!revoked' then return answer('revoked') end
local entered = call('HGET', JTIS, ARGV[3]) == '!completed'
if tonumber(ARGV[4]) <= E.now or (ARGV[7] == 'late' and not entered) then return answer('expired') end
if E.state == 'closed' then return answer('closed') end
if (E.state ~= 'open' and E.state ~= 'draining') or (E.drawn and E.drawn ~= 'done') then return answer('not_open') end
local most = tonumber(call('HGET', META, 'max_active'))
if quota then
  if quota.sold_out then return answer('sold_out') end
  local inside, used = call('ZCARD', CLAIMS), tonumber(call('HGET', META, 'used') or '0')
  if entered then used = used - 1 end -- it bought nothing, and its place is this one's
  if inside + used >= quota.most or (most > 0 and inside >= most) then return answer('full') end
  if entered then call('HINCRBY', META, 'used', -1) end
  most = 0
end
if most > 0 and call('ZCARD', CLAIMS) >= most then
  call('ZREMRANGEBYSCORE', KEYS[16], '-inf', int(E.now))
  call('ZADD', KEYS[16], int(E.now + OWED), entry)
  call('PEXPIRE', KEYS[16], 4 * OWED)
  return answer('full')
end
call('ZREM', KEYS[16], entry)
local seq = call('ZSCORE', LINE, entry)
if not seq then
  local lane = lane_of(tonumber(string.match(call('HGET', ENDED, entry) or '', '(%d+)$') or '0'))
  if not E.seqs[lane] then lane = 0 end
  seq = E.seqs[lane] + 1
  E.seqs[lane] = seq
  call('HSET', META, in_lane('seq', lane), int(seq))
  if subject ~= '' then call('HSET', SUBS, entry, subject) end
end
local picked = {entry, seq}
local line = grant(picked, ARGV[6])
call('SET', KEYS[17], '1', 'PX', 86400000) -- longer than any credit is good
log('service', 'make_good', ARGV[3], line)
if quota then
  local e, s, jti, admitted, claim, who = string.match(line, '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$')
  local rank = int(quota.ranks + 1)
  call('HSET', META, 'ranks', rank)
  call('HSET', KEYS[18], e, table.concat({rank, jti, s, admitted, claim, who}, ' '))
  call('XADD', KEYS[19], '*', 'l', rank .. ' ' .. line)
  return answer('ok', line)
end
leaf(KEYS[15], 'h', '0 1 0 0', {'0', 'make_good', '-'}, '', picked)
return answer('ok', line)
