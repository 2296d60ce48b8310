-- Drop stages of a batch that will not be decided.
--
-- One step for each stage, so that one which was decided meanwhile is left alone: its rows belong to the queue.
--
-- KEYS[1] stage...  hash  index -> chunk, of one attempt
--
-- Returns {'ok', dropped}   so many stages were dropped
local dropped = 0
for index = 1, #KEYS do redis.call('HLEN', KEYS[index]) end -- finds a key of the wrong type
for index = 1, #KEYS do
  if redis.call('PTTL', KEYS[index]) >= 0 then dropped = dropped + redis.call('UNLINK', KEYS[index]) end
end
return {'ok', dropped}
