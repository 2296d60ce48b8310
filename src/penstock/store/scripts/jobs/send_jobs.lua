-- Add jobs to a queue, all of them or none.
--
-- One step, so that record, place, lists, counts, unique key and event come together, and nobody is woken for a job
-- that is not there. Jobs come in groups that share everything but id and data, so that a thousand equal ones cost
-- little more than their data. A single one may go straight to a worker that waits. The first write may be refused when
-- the store is full; nothing is written then.
--
-- KEYS[1] memory       string  last operation of this lane
-- KEYS[2] meta         hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] operation    int     number of this operation in its lane
-- ARGV[2] incarnation  string  made for a queue that does not exist yet, or empty
-- ARGV[3] origin       string  'made': the client made the ids; 'given': the caller did, and may have sent them before
-- ARGV[4] groups...    bytes   head, delay_ms, run_at, window_ms, count, then count times id, data; 1 to 5000 jobs
--
-- Returns {'ok', position, id, ...}            for each job that was not added: its position, the job that is there
--         {'taken', id}                        a job with this id is there already; make another id, then send again
--         {'conflict', id}                     the given id belongs to another job
--         {'no_queue'}                         register the queue, then send again with an incarnation
--         {'queue_exists'}                     under another incarnation; unregister this one, then send again without
--         {'full', waiting, max, bytes, max_bytes, added, added_bytes}   there is no room for these jobs; -1: no maximum
--         {'no_number', name}                        what new jobs need is stored but is no number
--         {'tasks'}                            the queue holds plain tasks
--         {'other_layout', layout}                    the queue was written by another version
-- include clock channels memory queue chunks job_keys types records changes lines endings wake job_queue choose admit hand_over
local memory, operation, incarnation, origin = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

local done = recall(memory, operation)
if done then return done end

-- Shared functions from here.
local keys, FIRST_GROUP = jobs.keys_beside(KEYS[2]), 4
local settings = jobs.guard_admission(keys)
local known = settings.incarnation
local refusal = refuse_queue(memory, operation, known, incarnation)
if refusal then return refusal end
local now = now_ms()
local sending
refusal = jobs.refuse_kind(keys)
if not refusal then
  sending = jobs.read_groups(keys, ARGV, FIRST_GROUP, now)
  sending.are_given = origin == 'given'
  refusal = jobs.refuse_jobs(keys, sending, origin)
end
if refusal then
  -- A no is remembered as well, or a copy of the request that arrives late could still add what was refused.
  allow_when_full(memory)
  return remember(memory, operation, refusal)
end

local taker = jobs.find_taker(keys, sending, now)
if taker then
  jobs.hand_over(keys, sending, taker, now)
  return remember(memory, operation, {'ok'})
end

jobs.check_admission(keys, sending, now)
if not known then create_queue(keys.meta, incarnation) end
if not settings.kind then jobs.become_job_queue(keys) end
jobs.admit_jobs(keys, sending, now)
local reply = {'ok'}
for _, found in ipairs(sending.existing) do
  reply[#reply + 1] = found[1]
  reply[#reply + 1] = found[2]
end
return remember(memory, operation, reply)
