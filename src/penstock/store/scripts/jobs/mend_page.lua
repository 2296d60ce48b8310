-- Put on a page of a listing what belongs there, and take off what does not; for repairs.
--
-- One step, and each job is asked by its own facts, so what is right stays as it is.
--
-- KEYS[1] meta     hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] listing  bytes   as page_jobs has it
-- ARGV[2] page     int     number of the page
-- ARGV[3] ids...   int     jobs that may belong there or not; 1 to 1000
--
-- Returns {'ok', mended}      how many jobs came or went
--         {'newer', layout}   the queue was written by a newer version
-- include clock chunks job_keys records changes job_queue
local keys = jobs.keys_beside(KEYS[1])
local listing, page = ARGV[1], ARGV[2]

jobs.guard(keys, {hash = {'meta', 'jobs', 'facts'}})
local refusal = jobs.refuse_newer(keys)
if refusal then return refusal end
local ids = {}
for index = 3, #ARGV do ids[index - 2] = ARGV[index] end
local all, stored = jobs.read_facts(keys, ids), get_fields(keys.jobs, ids)
local set, directory = keys['page:'] .. page .. ':' .. listing, keys['pages:'] .. listing
redis.call('SCARD', set)
redis.call('ZCARD', directory)

local function belongs(facts)
  if math.floor(facts.number / jobs.PAGE) ~= tonumber(page) then return false end
  for _, word in ipairs(facts.head.words) do
    if listing == '*W:' .. word then return true end
  end
  for _, dimension in ipairs(facts.head.dimensions) do
    if facts.state ~= jobs.RUNNING and listing == facts.state .. dimension then return true end
  end
  return false
end

local mended = 0
for index, id in ipairs(ids) do
  local command = all[index] and stored[index] and belongs(all[index]) and 'SADD' or 'SREM'
  mended = mended + redis.call(command, set, id)
end
if redis.call('EXISTS', set) == 1 then
  redis.call('ZADD', directory, page, page)
else
  redis.call('ZREM', directory, page)
end
return {'ok', mended}
