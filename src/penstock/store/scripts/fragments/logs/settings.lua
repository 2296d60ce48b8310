-- What a log says of itself. Its partitions are told `born`, so that those of a log that was deleted are not taken for
-- those of one that was made since, and the settings.
lib.LOG_SETTINGS = {'keep_ms', 'keep_count', 'keep_bytes', 'max_bytes', 'expire_ms'}

function lib.describe_log(meta)
  local born, partitions, version = unpack(redis.call('HMGET', meta, 'process', 'partitions', 'version'))
  local settings = {}
  for index, value in ipairs(redis.call('HMGET', meta, unpack(lib.LOG_SETTINGS))) do
    if value then settings[#settings + 1], settings[#settings + 2] = lib.LOG_SETTINGS[index], value end
  end
  return {'ok', born or '', partitions or '', version or '', settings}
end
