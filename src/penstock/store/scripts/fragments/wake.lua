-- Wake-up is aimed: idle workers are known by name, and one task wakes one of them and a spare, so that
-- the cost does not grow with the number of workers and one stuck worker does not hold a task up.
lib.WAKES_AT_ONCE = 100 -- a woken worker that leaves work behind wakes the next

-- A worker that takes a job unasked stands among the idle ones with a plus before its name (see hand_over.lua).
function lib.name_of(idle_worker)
  return string.byte(idle_worker) == 43 and string.sub(idle_worker, 2) or idle_worker
end

function lib.wake_workers(idle, wake_channel, tasks)
  local wanted = math.min(tasks + 1, lib.WAKES_AT_ONCE)
  for _ = 1, redis.call('SCARD', idle) do
    if wanted == 0 then return end
    local worker = lib.name_of(redis.call('SPOP', idle))
    -- Without a listener, this worker is gone or reconnecting; it asks for work when it is back.
    if lib.publish(wake_channel .. worker, '') > 0 then wanted = wanted - 1 end
  end
end
