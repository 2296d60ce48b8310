"""Many clients on one thread, one seed, one virtual clock, one real Redis.

The code that runs is the real async client: its coroutines wait for a reply by handing their
request to a scheduler, which decides what becomes of it. After every request that took effect,
what is in Redis is compared with a model and with the invariants.

A worker that reads a log has an event loop of its own, which the scheduler turns.

    python -m tests.simulation.run --seed 17 --trace     one seed, every step printed
    python -m tests.simulation.run --seeds 0-999
"""
