-- A key of a queue is its hash tag and a kind, so one key names all the others. Lines, pages and the like are as many
-- as there are priorities, tenants or types, so they cannot be listed beforehand; sharing the tag, they share the slot.
-- What every kind is and holds stands in keys.py.
-- Everything that scripts on jobs share is kept in one table: a function costs with every call of a script, and the more
-- so the more locals it refers to.
local jobs = {}

function jobs.keys_beside(meta)
  local base = string.sub(meta, 1, -#'meta' - 1)
  return setmetatable({}, {__index = function(keys, kind)
    local key = base .. kind
    rawset(keys, kind, key)
    return key
  end})
end

-- The version of all records of a queue. What a newer version has written may mean something else, so it is left alone.
jobs.LAYOUT = 1

function jobs.refuse_newer(keys)
  local layout = tonumber(redis.call('HGET', keys.meta, 'layout') or jobs.LAYOUT)
  return layout > jobs.LAYOUT and {'newer', layout} or nil
end

-- Reads one fact of each key that is about to be written to, which finds a key of the wrong type.
-- Says which of the keys exist, too, as most features are not in use most of the time.
jobs.SIZE_OF = {hash = 'HLEN', zset = 'ZCARD', set = 'SCARD', list = 'LLEN', stream = 'XLEN'}
function jobs.guard(keys, kinds)
  local is_used = {}
  for type, names in pairs(kinds) do
    local command = jobs.SIZE_OF[type]
    for index = 1, #names do is_used[names[index]] = redis.call(command, keys[names[index]]) > 0 end
  end
  return is_used
end

-- The same for keys that hardly any queue has: one question is enough if there are none.
jobs.RARE = {
  hash = {'limits', 'buckets', 'busy', 'shares', 'credits', 'suspects', 'progress', 'unique_jobs'},
  zset = {'due', 'buried', 'windows', 'unparks', 'slots', 'alarms'},
  set = {'paused_types', 'strays'},
}

function jobs.guard_rare(keys)
  local names = {}
  for _, kinds in pairs(jobs.RARE) do
    for _, kind in ipairs(kinds) do names[#names + 1] = keys[kind] end
  end
  return redis.call('EXISTS', unpack(names)) > 0 and jobs.guard(keys, jobs.RARE) or {}
end
