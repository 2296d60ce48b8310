-- A key of a queue is its hash tag and a kind, so one key names all the others. Lines, pages and the like are as many
-- as there are priorities, tenants or types, so they cannot be listed beforehand; sharing the tag, they share the
-- slot. What every kind is and holds stands in keys.py.

function lib.keys_beside(meta)
  local base = string.sub(meta, 1, -5)
  return setmetatable({meta = meta, jobs = base .. 'jobs', facts = base .. 'facts',
      levels = base .. 'levels', finished = base .. 'finished', idle = base .. 'idle', base = base, settings = false,
      is_used = false, listeners = false, now = false}, {
    __index = function(keys, kind)
      local key = base .. kind
      rawset(keys, kind, key)
      return key
    end})
end

-- The version of all records of a queue. What another version has written means something else, so it is left alone;
-- so is what has a layout that is no number.
function lib.refuse_other_layout(layout)
  return layout and tonumber(layout) ~= lib.LAYOUT and {'other_layout', layout} or nil
end

function lib.refuse_layout(keys)
  return lib.refuse_other_layout(redis.call('HGET', keys.meta, 'layout'))
end

-- Reads one fact of each key that is about to be written to, which finds a key of the wrong type.
-- Says which of the keys exist, too, as most features are not in use most of the time.
lib.SIZE_OF = {hash = 'HLEN', zset = 'ZCARD', set = 'SCARD', list = 'LLEN', stream = 'XLEN'}
function lib.guard(keys, kinds)
  local is_used = {}
  for type, names in pairs(kinds) do
    local command = lib.SIZE_OF[type]
    for index = 1, #names do is_used[names[index]] = redis.call(command, keys[names[index]]) > 0 end
  end
  return is_used
end

-- The same for keys that hardly any queue has: one command is enough if there are none.
lib.RARE = {limits = 'HLEN', buckets = 'HLEN', busy = 'HLEN', shares = 'HLEN', suspects = 'HLEN', progress = 'HLEN',
  unique_jobs = 'HLEN', damaged = 'HLEN', due = 'ZCARD', buried = 'ZCARD', windows = 'ZCARD', unparks = 'ZCARD',
  slots = 'ZCARD', alarms = 'ZCARD', keeps = 'ZCARD', paused_types = 'SCARD', unhandled_types = 'SCARD'}

function lib.guard_rare(keys)
  local names, is_used = {}, {}
  for kind in pairs(lib.RARE) do names[#names + 1] = keys.base .. kind end
  if redis.call('EXISTS', unpack(names)) == 0 then return is_used end
  for kind, command in pairs(lib.RARE) do is_used[kind] = redis.call(command, keys[kind]) > 0 end
  return is_used
end
