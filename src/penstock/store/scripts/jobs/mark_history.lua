-- Note how far a reader has come in the history, and remove what no reader needs any more.
--
-- One step, so that nothing is removed that a mark set meanwhile would have kept. While a mark is younger than a week
-- the history grows beyond its usual length, up to its cap; what all readers have read goes here, the oldest first, but
-- the usual length is kept for everybody else.
--
-- KEYS[1] memory     string  last operation of this lane
-- KEYS[2] meta       hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] operation  int     number of this operation in its lane
-- ARGV[2] reader     string
-- ARGV[3] place      string  the last entry that it has read, or '0-0'; empty: it reads no more
--
-- Returns {'ok', removed}      how many entries went; there may be more to remove if it is as many as go at once
--         {'absent'}           there is no such queue, so there is nothing to keep
--         {'too_many', count}  the queue has as many readers as it may have
--         {'tasks'}            the queue holds plain tasks
--         {'other_layout', layout}    the queue was written by another version
-- include clock memory chunks job_keys records job_queue endings marks
local memory, keys = KEYS[1], jobs.keys_beside(KEYS[2])
local operation, reader, place = unpack(ARGV)

local done = recall(memory, operation)
if done then return done end

jobs.guard(keys, {hash = {'meta', 'marks'}, stream = {'history'}})
local refusal = jobs.refuse_kind(keys)
if refusal then return refusal end
local now, marks, count = now_ms(), jobs.open_marks(keys), 0
for name, mark in pairs(marks) do
  if mark.seen + jobs.MARK_MS <= now or (name == reader and place == '') then
    mark.is_over = true
  elseif name ~= reader then
    count = count + 1
  end
end
refusal = not keys.settings.incarnation and {'absent'} or
  (place ~= '' and count >= jobs.MOST_MARKS and {'too_many', count}) or nil
allow_when_full(memory)
if refusal then return remember(memory, operation, refusal) end

if place ~= '' then
  marks[reader] = {place = place, seen = now}
  redis.call('HSET', keys.marks, reader, place .. ' ' .. whole(now))
end
for name, mark in pairs(marks) do
  if mark.is_over then redis.call('HDEL', keys.marks, name) end
end
local slowest, until_ms = jobs.slowest_mark(marks)
if until_ms then
  redis.call('HSET', keys.meta, 'marked_until', whole(until_ms))
else
  redis.call('HDEL', keys.meta, 'marked_until')
end
local surplus = redis.call('XLEN', keys.history) - tonumber(keys.settings.history_length or jobs.HISTORY_LENGTH)
local removed = 0
if slowest and surplus > 0 then
  removed = redis.call('XTRIM', keys.history, 'MINID', '~', slowest, 'LIMIT', math.min(surplus, jobs.TRIMMED_AT_ONCE))
end
return remember(memory, operation, {'ok', removed})
