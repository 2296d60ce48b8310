-- What goes with every task that leaves the queue for good: by a finish, a cancel, or as dead. Both tables are empty
-- nearly always; then this costs two reads for any number of tasks.
function lib.forget_tasks(elements, unique, unique_tasks, failures)
  local has_unique = redis.call('HLEN', unique) > 0
  local has_failures = redis.call('HLEN', failures) > 0
  if not has_unique and not has_failures then return end
  for _, element in ipairs(elements) do
    if has_failures then redis.call('HDEL', failures, redis.sha1hex(element)) end
    if has_unique then
      local task, key, holder = lib.open_element(element)
      if key and lib.holder_of(unique, key) == holder then
        redis.call('HDEL', unique, key)
        redis.call('ZREM', unique_tasks, lib.unique_entry(key, task))
      end
    end
  end
end
