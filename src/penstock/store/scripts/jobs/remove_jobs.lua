-- Remove jobs and everything that is recorded about them. What runs is not removed; cancel it first.
--
-- One step for each job's record, place, unique key, counts and event.
--
-- KEYS[1] memory     string  last operation of this lane
-- KEYS[2] meta       hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] operation  int     number of this operation in its lane
-- ARGV[2] ids...     int     1 to 1000
--
-- Returns {'ok', word...}       for each: 'removed', 'absent' or the code of the state that it is in
--         {'other_layout', layout}     the queue was written by another version
-- include clock channels memory chunks model forms
-- include from jobs: keys queue records changes lines endings
local memory, keys = KEYS[1], lib.keys_beside(KEYS[2])
local operation = ARGV[1]

local done = lib.recall(memory, operation)
if done then return done end

lib.guard(keys, {hash = {'meta', 'jobs', 'facts', 'unique_jobs', 'progress', 'damaged'},
  zset = {'due', 'finished', 'buried', 'windows'}, stream = {'history'}})
local refusal = lib.refuse_layout(keys)
if refusal then return refusal end
local ids, seen, reply = {}, {}, {'ok'}
for index = 2, #ARGV do ids[index - 1] = ARGV[index] end
local all = lib.read_facts(keys, ids)
lib.check_moves(keys, all)

local now, changes = lib.now_ms(), lib.new_changes()
lib.allow_when_full(memory)
for index, facts in ipairs(all) do
  local id = ids[index]
  if not facts and not seen[id] and redis.call('HDEL', keys.damaged, id) == 1 then
    reply[index + 1] = 'removed'
  elseif not facts or seen[id] then
    reply[index + 1] = 'absent'
  elseif facts.state == lib.RUNNING then
    reply[index + 1] = facts.state
  else
    if lib.IS_FINAL[facts.state] then
      redis.call('ZREM', lib.kept_in(keys, facts.state), id)
      lib.tally(changes, 'kept_bytes', -lib.kept_bytes(facts))
    else
      redis.call('ZREM', keys.due, id)
      lib.tally(changes, 'waiting_bytes', -facts.bytes)
      lib.tally(changes, 'discarded', 1)
      lib.record_ending(changes, id, facts, 'removed', lib.REMOVED, now)
      lib.add_notice(keys, changes, id, '-', '')
    end
    for _, flag in ipairs({lib.UNIQUE_QUEUED, lib.UNIQUE_UNTIL_DONE, lib.UNIQUE_WINDOW, lib.UNIQUE_SCHEDULED}) do
      lib.free_unique(keys, id, facts, flag)
    end
    lib.leave_state(changes, facts, id)
    lib.forget_job(keys, changes, id, facts)
    if lib.IS_FINAL[facts.state] then lib.tally(changes, 'removed', 1) end
    lib.add_event(keys, changes, 'removed', id, facts)
    reply[index + 1] = 'removed'
  end
  seen[id] = true
end
lib.write_changes(keys, changes, now)
return lib.remember(memory, operation, reply)
