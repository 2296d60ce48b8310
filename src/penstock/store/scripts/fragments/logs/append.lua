-- Counts messages as they are appended, and closes a segment about every hundred of them.
lib.SEGMENT_MESSAGES = 128
lib.SEGMENT_BYTES = 65536
lib.SEGMENT_MS = 60000 -- so that retention by age also works where little is appended

function lib.count_message(part, segments, id, size, now)
  part.added, part.added_bytes = part.added + 1, part.added_bytes + size
  if part.added - part.closed == 1 then part.opened_at = now end
  if part.added - part.closed >= lib.SEGMENT_MESSAGES or part.added_bytes - part.closed_bytes >= lib.SEGMENT_BYTES
    or now - part.opened_at >= lib.SEGMENT_MS then
    redis.call('RPUSH', segments, id .. ' ' .. lib.whole(part.added) .. ' ' .. lib.whole(part.added_bytes))
    part.closed, part.closed_bytes = part.added, part.added_bytes
  end
end

function lib.write_state(part)
  redis.call('HSET', part.key, 'added', lib.whole(part.added), 'added_bytes', lib.whole(part.added_bytes),
    'closed', lib.whole(part.closed), 'closed_bytes', lib.whole(part.closed_bytes),
    'opened_at', lib.whole(part.opened_at))
  if part.trimmed_to then lib.write_trimmed(part) end
end
