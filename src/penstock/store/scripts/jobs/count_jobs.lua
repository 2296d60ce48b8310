-- Count jobs by state, and by state and type, tenant or tag.
--
-- KEYS[1] meta         hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] listings...  string  as page_jobs has them
--
-- Returns {'ok', count...}
--         {'other_layout', layout}   the queue was written by another version
-- include model
-- include from jobs: keys
local keys = lib.keys_beside(KEYS[1])
local refusal = lib.refuse_layout(keys)
if refusal then return refusal end
local reply = {'ok'}
for index = 1, #ARGV do reply[index + 1] = tonumber(redis.call('HGET', keys.meta, ARGV[index])) or 0 end
return reply
