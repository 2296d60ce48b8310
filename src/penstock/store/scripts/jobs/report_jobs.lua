-- Report what became of jobs that a worker held, and start the next ones, in one round trip.
--
-- An outcome is accepted at most once: the process must still be held by this worker. Result, state, counts, unique
-- key, limits, follow-up and event change in the same step. What follows from an outcome (again, later, dead) is
-- decided here, by the record.
--
-- KEYS[1] memory      string  last operation of this lane
-- KEYS[2] meta        hash    settings and counters; its tag names all other keys of the queue
-- KEYS[3] running     hash    process id -> job, of this worker
-- ARGV[1] operation   int     number of this operation in its lane
-- ARGV[2] worker      string
-- ARGV[3] limit       int     how many jobs to start; 0 to 1000
-- ARGV[4] wait        int     1: wake this worker when there is work again; 2: or hand it one unasked
-- ARGV[5] max_held    int     how many jobs of a queue one worker may hold
-- ARGV[6] reports...  bytes   process, outcome (done, failed, final, crashed, stopped, cancelled), ran_us, cpu_us,
--                             delay_ms, reason, payload (result or error); each 7 arguments
--
-- Returns {refused, 'ok', wait_ms, schedules, damaged, first_process_id, id, record, 'failures crashes lapses',
--                     ...}
--         {refused, 'idle'}         nothing was to be started
--         {refused, 'empty'}        nothing can be handed out now
--         {refused, 'again'}        there is more to look at; ask again
--         {refused, 'apart'}        what is next must not run beside what the worker holds
--         {refused, 'limited'}      the queue's limit is reached
--         {refused, 'paused'}       the queue hands out nothing until it is resumed
--         {refused, 'not_working'}  the worker has not started work here, or was failed since
--         {refused, 'too_many'}     the worker holds `max_held` jobs already
--         {refused, 'tasks'}        the queue holds plain tasks
--         {refused, 'other_layout', layout}  the queue was written by another version
-- include clock channels memory chunks wake processes model forms
-- include from jobs: keys queue types records changes lines endings damaged limits choose hand_out settle
local memory, running = KEYS[1], KEYS[3]
local operation, worker, limit, wait, max_held = unpack(ARGV, 1, 5)

local done = lib.recall(memory, operation)

local keys, FIRST, EACH = lib.keys_beside(KEYS[2]), 6, 7
local claim = {worker = worker, memory = memory, running = running, limit = tonumber(limit), wait = wait ~= '0',
  takes_unasked = wait == '2', max_held = tonumber(max_held), damaged = {}}

if done then
  local reply = lib.answer_of(lib.repeat_hand_out(keys, claim, done), {})
  table.insert(reply, 1, done[2] or {})
  return reply
end

redis.call('XLEN', keys.history)
local refusal = lib.guard_work(keys, claim)
if refusal then return {{}, unpack(refusal)} end

local processes = {}
for index = FIRST, #ARGV, EACH do processes[#processes + 1] = ARGV[index] end
local ids, now, changes = lib.get_fields(running, processes), lib.now_ms(), lib.new_changes()
local held_ids, places, refused = {}, {}, {}
for index = 1, #processes do
  if ids[index] then
    local size = #held_ids + 1
    held_ids[size], places[size] = ids[index], FIRST + EACH * (index - 1)
  else
    refused[#refused + 1] = processes[index]
  end
end
local held, unreadable = {}, {}
for index, facts in ipairs(lib.read_facts(keys, held_ids)) do
  local at, id = places[index], held_ids[index]
  if facts then
    held[#held + 1] = {ARGV[at], id, facts, unpack(ARGV, at + 1, at + EACH - 1)}
  else
    unreadable[#unreadable + 1] = {ARGV[at], id}
    refused[#refused + 1] = ARGV[at]
  end
end
lib.check_settling(keys, held)

lib.allow_when_full(memory)
claim.is_begun = #held + #unreadable > 0
for _, found in ipairs(unreadable) do
  lib.set_aside_held(keys, changes, running, found[1], found[2], now)
  claim.damaged[#claim.damaged + 1] = found[2]
end
if #refused > 0 and keys.settings.incarnation then lib.tally(changes, 'refused', #refused) end
local back, unparked = lib.settle_jobs(keys, changes, running, worker, held, now)
local reply = {'idle', -1, {}}
claim.held = claim.held - #held - #unreadable
if claim.limit > 0 then reply = lib.hand_out(keys, changes, claim, now) end
lib.purge_some(keys, changes, operation, #held, now)
-- Jobs that wait again, and slots that are free again, are for idle workers.
local has_freed = back + unparked > 0 or (keys.is_used.limits and #held > 0)
if has_freed and (redis.call('ZCARD', keys.levels) > 0 or
    (keys.is_used.unhandled_types and redis.call('SCARD', keys.unhandled_types) > 0)) then
  lib.wake_workers(keys.idle, keys['wake:'], math.max(back + unparked, 1))
end
if changes.due_at then lib.wake_for_alarm(keys, changes.due_at, now) end
lib.write_changes(keys, changes, now)
lib.remember_hand_out(memory, operation, reply, refused)
lib.answer_of(reply, claim.damaged)
table.insert(reply, 1, refused)
return reply
