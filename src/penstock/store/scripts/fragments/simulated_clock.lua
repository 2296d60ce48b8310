-- The clock of the simulation, advanced by its scheduler. Production scripts never contain this.
local function now_ms()
  return tonumber(redis.call('GET', 'penstock:simulated_clock') or '0')
end

local function whole(number)
  return string.format('%.0f', number)
end
