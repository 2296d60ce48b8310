-- Note how far a reader has come in the history, and remove what no reader needs any more.
--
-- One step, so that nothing is removed that a mark set meanwhile would have kept. While a mark is younger than a week
-- the history grows beyond its usual length, up to its cap; what all readers have read goes here, the oldest first,
-- but the usual length is kept for programs without a mark.
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
--         {'tasks', kind}      the queue holds plain tasks, or is a log
--         {'other_layout', layout}    the queue was written by another version
-- include clock memory model
-- include from jobs: keys queue endings marks
local memory, keys = KEYS[1], lib.keys_beside(KEYS[2])
local operation, reader, place = unpack(ARGV)

local done = lib.recall(memory, operation)
if done then return done end

lib.guard(keys, {hash = {'meta', 'marks'}, stream = {'history'}})
local refusal = lib.refuse_kind(keys)
if refusal then return refusal end
local now, marks, count = lib.now_ms(), lib.open_marks(keys), 0
for name, mark in pairs(marks) do
  if mark.seen + lib.MARK_MS <= now or (name == reader and place == '') then
    mark.is_over = true
  elseif name ~= reader then
    count = count + 1
  end
end
refusal = not keys.settings.incarnation and {'absent'} or
  (place ~= '' and count >= lib.MOST_MARKS and {'too_many', count}) or nil
lib.allow_when_full(memory)
if refusal then return lib.remember(memory, operation, refusal) end

if place ~= '' then
  marks[reader] = {place = place, seen = now}
  redis.call('HSET', keys.marks, reader, place .. ' ' .. lib.whole(now))
end
for name, mark in pairs(marks) do
  if mark.is_over then redis.call('HDEL', keys.marks, name) end
end
local slowest, until_ms = lib.slowest_mark(marks)
if until_ms then
  redis.call('HSET', keys.meta, 'marked_until', lib.whole(until_ms))
else
  redis.call('HDEL', keys.meta, 'marked_until')
end
local surplus = redis.call('XLEN', keys.history) - tonumber(keys.settings.history_length or lib.HISTORY_LENGTH)
local removed = 0
if slowest and surplus > 0 then
  removed = redis.call('XTRIM', keys.history, 'MINID', '~', slowest, 'LIMIT', math.min(surplus, lib.TRIMMED_AT_ONCE))
end
return lib.remember(memory, operation, {'ok', removed})
