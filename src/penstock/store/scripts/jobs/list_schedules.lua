-- The schedules of a queue, or some of them by name.
--
-- KEYS[1] meta      hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] names...  string  all if none is given; a queue has max_schedules at most
--
-- Returns {'ok', now, name, definition, slot, ...}   slot: when it is due next, empty if never again
--         {'other_layout', layout}                       the queue was written by another version
-- include clock chunks model
-- include from jobs: keys
local keys = lib.keys_beside(KEYS[1])
local refusal = lib.refuse_layout(keys)
if refusal then return refusal end
local names = #ARGV > 0 and ARGV or redis.call('HKEYS', keys.schedules)
local reply = {'ok', lib.whole(lib.now_ms())}
for index, definition in ipairs(lib.get_fields(keys.schedules, names)) do
  if definition then
    reply[#reply + 1] = names[index]
    reply[#reply + 1] = definition
    reply[#reply + 1] = redis.call('ZSCORE', keys.slots, names[index]) or ''
  end
end
return reply
