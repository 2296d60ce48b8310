"""One module for each kind of work that a worker can serve; see `penstock.worker.source`."""
