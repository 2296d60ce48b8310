-- Find the place so many entries further on in the history, without reading them.
--
-- KEYS[1] meta   hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] after  string  place after which to count
-- ARGV[2] until  string  place of the last entry that may be counted
-- ARGV[3] limit  int     1 to 2000
--
-- Returns {'ok', count, place}   how many there were, and where the last of them is; empty if there was none
--         {'other_layout', layout}      the queue was written by another version
-- include model
-- include from jobs: keys
local keys = lib.keys_beside(KEYS[1])
local after, until_, limit = unpack(ARGV)

local refusal = lib.refuse_layout(keys)
if refusal then return refusal end
local entries = redis.call('XRANGE', keys.history, '(' .. after, until_, 'COUNT', limit)
local count = #entries
return {'ok', count, count > 0 and entries[count][1] or ''}
