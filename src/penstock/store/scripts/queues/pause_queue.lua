-- Hand out nothing more until the queue is resumed. What is running goes on; enqueueing works.
--
-- KEYS[1] memory       string  last operation of this lane
-- KEYS[2] meta         hash    settings and counters of the queue
-- ARGV[1] operation    int     number of this operation in its lane
-- ARGV[2] incarnation  string  made for a queue that does not exist yet, or empty
--
-- Returns {'ok'}
--         {'no_queue'}       register the queue, then send again with an incarnation
--         {'queue_exists'}   under another incarnation; unregister this one, then send again without
--         {'other_layout', layout}  it holds jobs, written by another version
--         {'logs'}           it is a log
-- include clock memory queue model
-- include from jobs: keys
local memory, meta = unpack(KEYS)
local operation, incarnation = unpack(ARGV)

local done = lib.recall(memory, operation)
if done then return done end

local known, kind = unpack(redis.call('HMGET', meta, 'incarnation', 'kind'))
lib.allow_when_full(memory)
local refusal = lib.refuse_queue(memory, operation, known, incarnation)
if refusal then return refusal end
refusal = lib.refuse_layout({meta = meta})
if refusal then return refusal end
if kind == 'logs' then return lib.end_early(memory, operation, {'logs'}) end

if not known then lib.create_queue(meta, incarnation) end
redis.call('HSET', meta, 'paused', '1')
return lib.remember(memory, operation, {'ok'})
