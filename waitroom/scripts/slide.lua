-- slide: sliding sessions whose people have passed the gate are renewed.
-- KEYS: as common.lua says.
-- ARGV: 1 jti, 2 how long ago its person passed (ms), and so on for each; at most 256
-- Reply: {"ok", end of the session (ms), …}, one a jti, in order; "0" for one that
--   does not run; {"no_event"}
-- Sent again: the sessions end no earlier, and at most the time between later.
if not load() then return {'no_event'} end
local m = call('HMGET', META, 'session_ttl', 'session')
local ttl, slides = tonumber(m[1]), m[2] == 'sliding'
local reply = {'ok'}
for i = 1, #ARGV, 2 do
  local entry, ends = call('HGET', JTIS, ARGV[i]), 0
  local g = entry and call('HGET', GRANTS, entry)
  local deadline = g and tonumber(call('ZSCORE', CLAIMS, entry) or '0') or 0
  if deadline > E.now then
    local jti, _, _, _, state = packed(g)
    if jti == ARGV[i] and state == 'entered' then
      ends = deadline
      local renewed = E.now - tonumber(ARGV[i + 1]) + ttl
      if slides and renewed - deadline >= 1000 then
        ends = renewed
        call('ZADD', CLAIMS, int(ends), entry)
      end
    end
  end
  reply[#reply + 1] = int(ends)
end
tell()
return reply
