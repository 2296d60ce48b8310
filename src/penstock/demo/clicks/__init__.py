"""The act about a log: owners of partitions die and freeze, and no message is skipped."""
