-- Start up to `limit` tasks for one worker, oldest first.
--
-- Tasks leave `ready` and become processes in this one step, so a crash before or after it can neither lose
-- a task nor give it to two workers. The lane remembers the process ids, so a lost reply is given again.
--
-- KEYS[1] memory    string  last operation of this lane
-- KEYS[2] ready     list    tasks; the next to run is at the right
-- KEYS[3] running   hash    process id -> task, of this worker
-- KEYS[4] meta      hash    settings and counters of the queue
-- KEYS[5] members   set     workers that have started work on this queue
-- KEYS[6] idle      set     workers that wait for a wake-up
-- KEYS[7] failures  hash    digest of a task -> failed deliveries
-- ARGV[1] operation int     number of this operation in its lane
-- ARGV[2] worker    string
-- ARGV[3] limit     int     1 to 10000
-- ARGV[4] wait      int     1: wake this worker when there is work again
-- ARGV[5] wake      string  prefix of the wake-up channels
-- ARGV[6] max_held  int     how many tasks of a queue one worker may hold
-- ARGV[7] max_failures int  the default, for a queue without a setting of its own
--
-- Returns {'ok', first_process_id, task, task, ...}   the ids are consecutive
--         {'empty'}        nothing is ready
--         {'apart'}        what is next must not run beside what the worker holds
--         {'paused'}       the queue hands out nothing until it is resumed
--         {'not_working'}  the worker has not started work here, or was failed since
--         {'too_many'}     the worker holds `max_held` tasks already
--         {'jobs'}         the queue was deleted and holds jobs now
-- include clock channels memory chunks wake processes
-- include from tasks: start claim
local memory, ready, running, meta, members, idle, failures = unpack(KEYS)
local operation, worker, limit, wait, wake, max_held, max_failures = unpack(ARGV)

local claim = lib.new_claim(memory, ready, running, meta, members, idle, failures, worker, wait == '1', wake,
  max_failures)
local done = lib.recall(memory, operation)
if done then return lib.repeat_claim(claim, done) end
local reply = lib.make_claim(claim, tonumber(limit), tonumber(max_held))
lib.remember_claim(claim, operation, reply)
return reply
