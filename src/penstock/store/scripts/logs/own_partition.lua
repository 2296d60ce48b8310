-- Make a member of a group the owner of a partition, if nobody else is.
--
-- KEYS[1] group_members  hash    member -> until when it is one (ms), weight, partitions it knows of
-- KEYS[2] group_owners   hash    partition -> member
-- ARGV[1] member         string
-- ARGV[2] partition      int
--
-- Returns {'ok'}             it is, or was already
--         {'owned', member}  another member is
--         {'lost'}           its time was up
-- include clock
-- include from logs: members
local group_members, group_owners = unpack(KEYS)
local member, partition = unpack(ARGV)

local living, owned_by = lib.living_members(group_members, group_owners, lib.now_ms())
if not living[member] then return {'lost'} end
local owner = owned_by[partition]
if owner and owner ~= member then return {'owned', owner} end
redis.call('HDEL', group_owners, partition) -- a removal first, which a full store lets pass
redis.call('HSET', group_owners, partition, member)
redis.call('PEXPIRE', group_owners, lib.FORGET_MS)
return {'ok'}
