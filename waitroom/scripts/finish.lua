-- finish: a grant ends: its person is done, or an operator revokes it.
-- KEYS: as common.lua says.
-- ARGV: 1 jti  2 "completed" or "blocked"  3 by (of a revocation)
-- Reply: {"ok"}, also when it ended this way before; {"unknown"} no such grant; {"no_event"}
-- Sent again: it has ended this way.
if not load() then return {'no_event'} end
local jti, state, by = ARGV[1], ARGV[2], ARGV[3]
local entry = call('HGET', JTIS, jti)
local outcome = 'ok'
if not entry then
  outcome = 'unknown'
elseif string.sub(entry, 1, 1) == '!' then
  if state == 'blocked' and entry ~= '!revoked' then
    call('HSET', JTIS, jti, '!revoked')
    log(by, 'revoke', '', jti)
  end
else
  local g = call('HGET', GRANTS, entry)
  if g then finish(entry, g, state) end
  if state == 'blocked' then log(by, 'revoke', entry, jti) end
end
tell()
return {outcome}
