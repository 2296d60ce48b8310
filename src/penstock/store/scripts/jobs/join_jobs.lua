-- Let a worker start jobs of a queue, and say which types it handles.
--
-- As join_queue for plain tasks: the worker has put the queue on its own list before, and asks for its lease once more
-- afterwards. Joining again with other types replaces them.
--
-- KEYS[1] memory       string  last operation of this lane
-- KEYS[2] meta         hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] operation    int     number of this operation in its lane
-- ARGV[2] worker       string
-- ARGV[3] incarnation  string  made for a queue that does not exist yet, or empty
-- ARGV[4] types        string  '*' for all, or the types with a zero byte before, between and after
--
-- Returns {'ok'}
--         {'no_queue'}       register the queue, then send again with an incarnation
--         {'queue_exists'}   under another incarnation; unregister this one, then send again without
--         {'tasks', kind}    the queue holds plain tasks, or is a log
--         {'other_layout', layout}  the queue was written by another version
-- include clock memory queue model
-- include from jobs: keys queue
local memory, keys = KEYS[1], lib.keys_beside(KEYS[2])
local operation, worker, incarnation, types = unpack(ARGV)

local done = lib.recall(memory, operation)
if done then return done end

lib.guard(keys, {hash = {'meta', 'types'}, set = {'members'}})
local known = redis.call('HGET', keys.meta, 'incarnation')
lib.allow_when_full(memory)
local refusal = lib.refuse_queue(memory, operation, known, incarnation)
if refusal then return refusal end
refusal = lib.refuse_kind(keys)
if refusal then return lib.end_early(memory, operation, refusal) end

if not known then lib.create_queue(keys.meta, incarnation) end
if redis.call('HEXISTS', keys.meta, 'kind') == 0 then lib.become_job_queue(keys) end
redis.call('SADD', keys.members, worker)
redis.call('HSET', keys.types, worker, types)
return lib.remember(memory, operation, {'ok'})
