-- Read the log of a job, or its attempts that did not end well.
--
-- KEYS[1] meta    hash  settings and counters; its tag names all other keys of the queue
-- KEYS[2] lines   list  of `log` or `attempts`
-- ARGV[1] offset  int   from the oldest; negative: from the newest
-- ARGV[2] limit   int   1 to 1000
--
-- Returns {'ok', total, line...}
--         {'other_layout', layout}   the queue was written by another version
-- include model
-- include from jobs: keys
local keys, lines = lib.keys_beside(KEYS[1]), KEYS[2]
local offset, limit = tonumber(ARGV[1]), tonumber(ARGV[2])

local refusal = lib.refuse_layout(keys)
if refusal then return refusal end
local total = redis.call('LLEN', lines)
local first = offset < 0 and math.max(0, total + offset) or offset
local reply = redis.call('LRANGE', lines, first, first + limit - 1)
table.insert(reply, 1, total)
table.insert(reply, 1, 'ok')
return reply
