-- Remove every waiting copy of a task and tell the workers that run one.
--
-- One step, so that a copy is either removed or running, and a running one's worker gets the event.
-- Looks at every waiting task: about 50 ms of the server's time for a million.
--
-- KEYS[1] memory        string  last operation of this lane
-- KEYS[2] ready         list    tasks; the next to run is at the right
-- KEYS[3] meta          hash    settings and counters of the queue
-- KEYS[4] failures      hash    digest of a task -> failed deliveries
-- KEYS[5] unique        hash    key -> holder and task, of every unique task not yet gone
-- KEYS[6] unique_tasks  zset    digest of the task, then key; all scores 0
-- ARGV[1] operation     int     number of this operation in its lane
-- ARGV[2] task          bytes
-- ARGV[3] element       bytes   the task as it stands in the list if it is not unique
-- ARGV[4] cancel        string  channel of the `cancel` event
--
-- Returns {'ok', removed}   how many waiting copies were removed
-- include channels memory
-- include from tasks: element leave
local memory, ready, meta, failures, unique, unique_tasks = unpack(KEYS)
local operation, task, element, cancel = unpack(ARGV)

local done = lib.recall(memory, operation)
if done then return done end

redis.call('LLEN', ready)
local last_process = redis.call('HGET', meta, 'process') or '0'
redis.call('HLEN', failures)
redis.call('HLEN', unique)
local digest = redis.sha1hex(task)
local entries = redis.call('ZRANGEBYLEX', unique_tasks, '[' .. digest, '[' .. digest .. '\255')

lib.allow_when_full(memory)
local removed = redis.call('LREM', ready, 0, element)
if removed > 0 then lib.forget_tasks({element}, unique, unique_tasks, failures) end
for _, entry in ipairs(entries) do
  local key = string.sub(entry, #digest + 1)
  local unique_copy = lib.unique_element(key, lib.holder_of(unique, key), task)
  if redis.call('LREM', ready, 0, unique_copy) > 0 then
    lib.forget_tasks({unique_copy}, unique, unique_tasks, failures)
    removed = removed + 1
  end
end
if removed > 0 then redis.pcall('HINCRBY', meta, 'cancelled', removed) end
-- An equal task that is started after this is not meant, however late the event arrives.
lib.publish(cancel, last_process .. ' ' .. task)
return lib.remember(memory, operation, {'ok', removed})
