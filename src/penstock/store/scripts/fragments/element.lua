-- An element of the ready list is the task itself, byte for byte. Only a unique task carries its key in front,
-- behind a tag, because nothing else could tell it from an equal task that is not unique. The holder (8 bytes,
-- random) tells it from an earlier task with the same key that somebody may still be running.
local TAG = '\0\255penstock\255'
local HOLDER_BYTES = 8

-- Returns task, key, holder; key and holder are nil for a task that is not unique.
local function open_element(element)
  if string.sub(element, 1, #TAG) ~= TAG then return element, nil, nil end
  local key_length = struct.unpack('>I2', element, #TAG + 1)
  local key_start = #TAG + 3
  if key_length == 0 then return string.sub(element, key_start), nil, nil end
  local holder_start = key_start + key_length
  return string.sub(element, holder_start + HOLDER_BYTES),
    string.sub(element, key_start, holder_start - 1),
    string.sub(element, holder_start, holder_start + HOLDER_BYTES - 1)
end

local function unique_element(key, holder, task)
  return TAG .. struct.pack('>I2', #key) .. key .. holder .. task
end

local function holder_of(unique, key)
  return string.sub(redis.call('HGET', unique, key) or '', 1, HOLDER_BYTES)
end

-- What cancel_tasks looks a unique task up by: all keys of one task stand side by side.
local function unique_entry(key, task)
  return redis.sha1hex(task) .. key
end

-- A task that happens to begin like a tag is stored behind an empty one.
local function plain_element(task)
  if string.sub(task, 1, #TAG) ~= TAG then return task end
  return TAG .. struct.pack('>I2', 0) .. task
end

-- A delete frees the keys of running tasks too. One that is given back afterwards is not unique any more;
-- with a key that is not its own, cancel_tasks would not find it.
local function returned_element(element, unique)
  local task, key, holder = open_element(element)
  if key and holder_of(unique, key) ~= holder then return plain_element(task) end
  return element
end
