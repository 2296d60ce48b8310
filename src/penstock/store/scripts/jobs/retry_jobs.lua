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
-- include clock channels memory chunks job_keys moves records changes lines endings wake job_queue admit
local memory, keys = KEYS[1], jobs.keys_beside(KEYS[2])
local operation = ARGV[1]

local done = recall(memory, operation)
if done then return done end

jobs.guard(keys, {hash = {'meta', 'jobs', 'facts', 'unique_jobs'},
  zset = {'levels', 'finished', 'buried', 'windows'}, set = {'idle'}})
local refusal = jobs.refuse_layout(keys)
if refusal then return refusal end
local ids, seen, reply, items = {}, {}, {'ok'}, {}
for index = 2, #ARGV do ids[index - 1] = ARGV[index] end
local all = jobs.read_facts(keys, ids)
jobs.check_moves(keys, all, jobs.READY)

local now, changes = now_ms(), jobs.new_changes()
allow_when_full(memory)
local keeps_key = {}
for index, facts in ipairs(all) do
  local id = ids[index]
  local unique = facts and facts.head.unique or ''
  local holder = unique ~= '' and (keeps_key[unique] or jobs.holder_of_key(keys, unique, now))
  if not facts then
    reply[index + 1] = 'absent'
  elseif seen[id] then
    reply[index + 1] = jobs.READY
  elseif not jobs.may_move(facts.state, jobs.READY) or not jobs.IS_FINAL[facts.state] then
    reply[index + 1] = facts.state
  elseif holder and holder ~= id then
    reply[index + 1] = 'taken'
  else
    redis.call('ZREM', jobs.kept_in(keys, facts.state), id)
    jobs.tally(changes, 'kept_bytes', -jobs.kept_bytes(facts))
    jobs.tally(changes, 'waiting_bytes', facts.bytes)
    jobs.move_job(changes, id, facts, jobs.READY, now)
    facts.marks = jobs.without(facts.marks, jobs.KEPT_FOR_BATCH)
    facts.failures, facts.crashes, facts.since = 0, 0, now
    facts.started, facts.finished, facts.process, facts.worker = 0, 0, 0, ''
    facts.reason, facts.outcome = '', ''
    -- A key with a time to live is not taken a second time.
    if unique ~= '' and not jobs.has(facts.head.flags, jobs.UNIQUE_WINDOW) and not jobs.has(facts.head.flags, jobs.UNIQUE_SCHEDULED) then
      keeps_key[unique] = id
      redis.call('HSET', keys.unique_jobs, unique, id)
      redis.call('ZREM', keys.windows, unique)
    end
    seen[id] = true
    jobs.tell(keys, changes, 'enqueued', id, facts)
    items[#items + 1] = {id, facts}
    reply[index + 1] = 'retried'
  end
end
if #items > 0 then
  local turn = jobs.next_turns(keys, #items)
  for index, item in ipairs(items) do
    if turn then item[2].turn = turn + index end
    jobs.keep_facts(changes, item[1], item[2])
  end
  jobs.send_to_lines(keys, items)
  jobs.tally(changes, 'retried', #items)
end
jobs.write_changes(keys, changes, now)
wake_workers(keys.idle, keys['wake:'], #items)
return remember(memory, operation, reply)
