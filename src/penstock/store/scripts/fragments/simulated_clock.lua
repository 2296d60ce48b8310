-- The clock of simulations and of tests, which set it: one for each namespace, so that those on one server do not
-- disturb each other. Production scripts never contain this.
function lib.now_ms()
  local namespace = string.match(KEYS[1], '^{([%w_.~%%-]+)')
  return tonumber(redis.call('GET', 'penstock:simulated_clock' .. ':' .. namespace) or '0')
end

function lib.whole(number)
  return string.format('%d', number)
end

function lib.next_id() return lib.whole(lib.now_ms()) .. '-*' end
