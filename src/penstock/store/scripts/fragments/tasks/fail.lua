-- A failed delivery is counted per task. A task that failed too often goes to the dead list instead of back to the
-- queue.
-- Returns two lists, to return and to bury, both in the order given.
function lib.count_failures(elements, failures, max_failures)
  local again, dead = {}, {}
  for _, element in ipairs(elements) do
    local digest = redis.sha1hex(element)
    local failed = redis.pcall('HINCRBY', failures, digest, 1)
    if type(failed) ~= 'number' then -- another program wrote what is there, so it counts from here
      failed = 1
      redis.call('HSET', failures, digest, failed)
    end
    if failed >= max_failures then
      redis.call('HDEL', failures, digest)
      dead[#dead + 1] = element
    else
      again[#again + 1] = element
    end
  end
  return again, dead
end

-- A dead task is kept as it was put in; its unique key is free again.
function lib.bury_tasks(elements, dead, unique, unique_tasks, failures)
  if #elements == 0 then return end
  lib.forget_tasks(elements, unique, unique_tasks, failures)
  for _, element in ipairs(elements) do redis.call('LPUSH', dead, (lib.open_element(element))) end
end
