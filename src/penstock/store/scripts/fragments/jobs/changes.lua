-- What a script does to jobs is gathered and then written at once: a batch of a thousand jobs changes few keys.
--
-- Jobs are listed by state and type, tenant or tag in the order in which they were sent. A list is a row of pages:
-- sets of up to 512 ids whose jobs have neighbouring numbers (Redis keeps such a set as 8 bytes per id), and a
-- directory of the pages that are not empty. So any page is found at once, however many jobs there are. What runs is
-- not listed that way: the workers' own keys have it.

function lib.new_changes()
  return {moved = {}, words = {SADD = {}, SREM = {}}, facts = {}, dropped_facts = {}, dropped_jobs = {}, finished = {},
    buried = {}, entries = {}, events = {}, notices = {},
    meta = {sent = 0, started = 0, finished = 0, done = 0, waiting_bytes = 0, kept_bytes = 0}}
end

-- No guard can name the pages beforehand, so they are looked at when it is known which jobs will move, and before
-- anything is written. Their sizes are kept, as they say when a page comes or goes.
lib.sizes = {}
lib.checked = {}
lib.page_prefixes = {}

-- What the keys of the pages of this number begin with.
function lib.page_of(keys, number)
  local prefix = lib.page_prefixes[number]
  if not prefix then
    prefix = keys['page:'] .. lib.whole(number) .. ':'
    lib.page_prefixes[number] = prefix
  end
  return prefix
end

function lib.size_of(page)
  local size = lib.sizes[page]
  if not size then
    size = redis.call('SCARD', page)
    lib.sizes[page] = size
  end
  return size
end

-- The lists of a state, and of words, that a job with this number is on or will be on. A directory is written to only
-- if the page comes, or goes with the `leaving` jobs that leave it at most.
function lib.check_lists(keys, head, state, number, leaving)
  if state == lib.RUNNING then return end
  local page = (number - number % lib.PAGE) / lib.PAGE
  local states = lib.checked[head]
  if not states then
    states = {}
    lib.checked[head] = states
  end
  local checked = states[state]
  if checked and checked.page == page and checked.leaving >= leaving then return end
  states[state] = {page = page, leaving = leaving}
  local names, words, prefix = head[state] or lib.name_lists(head, state), head.words, lib.page_of(keys, page)
  for index = 1, #names + #words do
    local listing = names[index] or '*W:' .. words[index - #names]
    local key = prefix .. listing
    local size = lib.sizes[key] or lib.size_of(key)
    if size <= leaving and not lib.checked[listing] then
      lib.checked[listing] = true
      redis.call('ZCARD', keys['pages:'] .. listing)
    end
  end
end

-- The lists of the state that jobs are in and of the one that they may go to, if any, and the lines that they may
-- join; false stands for a job that does not exist.
-- seldom
function lib.check_moves(keys, all, state)
  for _, facts in ipairs(all) do
    if facts then
      lib.check_lists(keys, facts.head, facts.state, facts.number, #all)
      if state then lib.check_lists(keys, facts.head, state, facts.number, 0) end
      if state == lib.READY then lib.check_line(keys, facts.head.line) end
    end
  end
end

function lib.tally(changes, field, by)
  changes.meta[field] = (changes.meta[field] or 0) + by
end

function lib.add_to_page(pages, number, id)
  local page = (number - number % lib.PAGE) / lib.PAGE
  local ids = pages[page]
  if ids then
    ids[#ids + 1] = id
  else
    pages[page] = {id}
  end
end

-- The names of the lists of a state that jobs with this head are on.
function lib.name_lists(head, state)
  local dimensions = head.dimensions
  local names = {state .. dimensions[1], state .. dimensions[2]}
  for index = 3, #dimensions do names[index] = state .. dimensions[index] end
  head[state] = names
  return names
end

-- Jobs with one head are on the same lists, so it is enough to know of each head which jobs come to a state and leave
-- it.
function lib.moved_with(changes, head)
  local moved = changes.moved[head]
  if not moved then
    moved = {counts = {}, SADD = {}, SREM = {}}
    changes.moved[head] = moved
  end
  return moved
end

-- Puts a job on the lists of a state, or takes it off.
function lib.list_job(moved, state, number, id, word, by)
  moved.counts[state] = (moved.counts[state] or 0) + by
  if state == lib.RUNNING then return end
  local pages = moved[word][state]
  if not pages then
    pages = {}
    moved[word][state] = pages
  end
  return lib.add_to_page(pages, number, id)
end

function lib.enter_state(changes, state, facts, id)
  return lib.list_job(lib.moved_with(changes, facts.head), state, facts.number, id, 'SADD', 1)
end

function lib.leave_state(changes, facts, id)
  return lib.list_job(lib.moved_with(changes, facts.head), facts.state, facts.number, id, 'SREM', -1)
end

function lib.list_words(changes, facts, id, word)
  for _, text in ipairs(facts.head.words) do
    local listing = '*W:' .. text
    local pages = changes.words[word][listing] or {}
    changes.words[word][listing] = pages
    lib.add_to_page(pages, facts.number, id)
  end
end

-- Puts new jobs, which have consecutive numbers, on their lists, and adds their events.
function lib.list_new(keys, changes, state, head, ids, number, now)
  local moved, at = lib.moved_with(changes, head), 1
  local pages = moved.SADD[state] or {}
  moved.SADD[state] = pages
  moved.counts[state] = (moved.counts[state] or 0) + #ids
  while at <= #ids do
    local page = (number + at - (number + at) % lib.PAGE) / lib.PAGE
    local last = math.min(#ids, (page + 1) * lib.PAGE - 1 - number)
    if pages[page] then
      for index = at, last do lib.add_to_page(pages, number + index, ids[index]) end
    else
      pages[page] = {unpack(ids, at, last)}
    end
    at = last + 1
  end
  if #head.words == 0 and not (keys.listeners or lib.ask_listeners(keys, ids[1])).to_events then return end
  local facts = lib.new_facts(now, number, 0, head) -- of no job in particular
  facts.state = state
  for index = 1, #ids do
    facts.number = number + index
    lib.add_event(keys, changes, 'enqueued', ids[index], facts)
    lib.list_words(changes, facts, ids[index], 'SADD')
  end
end

function lib.keep_facts(changes, id, facts)
  local kept = changes.facts
  local size = #kept
  kept[size + 1] = id
  kept[size + 2] = lib.pack_facts(facts)
end

-- A job goes from one state to another: its lists, counts and facts change together.
function lib.move_job(changes, id, facts, state, now)
  local moved, number = lib.moved_with(changes, facts.head), facts.number
  lib.list_job(moved, facts.state, number, id, 'SREM', -1)
  facts.state, facts.updated = state, now
  return lib.list_job(moved, state, number, id, 'SADD', 1)
end

-- A script asks once who listens. A program that watches the queue hears every event; one that waits for results
-- listens to a channel that all jobs of one sender have. Both are rare, so a message is only packed if there is a
-- listener.
function lib.ending_channel(keys, id) return keys['job:'] .. string.sub(id, -lib.SENDER_DIGITS) end

function lib.ask_listeners(keys, id)
  local channel = lib.ending_channel(keys, id)
  local to_events, to_endings = lib.have_subscribers(keys.events, channel)
  keys.listeners = {to_events = to_events, [string.sub(id, -lib.SENDER_DIGITS)] = to_endings and channel}
  return keys.listeners
end

-- The channel on which a program waits for the end of this job; false if none does.
function lib.awaiting_channel(keys, id)
  local listeners, sender = keys.listeners or lib.ask_listeners(keys, id), string.sub(id, -lib.SENDER_DIGITS)
  local channel = listeners[sender]
  if channel == nil then
    channel = lib.ending_channel(keys, id)
    channel = lib.has_subscribers(channel) and channel
    listeners[sender] = channel
  end
  return channel
end

function lib.add_event(keys, changes, kind, id, facts, detail)
  if not (keys.listeners or lib.ask_listeners(keys, id)).to_events then return end
  local events, attempt = changes.events, facts.failures + facts.crashes + facts.lapses
  events[#events + 1] = {kind, id, attempt, facts.head.type, facts.worker, detail or ''}
end

-- Tells the program that waits for a job that it has ended. Without `outcome`, that program has to read the result.
function lib.add_notice(keys, changes, id, state, reason, outcome)
  local channel = lib.awaiting_channel(keys, id)
  if not channel then return end
  local notices = changes.notices
  notices[#notices + 1] = {channel, lib.pack_notice(id, state, outcome and 'y' or 'n', reason, outcome or '')}
end

function lib.publish_events(keys, changes, now)
  for index = 1, #changes.events do
    local kind, id, attempt, type, worker, detail = unpack(changes.events[index])
    lib.publish(keys.events, lib.pack_event(kind, id, now, attempt, type, worker, detail))
  end
  for index = 1, #changes.notices do
    local notice = changes.notices[index]
    lib.publish(notice[1], notice[2])
  end
end

-- Several heads may have jobs on one page of a list; they come or go together. `all` has the pages of each head.
function lib.merge_pages(all)
  if #all == 1 then return all[1] end
  local merged = {}
  for index = 1, #all do
    for number, ids in pairs(all[index]) do
      local together = merged[number] or {}
      merged[number] = together
      for at = 1, #ids do together[#together + 1] = ids[at] end
    end
  end
  return merged
end

function lib.clear_pages(keys, listing, pages)
  for number, ids in pairs(pages) do
    local page = lib.page_of(keys, number) .. listing
    local left = lib.size_of(page) - redis.call('SREM', page, unpack(ids))
    lib.sizes[page] = left
    if left == 0 then redis.call('ZREM', keys['pages:'] .. listing, lib.whole(number)) end
  end
end

function lib.fill_pages(keys, listing, pages)
  for number, ids in pairs(pages) do
    local page = lib.page_of(keys, number) .. listing
    local before = lib.size_of(page)
    lib.sizes[page] = before + redis.call('SADD', page, unpack(ids))
    if before == 0 then redis.call('ZADD', keys['pages:'] .. listing, lib.whole(number), lib.whole(number)) end
  end
end

-- All counts and counters at once, as they may be as many as there are tenants. A count of nothing is not kept: its
-- name has a colon, that of a counter has none.
function lib.write_counts(keys, counts)
  local names, gone, fields = {}, {}, {}
  for name, by in pairs(counts) do
    if by ~= 0 then names[#names + 1] = name end
  end
  local found = lib.get_fields(keys.meta, names)
  for index = 1, #names do
    local name, before = names[index], tonumber(found[index] or '0')
    local count = (before or 0) + counts[name]
    if not before then
      -- Another program wrote this, and it is no number: it is left for fsck to find.
    elseif count == 0 and string.find(name, ':', 1, true) then
      gone[#gone + 1] = name
    else
      local size = #fields
      fields[size + 1], fields[size + 2] = name, lib.whole(count)
    end
  end
  lib.call_in_chunks('HDEL', keys.meta, gone)
  lib.call_in_chunks('HSET', keys.meta, fields)
end

-- What comes to each list, or leaves it: name -> the pages of each head.
function lib.gather_lists(changes, word)
  local lists = {}
  for head, moved in pairs(changes.moved) do
    for state, pages in pairs(moved[word]) do
      local names = head[state] or lib.name_lists(head, state)
      for index = 1, #names do
        local all = lists[names[index]]
        if all then all[#all + 1] = pages else lists[names[index]] = {pages} end
      end
    end
  end
  for listing, pages in pairs(changes.words[word]) do lists[listing] = {pages} end
  return lists
end

-- A job that is given another head leaves the lists of the old one and joins those of the new, which may be the same:
-- so all leave before any joins.
function lib.write_lists(keys, changes)
  local counts = changes.meta
  for head, moved in pairs(changes.moved) do
    for state, by in pairs(moved.counts) do
      local names = head[state] or lib.name_lists(head, state)
      for index = 1, #names do counts[names[index]] = (counts[names[index]] or 0) + by end
    end
  end
  lib.write_counts(keys, counts)
  for name, all in pairs(lib.gather_lists(changes, 'SREM')) do lib.clear_pages(keys, name, lib.merge_pages(all)) end
  for name, all in pairs(lib.gather_lists(changes, 'SADD')) do lib.fill_pages(keys, name, lib.merge_pages(all)) end
end

function lib.write_changes(keys, changes, now)
  lib.call_in_chunks('HSET', keys.facts, changes.facts)
  lib.call_in_chunks('HDEL', keys.facts, changes.dropped_facts)
  lib.call_in_chunks('HDEL', keys.jobs, changes.dropped_jobs)
  lib.call_in_chunks('ZADD', keys.finished, changes.finished)
  lib.call_in_chunks('ZADD', keys.buried, changes.buried)
  lib.write_lists(keys, changes)
  if #changes.entries > 0 then lib.record_entries(keys, changes.entries, now) end
  lib.publish_events(keys, changes, now)
end

-- The same within a script that goes on to read what was changed, and to change more.
function lib.flush_changes(keys, changes, now)
  lib.write_changes(keys, changes, now)
  for name, empty in pairs(lib.new_changes()) do changes[name] = empty end
end
