-- Settings and counters of a queue as name, value, ... They share `meta` with the counts of jobs by state and type,
-- tenant or tag, of which there may be very many; so they are asked for by name.
lib.SETTINGS = {'incarnation', 'kind', 'layout', 'process', 'turn', 'newest', 'paused', 'max_length', 'max_bytes',
  'max_failures', 'max_schedules', 'ageing_ms', 'keep_ms', 'keep_dead_ms', 'keep_count', 'keep_bytes',
  'history_length', 'history_cap',
  'marked_until', 'waiting_bytes', 'kept_bytes', 'enqueued', 'sent', 'started', 'finished', 'stopped', 'failed',
  'crashed', 'lost', 'interrupted', 'refused', 'done', 'dead', 'cancelled', 'deleted', 'removed', 'retried',
  'discarded', 'damaged', 'staged', 'merged', 'moved_at', 'partitions', 'version', 'expire_ms'}

function lib.settings_of(meta)
  local found = {}
  for index, value in ipairs(redis.call('HMGET', meta, unpack(lib.SETTINGS))) do
    if value then found[#found + 1], found[#found + 2] = lib.SETTINGS[index], value end
  end
  return found
end
