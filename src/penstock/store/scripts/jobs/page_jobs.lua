-- Read a page of the jobs of one list (a state, and perhaps a type, tenant or tag) in the order in which they were
-- sent.
--
-- Takes the same time wherever the page is and however many jobs there are: pages are found by number, and no page of
-- the directory is empty.
--
-- KEYS[1] meta     hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] listing  string  code of the state, then 'A:' or 'T:type', 'N:tenant', 'G:tag'; or '*W:word'
-- ARGV[2] after    int     id after which to go on, or empty
-- ARGV[3] page     int     number of the page that has it, or empty
-- ARGV[4] limit    int     1 to 1000
-- ARGV[5] order    string  'oldest' or 'newest' first
--
-- Returns {'ok', total, page, id, page, id, ...}   each with the number of its page, which a cursor needs
--         {'other_layout', layout}                     the queue was written by another version
-- include model
-- include from jobs: keys
local keys = lib.keys_beside(KEYS[1])
local listing, after, from, limit, order = unpack(ARGV)
limit = tonumber(limit)
local refusal = lib.refuse_layout(keys)
if refusal then return refusal end
local is_newest = order == 'newest'

-- Ids are too long for numbers here; of equal length they compare as text does.
local function precedes(a, b)
  if #a ~= #b then return (#a < #b) ~= is_newest end
  if is_newest then return a > b end
  return a < b
end

local directory = keys['pages:'] .. listing
local range, start, stop = 'ZRANGEBYSCORE', from == '' and '-inf' or from, '+inf'
if is_newest then range, start, stop = 'ZREVRANGEBYSCORE', from == '' and '+inf' or from, '-inf' end
local reply = {'ok', tonumber(redis.call('HGET', keys.meta, listing) or '0') or 0}
local found, is_first = 0, true
local pages = redis.call(range, directory, start, stop, 'LIMIT', 0, limit + 1)
for _, page in ipairs(pages) do
  if found >= limit then break end
  local ids = redis.call('SMEMBERS', keys['page:'] .. page .. ':' .. listing)
  table.sort(ids, precedes)
  for _, id in ipairs(ids) do
    local is_after = after == '' or page ~= from or precedes(after, id)
    if is_after and found < limit then
      reply[#reply + 1] = page
      reply[#reply + 1] = id
      found = found + 1
    end
  end
end
return reply
