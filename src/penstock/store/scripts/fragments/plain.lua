-- A job is plain if it is listed under its type and tenant alone and nothing else depends on it: it has no key, no tags, no
-- words to search for. To be sent to a worker that waits and to be done is most of what a quiet queue sees of such
-- jobs, so both have a way of their own (hand_over, report_plain): in one go, with what they need and no more, before
-- anything else is set up. A server that had nothing to do takes longer to set up the rest than to go this way.
jobs.NOT_PLAIN = 55358 -- at_most_once, all of unique, key, tags, words

-- Flags, type and tenant of a plain head; nil for others.
local function open_plain(head)
  local flags, type, at = struct.unpack('>HBc0', head)
  if bit.band(flags, jobs.NOT_PLAIN) ~= 0 then return nil end
  if bit.band(flags, jobs.HAS_TENANT) == 0 then return flags, type, '' end
  -- Priority, attempts, timeout and expiry may come before it.
  if bit.band(flags, 64) ~= 0 then at = at + 4 end
  if bit.band(flags, 128) ~= 0 then at = at + 2 end
  if bit.band(flags, 256) ~= 0 then at = at + 4 end
  if bit.band(flags, 512) ~= 0 then at = at + 6 end
  return flags, type, (struct.unpack('>Bc0', head, at))
end

-- Returns how many have heard it.
local function tell_plain(events, kind, id, now, attempt, type, worker)
  return publish(events, struct.pack('>Bc0Bc0I6HBc0Bc0', #kind, kind, #id, id, now, attempt, #type, type, #worker, worker))
end

-- Adds the names of the counts in which a plain job in this state is one. Returns how many there are then.
local function name_plain_counts(names, state, type, tenant)
  names[#names + 1], names[#names + 2] = state .. 'A:', state .. 'T:' .. type
  if tenant ~= '' then names[#names + 1] = state .. 'N:' .. tenant end
  return #names
end

-- Writes counts that were read: the first ones are one less now, the others one more.
local function write_plain_counts(counts, names, numbers, less)
  local kept, gone = {}, {}
  for index, name in ipairs(names) do
    local number = (numbers[index] or 0) + (index > less and 1 or -1)
    if number == 0 then
      gone[#gone + 1] = name -- a count of nothing is not kept
    else
      kept[#kept + 1], kept[#kept + 2] = name, whole(number)
    end
  end
  if #kept > 0 then redis.call('HSET', counts, unpack(kept)) end
  if #gone > 0 then redis.call('HDEL', counts, unpack(gone)) end
end
