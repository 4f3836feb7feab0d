-- change: an operator is made or revoked, and the trail says so.
-- KEYS: 1 operators (hash: name → record), 2 trail (stream: by, what, before, after)
-- ARGV: 1 name, 2 who does it, 3 the most operators, 4 the record to make ("" to revoke),
--   5 what the trail shows of it
-- Reply: "ok", "exists", "none" (nobody to revoke), "full"
-- Sent again: whoever was made is not made twice, nor told of twice.
local had = redis.call('HGET', KEYS[1], ARGV[1])
local function tell(what, before, after)
  redis.call('XADD', KEYS[2], 'MAXLEN', '~', 10000, '*', 'by', ARGV[2], 'what', what, 'before', before, 'after', after)
end
if ARGV[4] == '' then
  if not had then return 'none' end
  redis.call('HDEL', KEYS[1], ARGV[1])
  local was = cjson.decode(had)
  tell('revoke', '{"name":"' .. ARGV[1] .. '","role":"' .. was.role .. '","expires_at":"' .. was.expires_at .. '"}', '')
  return 'ok'
end
if had then return had == ARGV[4] and 'ok' or 'exists' end
if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) then return 'full' end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[4])
tell('add', '', ARGV[5])
return 'ok'
