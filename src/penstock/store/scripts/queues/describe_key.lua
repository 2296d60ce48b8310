-- Read the type of a key and how long it will live.
--
-- KEYS[1] key  any
--
-- Returns {'ok', type, ttl_ms}   type 'none': there is no such key; ttl_ms -1: for ever
return {'ok', redis.call('TYPE', KEYS[1]).ok, redis.call('PTTL', KEYS[1])}
