-- Put a job where its state says that it stands, if it is not there; for repairs.
--
-- One that cannot be read is set aside, byte for byte.
--
-- One step, and everything is looked at before anything is written, so a job that is where it should be stays as it
-- is.
--
-- KEYS[1] meta   hash  settings and counters; its tag names all other keys of the queue
-- ARGV[1] write  int   0: only say whether something is wrong
-- ARGV[2] id     int
-- ARGV[3] depth  int   how far to look for the job in its line
--
-- Returns {'ok', wrong}       1 if something was wrong
--         {'other_layout', layout}   the queue was written by another version
-- include clock channels chunks wake model forms
-- include from jobs: keys queue records changes lines endings damaged
local keys = lib.keys_beside(KEYS[1])
local write, id, depth = ARGV[1] == '1', ARGV[2], tonumber(ARGV[3])

lib.guard(keys, {hash = {'meta', 'jobs', 'facts', 'damaged'}, zset = {'levels', 'due', 'finished', 'buried'},
  set = {'idle'}})
local refusal = lib.refuse_layout(keys)
if refusal then return refusal end
local record, facts = redis.call('HGET', keys.jobs, id), lib.read_facts(keys, {id})[1]
local text = redis.call('HGET', keys.facts, id)
local is_damaged = (record or text) and not facts
if record and text and facts then is_damaged = not lib.is_record_of(record, facts) end
if is_damaged and write then
  local changes, now = lib.new_changes(), lib.now_ms()
  lib.set_aside(keys, changes, id, 'fsck', now)
  lib.write_changes(keys, changes, now)
end
if is_damaged then return {'ok', 1} end
local state = record and facts.state or ''

-- A line that is longer than `depth` is not searched to its end: the job may be there.
local function may_stand_in_line()
  local aside, line = lib.aside_of(id, facts), keys['line:'] .. facts.head.line
  return redis.call('ZSCORE', keys['unhandled:'] .. facts.head.type, aside) or
    redis.call('ZSCORE', keys['parked:'] .. facts.head.key, aside) or
    redis.call('LPOS', line, lib.entry_of(id, facts), 'MAXLEN', depth) or redis.call('LLEN', line) > depth
end

local places, wrong = {}, {}
places[keys.due] = state == lib.SCHEDULED and facts.since
places[keys.finished] = (state == lib.DONE or state == lib.CANCELLED) and facts.finished
places[keys.buried] = state == lib.DEAD and facts.finished
for key, at in pairs(places) do
  local found = redis.call('ZSCORE', key, id)
  -- A job that is kept for a batch has the time at which the batch ends as its score.
  local is_later = found and at and tonumber(found) > at and lib.has(facts.marks, lib.KEPT_FOR_BATCH)
  if is_later then places[key], at = tonumber(found), tonumber(found) end
  if (found and tonumber(found) or false) ~= at then wrong[#wrong + 1] = key end
end
local is_missing = state == lib.READY and not may_stand_in_line()
local is_whole = not facts or record
if is_missing then lib.check_line(keys, facts.head.line) end
if not write then return {'ok', (#wrong > 0 or is_missing or not is_whole) and 1 or 0} end

for _, key in ipairs(wrong) do
  if places[key] then redis.call('ZADD', key, lib.whole(places[key]), id) else redis.call('ZREM', key, id) end
end
if not is_whole then redis.call('HDEL', keys.facts, id) end
if is_missing then
  lib.return_to_lines(keys, {{id, facts}})
  lib.wake_workers(keys.idle, keys['wake:'], 1)
end
return {'ok', (#wrong > 0 or is_missing or not is_whole) and 1 or 0}
