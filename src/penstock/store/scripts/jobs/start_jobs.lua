-- Start up to `limit` jobs for one worker, in the order in which they are due to run.
--
-- Jobs that have fallen due join their lines first, so there is no scheduler. The most urgent ones then leave their
-- lines and become processes in this one step, so a crash before or after it can neither lose a job nor give it to two
-- workers.
--
-- KEYS[1] memory     string  last operation of this lane
-- KEYS[2] meta       hash    settings and counters; its tag names all other keys of the queue
-- KEYS[3] running    hash    process id -> job, of this worker
-- ARGV[1] operation  int     number of this operation in its lane
-- ARGV[2] worker     string
-- ARGV[3] limit      int     1 to 1000
-- ARGV[4] wait       int     1: wake this worker when there is work again; 2: or hand it one unasked
-- ARGV[5] max_held   int     how many jobs of a queue one worker may hold
--
-- Every reply goes on with: wait_ms (when to look again; -1: when woken), the schedules that are due, and the jobs
-- that could not be read and were set aside.
-- Returns {'ok', wait_ms, schedules, damaged, first_process_id, id, record, 'failures crashes lapses',
--               ...}   process ids follow on
--         {'empty'}        nothing can be handed out now
--         {'again'}        there is more to look at; ask again
--         {'apart'}        what is next must not run beside what the worker holds
--         {'limited'}      the queue's limit is reached
--         {'paused'}       the queue hands out nothing until it is resumed
--         {'not_working'}  the worker has not started work here, or was failed since
--         {'too_many'}     the worker holds `max_held` jobs already
--         {'tasks', kind}  the queue holds plain tasks, or is a log
--         {'other_layout', layout}  the queue was written by another version
-- include clock channels memory chunks wake processes model forms
-- include from jobs: keys queue types records changes lines endings damaged limits choose hand_out
local memory, keys, running = KEYS[1], lib.keys_beside(KEYS[2]), KEYS[3]
local operation, worker, limit, wait, max_held = unpack(ARGV)
local claim = {worker = worker, memory = memory, running = running, limit = tonumber(limit), wait = wait ~= '0',
  takes_unasked = wait == '2', max_held = tonumber(max_held), damaged = {}}

local done = lib.recall(memory, operation)
if done then return lib.answer_of(lib.repeat_hand_out(keys, claim, done), {}) end

local refusal = lib.guard_work(keys, claim)
if refusal then return refusal end
local now, changes = lib.now_ms(), lib.new_changes()
local reply = lib.hand_out(keys, changes, claim, now)
if not claim.is_begun then lib.allow_when_full(memory) end
if reply[1] == 'empty' then
  lib.purge_when_idle(keys, changes, reply, now)
else
  lib.purge_some(keys, changes, operation, 0, now)
end
lib.write_changes(keys, changes, now)
lib.remember_hand_out(memory, operation, reply)
return lib.answer_of(reply, claim.damaged)
