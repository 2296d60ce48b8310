-- Give a partition the settings of its log, and bring it into being if it does not exist.
--
-- What a log of the same name has left here that was deleted goes: `born` says which of two logs is the newer one.
-- Settings that are older than those that are here change nothing, so this can be repeated at any time.
--
-- KEYS[1] state        hash    what is known of the partition
-- KEYS[2] messages     stream  messages; the oldest first
-- KEYS[3] segments     list    where each hundred messages or so end
-- KEYS[4] offsets      hash    reader -> epoch, offset, when it was last seen, owner, deaths
-- KEYS[5] paused       set     groups that read nothing here for now
-- KEYS[6] prepared     hash    stages of batches of which it is to be known whether they were decided
-- ARGV[1] born         string  which log it is a part of
-- ARGV[2] version      int     of the settings
-- ARGV[3] settings...  string  name, value, name, value, ...: all that are set
--
-- Returns {'ok'}
--         {'other_log', born}   a newer log has this partition
-- include from logs: settings prepared
local state, messages, segments, offsets, paused, prepared = unpack(KEYS)
local born, version = unpack(ARGV)
local FIRST_SETTING = 3

local present, present_version = unpack(redis.call('HMGET', state, 'born', 'version'))
redis.call('XLEN', messages)
redis.call('LLEN', segments)
redis.call('HLEN', offsets)
redis.call('SCARD', paused)
redis.call('HLEN', prepared)
if present and tonumber(present) > tonumber(born) then return {'other_log', present} end
if present == born and (tonumber(present_version) or 0) >= tonumber(version) then return {'ok'} end

if present == born then
  redis.call('HDEL', state, unpack(lib.LOG_SETTINGS))
else
  lib.drop_all_prepared(state, prepared)
  redis.call('UNLINK', state, messages, segments, offsets, paused)
end
redis.call('HSET', state, 'born', born, 'version', version, unpack(ARGV, FIRST_SETTING))
return {'ok'}
