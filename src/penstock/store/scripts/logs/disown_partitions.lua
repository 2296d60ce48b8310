-- Let other members of a group have a partition, or leave the group and let them have all.
--
-- KEYS[1] group_members  hash    member -> until when it is one (ms), weight, partitions it knows of
-- KEYS[2] group_owners   hash    partition -> member
-- ARGV[1] member         string
-- ARGV[2] partition      string  empty: all, as it is a member no more
--
-- Returns {'ok'}
local group_members, group_owners = unpack(KEYS)
local member, partition = unpack(ARGV)

redis.call('HLEN', group_members)
local owned = redis.call('HGETALL', group_owners)
for index = 1, #owned, 2 do
  if owned[index + 1] == member and (partition == '' or owned[index] == partition) then
    redis.call('HDEL', group_owners, owned[index])
  end
end
if partition == '' then redis.call('HDEL', group_members, member) end
return {'ok'}
