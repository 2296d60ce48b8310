-- Forget the failures of a task that is gone, unless it has failed again since they were read.
--
-- For `penstock fsck --repair`. Were the task there after all, its failures would only be counted from zero again.
--
-- KEYS[1] failures  hash    digest of a task -> failed deliveries
-- ARGV[1] digest    string
-- ARGV[2] count     int     what was read
--
-- Returns {'ok', forgotten}   0 or 1
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return {'ok', 0} end
return {'ok', redis.call('HDEL', KEYS[1], ARGV[1])}
