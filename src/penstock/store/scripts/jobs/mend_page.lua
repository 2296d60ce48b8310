-- Put on a page of a listing what belongs there, and take off what does not; for repairs.
--
-- One step, and each job is judged by its own facts, so what is right stays as it is.
--
-- KEYS[1] meta     hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] write    int     0: only say whether something is wrong
-- ARGV[2] listing  bytes   as page_jobs has it
-- ARGV[3] page     int     number of the page
-- ARGV[4] ids...   int     jobs that may belong there or not; up to 1000
--
-- Returns {'ok', wrong}       how much was wrong
--         {'other_layout', layout}   the queue was written by another version
-- include clock chunks model forms
-- include from jobs: keys records
local keys = lib.keys_beside(KEYS[1])
local write, listing, page = ARGV[1] == '1', ARGV[2], ARGV[3]
local FIRST_ID = 4

lib.guard(keys, {hash = {'meta', 'jobs', 'facts'}})
local refusal = lib.refuse_layout(keys)
if refusal then return refusal end
local ids = {}
for index = FIRST_ID, #ARGV do ids[#ids + 1] = ARGV[index] end
local all, stored = lib.read_facts(keys, ids), lib.get_fields(keys.jobs, ids)
local set, directory = keys['page:'] .. page .. ':' .. listing, keys['pages:'] .. listing
local size = redis.call('SCARD', set)

local function belongs(facts)
  if math.floor(facts.number / lib.PAGE) ~= tonumber(page) then return false end
  for _, word in ipairs(facts.head.words) do
    if listing == '*W:' .. word then return true end
  end
  for _, dimension in ipairs(facts.head.dimensions) do
    if facts.state ~= lib.RUNNING and listing == facts.state .. dimension then return true end
  end
  return false
end

local added, removed = {}, {}
for index, id in ipairs(ids) do
  local is_wanted = all[index] and stored[index] and belongs(all[index])
  if is_wanted ~= (redis.call('SISMEMBER', set, id) == 1) then
    local change = is_wanted and added or removed
    change[#change + 1] = id
  end
end
local is_named = redis.call('ZSCORE', directory, page) and true or false
local is_filled = size + #added - #removed > 0
local wrong = #added + #removed + (is_named ~= is_filled and 1 or 0)
if not write then return {'ok', wrong} end

lib.call_in_chunks('SADD', set, added)
lib.call_in_chunks('SREM', set, removed)
if is_filled then redis.call('ZADD', directory, page, page) else redis.call('ZREM', directory, page) end
return {'ok', wrong}
