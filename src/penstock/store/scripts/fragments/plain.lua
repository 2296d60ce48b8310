-- A job is plain if it is listed under its type and tenant alone and nothing else depends on it: it has no key, no tags, no
-- words to search for. To be sent to a worker that waits and to be done is most of what a quiet queue sees of such
-- jobs, so both have a way of their own (hand_over, report_plain): in one go, with what they need and no more, before
-- anything else is set up. A server that had nothing to do takes longer to set up the rest than to go this way.

-- Flags, type, tenant and priority of a plain head; nil for others.
local function open_plain(head)
  local flags, type, at = struct.unpack('>HBc0', head)
  if bit.band(flags, jobs.NOT_PLAIN) ~= 0 then return nil end
  local priority = 0
  if bit.band(flags, 64) ~= 0 then priority, at = struct.unpack('>i4', head, at) end
  if bit.band(flags, jobs.HAS_TENANT) == 0 then return flags, type, '', priority end
  -- Attempts, timeout and expiry may come before it.
  if bit.band(flags, 128) ~= 0 then at = at + 2 end
  if bit.band(flags, 256) ~= 0 then at = at + 4 end
  if bit.band(flags, 512) ~= 0 then at = at + 6 end
  return flags, type, (struct.unpack('>Bc0', head, at)), priority
end

-- Returns how many have heard it.
local function tell_plain(events, kind, id, now, attempt, type, worker)
  return publish(events, struct.pack('>Bc0Bc0I6HBc0Bc0', #kind, kind, #id, id, now, attempt, #type, type, #worker, worker))
end

-- The counts in which a plain job in this state is one: of all jobs, of its type, of its tenant. Without a tenant the last
-- is the first once more, so that there are always three.
local function name_plain_counts(state, type, tenant)
  local all = state .. 'A:'
  return all, state .. 'T:' .. type, tenant == '' and all or state .. 'N:' .. tenant
end

-- What was done for a plain job is remembered in `meta`, which is written to anyway, as lane and number: one note for
-- each worker, and one for all senders whose ids end alike. Where another lane takes the place of a note, what was noted
-- is remembered as with all other requests.
local function lane_of(memory, base) return string.sub(memory, #base + 8) .. ' ' end -- after `memory:`

-- The reply to this operation if it, or a later one of its lane, has been noted; else nil.
local function open_note(note, lane, operation, reply)
  if not note or string.sub(note, 1, #lane) ~= lane then return nil end
  local number = tonumber(string.sub(note, #lane + 1))
  if number < tonumber(operation) then return nil end
  return number == tonumber(operation) and reply or {'superseded'}
end

local function keep_note(note, base, reply)
  local lane, number = string.match(note, '^(.*) (%d+)$')
  local memory = base .. 'memory:' .. lane
  if not recall(memory, number) then remember(memory, number, reply) end
end

local function make_room_for_note(note, lane, base, reply)
  if note and string.sub(note, 1, #lane) ~= lane then keep_note(note, base, reply) end
end

-- When the queue goes, and `meta` with it. That an id is greater than all before must still mean that it is new.
local function keep_all_notes(meta, base)
  local found = redis.call('HGETALL', meta)
  for index = 1, #found, 2 do
    local name, value = found[index], found[index + 1]
    local kind = string.match(name, '^(%a+) ')
    if kind == 'sent' then keep_note(value, base, {'ok'}) end
    if kind == 'reported' then keep_note(value, base, {'empty', {}}) end
    if name == 'newest' then redis.call('SET', base .. 'memory:' .. 'newest', value, 'PX', MEMORY_MS) end
  end
end

-- The greatest id that an empty queue has ever had, as far as that can matter.
local function newest_before(base)
  return redis.call('GET', base .. 'memory:' .. 'newest') or '0'
end
