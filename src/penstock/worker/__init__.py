"""Claims tasks, runs them, keeps its lease, and recovers dead peers."""
