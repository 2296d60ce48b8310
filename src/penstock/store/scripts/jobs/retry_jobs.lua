-- Let dead or cancelled jobs run again, as if they had just been sent; what is recorded of earlier attempts stays.
--
-- One step for each job's record, place, unique key, counts and event. A job whose unique key has been taken by
-- another since stays where it is.
--
-- KEYS[1] memory     string  last operation of this lane
-- KEYS[2] meta       hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] operation  int     number of this operation in its lane
-- ARGV[2] ids...     int     1 to 1000
--
-- Returns {'ok', word...}       for each: 'retried', 'absent', 'taken' (its unique key), or the code of its state
--         {'other_layout', layout}     the queue was written by another version
-- include clock channels memory chunks wake model forms
-- include from jobs: keys queue records changes lines endings admit
local memory, keys = KEYS[1], lib.keys_beside(KEYS[2])
local operation = ARGV[1]

local done = lib.recall(memory, operation)
if done then return done end

lib.guard(keys, {hash = {'meta', 'jobs', 'facts', 'unique_jobs'},
  zset = {'levels', 'finished', 'buried', 'windows'}, set = {'idle'}})
local refusal = lib.refuse_layout(keys)
if refusal then return refusal end
local ids, seen, reply, items = {}, {}, {'ok'}, {}
for index = 2, #ARGV do ids[index - 1] = ARGV[index] end
local all = lib.read_facts(keys, ids)
lib.check_moves(keys, all, lib.READY)

local now, changes = lib.now_ms(), lib.new_changes()
lib.allow_when_full(memory)
local keeps_key = {}
for index, facts in ipairs(all) do
  local id = ids[index]
  local unique = facts and facts.head.unique or ''
  local holder = unique ~= '' and (keeps_key[unique] or lib.holder_of_key(keys, unique, now))
  if not facts then
    reply[index + 1] = 'absent'
  elseif seen[id] then
    reply[index + 1] = lib.READY
  elseif not lib.may_move(facts.state, lib.READY) or not lib.IS_FINAL[facts.state] then
    reply[index + 1] = facts.state
  elseif holder and holder ~= id then
    reply[index + 1] = 'taken'
  else
    redis.call('ZREM', lib.kept_in(keys, facts.state), id)
    lib.tally(changes, 'kept_bytes', -lib.kept_bytes(facts))
    lib.tally(changes, 'waiting_bytes', facts.bytes)
    lib.move_job(changes, id, facts, lib.READY, now)
    facts.marks = lib.without(facts.marks, lib.KEPT_FOR_BATCH)
    facts.failures, facts.crashes, facts.lapses, facts.since = 0, 0, 0, now
    facts.started, facts.finished, facts.process, facts.worker = 0, 0, 0, ''
    facts.reason, facts.outcome = '', ''
    -- A key with a time to live is not taken a second time.
    local flags = facts.head.flags
    if unique ~= '' and not lib.has(flags, lib.UNIQUE_WINDOW) and not lib.has(flags, lib.UNIQUE_SCHEDULED) then
      keeps_key[unique] = id
      redis.call('HSET', keys.unique_jobs, unique, id)
      redis.call('ZREM', keys.windows, unique)
    end
    seen[id] = true
    lib.add_event(keys, changes, 'enqueued', id, facts)
    items[#items + 1] = {id, facts}
    reply[index + 1] = 'retried'
  end
end
if #items > 0 then
  local turn = lib.next_turns(keys, #items)
  for index, item in ipairs(items) do
    if turn then item[2].turn = turn + index end
    lib.keep_facts(changes, item[1], item[2])
  end
  lib.send_to_lines(keys, items)
  lib.tally(changes, 'retried', #items)
end
lib.write_changes(keys, changes, now)
lib.wake_workers(keys.idle, keys['wake:'], #items)
return lib.remember(memory, operation, reply)
