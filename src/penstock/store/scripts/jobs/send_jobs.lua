-- Add jobs to a queue, all of them or none.
--
-- One step, so that record, place, lists, counts, unique key and event come together, and no worker is woken for a job
-- that is not there. Jobs come in groups that share everything but id and data, so that a thousand equal ones cost
-- little more than their data. A single one may go straight to a worker that waits. The first write may be refused
-- when the store is full; nothing is written then.
--
-- KEYS[1] memory       string  last operation of this lane
-- KEYS[2] meta         hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] operation    int     number of this operation in its lane
-- ARGV[2] incarnation  string  made for a queue that does not exist yet, or empty
-- ARGV[3] origin       string  'made': the client made the ids; 'given': the caller did, perhaps sent them before;
--                              'derived': they follow from the cause of each job, which is alone in its group
-- ARGV[4] groups...    bytes   head, delay_ms, run_at, window_ms, count, then count times id, data; 1 to 5000 jobs
--
-- Returns {'ok', position, id, is_new, ...}    for each job that has another id than was sent, or was there already
--         {'taken', id}                        a job with this id is there already; make another id, then send again
--         {'conflict', id}                     the given id belongs to another job
--         {'no_queue'}                         register the queue, then send again with an incarnation
--         {'queue_exists'}                     under another incarnation; unregister this one, then send again without
--         {'full', waiting, max, bytes, max_bytes, added, added_bytes}   no room for these jobs; -1: no maximum
--         {'no_number', name}                        what new jobs need is stored but is no number
--         {'tasks', kind}                      the queue holds plain tasks, or is a log
--         {'other_layout', layout}                    the queue was written by another version
-- include clock channels memory queue chunks wake model forms
-- include from jobs: keys queue types records changes lines endings hand_over admit
local memory, operation, incarnation, origin = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

local done = lib.recall(memory, operation)
if done then return done end

local keys, FIRST_GROUP = lib.keys_beside(KEYS[2]), 4
local settings = lib.guard_admission(keys)
local known = settings.incarnation
local refusal = lib.refuse_queue(memory, operation, known, incarnation)
if refusal then return refusal end
local now = lib.now_ms()
local sending
refusal = lib.refuse_kind(keys)
if not refusal then
  sending = lib.read_groups(keys, ARGV, FIRST_GROUP, now, origin == 'derived')
  sending.are_given = origin ~= 'made'
  refusal = lib.refuse_jobs(keys, sending, origin)
end
if refusal then return lib.end_early(memory, operation, refusal) end

local taker = lib.find_taker(keys, sending, now)
if taker then
  lib.hand_over(keys, sending, taker, now)
  return lib.remember(memory, operation, {'ok'})
end

lib.check_admission(keys, sending, now)
if not known then lib.create_queue(keys.meta, incarnation) end
if not settings.kind then lib.become_job_queue(keys) end
lib.admit_jobs(keys, sending, now)
local reply = {'ok'}
for _, found in ipairs(sending.existing) do
  for _, part in ipairs({found[1], found[2], 0}) do reply[#reply + 1] = part end
end
for _, found in ipairs(sending.elsewhere) do
  for _, part in ipairs({found[1], found[2], 1}) do reply[#reply + 1] = part end
end
return lib.remember(memory, operation, reply)
