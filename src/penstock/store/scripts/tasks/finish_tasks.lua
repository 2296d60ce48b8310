-- Finish tasks that a worker holds and start the next ones, in one round trip.
--
-- A finish is accepted at most once: the process must still be held by this worker. What it leaves behind
-- (unique key, failure count) goes in the same step. Starting beside it halves the round trips of a busy worker.
--
-- KEYS[1] memory        string  last operation of this lane
-- KEYS[2] ready         list    tasks; the next to run is at the right
-- KEYS[3] running       hash    process id -> task, of this worker
-- KEYS[4] meta          hash    settings and counters of the queue
-- KEYS[5] members       set     workers that have started work on this queue
-- KEYS[6] idle          set     workers that wait for a wake-up
-- KEYS[7] failures      hash    digest of a task -> failed deliveries
-- KEYS[8] unique        hash    key -> holder and task, of every unique task not yet gone
-- KEYS[9] unique_tasks  zset    digest of the task, then key; all scores 0
-- ARGV[1] operation     int     number of this operation in its lane
-- ARGV[2] worker        string
-- ARGV[3] limit         int     how many tasks to start; 0 to 10000
-- ARGV[4] wait          int     1: wake this worker when there is work again
-- ARGV[5] wake          string  prefix of the wake-up channels
-- ARGV[6] max_held      int     how many tasks of a queue one worker may hold
-- ARGV[7] max_failures  int     the default, for a queue without a setting of its own
-- ARGV[8] done          string  channel of the `done` event
-- ARGV[9] count         int     how many processes are finished
-- ARGV[10] processes... int     `count` process ids, then nothing or `count` results (bytes)
--
-- Returns {refused, 'ok', first_process_id, task, ...}  refused: list of the process ids not held any more
--         {refused, 'empty'}        nothing is ready
--         {refused, 'apart'}        what is next must not run beside what the worker holds
--         {refused, 'idle'}         nothing was to be started
--         {refused, 'paused'}       the queue hands out nothing until it is resumed
--         {refused, 'not_working'}  the worker has not started work here, or was failed since
--         {refused, 'too_many'}     the worker holds `max_held` tasks already
--         {refused, 'jobs'}         the queue was deleted and holds jobs now
-- include clock channels memory chunks wake processes forms
-- include from tasks: element leave start claim
local memory, ready, running, meta, members, idle, failures, unique, unique_tasks = unpack(KEYS)
local operation, worker, limit, wait, wake, max_held, max_failures, done_channel, count =
  unpack(ARGV, 1, 9)
local FIRST_PROCESS = 10

local claim = lib.new_claim(memory, ready, running, meta, members, idle, failures, worker, wait == '1', wake,
  max_failures)
local done = lib.recall(memory, operation)
if done then
  local reply = lib.repeat_claim(claim, done)
  table.insert(reply, 1, done[2] or {})
  return reply
end

count = tonumber(count)
local processes, results = {}, {}
for index = 1, count do
  processes[index] = ARGV[FIRST_PROCESS + index - 1]
  results[index] = ARGV[FIRST_PROCESS + count + index - 1]
end
redis.call('ZCARD', unique_tasks) -- a key of the wrong type must be found before the first write
redis.call('LLEN', ready)
redis.call('HLEN', running)
redis.call('SCARD', members)
redis.call('SCARD', idle)
redis.call('HLEN', failures)
redis.call('HLEN', unique)
local exists = redis.call('HEXISTS', meta, 'incarnation') == 1
local elements = lib.get_fields(running, processes)

local finished, held, refused = {}, {}, {}
for index = 1, count do
  if elements[index] then
    finished[#finished + 1] = processes[index]
    held[#held + 1] = elements[index]
  else
    refused[#refused + 1] = processes[index]
  end
end
lib.allow_when_full(memory)
lib.call_in_chunks('HDEL', running, finished)
lib.forget_tasks(held, unique, unique_tasks, failures)
if exists then
  if #finished > 0 then redis.pcall('HINCRBY', meta, 'finished', #finished) end
  if #refused > 0 then redis.pcall('HINCRBY', meta, 'refused', #refused) end
end
if #finished > 0 and lib.has_subscribers(done_channel) then
  for index = 1, count do
    if elements[index] then
      local task = lib.open_element(elements[index])
      lib.publish(done_channel, lib.pack_finished_task(worker, task, results[index] or ''))
    end
  end
end

local reply = {'idle'}
if tonumber(limit) > 0 then reply = lib.make_claim(claim, tonumber(limit), tonumber(max_held)) end
lib.remember_claim(claim, operation, reply, refused)
table.insert(reply, 1, refused)
return reply
