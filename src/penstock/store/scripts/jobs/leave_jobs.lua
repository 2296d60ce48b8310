-- Take a worker off a queue of jobs and give everything it holds back, each job to its old place.
--
-- One step, so that the worker starts nothing more the moment its jobs are back. Doing it again changes nothing, so
-- any number of peers may try to recover one worker.
--
-- KEYS[1] memory     string  last operation of this lane
-- KEYS[2] meta       hash    settings and counters; its tag names all other keys of the queue
-- KEYS[3] running    hash    process id -> job, of this worker
-- ARGV[1] operation  int     number of this operation in its lane
-- ARGV[2] worker     string
-- ARGV[3] lost       int     1: its lease has lapsed, and nobody knows whether it lives; 2: it died, which counts as
--                            a crash of what it held
-- ARGV[4] error      bytes   how it died or lapsed, for the records of what it held
-- ARGV[5] known...   int     jobs that it knows it held, if it tells of them itself: where a peer was first and noted
--                            a lapse, `error` takes the place of what the peer could say
--
-- Returns {'ok', returned, dead}     how many jobs wait again, and how many have come to their end
--         {'tasks'}                  the queue was made anew as another kind; leave_queue is for those
--         {'other_layout', layout}          the queue was written by another version
-- include clock channels memory chunks wake model forms
-- include from jobs: keys queue records changes lines endings damaged limits settle
local memory, keys, running = KEYS[1], lib.keys_beside(KEYS[2]), KEYS[3]
local operation, worker, lost, error = unpack(ARGV, 1, 4)

local done = lib.recall(memory, operation)
if done then return done end

lib.guard(keys, {hash = {'meta', 'jobs', 'facts', 'types'}, zset = {'levels', 'finished'},
  set = {'members', 'idle'}, stream = {'history'}})
keys.is_used = lib.guard_rare(keys)
local refusal = lib.refuse_layout(keys)
if refusal and redis.call('SISMEMBER', keys.members, worker) == 0 then
  -- A worker that was never let in has nothing to leave; if it were refused, it could never stop.
  return lib.end_early(memory, operation, {'ok', 0, 0})
end
if refusal then return refusal end
local settings = lib.read_settings(keys)
local is_other = settings.kind == 'logs' or (settings.enqueued and not settings.kind)
if is_other then return lib.end_early(memory, operation, {'tasks'}) end
local processes = redis.call('HKEYS', running)
local ids = lib.get_fields(running, processes)
local now, all, held, unreadable = lib.now_ms(), lib.read_facts(keys, ids), {}, {}
for index, facts in ipairs(all) do
  if facts then
    -- What is still held when the worker goes has begun, as far as is known: it must not run twice if that was asked
    -- for.
    local is_over = lost ~= '0' or lib.has(facts.head.flags, lib.AT_MOST_ONCE)
    local ran_us = lib.whole(math.max(1, (now - facts.started) * 1000))
    local outcome = lost == '1' and 'lapsed' or is_over and 'lost' or 'stopped'
    held[#held + 1] = {processes[index], ids[index], facts, outcome, ran_us, '0', '0', '', is_over and error or ''}
  else
    unreadable[#unreadable + 1] = {processes[index], ids[index]}
  end
end
lib.check_settling(keys, held)
local corrected = {}
for index = 5, #ARGV do
  local key = keys['attempts:'] .. ARGV[index]
  -- Garbage stays as it is, as it must not keep the worker from leaving.
  for place, packed in ipairs(redis.pcall('LRANGE', key, 0, lib.ATTEMPTS_KEPT - 1)) do
    local is_whole, _, attempt, started, ended, outcome, by = pcall(lib.open_attempt, packed)
    if is_whole and by == worker and outcome == 'lapsed' then
      local mended = lib.pack_attempt(attempt, started, ended, outcome, by, error)
      corrected[#corrected + 1] = {key, place - 1, mended}
    end
  end
end

local changes = lib.new_changes()
lib.allow_when_full(memory)
redis.call('SREM', keys.members, worker)
redis.call('SREM', keys.idle, worker, '+' .. worker)
redis.call('HDEL', keys.types, worker)
redis.call('ZREM', keys.alarms, worker)
redis.call('HDEL', keys.suspects, worker)
for _, found in ipairs(unreadable) do lib.set_aside_held(keys, changes, running, found[1], found[2], now) end
local back, unparked = lib.settle_jobs(keys, changes, running, worker, held, now)
lib.write_changes(keys, changes, now)
for _, found in ipairs(corrected) do redis.call('LSET', unpack(found)) end
redis.call('DEL', running)
-- The worker may have been woken for jobs that it never took, or hold the alarm for what falls due next.
lib.wake_workers(keys.idle, keys['wake:'], math.max(back + unparked, 1))
return lib.remember(memory, operation, {'ok', back, #held - back})
