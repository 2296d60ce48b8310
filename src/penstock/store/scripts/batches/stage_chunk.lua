-- Keep one chunk of a batch aside until the batch is decided.
--
-- A stage belongs to one attempt of one writer, under a name that no other has. What is staged is not in the queue,
-- and expires unless the batch is decided in time. One step, so that a chunk that is sent again counts once, and a
-- copy of the request that arrives after the decision adds nothing to what is being moved.
--
-- KEYS[1] stage       hash    index -> chunk, of one attempt
-- KEYS[2] staging     string  bytes that were staged for the batch, by all attempts
-- ARGV[1] index       int     place of the chunk in its stage
-- ARGV[2] chunk       bytes   tasks or jobs, as chunks.lua opens them
-- ARGV[3] expires_ms  int     after how long without another chunk the stage goes
-- ARGV[4] max_bytes   int     how much may be staged for the batch
--
-- Returns {'ok', bytes}         so many bytes are staged for the batch
--         {'too_much', bytes}   with this chunk it would be so many, which is more than may be staged
--         {'decided'}           the batch was decided, so nothing can be added to it
local stage, staging = KEYS[1], KEYS[2]
local index, chunk, expires_ms, max_bytes = unpack(ARGV)

local is_known = redis.call('HEXISTS', stage, index) == 1
local bytes = tonumber(redis.call('GET', staging) or '0')
if redis.call('PTTL', stage) == -1 then return {'decided'} end
if not is_known then
  bytes = bytes + #chunk
  if bytes > tonumber(max_bytes) then return {'too_much', bytes} end
  redis.call('HSET', stage, index, chunk)
end
redis.call('PEXPIRE', stage, expires_ms)
redis.call('SET', staging, string.format('%d', bytes), 'PX', expires_ms)
return {'ok', bytes}
