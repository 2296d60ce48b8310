-- What a script does to jobs is gathered and then written at once: a batch of a thousand jobs changes few keys.
--
-- Jobs are listed by state and type, tenant or tag in the order in which they were sent. A list is a row of pages: sets of
-- up to 512 ids whose jobs have neighbouring numbers (Redis keeps such a set as 8 bytes per id), and a directory of
-- the pages that are not empty. So any page is found at once, however many jobs there are. What runs is not listed
-- that way: the workers' own keys have it.
jobs.PAGE = 512

function jobs.new_changes()
  return {heads = {}, words = {}, facts = {}, dropped_facts = {}, dropped_jobs = {}, meta = {}, finished = {}, buried = {},
    events = {}, notices = {}}
end

-- No guard can name the pages beforehand, so they are looked at when it is known which jobs will move, and before anything
-- is written. Their sizes are kept, as they say when a page comes or goes.
jobs.sizes = {}
jobs.checked = {}

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
  local dimensions, words = head.dimensions, head.words
  for index = 1, #dimensions + #words do
    local listing = dimensions[index] and state .. dimensions[index] or '*W:' .. words[index - #dimensions]
    if jobs.size_of(keys['page:'] .. whole(page) .. ':' .. listing) <= leaving then
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
  if not ids then
    ids = {}
    pages[page] = ids
  end
  ids[#ids + 1] = id
end

-- What changes on the lists of a state. Jobs with the same head are on the same lists.
function jobs.change_of(changes, head, state)
  local states = changes.heads[head]
  if not states then
    states = {}
    changes.heads[head] = states
  end
  local change = states[state]
  if not change then
    change = {count = 0, SADD = {}, SREM = {}}
    states[state] = change
  end
  return change
end

-- Puts a job on the lists of a state, or takes it off.
function jobs.list_job(changes, state, facts, id, word, by)
  local change = jobs.change_of(changes, facts.head, state)
  change.count = change.count + by
  if state ~= jobs.RUNNING then jobs.add_to_page(change[word], facts.number, id) end
end

function jobs.enter_state(changes, state, facts, id) return jobs.list_job(changes, state, facts, id, 'SADD', 1) end
function jobs.leave_state(changes, facts, id) return jobs.list_job(changes, facts.state, facts, id, 'SREM', -1) end

-- seldom
function jobs.list_words(changes, facts, id, word)
  for _, text in ipairs(facts.head.words) do
    local change = changes.words[text]
    if not change then
      change = {SADD = {}, SREM = {}}
      changes.words[text] = change
    end
    jobs.add_to_page(change[word], facts.number, id)
  end
end

-- Puts new jobs on their lists, which have consecutive numbers, and tells of them.
function jobs.list_new(keys, changes, state, head, ids, number, now)
  local change = jobs.change_of(changes, head, state)
  change.count = change.count + #ids
  for index = 1, #ids do jobs.add_to_page(change.SADD, number + index, ids[index]) end
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
  for _, event in ipairs(changes.events) do
    publish(keys.events, event[1] .. struct.pack('>I6', now) .. event[2])
  end
  -- Who waits for one job listens to a channel of that job alone.
  for _, notice in ipairs(changes.notices) do
    publish(keys['job:'] .. notice[1], notice[2])
  end
end

function jobs.clear_pages(keys, listing, change)
  for number, ids in pairs(change.SREM) do
    local page = keys['page:'] .. whole(number) .. ':' .. listing
    local left = jobs.size_of(page) - redis.call('SREM', page, unpack(ids))
    jobs.sizes[page] = left
    if left == 0 then redis.call('ZREM', keys['pages:'] .. listing, whole(number)) end
  end
end

function jobs.fill_pages(keys, listing, change)
  for number, ids in pairs(change.SADD) do
    local page = keys['page:'] .. whole(number) .. ':' .. listing
    local before = jobs.size_of(page)
    jobs.sizes[page] = before + redis.call('SADD', page, unpack(ids))
    if before == 0 then redis.call('ZADD', keys['pages:'] .. listing, whole(number), whole(number)) end
  end
end

-- All counts at once, as they may be as many as there are tenants. A count of nothing is not kept.
function jobs.write_counts(keys, counts)
  local listings = {}
  for listing, by in pairs(counts) do
    if by ~= 0 then listings[#listings + 1] = listing end
  end
  local found, gone, fields = get_fields(keys.counts, listings), {}, {}
  for index, listing in ipairs(listings) do
    local count = tonumber(found[index] or '0') + counts[listing]
    if count == 0 then
      gone[#gone + 1] = listing
    else
      fields[#fields + 1] = listing
      fields[#fields + 1] = whole(count)
    end
  end
  call_in_chunks('HDEL', keys.counts, gone)
  call_in_chunks('HSET', keys.counts, fields)
end

-- A job that is given another head leaves the lists of the old one and joins those of the new, which may be the same:
-- so all leave before any joins.
function jobs.write_lists(keys, changes)
  local counts = {}
  for head, states in pairs(changes.heads) do
    for state, change in pairs(states) do
      local is_left = next(change.SREM)
      for _, dimension in ipairs(head.dimensions) do
        local listing = state .. dimension
        if change.count ~= 0 then counts[listing] = (counts[listing] or 0) + change.count end
        if is_left then jobs.clear_pages(keys, listing, change) end
      end
    end
  end
  jobs.write_counts(keys, counts)
  for head, states in pairs(changes.heads) do
    for state, change in pairs(states) do
      if next(change.SADD) then
        for _, dimension in ipairs(head.dimensions) do jobs.fill_pages(keys, state .. dimension, change) end
      end
    end
  end
  for word, change in pairs(changes.words) do
    jobs.clear_pages(keys, '*W:' .. word, change)
    jobs.fill_pages(keys, '*W:' .. word, change)
  end
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
