-- Let workers of a name start nothing, or let them go on; also those that are started later under it.
--
-- They learn it with their next heartbeat.
--
-- KEYS[1] paused_workers  set     names of workers that are to start nothing, also after a restart
-- ARGV[1] name            string  how their ids begin
-- ARGV[2] paused          int     1 or 0
--
-- Returns {'ok'}
local paused_workers = KEYS[1]
local name, paused = unpack(ARGV)

redis.call('SREM', paused_workers, name) -- a removal first, so that it also works on a full store
if paused == '1' then redis.call('SADD', paused_workers, name) end
return {'ok'}
