-- Readers of the history: `marks` has the place up to which each has read and when it said so. A reader that has said
-- nothing for a week is gone. `marked_until` in `meta` is when the last of them will be; up to then the history is
-- trimmed by its cap alone, so the scripts that write to it need not look at the marks.
lib.MARK_MS, lib.MOST_MARKS, lib.TRIMMED_AT_ONCE = 604800000, 100, 100000

-- Reader -> {place, seen}. A field that is no mark is skipped, and stays as it is.
function lib.open_marks(keys)
  local found, marks = redis.call('HGETALL', keys.marks), {}
  for index = 1, #found, 2 do
    local place, seen = string.match(found[index + 1], '^(%d+%-%d+) (%d+)$')
    if place then marks[found[index]] = {place = place, seen = tonumber(seen)} end
  end
  return marks
end

-- Places are too large for numbers; the longer text of digits is the greater one.
function lib.is_before(one, other)
  local ms, number = string.match(one, '^(%d+)%-(%d+)$')
  local other_ms, other_number = string.match(other, '^(%d+)%-(%d+)$')
  if ms == other_ms then ms, other_ms = number, other_number end
  return #ms < #other_ms or (#ms == #other_ms and ms < other_ms)
end

-- The place before which no live reader needs anything, and when the last of them will be gone; nil without readers.
function lib.slowest_mark(marks)
  local slowest, until_ms
  for _, mark in pairs(marks) do
    if not mark.is_over then
      if not slowest or lib.is_before(mark.place, slowest) then slowest = mark.place end
      until_ms = math.max(until_ms or 0, mark.seen + lib.MARK_MS)
    end
  end
  return slowest, until_ms
end
