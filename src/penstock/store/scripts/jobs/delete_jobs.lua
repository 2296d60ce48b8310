-- Delete jobs of a queue, some at a time: first what waits, then what is finished. What runs is left alone.
--
-- Called again until nothing is left, and then once more with `last`, which takes the queue itself away unless
-- something has come in or still runs.
--
-- KEYS[1] memory     string  last operation of this lane
-- KEYS[2] meta       hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] operation  int     number of this operation in its lane
-- ARGV[2] limit      int     1 to 1000
-- ARGV[3] last       int     1: take the queue away
--
-- Returns {'ok', removed, left, running, incarnation}   the incarnation to take off the list of queues, or empty
--         {'no_queue'}                                  there is no such queue
--         {'newer', layout}                             the queue was written by a newer version
-- include clock channels memory chunks job_keys records changes endings job_queue
local memory, keys = KEYS[1], jobs.keys_beside(KEYS[2])
local operation, limit, last = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local done = recall(memory, operation)
if done then return done end

jobs.guard(keys, {hash = {'meta', 'jobs', 'facts', 'counts', 'unique_jobs', 'progress'},
  zset = {'due', 'finished', 'buried', 'windows', 'levels'}})
local incarnation = redis.call('HGET', keys.meta, 'incarnation')
if not incarnation then
  allow_when_full(memory)
  return remember(memory, operation, {'no_queue'})
end
local refusal = jobs.refuse_newer(keys)
if refusal then return refusal end

local now, changes, removed = now_ms(), jobs.new_changes(), 0
allow_when_full(memory)
for _, state in ipairs({jobs.READY, jobs.SCHEDULED, jobs.BLOCKED, jobs.DONE, jobs.DEAD, jobs.CANCELLED}) do
  local listing = state .. 'A:'
  for _, page in ipairs(redis.call('ZRANGE', keys['pages:'] .. listing, 0, 1)) do
    if removed < limit then
      local ids = redis.call('SMEMBERS', keys['page:'] .. page .. ':' .. listing)
      for index, facts in ipairs(jobs.read_facts(keys, ids)) do
        local id = ids[index]
        if facts and removed < limit then
          redis.call('ZREM', keys.due, id)
          if jobs.IS_FINAL[state] then
            redis.call('ZREM', jobs.kept_in(keys, state), id)
            jobs.tally(changes, 'kept_bytes', -jobs.kept_bytes(facts))
            jobs.tally(changes, 'removed', 1)
          else
            jobs.tally(changes, 'waiting_bytes', -facts.bytes)
            jobs.tally(changes, 'discarded', 1)
            changes.notices[#changes.notices + 1] = {id, '-n\0'}
          end
          for _, flag in ipairs({jobs.UNIQUE_QUEUED, jobs.UNIQUE_UNTIL_DONE, jobs.UNIQUE_WINDOW, jobs.UNIQUE_SCHEDULED}) do
            jobs.free_unique(keys, id, facts, flag)
          end
          jobs.leave_state(changes, facts, id)
          jobs.forget_job(keys, changes, id, facts)
          jobs.tell(keys, changes, 'removed', id, facts)
          removed = removed + 1
        end
      end
    end
  end
end
jobs.write_changes(keys, changes, now)

local left = 0
for _, state in ipairs({jobs.READY, jobs.SCHEDULED, jobs.BLOCKED, jobs.DONE, jobs.DEAD, jobs.CANCELLED}) do
  left = left + tonumber(redis.call('HGET', keys.counts, state .. 'A:') or '0')
end
local running = tonumber(redis.call('HGET', keys.counts, 'uA:') or '0')
local gone = ''
if last == '1' and left == 0 and running == 0 then
  -- Lines may still hold entries of jobs that are gone.
  for _, priority in ipairs(redis.call('ZRANGE', keys.levels, 0, 999)) do
    for _, tenant in ipairs(redis.call('LRANGE', keys['ring:'] .. priority, 0, -1)) do
      redis.call('UNLINK', keys['line:'] .. priority .. ':' .. tenant)
    end
    redis.call('UNLINK', keys['ring:'] .. priority)
  end
  for _, type in ipairs(redis.call('SMEMBERS', keys.strays)) do redis.call('UNLINK', keys['stray:'] .. type) end
  for _, key in ipairs(redis.call('ZRANGE', keys.unparks, 0, 999)) do redis.call('UNLINK', keys['parked:'] .. key) end
  for _, kind in ipairs({'meta', 'levels', 'unique_jobs', 'windows', 'limits', 'buckets', 'busy', 'unparks', 'shares',
      'credits', 'paused_types', 'strays', 'suspects', 'progress', 'alarms', 'schedules', 'slots', 'history'}) do
    redis.call('UNLINK', keys[kind])
  end
  gone = incarnation
end
return remember(memory, operation, {'ok', removed, left, running, gone})
