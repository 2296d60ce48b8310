-- A key of a queue is its hash tag and a kind, so one key names all the others. Lines, pages and the like are as many
-- as there are priorities, tenants or types, so they cannot be listed beforehand; sharing the tag, they share the slot.
-- What every kind is and holds stands in keys.py.
-- Everything that scripts on jobs share is kept in one table: a function costs with every call of a script, and the more
-- so the more locals it refers to.

function jobs.keys_beside(meta)
  local base = string.sub(meta, 1, -5)
  return setmetatable({meta = meta, jobs = base .. 'jobs', facts = base .. 'facts', counts = base .. 'counts',
      levels = base .. 'levels', finished = base .. 'finished', idle = base .. 'idle', base = base, settings = false,
      is_used = false, is_heard = false, now = false}, {
    __index = function(keys, kind)
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
-- seldom
function jobs.guard_each_rare(keys)
  return jobs.guard(keys, {hash = {'limits', 'buckets', 'busy', 'shares', 'credits', 'suspects', 'progress', 'unique_jobs'},
    zset = {'due', 'buried', 'windows', 'unparks', 'slots', 'alarms'}, set = {'paused_types', 'strays'}})
end

function jobs.guard_rare(keys)
  local base = keys.base
  return redis.call('EXISTS', base .. 'limits', base .. 'buckets', base .. 'busy', base .. 'shares', base .. 'credits',
    base .. 'suspects', base .. 'progress', base .. 'unique_jobs', base .. 'due', base .. 'buried', base .. 'windows',
    base .. 'unparks', base .. 'slots', base .. 'alarms', base .. 'paused_types', base .. 'strays') > 0 and
    jobs.guard_each_rare(keys) or {}
end
