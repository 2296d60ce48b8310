-- Read entries of the history, in the order in which they were written.
--
-- KEYS[1] meta   hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] after  string  place after which to go on, or '-' for the oldest
-- ARGV[2] until  string  place of the last entry to read, or '+' for the newest
-- ARGV[3] limit  int     1 to 10000
--
-- Returns {'ok', place, attempt, ...}   as endings.lua packs it
--         {'other_layout', layout}             the queue was written by another version
-- include model
-- include from jobs: keys
local keys = lib.keys_beside(KEYS[1])
local after, until_, limit = unpack(ARGV)

local refusal = lib.refuse_layout(keys)
if refusal then return refusal end
local reply = {'ok'}
local first = after == '-' and '-' or '(' .. after
for _, entry in ipairs(redis.call('XRANGE', keys.history, first, until_, 'COUNT', limit)) do
  reply[#reply + 1] = entry[1]
  reply[#reply + 1] = entry[2][2]
end
return reply
