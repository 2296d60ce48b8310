"""A show of what penstock promises: workers die and freeze, and no task is lost."""
