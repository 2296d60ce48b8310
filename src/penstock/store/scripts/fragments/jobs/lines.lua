-- Jobs that are ready stand in lines, one for each priority and tenant: lists of entries, the next at the left.
-- `levels` has the priorities that have a line, and a ring for each says whose turn it is among the tenants.
-- A line and its place in the ring come and go together.
--
-- A tenant's place in the ring is how many rounds it has had; a round is as many jobs as its share. The tenant that
-- has had the fewest is next. So a tenant may be given more than its share at once: it then waits for as many rounds.

-- A tenant that joins waits for one round, in which all others get their share, and for all that got more than theirs:
-- to leave and to join again gains nothing. It comes a little before those that have had that round meanwhile.
lib.ALMOST_A_ROUND = 0.999

function lib.place_to_join(ring)
  local first = redis.call('ZRANGE', ring, 0, 0, 'WITHSCORES')[2]
  if not first then return '0' end
  local last = redis.call('ZRANGE', ring, -1, -1, 'WITHSCORES')[2]
  return string.format('%.17g', math.max(tonumber(first) + lib.ALMOST_A_ROUND, tonumber(last)))
end

function lib.open_line(keys, line)
  local priority, tenant = string.match(line, '^(-?%d+):(.*)$')
  local ring = keys['ring:'] .. priority
  local place = lib.place_to_join(ring)
  if place == '0' then redis.call('ZADD', keys.levels, priority, priority) end
  redis.call('ZADD', ring, place, tenant)
end

-- Looks at a line that jobs will join, before anything is written.
function lib.check_line(keys, line)
  if lib.checked[line] then return end
  lib.checked[line] = true
  if redis.call('LLEN', keys['line:'] .. line) == 0 then
    redis.call('ZCARD', keys['ring:'] .. string.match(line, '^-?%d+'))
  end
end

-- Does one thing of several for a worker. What is found wrong before anything was written is an error; afterwards it
-- only ends this thing, as an error would hide what was done. The next request that meets it says so.
function lib.try_step(claim, act, ...)
  local is_well, result = pcall(act, ...)
  if is_well then return result end
  if not claim.is_begun then error(result, 0) end
  return nil
end

function lib.join_line(keys, line, entries)
  local length = 0
  for first = 1, #entries, 1000 do
    length = redis.call('RPUSH', keys['line:'] .. line, unpack(entries, first, math.min(first + 999, #entries)))
  end
  if length == #entries then lib.open_line(keys, line) end
end

-- Puts jobs back where they stood: before everything that came after them. Only a job that was handed out or parked
-- before can stand there already and have come earlier, and such a job has facts. Entries that are out of date are
-- dropped.
lib.MERGED_AT_ONCE = 1000

-- seldom
function lib.rejoin_line(keys, line, returned)
  table.sort(returned, function(a, b) return a.turn < b.turn end)
  local key, last = keys['line:'] .. line, returned[#returned].turn
  local was_empty = redis.call('EXISTS', key) == 0
  local merged, examined = {}, 0
  while not was_empty and examined < lib.MERGED_AT_ONCE do
    local entry = redis.call('LINDEX', key, 0)
    if not entry then break end
    local id, turn = lib.open_entry(entry)
    local text = redis.call('HGET', keys.facts, id)
    local facts = text and lib.facts_in(text)
    if not facts and redis.call('HEXISTS', keys.jobs, id) == 1 then break end
    local is_valid = facts and facts.state == lib.READY and facts.turn == (turn or facts.number)
    if is_valid and facts.turn > last then break end
    redis.call('LPOP', key)
    if is_valid then merged[#merged + 1] = {entry = entry, turn = facts.turn} end
    examined = examined + 1
  end
  for _, item in ipairs(returned) do merged[#merged + 1] = item end
  table.sort(merged, function(a, b) return a.turn < b.turn end)
  local entries = {}
  for index = #merged, 1, -1 do entries[#entries + 1] = merged[index].entry end
  lib.call_in_chunks('LPUSH', key, entries)
  if was_empty then lib.open_line(keys, line) end
end

-- The lines of these jobs in the order in which each is first met, and of each line an array of {entry, turn}. `items`
-- is {id, facts} of each.
-- seldom
function lib.group_by_line(items)
  local lines, order = {}, {}
  for _, item in ipairs(items) do
    local line = item[2].head.line
    if not lines[line] then
      lines[line] = {}
      order[#order + 1] = line
    end
    table.insert(lines[line], {entry = lib.entry_of(item[1], item[2]), turn = item[2].turn})
  end
  return order, lines
end

-- Several jobs, each to the front of its own line.
-- seldom
function lib.return_to_lines(keys, items)
  local order, lines = lib.group_by_line(items)
  for _, line in ipairs(order) do lib.rejoin_line(keys, line, lines[line]) end
end

-- So many new turns, after the one that is returned. Nil if the last one that was given out is no number: then jobs
-- keep theirs, and it is left for fsck to find.
function lib.next_turns(keys, number)
  local last = redis.pcall('HINCRBY', keys.meta, 'turn', number)
  return type(last) == 'number' and last - number or nil
end

-- Several jobs, each to the back of its own line.
-- seldom
function lib.send_to_lines(keys, items)
  local order, lines = lib.group_by_line(items)
  for _, line in ipairs(order) do
    local entries = {}
    for index, item in ipairs(lines[line]) do entries[index] = item.entry end
    lib.join_line(keys, line, entries)
  end
end

-- Jobs that cannot start now are put aside in the order in which they would have: by priority, then by turn.
lib.TURN_DIGITS = 16

function lib.aside_of(id, facts)
  return string.format('%016.0f', facts.turn) .. id
end

-- seldom
function lib.put_aside(key, id, facts)
  redis.call('ZADD', key, facts.head.priority, lib.aside_of(id, facts))
end

-- An entry as lines have it, but always with its turn.
-- seldom
function lib.open_aside(member)
  local turn = tonumber(string.sub(member, 1, lib.TURN_DIGITS))
  if not turn then return '', 0 end -- another program has put this here, and it is dropped
  return string.sub(member, lib.TURN_DIGITS + 1) .. '.' .. lib.whole(turn), turn
end
