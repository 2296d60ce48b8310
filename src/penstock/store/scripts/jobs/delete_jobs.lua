-- Delete jobs of a queue, some at a time: first what was decided to be in it, then what waits, then what is finished.
-- What runs is left alone.
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
--         {'other_layout', layout}                             the queue was written by another version
-- include clock channels memory chunks stages model forms
-- include from jobs: keys queue records changes lines endings
local memory, keys = KEYS[1], lib.keys_beside(KEYS[2])
local operation, limit, last = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local done = lib.recall(memory, operation)
if done then return done end

lib.guard(keys, {hash = {'meta', 'jobs', 'facts', 'unique_jobs', 'progress'},
  zset = {'due', 'finished', 'buried', 'windows', 'levels', 'unparks', 'batch_times', 'keeps'},
  set = {'unhandled_types', 'members'}, list = {'moving'}})
redis.call('HLEN', keys.batches)
local incarnation, staged = unpack(redis.call('HMGET', keys.meta, 'incarnation', 'staged'))
if not incarnation then return lib.end_early(memory, operation, {'no_queue'}) end
local refusal = lib.refuse_layout(keys)
if refusal then return refusal end

local STATES = {lib.READY, lib.SCHEDULED, lib.BLOCKED, lib.DONE, lib.DEAD, lib.CANCELLED}
-- Counters may be wrong, so what is there is looked at: pages of jobs, and what the workers hold.
local running = 0
for _, worker in ipairs(redis.call('SMEMBERS', keys.members)) do
  running = running + redis.call('HLEN', keys['running:'] .. worker)
end
local ids, all, seen, leftovers, empty_pages = {}, {}, {}, {}, {}
local function choose(some, page)
  for index, facts in ipairs(lib.read_facts(keys, some)) do
    local id = some[index]
    local is_held = facts and facts.state == lib.RUNNING and running > 0
    if seen[id] or is_held or not (facts or redis.call('HEXISTS', keys.jobs, id) == 1) then
      leftovers[#leftovers + 1] = {page, id}
    else
      ids[#ids + 1], all[#all + 1], seen[id] = id, facts, true
      if not facts and page then leftovers[#leftovers + 1] = {page, id} end
    end
  end
end
for _, state in ipairs(STATES) do
  local listing = state .. 'A:'
  redis.call('ZCARD', keys['pages:'] .. listing)
  for _, page in ipairs(#ids < limit and redis.call('ZRANGE', keys['pages:'] .. listing, 0, 1) or {}) do
    local found, first = redis.call('SMEMBERS', keys['page:'] .. page .. ':' .. listing), 1
    while first <= #found and #ids < limit do
      local some = {unpack(found, first, math.min(#found, first + limit - #ids - 1))}
      choose(some, keys['page:'] .. page .. ':' .. listing)
      first = first + #some
    end
    if #found == 0 then empty_pages[#empty_pages + 1] = {keys['pages:'] .. listing, page} end
  end
end
-- What is on no page is only found one by one, and when nothing runs that must stay.
if running == 0 and #ids == 0 then choose(redis.call('HRANDFIELD', keys.jobs, limit)) end
lib.check_moves(keys, all)
local levels = last == '1' and redis.call('ZRANGE', keys.levels, 0, limit - 1) or {}
for _, priority in ipairs(levels) do redis.call('ZCARD', keys['ring:'] .. priority) end

local now, changes = lib.now_ms(), lib.new_changes()
lib.allow_when_full(memory)
lib.drop_stages(keys.moving, keys.base, limit)
local undone, dropped_rows = redis.call('LLEN', keys.moving), 0
if undone == 0 and staged then
  dropped_rows = tonumber(staged) or 0
  redis.call('HDEL', keys.meta, 'staged', 'moved_at')
end
for _, found in ipairs(leftovers) do redis.call('SREM', found[1], found[2]) end
for _, found in ipairs(empty_pages) do redis.call('ZREM', found[1], found[2]) end
-- Of what cannot be read nothing is known but the id, so what it was counted as stays until the queue itself goes.
local function drop_damaged(id)
  redis.call('HDEL', keys.jobs, id)
  redis.call('HDEL', keys.facts, id)
  redis.call('ZREM', keys.finished, id)
  redis.call('ZREM', keys.buried, id)
  lib.tally(changes, 'discarded', 1)
end
local function drop(id, facts)
  if lib.IS_FINAL[facts.state] then
    redis.call('ZREM', lib.kept_in(keys, facts.state), id)
    lib.tally(changes, 'kept_bytes', -lib.kept_bytes(facts))
    lib.tally(changes, 'removed', 1)
  else
    lib.tally(changes, 'waiting_bytes', -facts.bytes)
    lib.tally(changes, 'discarded', 1)
    lib.add_notice(keys, changes, id, '-', '')
  end
  for _, flag in ipairs({lib.UNIQUE_QUEUED, lib.UNIQUE_UNTIL_DONE, lib.UNIQUE_WINDOW, lib.UNIQUE_SCHEDULED}) do
    lib.free_unique(keys, id, facts, flag)
  end
  lib.leave_state(changes, facts, id)
  lib.forget_job(keys, changes, id, facts)
  lib.add_event(keys, changes, 'removed', id, facts)
end
for index, facts in ipairs(all) do
  local id = ids[index]
  redis.call('ZREM', keys.due, id)
  if facts then drop(id, facts) else drop_damaged(id) end
end
lib.write_changes(keys, changes, now)

-- As every step takes away what it counts here, or finds nothing, the last one comes whatever the counters say.
local stored, pages = redis.call('HLEN', keys.jobs), 0
for _, state in ipairs(STATES) do pages = pages + redis.call('ZCARD', keys['pages:'] .. state .. 'A:') end
local left = undone
if pages > 0 then left = left + math.max(pages, stored - running) elseif running == 0 then left = left + stored end
local gone = ''
if last == '1' and left == 0 and running == 0 then
  -- Entries of jobs that are gone may still stand in line or aside; that goes first, some at a time.
  local dropped = 0
  for _, priority in ipairs(levels) do
    local ring = keys['ring:'] .. priority
    for _, tenant in ipairs(dropped < limit and redis.call('ZRANGE', ring, 0, limit - dropped - 1) or {}) do
      redis.call('UNLINK', keys['line:'] .. priority .. ':' .. tenant)
      redis.call('ZREM', ring, tenant)
      dropped = dropped + 1
    end
    if redis.call('EXISTS', ring) == 0 then redis.call('ZREM', keys.levels, priority) end
  end
  for _, type in ipairs(redis.call('SRANDMEMBER', keys.unhandled_types, limit)) do
    redis.call('UNLINK', keys['unhandled:'] .. type)
    redis.call('SREM', keys.unhandled_types, type)
  end
  for _, key in ipairs(redis.call('ZRANGE', keys.unparks, 0, limit - 1)) do
    redis.call('UNLINK', keys['parked:'] .. key)
    redis.call('ZREM', keys.unparks, key)
  end
  left = redis.call('ZCARD', keys.levels) + redis.call('ZCARD', keys.unparks)
  left = left + redis.call('SCARD', keys.unhandled_types)
  if left == 0 then
    lib.keep_newest(keys)
    for _, kind in ipairs({'meta', 'facts', 'due', 'finished', 'buried', 'unique_jobs', 'windows', 'limits',
        'buckets', 'busy', 'shares', 'paused_types', 'suspects', 'progress', 'alarms', 'batches', 'batch_times',
        'keeps', 'schedules', 'slots', 'history', 'marks', 'damaged'}) do
      redis.call('UNLINK', keys[kind])
    end
    gone = incarnation
  end
end
return lib.remember(memory, operation, {'ok', #all + dropped_rows, left, running, gone})
