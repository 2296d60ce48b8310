-- The names of workers that are to start nothing.
--
-- KEYS[1] paused_workers  set  names of workers that are to start nothing, also after a restart
--
-- Returns {'ok', name...}
local names = redis.call('SMEMBERS', KEYS[1])
table.insert(names, 1, 'ok')
return names
