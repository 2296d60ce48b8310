-- Make a log, give it more partitions, or change its settings.
--
-- One step, so that all who open a partition are told the same. The partitions lie elsewhere: each is opened with
-- these settings afterwards, by the client that changes them or by one that finds it not opened. The version tells
-- newer settings from older ones.
--
-- KEYS[1] memory       string  last operation of this lane
-- KEYS[2] meta         hash    settings and counters of the log
-- ARGV[1] operation    int     number of this operation in its lane
-- ARGV[2] incarnation  string  made for a log that does not exist yet, or empty
-- ARGV[3] partitions   int     how many there shall be at least
-- ARGV[4] settings...  string  name, value, name, value, ...; an empty value stands for the default
--
-- Returns {'ok', born, partitions, version, settings}   settings: name, value, ...
--         {'no_queue'}       register the log, then send again with an incarnation
--         {'queue_exists'}   under another incarnation; unregister this one, then send again without
--         {'tasks', kind}    it is a queue; the kind is empty if nothing has come into it yet
-- include clock memory queue
-- include from logs: settings
local memory, meta = unpack(KEYS)
local operation, incarnation, partitions = unpack(ARGV)
local FIRST_SETTING = 4

local done = lib.recall(memory, operation)
if done then return done end

local known, kind, present, version = unpack(redis.call('HMGET', meta, 'incarnation', 'kind', 'partitions', 'version'))
local refusal = lib.refuse_queue(memory, operation, known, incarnation)
if refusal then return refusal end
if known and kind ~= 'logs' then return lib.end_early(memory, operation, {'tasks', kind or ''}) end

present, version = tonumber(present) or 0, tonumber(version) or 0
if not known then
  lib.create_queue(meta, incarnation)
  redis.call('HSET', meta, 'kind', 'logs')
end
local has_changed = not known
for index = FIRST_SETTING, #ARGV, 2 do
  if ARGV[index + 1] == '' then
    redis.call('HDEL', meta, ARGV[index])
  else
    redis.call('HSET', meta, ARGV[index], ARGV[index + 1])
  end
  has_changed = true
end
partitions = math.max(present, tonumber(partitions))
if has_changed then version = version + 1 end
redis.call('HSET', meta, 'partitions', lib.whole(partitions), 'version', lib.whole(version))
return lib.remember(memory, operation, lib.describe_log(meta))
