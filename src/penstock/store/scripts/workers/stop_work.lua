-- Take a queue off a worker's list, after the worker has left the queue: the worker's half of `stop work`.
--
-- It has a number, or a copy that arrives late, when the worker serves the queue again, would hide from recovery what
-- the worker holds there.
--
-- KEYS[1] memory     string  last operation of this lane
-- KEYS[2] work       set     queue, zero byte and kind, of each queue that this worker serves
-- ARGV[1] operation  int     number of this operation in its lane
-- ARGV[2] queue      string  with a zero byte and its kind
--
-- Returns {'ok'}
-- include memory
local memory, work = unpack(KEYS)
local operation, queue = unpack(ARGV)

local done = lib.recall(memory, operation)
if done then return done end

redis.call('SCARD', work)
lib.allow_when_full(memory)
redis.call('SREM', work, queue)
return lib.remember(memory, operation, {'ok'})
