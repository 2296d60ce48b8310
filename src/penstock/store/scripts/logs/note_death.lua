-- Note that a worker has died that owned a partition, for each group of whose partition it was the last owner.
--
-- The first time, any of the messages that are not committed may be why. From then on only the message that was tried
-- alone is, so a worker that dies of something else counts for nothing. Once more it changes nothing.
--
-- KEYS[1] offsets   hash    reader -> epoch, offset, when it was last seen, owner, deaths
-- KEYS[2] messages  stream  messages; the oldest first
-- ARGV[1] worker    string  its id, which is how the names of its members begin
-- ARGV[2] how       string  it has died
--
-- Returns {'ok', count}  of groups
-- include clock
-- include from logs: ids offsets
local offsets, messages = unpack(KEYS)
local worker, how = unpack(ARGV)

local last = redis.call('XREVRANGE', messages, '+', '-', 'COUNT', 1)[1]
local listed, count = redis.call('HGETALL', offsets), 0
for index = 1, #listed, 2 do
  local epoch, offset, seen, owner, deaths = lib.open_offset(listed[index + 1])
  if epoch and (owner == worker or string.sub(owner, 1, #worker + 1) == worker .. '.') then
    local crashes, is_tried = lib.open_deaths(deaths)
    if last and lib.is_before(offset, last[1]) and (crashes == 0 or is_tried) then
      redis.call('HDEL', offsets, listed[index]) -- a removal first, which a full store lets pass
      lib.write_offset(offsets, listed[index], epoch, offset, seen, owner, lib.pack_deaths(crashes + 1, false, how))
      count = count + 1
    end
  end
end
return {'ok', count}
