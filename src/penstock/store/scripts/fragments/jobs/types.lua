-- A worker says which types of jobs it handles: '*' for all, else their names, each between zero bytes.
function lib.handles(types, type)
  return types == '*' or string.find(types, '\0' .. type .. '\0', 1, true) ~= nil
end
