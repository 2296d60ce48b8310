-- Decide a batch: from now on all that its stages hold belongs to the queue, and is moved there chunk by chunk.
--
-- The only decision there is, in one step: before it nothing of the batch is in the queue, after it all of it will be,
-- even if no program that took part in it is left. A batch is decided once under its name, or once for each version if
-- its name is that of a stream whose versions grow; whatever else was staged for it is dropped.
--
-- KEYS[1] memory       string  last operation of this lane
-- KEYS[2] meta         hash    settings and counters of the queue
-- KEYS[3] moving       list    name and number of chunks of each decided stage; the next to be moved is at the left
-- KEYS[4] batches      hash    name of a batch -> its version
-- KEYS[5] batch_times  zset    name of a batch -> when it was decided (ms)
-- KEYS[6] keeps        zset    tag of a batch -> until when its finished jobs are kept (ms)
-- KEYS[7] stage...     hash    index -> chunk, of one attempt
-- ARGV[1] operation    int     number of this operation in its lane
-- ARGV[2] incarnation  string  made for a queue that does not exist yet, or empty
-- ARGV[3] batch        string  name of the batch
-- ARGV[4] version      int     0 or more
-- ARGV[5] kind         string  'tasks' or 'jobs'
-- ARGV[6] rows         int     tasks or jobs in all stages
-- ARGV[7] largest      int     bytes of the largest of them
-- ARGV[8] layout       int     how this version stores jobs
-- ARGV[9] remember_ms  int     for how long the batch is remembered
-- ARGV[10] tag         string  of all jobs of the batch, if they are to be kept
-- ARGV[11] keep_ms     int     for how long they are kept
-- ARGV[12] chunks...   int     how many chunks each stage has
--
-- Returns {'ok'}                       the batch is decided
--         {'known'}                    it was decided before; what was staged again is dropped
--         {'stage_lost', stage}        the stage of this position is not whole: it has expired, or was never written
--         {'no_queue'}                 register the queue, then send again with an incarnation
--         {'queue_exists'}             under another incarnation; unregister this one, then send again without
--         {'jobs', kind}               the queue holds jobs, or is a log, so it takes no plain tasks
--         {'tasks', kind}              the queue holds plain tasks, or is a log, so it takes no jobs
--         {'too_large', largest, max}  the queue never has room for the largest
--         {'other_layout', layout}            the queue was written by another version
-- include clock memory queue
local memory, meta, moving, batches, batch_times, keeps = unpack(KEYS, 1, 6)
local operation, incarnation, batch, version, kind, rows, largest, layout, remember_ms, tag, keep_ms =
  unpack(ARGV, 1, 11)
local FIRST_STAGE, FIRST_CHUNKS, FORGET_AT_ONCE = 7, 12, 10

local done = lib.recall(memory, operation)
if done then return done end

local known, stored_kind, stored_layout, enqueued, max_bytes = unpack(redis.call('HMGET', meta, 'incarnation', 'kind',
  'layout', 'enqueued', 'max_bytes'))
local last = redis.call('HGET', batches, batch)
local now = lib.now_ms()
local oldest = lib.whole(now - tonumber(remember_ms))
local forgotten = redis.call('ZRANGEBYSCORE', batch_times, '-inf', oldest, 'LIMIT', 0, FORGET_AT_ONCE)
local ended = redis.call('ZRANGEBYSCORE', keeps, '-inf', lib.whole(now), 'LIMIT', 0, FORGET_AT_ONCE)
redis.call('LLEN', moving) -- a key of the wrong type must be found before the first write
local missing = nil
for index = FIRST_STAGE, #KEYS do
  local wanted = tonumber(ARGV[FIRST_CHUNKS + index - FIRST_STAGE])
  if redis.call('HLEN', KEYS[index]) ~= wanted then missing = missing or index - FIRST_STAGE end
end

if last and tonumber(last) >= tonumber(version) then
  -- What was decided has no expiry; all else that was staged is not needed any more.
  lib.allow_when_full(memory)
  for index = FIRST_STAGE, #KEYS do
    if redis.call('PTTL', KEYS[index]) >= 0 then redis.call('UNLINK', KEYS[index]) end
  end
  return lib.remember(memory, operation, {'known'})
end
local refusal = not missing and lib.refuse_queue(memory, operation, known, incarnation)
if refusal then return refusal end
if missing then
  refusal = {'stage_lost', missing}
elseif stored_kind == 'jobs' and stored_layout and tonumber(stored_layout) ~= tonumber(layout) then
  refusal = {'other_layout', stored_layout}
elseif stored_kind and kind == 'tasks' then
  refusal = {'jobs', stored_kind}
elseif (enqueued or stored_kind == 'logs') and kind == 'jobs' then
  refusal = {'tasks', stored_kind or ''}
elseif kind == 'jobs' and tonumber(max_bytes) and tonumber(largest) > tonumber(max_bytes) then
  refusal = {'too_large', tonumber(largest), tonumber(max_bytes)}
end
if refusal then return lib.end_early(memory, operation, refusal) end

-- The first write may be refused when the store is full; nothing is written then.
redis.call('HSET', batches, batch, version)
redis.call('ZADD', batch_times, lib.whole(now), batch)
for _, name in ipairs(forgotten) do
  if name ~= batch then
    redis.call('HDEL', batches, name)
    redis.call('ZREM', batch_times, name)
  end
end
if not known then lib.create_queue(meta, incarnation) end
for _, name in ipairs(ended) do redis.call('ZREM', keeps, name) end
if tag ~= '' then redis.call('ZADD', keeps, lib.whole(now + tonumber(keep_ms)), tag) end
-- What is decided to hold tasks or jobs does so before the first of them has been moved.
if kind == 'jobs' then
  redis.call('HSET', meta, 'kind', 'jobs', 'layout', stored_layout or layout)
else
  redis.pcall('HINCRBY', meta, 'enqueued', 0)
end
redis.pcall('HINCRBY', meta, 'staged', rows)
redis.call('HSET', meta, 'moved_at', lib.whole(now))
local base = string.sub(meta, 1, -5)
local prefix = base .. 'stage:'
for index = FIRST_STAGE, #KEYS do
  local chunks = ARGV[FIRST_CHUNKS + index - FIRST_STAGE]
  redis.call('PERSIST', KEYS[index])
  redis.call('RPUSH', moving, string.sub(KEYS[index], #prefix + 1) .. ' ' .. chunks)
end
return lib.remember(memory, operation, {'ok'})
