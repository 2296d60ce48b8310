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
-- include clock channels memory chunks model forms
-- include from jobs: keys queue records changes lines endings damaged
local memory, keys = KEYS[1], lib.keys_beside(KEYS[2])
local operation, limit, states, before = unpack(ARGV)

local done = lib.recall(memory, operation)
if done then return done end

lib.guard(keys, {hash = {'meta', 'jobs', 'facts', 'unique_jobs', 'progress', 'damaged'},
  zset = {'finished', 'buried', 'due'}})
local refusal = lib.refuse_layout(keys)
if refusal then return refusal end
local now, changes = lib.now_ms(), lib.new_changes()
local places, ids, all = {}, {}, {}
if states == 'kept' then
  places, ids, all = lib.outdated_jobs(keys, changes, now, tonumber(limit))
else
  ids = redis.call('ZRANGEBYSCORE', keys[states], '-inf', before, 'LIMIT', 0, limit)
  for index, text in ipairs(lib.get_fields(keys.facts, ids)) do
    places[index], all[index] = keys[states], text and lib.facts_in(text)
  end
end
lib.check_moves(keys, all)

lib.allow_when_full(memory)
if states == 'kept' then lib.drop_old_marks(keys, now) end
lib.purge_jobs(keys, changes, places, ids, all, now)
lib.write_changes(keys, changes, now)
local left = redis.call('ZCARD', keys.finished) + redis.call('ZCARD', keys.buried)
return lib.remember(memory, operation, {'ok', #ids, left})
