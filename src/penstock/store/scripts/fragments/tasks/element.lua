-- An element of the ready list is the task itself, byte for byte. Only a unique task carries its key in front, behind
-- a tag, because nothing else could tell it from an equal task that is not unique. The holder (8 bytes, random) tells
-- it from an earlier task with the same key that a worker may still be running.
lib.TAG = '\0\255penstock\255'
lib.HOLDER_BYTES = 8

-- Returns task, key, holder; key and holder are nil for a task that is not unique.
function lib.open_element(element)
  if string.sub(element, 1, #lib.TAG) ~= lib.TAG then return element, nil, nil end
  local key_length = struct.unpack('>I2', element, #lib.TAG + 1)
  local key_start = #lib.TAG + 3
  if key_length == 0 then return string.sub(element, key_start), nil, nil end
  local holder_start = key_start + key_length
  return string.sub(element, holder_start + lib.HOLDER_BYTES),
    string.sub(element, key_start, holder_start - 1),
    string.sub(element, holder_start, holder_start + lib.HOLDER_BYTES - 1)
end

function lib.tagged_element(key, rest)
  return lib.TAG .. struct.pack('>I2', #key) .. key .. rest
end

function lib.unique_element(key, holder, task)
  return lib.tagged_element(key, holder .. task)
end

function lib.holder_of(unique, key)
  return string.sub(redis.call('HGET', unique, key) or '', 1, lib.HOLDER_BYTES)
end

-- What cancel_tasks looks a unique task up by: all keys of one task stand side by side.
function lib.unique_entry(key, task)
  return redis.sha1hex(task) .. key
end

-- A task that happens to begin like a tag is stored behind an empty one.
function lib.plain_element(task)
  if string.sub(task, 1, #lib.TAG) ~= lib.TAG then return task end
  return lib.tagged_element('', task)
end

-- A delete frees the keys of running tasks too. One that is given back afterwards is not unique any more;
-- with a key that is not its own, cancel_tasks would not find it.
function lib.returned_element(element, unique)
  local task, key, holder = lib.open_element(element)
  if key and lib.holder_of(unique, key) ~= holder then return lib.plain_element(task) end
  return element
end
