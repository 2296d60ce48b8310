-- Forget what is kept about a worker, job, schedule or unique key that is not there any more; for repairs.
--
-- One step: whether it is really gone is asked first.
--
-- KEYS[1] meta   hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] write   int     0: only say whether there is something to forget
-- ARGV[2] kind    string  'types', 'alarms' or 'suspects' of a worker; 'progress', 'log' or 'attempts' of a job;
--                         'slots' of a schedule; 'unique_jobs' or 'windows' of a unique key
-- ARGV[3] owner   bytes   the worker, job, schedule or key
-- ARGV[4] holder  string  the job that holds the key; else empty
--
-- Returns {'ok', wrong}       1 if there was something
--         {'other_layout', layout}   the queue was written by another version
-- include clock chunks model forms
-- include from jobs: keys records
local keys = lib.keys_beside(KEYS[1])
local write, kind, owner, holder = ARGV[1] == '1', unpack(ARGV, 2)

lib.guard(keys, {hash = {'meta', 'jobs', 'facts', 'types', 'suspects', 'progress', 'schedules', 'unique_jobs'},
  zset = {'alarms', 'slots', 'windows'}, set = {'members'}})
local refusal = lib.refuse_layout(keys)
if refusal then return refusal end

-- The states in which a job may hold its unique key.
local function may_hold(facts)
  local flags, state = facts.head.flags, facts.state
  if facts.head.unique ~= owner or lib.IS_FINAL[state] then return false end
  if lib.has(flags, lib.UNIQUE_UNTIL_DONE) then return true end
  if lib.has(flags, lib.UNIQUE_QUEUED) then return state ~= lib.RUNNING end
  return lib.has(flags, lib.UNIQUE_SCHEDULED) and state == lib.SCHEDULED
end

local function is_gone()
  if kind == 'types' or kind == 'alarms' then return redis.call('SISMEMBER', keys.members, owner) == 0 end
  if kind == 'suspects' then
    local id = redis.call('HGET', keys.suspects, owner)
    local facts = id and lib.read_facts(keys, {id})[1]
    return not facts or facts.state ~= lib.RUNNING or facts.worker ~= owner
  end
  if kind == 'slots' then return redis.call('HEXISTS', keys.schedules, owner) == 0 end
  if kind == 'windows' then return redis.call('HEXISTS', keys.unique_jobs, owner) == 0 end
  if kind == 'unique_jobs' then
    if redis.call('HGET', keys.unique_jobs, owner) ~= holder then return false end
    if redis.call('ZSCORE', keys.windows, owner) then return false end
    local facts = redis.call('HEXISTS', keys.jobs, holder) == 1 and lib.read_facts(keys, {holder})[1]
    return not facts or not may_hold(facts)
  end
  return redis.call('HEXISTS', keys.jobs, owner) == 0
end

local is_list = kind == 'log' or kind == 'attempts'
local is_sorted = kind == 'alarms' or kind == 'slots' or kind == 'windows'
local key, field = is_list and keys[kind .. ':'] .. owner or keys[kind], owner
local is_kept
if is_list then
  is_kept = redis.call('EXISTS', key) == 1
elseif is_sorted then
  is_kept = redis.call('ZSCORE', key, field)
else
  is_kept = redis.call('HEXISTS', key, field) == 1
end
if not is_kept or not is_gone() then return {'ok', 0} end
if write and is_list then redis.call('UNLINK', key) end
if write and not is_list then redis.call(is_sorted and 'ZREM' or 'HDEL', key, field) end
return {'ok', 1}
