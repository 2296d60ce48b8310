-- Tell which commands the user who runs this may not run, before Redis 7, where only a try tells.
--
-- Each is tried in a form that changes nothing: on a key that does not exist, or with an argument that is refused
-- after permissions were looked at. A few writes have no such form; they are tried on a key of another type, which is
-- made for them and is gone when the script ends. On a full store they are refused as everything is that could grow,
-- which also comes after permissions; so they go first, as no write may come before.
--
-- ARGV[1] commands  JSON    a list of commands, each a list of its words
-- ARGV[2] pushes    JSON    the same, for those that are tried on a key of another type
-- ARGV[3] key       string  of that type; does not exist
--
-- Returns the names of those that are denied.
local denied = {}

local function try(words)
  local reply = redis.pcall(unpack(words))
  local is_denied = type(reply) == 'table' and reply.err and string.find(reply.err, 'The user executing the script', 1, true)
  if is_denied then denied[#denied + 1] = words[1] end
  return not is_denied
end

local can_set = try({'SET', ARGV[3], '', 'PX', '1000'})
for _, words in ipairs(cjson.decode(ARGV[2])) do
  if can_set then try(words) else denied[#denied + 1] = words[1] end
end
redis.pcall('DEL', ARGV[3])
for _, words in ipairs(cjson.decode(ARGV[1])) do try(words) end
return denied
