-- Read everything that is only counted about a queue of jobs, at one instant.
--
-- For checking: these figures must agree at every moment, however busy the queue is.
--
-- KEYS[1] meta        hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] workers...  string  who may hold jobs beside the members
--
-- Returns {'ok', now, meta, members, idle, sizes, counts, worker, held, ...}   meta: field, value, ...; sizes of
--                     `jobs`, `facts`, `due`, `finished` and `buried`; counts by state; held: jobs of the worker
--         {'other_layout', layout}   the queue was written by another version
-- include clock settings model
-- include from jobs: keys
local keys = lib.keys_beside(KEYS[1])
local refusal = lib.refuse_layout(keys)
if refusal then return refusal end

local members = redis.call('SMEMBERS', keys.members)
local sizes = {redis.call('HLEN', keys.jobs), redis.call('HLEN', keys.facts), redis.call('ZCARD', keys.due),
  redis.call('ZCARD', keys.finished), redis.call('ZCARD', keys.buried)}
local counts = redis.call('HMGET', keys.meta, 'sA:', 'bA:', 'rA:', 'uA:', 'dA:', 'xA:', 'cA:')
for index = 1, #counts do counts[index] = counts[index] or '0' end
local idle = redis.call('SMEMBERS', keys.idle)
local reply = {'ok', lib.whole(lib.now_ms()), lib.settings_of(keys.meta), members, idle, sizes, counts}
local seen = {}
for _, workers in ipairs({members, ARGV}) do
  for _, worker in ipairs(workers) do
    if not seen[worker] then
      reply[#reply + 1] = worker
      reply[#reply + 1] = redis.call('HLEN', keys['running:'] .. worker)
    end
    seen[worker] = true
  end
end
return reply
