-- Stop waiting for a wake-up, and pass one on that may be on its way.
--
-- KEYS[1] meta      hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] worker    string
-- ARGV[2] is_busy   int     1: only for lack of time, and it can still fire schedules
--
-- Returns {'ok', wait_ms, schedules}   when to come again (-1: when it has time), the schedules that are due
--         {'other_layout', layout}            the queue was written by another version
-- include clock channels wake model
-- include from jobs: keys hand_out
local keys, worker, is_busy = lib.keys_beside(KEYS[1]), ARGV[1], ARGV[2] == '1'

lib.guard(keys, {zset = {'alarms', 'levels', 'due', 'slots'}, set = {'idle', 'unhandled_types', 'members'}})
local refusal = lib.refuse_layout(keys)
if refusal then return refusal end
redis.call('SREM', keys.idle, worker, '+' .. worker)
local had_alarm = redis.call('ZREM', keys.alarms, worker) == 1
local has_more = redis.call('ZCARD', keys.levels) > 0 or redis.call('SCARD', keys.unhandled_types) > 0
if had_alarm or has_more then lib.wake_workers(keys.idle, keys['wake:'], 1) end
-- A worker that was failed meanwhile fires nothing; its alarm would keep others from setting one.
if not is_busy or redis.call('SISMEMBER', keys.members, worker) == 0 then return {'ok', -1, {}} end
local now = lib.now_ms()
return {'ok', lib.set_slot_alarm(keys, worker, now), lib.due_schedules(keys, now)}
