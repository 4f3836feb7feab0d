-- use: a session uses its token up, on a route where it may be used once.
-- KEYS: as common.lua says, then 15 the mark of this jti
-- ARGV: 1 jti  2 the call's own id
-- Reply: {"ok"}; {"known"} used by another call before; {"expired"} the claim time
--   or the session is over; {"completed"}, {"revoked"}, {"unknown"} no such grant,
--   {"no_event"}
-- Sent again: the same id finds its own mark, "ok".
if not load() then return {'no_event'} end
local outcome = 'ok'
local entry = call('HGET', JTIS, ARGV[1])
if not entry then
  outcome = 'unknown'
elseif string.sub(entry, 1, 1) == '!' then
  outcome = string.sub(entry, 2)
elseif tonumber(call('ZSCORE', CLAIMS, entry) or '0') <= E.now then
  outcome = 'expired'
else
  local by = call('GET', KEYS[15])
  if by and by ~= ARGV[2] then
    outcome = 'known'
  else
    -- Kept longer than any session that could show the token again.
    local m = call('HMGET', META, 'claim_ttl', 'session_ttl')
    call('SET', KEYS[15], ARGV[2], 'PX', int(math.max(86400000, 2 * (m[1] + m[2]))))
  end
end
tell()
return {outcome}
