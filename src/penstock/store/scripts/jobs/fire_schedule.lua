-- Send the jobs of a schedule that has fallen due, and store when it is due next.
--
-- Any number of workers may try; the slot that each believes is due must be the one that is stored, so each slot is
-- fired once, by the first of them.
--
-- KEYS[1] memory      string  last operation of this lane
-- KEYS[2] meta        hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] operation   int     number of this operation in its lane
-- ARGV[2] name        string
-- ARGV[3] definition  bytes   as it was when the slots were worked out
-- ARGV[4] slot        int     the slot that is due
-- ARGV[5] next_slot   int     when it is due next, or empty: never again
-- ARGV[6] groups...   bytes   jobs as in send_jobs; none if nothing is to be sent
--
-- Returns {'ok'}
--         {'late'}          another worker was first, or the schedule was changed since
--         {'taken', id}     a job with this id is there already; make another id, then send again
--         {'full', waiting, max, bytes, max_bytes, added, added_bytes}   no room for these jobs; -1: no maximum
--         {'no_number', name}                        what new jobs need is stored but is no number
--         {'other_layout', layout}    the queue was written by another version
-- include clock channels memory chunks wake model forms
-- include from jobs: keys queue records changes lines endings admit
local memory, keys = KEYS[1], lib.keys_beside(KEYS[2])
local operation, name, definition, slot, next_slot = unpack(ARGV, 1, 5)
local FIRST_GROUP = 6

local done = lib.recall(memory, operation)
if done then return done end

lib.guard_admission(keys)
lib.guard(keys, {hash = {'schedules'}, zset = {'slots'}})
local refusal = lib.refuse_layout(keys)
if refusal then return refusal end
local stored = redis.call('ZSCORE', keys.slots, name)
if not stored or tonumber(stored) ~= tonumber(slot) or redis.call('HGET', keys.schedules, name) ~= definition then
  return lib.end_early(memory, operation, {'late'})
end
local now = lib.now_ms()
local sending = lib.read_groups(keys, ARGV, FIRST_GROUP, now)
refusal = lib.refuse_jobs(keys, sending, 'made')
if refusal then return lib.end_early(memory, operation, refusal) end

lib.check_admission(keys, sending, now)
if next_slot == '' then redis.call('ZREM', keys.slots, name) else redis.call('ZADD', keys.slots, next_slot, name) end
lib.admit_jobs(keys, sending, now)
return lib.remember(memory, operation, {'ok'})
