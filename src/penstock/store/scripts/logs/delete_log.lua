-- Delete a log: its settings and groups. Its partitions lie elsewhere and are deleted afterwards.
--
-- KEYS[1] memory        string  last operation of this lane
-- KEYS[2] meta          hash    settings and counters of the log
-- KEYS[3] groups        hash    group -> when it was first seen (ms)
-- KEYS[4] batches       hash    name of a batch -> its version
-- KEYS[5] batch_times   zset    name of a batch -> when it was decided (ms)
-- KEYS[6] batch_tokens  hash    name of a batch -> token of the attempt that was decided
-- ARGV[1] operation     int     number of this operation in its lane
--
-- Returns {'ok', born, partitions, incarnation, group...}   the incarnation to take off the list of queues
--         {'absent'}       there is no such log
--         {'tasks', kind}  it is a queue; the kind is empty if nothing has come into it yet
-- include memory
local memory, meta, groups, batches, batch_times, batch_tokens = unpack(KEYS)
local operation = ARGV[1]

local done = lib.recall(memory, operation)
if done then return done end

local incarnation, kind, born, partitions = unpack(redis.call('HMGET', meta, 'incarnation', 'kind', 'process',
  'partitions'))
local reply = {'ok', born or '', partitions or '', incarnation}
for _, group in ipairs(redis.call('HKEYS', groups)) do reply[#reply + 1] = group end
redis.call('HLEN', batches) -- a key of the wrong type must be found before the first write
redis.call('ZCARD', batch_times)
redis.call('HLEN', batch_tokens)
lib.allow_when_full(memory)
if not incarnation then return lib.remember(memory, operation, {'absent'}) end
if kind ~= 'logs' then return lib.remember(memory, operation, {'tasks', kind or ''}) end

redis.call('UNLINK', meta, groups, batches, batch_times, batch_tokens)
return lib.remember(memory, operation, reply)
