-- Put a group on the list of those that read a log, or take it off.
--
-- KEYS[1] meta    hash    settings and counters of the log
-- KEYS[2] groups  hash    group -> when it was first seen (ms)
-- ARGV[1] group   string
-- ARGV[2] reads   int     0: it reads no more
--
-- Returns {'ok'}
--         {'absent'}           there is no such log
--         {'tasks', kind}      it is a queue; the kind is empty if nothing has come into it yet
--         {'too_many', count}  the log has as many groups as it may have
-- include clock
local meta, groups = unpack(KEYS)
local group, reads = unpack(ARGV)
local MOST_GROUPS = 100

local incarnation, kind = unpack(redis.call('HMGET', meta, 'incarnation', 'kind'))
local seen, count = redis.call('HGET', groups, group), redis.call('HLEN', groups)
if not incarnation then return {'absent'} end
if kind ~= 'logs' then return {'tasks', kind or ''} end
if reads == '1' and not seen and count >= MOST_GROUPS then return {'too_many', count} end
if reads == '1' and seen then return {'ok'} end

redis.call('HDEL', groups, group) -- a removal first, which a full store lets pass
if reads == '1' then redis.call('HSET', groups, group, lib.whole(lib.now_ms())) end
return {'ok'}
