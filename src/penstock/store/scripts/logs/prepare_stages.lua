-- Keep stages of a batch for a log until it is known whether the batch was decided.
--
-- The decision is made in the slot of the log, after this was done in every partition, so from here on a stage must
-- not expire. All or none, and the same again changes nothing. A copy that arrives when the stages have been moved, or
-- dropped, finds them short.
--
-- KEYS[1] state     hash    what is known of the partition
-- KEYS[2] prepared  hash    stage -> token, version, when it was prepared (ms), chunks, batch
-- KEYS[3] stage...  hash    index -> chunk, of one attempt
-- ARGV[1] born      string  which log it is a part of
-- ARGV[2] token     string  of the attempt to decide the batch
-- ARGV[3] batch     string  name of the batch
-- ARGV[4] version   int     0 or more
-- ARGV[5] stages... string  name and number of chunks of each stage, with a space between
--
-- Returns {'ok', now}             when it was prepared (ms)
--         {'stage_lost', stage}  the stage of this position is not whole: it has expired, or was never written
--         {'no_partition'}       it was not opened, or is that of another log; read the log again
-- include clock
local state, prepared = KEYS[1], KEYS[2]
local born, token, batch, version = unpack(ARGV)
local FIRST_KEY, FIRST_STAGE = 3, 5

redis.call('HLEN', prepared)
local missing = nil
for index = FIRST_KEY, #KEYS do
  local chunks = tonumber(string.match(ARGV[FIRST_STAGE + index - FIRST_KEY], ' (%d+)$'))
  if redis.call('HLEN', KEYS[index]) ~= chunks then missing = missing or index - FIRST_KEY end
end
if redis.call('HGET', state, 'born') ~= born then return {'no_partition'} end
if missing then return {'stage_lost', missing} end

local now = lib.whole(lib.now_ms())
for index = FIRST_KEY, #KEYS do
  local name, chunks = string.match(ARGV[FIRST_STAGE + index - FIRST_KEY], '^(%S+) (%d+)$')
  redis.call('HSET', prepared, name, table.concat({token, version, now, chunks, batch}, ' '))
  redis.call('PERSIST', KEYS[index])
end
return {'ok', now}
