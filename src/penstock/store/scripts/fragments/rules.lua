-- Rules may be set before the first job is sent. They make a queue one of jobs, or nobody who deletes it as one of
-- tasks would know that they are there.

-- Why no rule can be changed, or nil.
function jobs.refuse_rule(memory, operation, keys, incarnation)
  local refusal = refuse_queue(memory, operation, jobs.read_settings(keys).incarnation, incarnation)
  if refusal then return refusal end
  refusal = jobs.refuse_kind(keys)
  if not refusal then return nil end
  allow_when_full(memory)
  return remember(memory, operation, refusal)
end

-- What a rule is set for has to be there.
function jobs.open_for_rule(keys, incarnation)
  if not keys.settings.incarnation then create_queue(keys.meta, incarnation) end
  if not keys.settings.kind then jobs.become_job_queue(keys) end
end
