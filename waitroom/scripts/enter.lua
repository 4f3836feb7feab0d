-- enter: a grant is used. The first use makes it entered and starts the session;
-- a later one finds the session, and renews it where it slides.
-- KEYS: as common.lua says.
-- ARGV: 1 jti
-- Reply: {outcome, entry, packed, deadline (ms)} with outcome
--   "entered" by this call, "inside" since earlier,
--   "expired" the claim time or the session is over (the grant ended just now)
--   {"completed"}, {"revoked"}, {"unknown"} no such grant, {"no_event"}
-- Sent again: "inside" instead of "entered".
if not load() then return {'no_event'} end
local entry = call('HGET', JTIS, ARGV[1])
if not entry then
  tell()
  return {'unknown'}
end
if string.sub(entry, 1, 1) == '!' then
  tell()
  return {string.sub(entry, 2)}
end
local g = call('HGET', GRANTS, entry)
local deadline = tonumber(call('ZSCORE', CLAIMS, entry) or '0')
if not g or deadline <= E.now then
  if g then over(entry, g) end
  tell()
  return {'expired', entry, g or '', int(deadline)}
end
local jti, seq, admitted, claim, state, subject = packed(g)
local m = call('HMGET', META, 'session_ttl', 'session')
local ends = E.now + tonumber(m[1])
local outcome = 'inside'
if state == 'admitted' then
  outcome, deadline = 'entered', ends
  g = table.concat({jti, seq, admitted, claim, 'entered', subject}, ' ')
  call('HSET', GRANTS, entry, g)
  call('HINCRBY', META, 'entered', 1)
  call('ZADD', CLAIMS, int(ends), entry)
elseif m[2] == 'sliding' and ends - deadline >= 1000 then
  deadline = ends
  call('ZADD', CLAIMS, int(ends), entry)
end
tell()
return {outcome, entry, g, int(deadline)}
