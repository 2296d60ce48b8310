-- Free a unique key whose task is gone, and put the index by task right for it.
--
-- For `penstock fsck --repair`. One step, so that a key whose task came or went in the meantime is judged as it is
-- now. Looks through all that wait and all that is held: some milliseconds for a million tasks.
--
-- KEYS[1] ready         list   tasks; the next to run is at the right
-- KEYS[2] members       set    workers that have started work on this queue
-- KEYS[3] unique        hash   key -> holder and task, of every unique task not yet gone
-- KEYS[4] unique_tasks  zset   digest of the task, then key; all scores 0
-- KEYS[5] running...    hash   process id -> task, one key for each member
-- ARGV[1] key           bytes
-- ARGV[2] entry         bytes  what the index was seen to say, or empty
-- ARGV[3] workers...    string  the members, in the order of their keys
--
-- Returns {'ok', changed}         1 if anything was to be put right
--         {'changed', worker...}  the members now
-- include from tasks: element
local ready, members, unique, unique_tasks = unpack(KEYS, 1, 4)
local key, entry = ARGV[1], ARGV[2]

local workers = redis.call('SMEMBERS', members)
local is_same = #workers == #ARGV - 2
for index = 3, #ARGV do
  is_same = is_same and redis.call('SISMEMBER', members, ARGV[index]) == 1
end
if not is_same then
  table.insert(workers, 1, 'changed')
  return workers
end

local value = redis.call('HGET', unique, key)
redis.call('ZCARD', unique_tasks)
local own_entry, is_owned = nil, false
if value then
  local holder, task = string.sub(value, 1, lib.HOLDER_BYTES), string.sub(value, lib.HOLDER_BYTES + 1)
  local element = lib.unique_element(key, holder, task)
  own_entry = lib.unique_entry(key, task)
  is_owned = redis.call('LPOS', ready, element) ~= false
  for index = 5, #KEYS do
    for _, held in ipairs(redis.call('HVALS', KEYS[index])) do is_owned = is_owned or held == element end
  end
end

local changed = 0
if value and not is_owned then
  changed = changed + redis.call('HDEL', unique, key) + redis.call('ZREM', unique_tasks, own_entry)
elseif value then
  changed = changed + redis.call('ZADD', unique_tasks, 0, own_entry)
end
if entry ~= '' and entry ~= own_entry then changed = changed + redis.call('ZREM', unique_tasks, entry) end
return {'ok', math.min(changed, 1)}
