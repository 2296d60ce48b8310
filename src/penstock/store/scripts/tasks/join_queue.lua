-- Let a worker start tasks of a queue: the queue's half of `start work`.
--
-- The worker has put the queue on its own list before, so that the peer that fails the worker also takes it off this
-- queue, and it asks for its lease once more afterwards, so that a worker failed in between starts nothing. It has a
-- number, or a copy that arrives late would make a member of a worker that was failed since, and another late copy
-- could then start tasks for it, which no recovery would ever give back. A queue that nothing has come into holds
-- plain tasks from now on: a job that is sent there by mistake must not take it away from the worker.
--
-- KEYS[1] memory       string  last operation of this lane
-- KEYS[2] meta         hash    settings and counters of the queue
-- KEYS[3] members      set     workers that have started work on this queue
-- ARGV[1] operation    int     number of this operation in its lane
-- ARGV[2] worker       string
-- ARGV[3] incarnation  string  made for a queue that does not exist yet, or empty
--
-- Returns {'ok'}
--         {'no_queue'}       register the queue, then send again with an incarnation
--         {'queue_exists'}   under another incarnation; unregister this one, then send again without
--         {'jobs', kind}     the queue holds jobs, or is a log
--         {'other_layout', layout}  it holds jobs, written by another version
-- include clock memory queue model
-- include from jobs: keys
local memory, meta, members = unpack(KEYS)
local operation, worker, incarnation = unpack(ARGV)

local done = lib.recall(memory, operation)
if done then return done end

redis.call('SCARD', members)
local known, kind, enqueued = unpack(redis.call('HMGET', meta, 'incarnation', 'kind', 'enqueued'))
lib.allow_when_full(memory)
local refusal = lib.refuse_queue(memory, operation, known, incarnation)
if refusal then return refusal end
refusal = lib.refuse_layout({meta = meta}) or kind and {'jobs', kind}
if refusal then return lib.remember(memory, operation, refusal) end

if not known then lib.create_queue(meta, incarnation) end
if not enqueued then redis.call('HSET', meta, 'enqueued', 0) end
redis.call('SADD', members, worker)
return lib.remember(memory, operation, {'ok'})
