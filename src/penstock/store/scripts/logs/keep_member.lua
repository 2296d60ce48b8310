-- Join a group or stay in it, and see who else is in it and who owns what.
--
-- One step, so that all members see the same. A member whose time is up is no member any more, and owns nothing: any
-- other member removes it. It cannot return under its name.
--
-- KEYS[1] group_members  hash    member -> until when it is one (ms), weight, partitions it knows of
-- KEYS[2] group_owners   hash    partition -> member
-- ARGV[1] member         string
-- ARGV[2] lease_ms       int     for how long it is one from now on
-- ARGV[3] weight         int
-- ARGV[4] partitions     int     that it knows of
-- ARGV[5] joins          int     0: it must be one already
--
-- Returns {'ok', members, owners, wait_ms}   members: name, weight, partitions, ...; owners: partition, name, ...;
--                                            wait_ms: until the next other member's time is up, or -1
--         {'lost'}                           its time was up
--         {'too_many', count}                the group has as many members as it may have
-- include clock
-- include from logs: members
local group_members, group_owners = unpack(KEYS)
local member, lease_ms, weight, partitions, joins = unpack(ARGV)

local now = lib.now_ms()
local living, owned_by = lib.living_members(group_members, group_owners, now)
if not living[member] and joins == '0' then return {'lost'} end
local count = redis.call('HLEN', group_members)
if not living[member] and count >= lib.MOST_MEMBERS then return {'too_many', count} end

redis.call('HDEL', group_members, member) -- a removal first, which a full store lets pass
living[member] = lib.whole(now + tonumber(lease_ms)) .. ' ' .. weight .. ' ' .. partitions
redis.call('HSET', group_members, member, living[member])
redis.call('PEXPIRE', group_members, lib.FORGET_MS)
redis.call('PEXPIRE', group_owners, lib.FORGET_MS)

local listed, owned, wait_ms = {}, {}, -1
for name, entry in pairs(living) do
  local ends_at, its_weight, its_partitions = lib.open_member(entry)
  listed[#listed + 1], listed[#listed + 2], listed[#listed + 3] = name, its_weight, its_partitions
  if name ~= member and (wait_ms < 0 or ends_at - now < wait_ms) then wait_ms = ends_at - now end
end
for partition, name in pairs(owned_by) do
  owned[#owned + 1], owned[#owned + 2] = partition, name
end
return {'ok', listed, owned, wait_ms}
