-- Remove some of the finished jobs that are kept no longer, or all of those that ended before an instant.
--
-- KEYS[1] memory     string  last operation of this lane
-- KEYS[2] meta       hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] operation  int     number of this operation in its lane
-- ARGV[2] limit      int     1 to 1000
-- ARGV[3] states     string  'kept': by the queue's own rules; or 'finished' or 'buried', to purge that
-- ARGV[4] before     int     ms since 1970; for 'finished' and 'buried'
--
-- Returns {'ok', purged, left}   how many went, and how many finished jobs are left
--         {'other_layout', layout}      the queue was written by another version
-- include clock channels memory chunks job_keys records changes endings job_queue
local memory, keys = KEYS[1], jobs.keys_beside(KEYS[2])
local operation, limit, states, before = unpack(ARGV)

local done = recall(memory, operation)
if done then return done end

jobs.guard(keys, {hash = {'meta', 'jobs', 'facts', 'unique_jobs', 'progress'}, zset = {'finished', 'buried'}})
local refusal = jobs.refuse_layout(keys)
if refusal then return refusal end
local now, changes = now_ms(), jobs.new_changes()
local places, ids, all = {}, {}, {}
if states == 'kept' then
  places, ids, all = jobs.outdated_jobs(keys, changes, now, tonumber(limit))
else
  ids = redis.call('ZRANGEBYSCORE', keys[states], '-inf', before, 'LIMIT', 0, limit)
  for index, text in ipairs(get_fields(keys.facts, ids)) do
    places[index], all[index] = keys[states], text and jobs.open_facts(text)
  end
end
jobs.check_moves(keys, all)

allow_when_full(memory)
if states == 'kept' then jobs.drop_old_marks(keys, now) end
jobs.purge_jobs(keys, changes, places, ids, all)
jobs.write_changes(keys, changes, now)
local left = redis.call('ZCARD', keys.finished) + redis.call('ZCARD', keys.buried)
return remember(memory, operation, {'ok', #ids, left})
