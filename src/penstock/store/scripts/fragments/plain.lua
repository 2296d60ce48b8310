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

local function tell_plain(events, kind, id, now, attempt, type, worker)
  publish(events, struct.pack('>Bc0Bc0I6HBc0Bc0', #kind, kind, #id, id, now, attempt, #type, type, #worker, worker))
end

-- Adds a number to each count of a plain job. Returns the names of those that are 0 then.
local function count_plain(counts, state, type, tenant, by)
  local gone = {}
  for _, name in ipairs({state .. 'A:', state .. 'T:' .. type, tenant ~= '' and state .. 'N:' .. tenant or nil}) do
    if redis.call('HINCRBY', counts, name, by) == 0 then gone[#gone + 1] = name end
  end
  return gone
end
