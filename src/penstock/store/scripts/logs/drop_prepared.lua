-- Drop a stage that was prepared for a batch of which another attempt was decided, or none.
--
-- KEYS[1] prepared  hash    stage -> token, version, when it was prepared (ms), chunks, batch
-- KEYS[2] stage     hash    index -> chunk, of one attempt
-- ARGV[1] name      string  of the stage
-- ARGV[2] entry     string  what was found of it
--
-- Returns {'ok', dropped}   0 if it is gone, or is not what was found
local prepared, stage = KEYS[1], KEYS[2]
local name, entry = unpack(ARGV)

redis.call('HLEN', stage)
if redis.call('HGET', prepared, name) ~= entry then return {'ok', 0} end
redis.call('HDEL', prepared, name)
redis.call('UNLINK', stage)
return {'ok', 1}
