-- Cancel jobs: those that wait are cancelled at once, those that run are asked to end.
--
-- One step for each job's record, place, unique key, counts and event. A running job stays with its worker, which is
-- told; it is cancelled when the worker says that it has ended, or when the worker dies.
--
-- KEYS[1] memory     string  last operation of this lane
-- KEYS[2] meta       hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] operation  int     number of this operation in its lane
-- ARGV[2] ids...     int     1 to 1000
--
-- Returns {'ok', word...}       for each: 'cancelled', 'asked', 'absent', or the code of the state that it is in
--         {'other_layout', layout}     the queue was written by another version
-- include clock channels memory chunks model forms
-- include from jobs: keys queue records changes lines endings
local memory, keys = KEYS[1], lib.keys_beside(KEYS[2])
local operation = ARGV[1]

local done = lib.recall(memory, operation)
if done then return done end

lib.guard(keys, {hash = {'meta', 'jobs', 'facts', 'unique_jobs', 'progress'},
  zset = {'due', 'finished', 'buried', 'windows', 'keeps'}, stream = {'history'}})
local refusal = lib.refuse_layout(keys)
if refusal then return refusal end
local ids, seen, reply = {}, {}, {'ok'}
for index = 2, #ARGV do ids[index - 1] = ARGV[index] end
local all = lib.read_facts(keys, ids)
lib.check_moves(keys, all, lib.CANCELLED)

local now, changes = lib.now_ms(), lib.new_changes()
lib.allow_when_full(memory)
for index, facts in ipairs(all) do
  local id = ids[index]
  if not facts then
    reply[index + 1] = 'absent'
  elseif seen[id] or not lib.may_move(facts.state, lib.CANCELLED) then
    reply[index + 1] = facts.state
  elseif facts.state == lib.RUNNING then
    facts.marks = lib.with(facts.marks, lib.CANCEL_ASKED)
    lib.keep_facts(changes, id, facts)
    lib.publish(keys.cancel_job, facts.worker .. ' ' .. lib.whole(facts.process))
    reply[index + 1] = 'asked'
  else
    lib.record_ending(changes, id, facts, 'cancelled', lib.CANCELLED, now)
    redis.call('ZREM', keys.due, id)
    lib.end_job(keys, changes, id, facts, lib.CANCELLED, '', '', now)
    reply[index + 1] = 'cancelled'
  end
  seen[id] = true
end
lib.write_changes(keys, changes, now)
return lib.remember(memory, operation, reply)
