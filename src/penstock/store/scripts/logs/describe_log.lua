-- Read what a log says of itself: how many partitions it has, its settings, and who reads it.
--
-- KEYS[1] meta    hash  settings and counters of the log
-- KEYS[2] groups  hash  group -> when it was first seen (ms)
--
-- Returns {'ok', born, partitions, version, settings, groups}   settings: name, value, ...; groups: group, ms, ...
--         {'absent'}       there is no such log
--         {'tasks', kind}  it is a queue; the kind is empty if nothing has come into it yet
-- include from logs: settings
local meta, groups = unpack(KEYS)

local listed = redis.call('HGETALL', groups)
local incarnation, kind = unpack(redis.call('HMGET', meta, 'incarnation', 'kind'))
if not incarnation then return {'absent'} end
if kind ~= 'logs' then return {'tasks', kind or ''} end
local reply = lib.describe_log(meta)
reply[6] = listed
return reply
