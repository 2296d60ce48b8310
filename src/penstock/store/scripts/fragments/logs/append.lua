-- Counts messages as they are appended, and closes a segment about every hundred of them.
lib.SEGMENT_MESSAGES = 128
lib.SEGMENT_BYTES = 65536
lib.SEGMENT_MS = 60000 -- so that retention by age also works where little is appended

-- After how many messages and bytes the segment that is open is full. One that was opened long ago is closed with the
-- next message.
function lib.segment_end(part, now)
  if part.added == part.closed then part.opened_at = now end
  if now - part.opened_at >= lib.SEGMENT_MS then return 0, 0 end
  return part.closed + lib.SEGMENT_MESSAGES, part.closed_bytes + lib.SEGMENT_BYTES
end

function lib.close_segment(segments, part, id, count, size, now)
  redis.call('RPUSH', segments, id .. ' ' .. lib.whole(count) .. ' ' .. lib.whole(size))
  part.closed, part.closed_bytes, part.opened_at = count, size, now
end

function lib.write_state(part)
  redis.call('HSET', part.key, 'added', lib.whole(part.added), 'added_bytes', lib.whole(part.added_bytes),
    'closed', lib.whole(part.closed), 'closed_bytes', lib.whole(part.closed_bytes),
    'opened_at', lib.whole(part.opened_at))
  if part.trimmed_to then lib.write_trimmed(part) end
end
