-- Move one chunk of jobs, of those that were decided to be in the queue, into it; part of it if there is no room for
-- all.
--
-- One step, so that a job is either in its stage or in the queue. Jobs without an id get one of those that were sent
-- along; a copy of the request that arrives late would give them again, to jobs of the next chunk, if the first that
-- had them are gone by then. So the request has a number, though the next chunk is whatever is next in the store. What
-- cannot be added any more (its id or its unique key is taken) is counted, as the batch is decided. On a full store
-- nothing is moved while jobs wait; when none does, a chunk is moved all the same, as only work that is done makes
-- room.
--
-- KEYS[1] memory     string  last operation of this lane
-- KEYS[2] meta       hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] operation  int     number of this operation in its lane
-- ARGV[2] ids...     int     new ids, at least as many as a chunk has jobs
--
-- Returns {'ok', moved, merged, left}  how many were moved, were of these not added, are left to be moved
--         {'taken'}                    a job with one of these ids is there already; make others, then send again
--         {'no_room', left}            the queue is full
--         {'empty'}                    there is nothing to move
--         {'no_number', name}          what new jobs need is stored but is no number
--         {'tasks', kind}              the queue holds plain tasks, or is a log
--         {'other_layout', layout}            the queue was written by another version
-- include clock channels memory chunks wake stages model forms
-- include from jobs: keys queue records changes lines endings admit
local memory, operation, FIRST_ID = KEYS[1], ARGV[1], 2

local done = lib.recall(memory, operation)
if done then return done end

local keys = lib.keys_beside(KEYS[2])

local function refuse(reply)
  return lib.end_early(memory, operation, reply)
end

-- Gives every job without an id the next of those that were sent along. Returns whether there was one.
local function give_ids(groups)
  local at, used = 1, 0
  while at <= #groups do
    local count = tonumber(groups[at + 4])
    for place = at + 5, at + 3 + 2 * count, 2 do
      if groups[place] == '' then
        groups[place] = ARGV[FIRST_ID + used]
        used = used + 1
      end
    end
    at = at + 5 + 2 * count
  end
  return used > 0
end

-- The first jobs, as many as there is room for (nil: any number), and the rest, both in groups.
local function split_groups(groups, room, room_bytes)
  local parts, part, at = {{}, {}}, 1, 1
  while at <= #groups do
    local count, group = tonumber(groups[at + 4]), false
    for job = 1, count do
      local id, data = groups[at + 3 + 2 * job], groups[at + 4 + 2 * job]
      room, room_bytes = room and room - 1, room_bytes and room_bytes - #data
      local is_over = (room and room < 0) or (room_bytes and room_bytes < 0)
      if is_over and part == 1 then part, group = 2, false end
      local found = parts[part]
      if not group then
        for head = at, at + 3 do found[#found + 1] = groups[head] end
        found[#found + 1] = '0'
        group = #found
      end
      found[group] = lib.whole(tonumber(found[group]) + 1)
      found[#found + 1], found[#found + 2] = id, data
    end
    at = at + 5 + 2 * count
  end
  return parts[1], parts[2]
end

lib.guard_admission(keys)
local refusal = lib.refuse_kind(keys)
if refusal then return refuse(refusal) end
local stage, index, groups = lib.next_chunk(keys.moving, keys.base)
local staged = tonumber(redis.call('HGET', keys.meta, 'staged') or '0') or 0
if not stage then return refuse({'empty'}) end
local waiting, bytes = lib.waiting_jobs(keys), tonumber(keys.settings.waiting_bytes) or 0
local max_length, max_bytes = tonumber(keys.settings.max_length), tonumber(keys.settings.max_bytes)
local fitting, rest = groups, {}
if max_length or max_bytes then
  fitting, rest = split_groups(groups, max_length and max_length - waiting, max_bytes and max_bytes - bytes)
  -- When nothing waits, one job goes in whatever its size: the limit may have been lowered since the batch was
  -- decided.
  if #fitting == 0 and waiting == 0 then fitting, rest = split_groups(groups, 1) end
  if #fitting == 0 then return refuse({'no_room', staged}) end
end
local are_made = give_ids(fitting)
local now = lib.now_ms()
local sending = lib.read_groups(keys, fitting, 1, now)
sending.are_given = not are_made
if sending.taken and are_made then return refuse({'taken'}) end
refusal = lib.refuse_turn(keys, sending)
if refusal then return refuse(refusal) end
lib.check_admission(keys, sending, now)

if waiting == 0 then lib.allow_move_when_full(stage) end
lib.admit_jobs(keys, sending, now)
lib.remove_chunk(keys.moving, stage, index, rest)
local merged = #sending.existing
local moved = sending.added + merged
redis.pcall('HINCRBY', keys.meta, 'merged', merged)
redis.call('HSET', keys.meta, 'staged', lib.whole(staged - moved), 'moved_at', lib.whole(now))
return lib.remember(memory, operation, {'ok', moved, merged, staged - moved})
