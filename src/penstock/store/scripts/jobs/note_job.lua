-- Write down what a running job says about itself: how far it is, and lines for its log.
--
-- Only the worker that holds the job may, so a worker that lost it cannot touch the record.
--
-- KEYS[1] memory     string  last operation of this lane
-- KEYS[2] meta       hash    settings and counters; its tag names all other keys of the queue
-- KEYS[3] running    hash    process id -> job, of this worker
-- ARGV[1] operation  int     number of this operation in its lane
-- ARGV[2] process    int
-- ARGV[3] progress   bytes   what is kept as its progress, or empty
-- ARGV[4] max_lines  int     how many lines of its log are kept
-- ARGV[5] lines...   bytes   for its log
--
-- Returns {'ok'}
--         {'lease_lost'}      the worker does not hold the job any more
--         {'other_layout', layout}   the queue was written by another version
-- include clock channels memory chunks model forms
-- include from jobs: keys queue records changes endings
local memory, keys, running = KEYS[1], lib.keys_beside(KEYS[2]), KEYS[3]
local operation, process, progress, max_lines = unpack(ARGV, 1, 4)

local done = lib.recall(memory, operation)
if done then return done end

lib.guard(keys, {hash = {'meta', 'jobs', 'facts', 'progress'}})
local refusal = lib.refuse_layout(keys)
if refusal then return refusal end
local id = redis.call('HGET', running, process)
local facts = id and lib.read_facts(keys, {id})[1]
if not facts then return lib.end_early(memory, operation, {'lease_lost'}) end
local log = keys['log:'] .. id
redis.call('LLEN', log)

local now, changes = lib.now_ms(), lib.new_changes()
local marks = facts.marks
if progress ~= '' then
  redis.call('HSET', keys.progress, id, progress)
  marks = lib.with(marks, lib.HAS_PROGRESS)
  lib.add_event(keys, changes, 'progress', id, facts, progress)
end
if #ARGV > 4 then
  for index = 5, #ARGV do redis.call('RPUSH', log, lib.whole(now) .. ' ' .. ARGV[index]) end
  redis.call('LTRIM', log, -tonumber(max_lines), -1)
  marks = lib.with(marks, lib.HAS_LOG)
end
facts.marks, facts.updated = marks, now
lib.keep_facts(changes, id, facts)
lib.write_changes(keys, changes, now)
return lib.remember(memory, operation, {'ok'})
