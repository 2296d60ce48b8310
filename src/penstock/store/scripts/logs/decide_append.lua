-- Decide that a batch is part of a log: the one step that says so, for all its partitions.
--
-- A batch is known by its name and version; a stream gives each batch the next version. Of several attempts the first
-- one is decided, which its token tells. What was decided before under this name must have been moved: the caller says
-- which decision it has finished, and if there is another one meanwhile it finishes that first. So whatever is still
-- prepared with an older version, or another token, is not needed.
--
-- KEYS[1] meta          hash    settings and counters of the log
-- KEYS[2] batches       hash    name of a batch -> its version
-- KEYS[3] batch_times   zset    name of a batch -> when it was decided (ms)
-- KEYS[4] batch_tokens  hash    name of a batch -> token of the attempt that was decided
-- ARGV[1] born          string  which log is meant
-- ARGV[2] batch         string  name of the batch
-- ARGV[3] version       int     0 or more
-- ARGV[4] token         string  of this attempt
-- ARGV[5] finished      string  token that was decided before, and has been moved; empty: none
-- ARGV[6] until         int     until when this can be decided (ms), as what is prepared is not kept for ever
-- ARGV[7] remember_ms   int     for how long the batch is remembered
--
-- Returns {'ok'}                      this attempt is decided, now or before
--         {'known', version, token}   another one was
--         {'unfinished', token}       a batch before this one is to be finished first
--         {'too_late'}                it is to be prepared again
--         {'no_log'}                  the log is gone, or was made anew
-- include clock
local meta, batches, batch_times, batch_tokens = unpack(KEYS)
local born, batch, version, token, finished, until_ms, remember_ms = unpack(ARGV)
local FORGET_AT_ONCE = 10

local last, decided = redis.call('HGET', batches, batch), redis.call('HGET', batch_tokens, batch) or ''
local now = lib.now_ms()
local oldest = lib.whole(now - tonumber(remember_ms))
local forgotten = redis.call('ZRANGEBYSCORE', batch_times, '-inf', oldest, 'LIMIT', 0, FORGET_AT_ONCE)
if redis.call('HGET', meta, 'process') ~= born then return {'no_log'} end
if last and tonumber(last) >= tonumber(version) then
  if decided == token then return {'ok'} end
  return {'known', tonumber(last), decided}
end
if decided ~= finished then return {'unfinished', decided} end
if now > tonumber(until_ms) then return {'too_late'} end

redis.call('HSET', batches, batch, version)
redis.call('HSET', batch_tokens, batch, token)
redis.call('ZADD', batch_times, lib.whole(now), batch)
for _, name in ipairs(forgotten) do
  if name ~= batch then
    redis.call('HDEL', batches, name)
    redis.call('HDEL', batch_tokens, name)
    redis.call('ZREM', batch_times, name)
  end
end
return {'ok'}
