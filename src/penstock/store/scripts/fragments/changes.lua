-- What a script does to jobs is gathered and then written at once: a batch of a thousand jobs changes few keys.
--
-- Jobs are listed by state and type, tenant or tag in the order in which they were sent. A list is a row of pages: sets of
-- up to 512 ids whose jobs have neighbouring numbers (Redis keeps such a set as 8 bytes per id), and a directory of
-- the pages that are not empty. So any page is found at once, however many jobs there are. What runs is not listed
-- that way: the workers' own keys have it.
jobs.PAGE = 512

function jobs.new_changes()
  return {counts = {}, SADD = {}, SREM = {}, facts = {}, dropped_facts = {}, dropped_jobs = {}, finished = {}, buried = {},
    events = {}, notices = {}, meta = {sent = 0, started = 0, finished = 0, done = 0, waiting_bytes = 0, kept_bytes = 0}}
end

-- No guard can name the pages beforehand, so they are looked at when it is known which jobs will move, and before anything
-- is written. Their sizes are kept, as they say when a page comes or goes.
jobs.sizes = {}
jobs.checked = {}
jobs.page_prefixes = {}

-- What the keys of the pages of this number begin with.
function jobs.page_of(keys, number)
  local prefix = jobs.page_prefixes[number]
  if not prefix then
    prefix = keys['page:'] .. whole(number) .. ':'
    jobs.page_prefixes[number] = prefix
  end
  return prefix
end

function jobs.size_of(page)
  local size = jobs.sizes[page]
  if not size then
    size = redis.call('SCARD', page)
    jobs.sizes[page] = size
  end
  return size
end

-- The lists of a state, and of words, that a job with this number is on or will be on. A directory is written to only if
-- the page comes, or goes with the `leaving` jobs that leave it at most.
function jobs.check_lists(keys, head, state, number, leaving)
  if state == jobs.RUNNING then return end
  local page = (number - number % jobs.PAGE) / jobs.PAGE
  local states = jobs.checked[head]
  if not states then
    states = {}
    jobs.checked[head] = states
  end
  local checked = states[state]
  if checked and checked.page == page and checked.leaving >= leaving then return end
  states[state] = {page = page, leaving = leaving}
  local names, words, prefix = head[state] or jobs.name_lists(head, state), head.words, jobs.page_of(keys, page)
  for index = 1, #names + #words do
    local listing = names[index] or '*W:' .. words[index - #names]
    local key = prefix .. listing
    local size = jobs.sizes[key] or jobs.size_of(key)
    if size <= leaving and not jobs.checked[listing] then
      jobs.checked[listing] = true
      redis.call('ZCARD', keys['pages:'] .. listing)
    end
  end
end

-- The lists of the state that jobs are in and of the one that they may go to, if any, and the lines that they may join;
-- false stands for a job that does not exist.
-- seldom
function jobs.check_moves(keys, all, state)
  for _, facts in ipairs(all) do
    if facts then
      jobs.check_lists(keys, facts.head, facts.state, facts.number, #all)
      if state then jobs.check_lists(keys, facts.head, state, facts.number, 0) end
      if state == jobs.READY then jobs.check_line(keys, facts.head.line) end
    end
  end
end

function jobs.tally(changes, field, by)
  changes.meta[field] = (changes.meta[field] or 0) + by
end

function jobs.add_to_page(pages, number, id)
  local page = (number - number % jobs.PAGE) / jobs.PAGE
  local ids = pages[page]
  if ids then
    ids[#ids + 1] = id
  else
    pages[page] = {id}
  end
end

-- The names of the lists of a state that jobs with this head are on.
function jobs.name_lists(head, state)
  local dimensions = head.dimensions
  local names = {state .. dimensions[1], state .. dimensions[2]}
  for index = 3, #dimensions do names[index] = state .. dimensions[index] end
  head[state] = names
  return names
end

-- Puts a job on the lists of a state, or takes it off.
function jobs.list_job(changes, state, facts, id, word, by)
  local names, counts = facts.head[state] or jobs.name_lists(facts.head, state), changes.counts
  for index = 1, #names do counts[names[index]] = (counts[names[index]] or 0) + by end
  if state == jobs.RUNNING then return end
  local page = (facts.number - facts.number % jobs.PAGE) / jobs.PAGE
  local lists = changes[word]
  for index = 1, #names do
    local pages = lists[names[index]]
    local ids = pages and pages[page]
    if ids then
      ids[#ids + 1] = id
    elseif pages then
      pages[page] = {id}
    else
      lists[names[index]] = {[page] = {id}}
    end
  end
end

function jobs.enter_state(changes, state, facts, id) return jobs.list_job(changes, state, facts, id, 'SADD', 1) end
function jobs.leave_state(changes, facts, id) return jobs.list_job(changes, facts.state, facts, id, 'SREM', -1) end

function jobs.list_words(changes, facts, id, word)
  for _, text in ipairs(facts.head.words) do
    local listing = '*W:' .. text
    local pages = changes[word][listing] or {}
    changes[word][listing] = pages
    jobs.add_to_page(pages, facts.number, id)
  end
end

-- Puts new jobs on their lists, which have consecutive numbers, and tells of them.
function jobs.list_new(keys, changes, state, head, ids, number, now)
  local names, counts = head[state] or jobs.name_lists(head, state), changes.counts
  for index = 1, #names do
    local pages = changes.SADD[names[index]] or {}
    counts[names[index]] = (counts[names[index]] or 0) + #ids
    changes.SADD[names[index]] = pages
    for at = 1, #ids do jobs.add_to_page(pages, number + at, ids[at]) end
  end
  local facts = jobs.new_facts(now, number, head, 0) -- of no job in particular
  facts.state = state
  for index = 1, #ids do
    if keys.is_heard == 'no' and #head.words == 0 then break end
    facts.number = number + index
    jobs.tell(keys, changes, 'enqueued', ids[index], facts)
    if #head.words > 0 then jobs.list_words(changes, facts, ids[index], 'SADD') end
  end
end

function jobs.keep_facts(changes, id, facts)
  local kept = changes.facts
  local size = #kept
  kept[size + 1] = id
  kept[size + 2] = jobs.pack_facts(facts)
end

-- A job goes from one state to another: its lists, counts and facts change together.
function jobs.move_job(changes, id, facts, state, now)
  jobs.list_job(changes, facts.state, facts, id, 'SREM', -1)
  facts.state, facts.updated = state, now
  jobs.list_job(changes, state, facts, id, 'SADD', 1)
end

-- Whoever listens to the queue hears of every event; a listener is rare, so the words are only put together for one.
function jobs.tell(keys, changes, kind, id, facts, detail)
  local is_heard = keys.is_heard
  if is_heard == 'no' then return end
  if not is_heard then
    keys.is_heard = has_subscribers(keys.events) and 'yes' or 'no'
    if keys.is_heard == 'no' then return end
  end
  local events = changes.events
  local attempt, head, worker = facts.failures + facts.crashes, facts.head, facts.worker
  events[#events + 1] = {struct.pack('>Bc0Bc0', #kind, kind, #id, id),
    struct.pack('>HBc0Bc0', attempt, #head.type, head.type, #worker, worker) .. (detail or '')}
end

function jobs.publish_events(keys, changes, now)
  for index = 1, #changes.events do
    local event = changes.events[index]
    publish(keys.events, event[1] .. struct.pack('>I6', now) .. event[2])
  end
  -- Who waits for one job listens to a channel of that job alone.
  local channel = keys['job:']
  for index = 1, #changes.notices do
    local notice = changes.notices[index]
    publish(channel .. notice[1], notice[2])
  end
end

function jobs.clear_pages(keys, listing, pages)
  for number, ids in pairs(pages) do
    local page = jobs.page_of(keys, number) .. listing
    local left = jobs.size_of(page) - redis.call('SREM', page, unpack(ids))
    jobs.sizes[page] = left
    if left == 0 then redis.call('ZREM', keys['pages:'] .. listing, whole(number)) end
  end
end

function jobs.fill_pages(keys, listing, pages)
  for number, ids in pairs(pages) do
    local page = jobs.page_of(keys, number) .. listing
    local before = jobs.size_of(page)
    jobs.sizes[page] = before + redis.call('SADD', page, unpack(ids))
    if before == 0 then redis.call('ZADD', keys['pages:'] .. listing, whole(number), whole(number)) end
  end
end

-- All counts at once, as they may be as many as there are tenants. A count of nothing is not kept.
function jobs.write_counts(keys, counts)
  local names, gone, fields = {}, {}, {}
  for name, by in pairs(counts) do
    if by ~= 0 then names[#names + 1] = name end
  end
  if #names <= 2 then
    for index = 1, #names do
      local name = names[index]
      if redis.call('HINCRBY', keys.counts, name, whole(counts[name])) == 0 then gone[#gone + 1] = name end
    end
    return call_in_chunks('HDEL', keys.counts, gone)
  end
  local found = get_fields(keys.counts, names)
  for index = 1, #names do
    local name = names[index]
    local count = (found[index] and tonumber(found[index]) or 0) + counts[name]
    if count == 0 then
      gone[#gone + 1] = name
    else
      local size = #fields
      fields[size + 1], fields[size + 2] = name, whole(count)
    end
  end
  call_in_chunks('HDEL', keys.counts, gone)
  call_in_chunks('HSET', keys.counts, fields)
end

-- A job that is given another head leaves the lists of the old one and joins those of the new, which may be the same:
-- so all leave before any joins.
function jobs.write_lists(keys, changes)
  jobs.write_counts(keys, changes.counts)
  for name, pages in pairs(changes.SREM) do jobs.clear_pages(keys, name, pages) end
  for name, pages in pairs(changes.SADD) do jobs.fill_pages(keys, name, pages) end
end

function jobs.write_changes(keys, changes, now)
  call_in_chunks('HSET', keys.facts, changes.facts)
  call_in_chunks('HDEL', keys.facts, changes.dropped_facts)
  call_in_chunks('HDEL', keys.jobs, changes.dropped_jobs)
  call_in_chunks('ZADD', keys.finished, changes.finished)
  call_in_chunks('ZADD', keys.buried, changes.buried)
  jobs.write_lists(keys, changes)
  for field, by in pairs(changes.meta) do
    if by ~= 0 then redis.call('HINCRBY', keys.meta, field, whole(by)) end
  end
  jobs.publish_events(keys, changes, now)
end

-- The same in the midst of a script: what follows reads what was changed, and changes more.
function jobs.flush_changes(keys, changes, now)
  jobs.write_changes(keys, changes, now)
  for name, empty in pairs(jobs.new_changes()) do changes[name] = empty end
end
