-- Say what the history of a queue has, what may be missing after an entry, and who reads it.
--
-- One step, so that these facts belong together. Trimming removes the oldest entries first: a reader that finds an
-- entry still there knows that nothing after it is lost.
--
-- KEYS[1] meta    hash    settings and counters; its tag names all other keys of the queue
-- ARGV[1] anchor  string  place of the entry to look for
--
-- Returns {'ok', now, incarnation, length, added, first, last, is_there, next, cap, marks}   an incarnation or a place
--                     is empty if there is none; added: how many entries there ever were, -1 if the server does not
--                     count them; is_there: 1 if the anchor is; next: the first entry after it; marks: reader, mark
--         {'tasks', kind}     the queue holds plain tasks, or is a log
--         {'other_layout', layout}   the queue was written by another version
-- include clock model
-- include from jobs: keys queue endings
local keys, anchor = lib.keys_beside(KEYS[1]), ARGV[1]

local refusal = lib.refuse_kind(keys)
if refusal then return refusal end
local history, added = keys.history, -1
local function place_of(entries) return entries[1] and entries[1][1] or '' end
local length = redis.call('XLEN', history)
if length > 0 then
  local info = redis.call('XINFO', 'STREAM', history)
  for index = 1, #info, 2 do
    if info[index] == 'entries-added' then added = info[index + 1] end
  end
end
return {'ok', lib.whole(lib.now_ms()), keys.settings.incarnation or '', length, added,
  place_of(redis.call('XRANGE', keys.history, '-', '+', 'COUNT', 1)),
  place_of(redis.call('XREVRANGE', keys.history, '+', '-', 'COUNT', 1)),
  #redis.call('XRANGE', keys.history, anchor, anchor, 'COUNT', 1),
  place_of(redis.call('XRANGE', keys.history, '(' .. anchor, '+', 'COUNT', 1)),
  keys.settings.history_cap or lib.HISTORY_CAP, redis.call('HGETALL', keys.marks)}
