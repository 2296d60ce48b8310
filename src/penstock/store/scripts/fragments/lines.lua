-- Jobs that are ready stand in lines, one for each priority and tenant: lists of entries, the next at the left.
-- `levels` has the priorities that have a line, and a ring for each says whose turn it is among the tenants.
-- A line and its place in the ring come and go together.

function jobs.open_line(keys, line)
  local priority, tenant = string.match(line, '^(-?%d+):(.*)$')
  if redis.call('RPUSH', keys['ring:'] .. priority, tenant) == 1 then
    redis.call('ZADD', keys.levels, priority, priority)
  end
end

function jobs.join_line(keys, line, entries)
  local length = 0
  for first = 1, #entries, 1000 do
    length = redis.call('RPUSH', keys['line:'] .. line, unpack(entries, first, math.min(first + 999, #entries)))
  end
  if length == #entries then jobs.open_line(keys, line) end
end

-- Back to where it came from: before everything that came after it. Only a job that was handed out or parked before
-- can stand there already and have come earlier, and such a job has facts.
jobs.MERGED_AT_ONCE = 1000

function jobs.rejoin_line(keys, line, returned)
  table.sort(returned, function(a, b) return a.turn < b.turn end)
  local key, last = keys['line:'] .. line, returned[#returned].turn
  local was_empty = redis.call('EXISTS', key) == 0
  local merged = {}
  while not was_empty and #merged < jobs.MERGED_AT_ONCE do
    local entry = redis.call('LINDEX', key, 0)
    local id = entry and jobs.open_entry(entry)
    local text = id and redis.call('HGET', keys.facts, id)
    local turn = text and jobs.open_facts(text).turn
    if not turn or turn > last then break end
    redis.call('LPOP', key)
    merged[#merged + 1] = {entry = entry, turn = turn}
  end
  for _, item in ipairs(returned) do merged[#merged + 1] = item end
  table.sort(merged, function(a, b) return a.turn < b.turn end)
  local entries = {}
  for index = #merged, 1, -1 do entries[#entries + 1] = merged[index].entry end
  call_in_chunks('LPUSH', key, entries)
  if was_empty then jobs.open_line(keys, line) end
end

-- Several jobs, each to the front of its own line. `items` is {id, facts} of each.
function jobs.return_to_lines(keys, items)
  local lines, order = {}, {}
  for _, item in ipairs(items) do
    local line = item[2].head.line
    if not lines[line] then
      lines[line] = {}
      order[#order + 1] = line
    end
    table.insert(lines[line], {entry = jobs.entry_of(item[1], item[2]), turn = item[2].turn})
  end
  for _, line in ipairs(order) do jobs.rejoin_line(keys, line, lines[line]) end
end

-- The same at the back, each under a new turn.
function jobs.next_turns(keys, number)
  return redis.call('HINCRBY', keys.meta, 'turn', number) - number
end

function jobs.send_to_lines(keys, items)
  if #items == 0 then return end
  local lines, order = {}, {}
  for _, item in ipairs(items) do
    local line = item[2].head.line
    if not lines[line] then
      lines[line] = {}
      order[#order + 1] = line
    end
    table.insert(lines[line], jobs.entry_of(item[1], item[2]))
  end
  for _, line in ipairs(order) do jobs.join_line(keys, line, lines[line]) end
end
