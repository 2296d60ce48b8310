-- Count jobs by state, and by state and type, tenant or tag.
--
-- KEYS[1] meta         hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] listings...  bytes   as page_jobs has them
--
-- Returns {'ok', count...}
-- include job_keys
local keys = keys_beside(KEYS[1])
local reply = {'ok'}
for index = 1, #ARGV do reply[index + 1] = tonumber(redis.call('HGET', keys.counts, ARGV[index]) or '0') end
return reply
