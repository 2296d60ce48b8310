-- The jobs that a worker holds.
--
-- KEYS[1] meta     hash    settings and counters; its tag names all other keys of the queue
-- KEYS[2] running  hash    process id -> job, of this worker
--
-- Returns {'ok', process, id, ...}
--         {'other_layout', layout}   the queue was written by another version
-- include model
-- include from jobs: keys
local keys, running = lib.keys_beside(KEYS[1]), KEYS[2]
local refusal = lib.refuse_layout(keys)
if refusal then return refusal end
local reply = redis.call('HGETALL', running)
table.insert(reply, 1, 'ok')
return reply
