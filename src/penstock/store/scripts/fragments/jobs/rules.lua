-- Rules may be set before the first job is sent. They make a queue one of jobs; else a delete of a queue of tasks
-- would leave them behind.

-- Why no rule can be changed, or nil.
function lib.refuse_rule(memory, operation, keys, incarnation)
  local refusal = lib.refuse_queue(memory, operation, lib.read_settings(keys).incarnation, incarnation)
  if refusal then return refusal end
  refusal = lib.refuse_kind(keys)
  if not refusal then return nil end
  return lib.end_early(memory, operation, refusal)
end

-- Creates the queue that a rule is set for, unless it exists.
function lib.create_for_rule(keys, incarnation)
  if not keys.settings.incarnation then lib.create_queue(keys.meta, incarnation) end
  if not keys.settings.kind then lib.become_job_queue(keys) end
end
