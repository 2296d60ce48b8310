-- Everything that is counted by state and type, tenant or tag, some at a time.
--
-- KEYS[1] meta    hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] cursor  string  0 at first
-- ARGV[2] match   string  pattern of the listings wanted, as '?T:*'
--
-- Returns {'ok', cursor, listing, count, ...}   as HSCAN: one may come twice
--         {'other_layout', layout}                  the queue was written by another version
-- include model
-- include from jobs: keys
local keys = lib.keys_beside(KEYS[1])
local refusal = lib.refuse_layout(keys)
if refusal then return refusal end
local page = redis.call('HSCAN', keys.meta, ARGV[1], 'MATCH', ARGV[2], 'COUNT', 1000)
local reply = {'ok', page[1]}
for index = 1, #page[2], 2 do
  if page[2][index + 1] ~= '0' then reply[#reply + 1], reply[#reply + 2] = page[2][index], page[2][index + 1] end
end
return reply
