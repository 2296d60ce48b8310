-- A key of a queue is its hash tag and a kind, so one key names all the others. Lines, pages and the like are as many
-- as there are priorities, tenants or types, so they cannot be listed beforehand; sharing the tag, they share the slot.
-- What every kind is and holds stands in keys.py.
local function keys_beside(meta)
  local base = string.sub(meta, 1, -#'meta' - 1)
  return setmetatable({}, {__index = function(keys, kind)
    local key = base .. kind
    rawset(keys, kind, key)
    return key
  end})
end

-- Reads one fact of each key that is about to be written to, which finds a key of the wrong type.
-- Says which of the keys exist, too, as most features are not in use most of the time.
local SIZE_OF = {hash = 'HLEN', zset = 'ZCARD', set = 'SCARD', list = 'LLEN', stream = 'XLEN'}
local function guard(keys, kinds)
  local is_used = {}
  for type, names in pairs(kinds) do
    local command = SIZE_OF[type]
    for index = 1, #names do is_used[names[index]] = redis.call(command, keys[names[index]]) > 0 end
  end
  return is_used
end

-- The same for keys that hardly any queue has: one question is enough if there are none.
local RARE = {
  hash = {'limits', 'buckets', 'busy', 'shares', 'credits', 'suspects', 'progress', 'unique_jobs'},
  zset = {'due', 'buried', 'windows', 'unparks', 'slots', 'alarms'},
  set = {'paused_types', 'strays'},
}

local function guard_rare(keys)
  local names = {}
  for _, kinds in pairs(RARE) do
    for _, kind in ipairs(kinds) do names[#names + 1] = keys[kind] end
  end
  return redis.call('EXISTS', unpack(names)) > 0 and guard(keys, RARE) or {}
end
