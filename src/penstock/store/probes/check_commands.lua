-- Tell which commands the user who runs this may not run, on these keys and channels; nothing is run.
-- For Redis 7 and Valkey.
--
-- ARGV[1] commands  JSON  a list of commands, each a list of its words
--
-- Returns the names of those that are denied.
local denied = {}
for _, words in ipairs(cjson.decode(ARGV[1])) do
  if not redis.acl_check_cmd(unpack(words)) then denied[#denied + 1] = words[1] end
end
return denied
