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
--         {'newer', layout}     the queue was written by a newer version
-- include clock channels memory chunks job_keys moves records changes lines endings wake job_queue admit
local memory, keys = KEYS[1], keys_beside(KEYS[2])
local operation = ARGV[1]

local done = recall(memory, operation)
if done then return done end

guard(keys, {hash = {'meta', 'jobs', 'facts', 'counts', 'unique_jobs'},
  zset = {'levels', 'finished', 'buried', 'windows'}, set = {'idle'}})
local refusal = refuse_kind(keys)
if refusal and refusal[1] == 'newer' then return refusal end
local ids, reply, items = {}, {'ok'}, {}
for index = 2, #ARGV do ids[index - 1] = ARGV[index] end
local all = read_facts(keys, ids)

local now, changes = now_ms(), new_changes()
local keeps_key = {}
for index, facts in ipairs(all) do
  local id = ids[index]
  local unique = facts and facts.head.unique or ''
  local holder = unique ~= '' and (keeps_key[unique] or holder_of_key(keys, unique, now))
  if not facts then
    reply[index + 1] = 'absent'
  elseif not may_move(facts.state, READY) or not IS_FINAL[facts.state] then
    reply[index + 1] = facts.state
  elseif holder and holder ~= id then
    reply[index + 1] = 'taken'
  else
    redis.call('ZREM', kept_in(keys, facts.state), id)
    tally(changes, 'kept_bytes', -kept_bytes(facts))
    tally(changes, 'waiting_bytes', facts.bytes)
    move_job(changes, id, facts, READY, now)
    facts.failures, facts.crashes, facts.since = 0, 0, now
    facts.started, facts.finished, facts.process, facts.worker = 0, 0, 0, ''
    facts.reason, facts.outcome = '', ''
    -- A key with a time to live is not taken a second time.
    if unique ~= '' and not has(facts.head.flags, UNIQUE_WINDOW) and not has(facts.head.flags, UNIQUE_SCHEDULED) then
      keeps_key[unique] = id
      redis.call('HSET', keys.unique_jobs, unique, id)
    end
    tell(keys, changes, 'enqueued', id, facts)
    items[#items + 1] = {id, facts}
    reply[index + 1] = 'retried'
  end
end
if #items > 0 then
  local turn = next_turns(keys, #items)
  for index, item in ipairs(items) do
    item[2].turn = turn + index
    keep_facts(changes, item[1], item[2])
  end
  send_to_lines(keys, items)
  tally(changes, 'retried', #items)
end
write_changes(keys, changes, now)
wake_workers(keys.idle, keys['wake:'], #items)
return remember(memory, operation, reply)
