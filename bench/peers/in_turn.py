"""Round trips of several systems in turn, a few of each at a time.

    python bench/peers/in_turn.py                               # penstock and bee-queue
    python bench/peers/in_turn.py --only penstock-jobs,kue-50,bullmq-100 --blocks 50

What a shared machine does to one of them in a tenth of a second it does to all, so that differences
of a few percent can be seen, which are lost in `run.py`, where each has half a minute to itself.
The ratio is the median over all blocks of what a system took in a block against the first one.
Only for systems whose producer is not an asyncio one.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.peers import harness
from bench.peers.install import default_folder
from bench.peers.job_systems import JOB_SYSTEMS
from bench.peers.run import environment_of
from bench.peers.turns import WARM_UP_SAMPLES, JobTurn

_DRAINED_FIRST = 2000


def main() -> int:
    options = _options()
    harness.end_cleanly_when_told_to()
    binary = options.redis or harness.find_redis_server()
    systems = {system.name: system for system in JOB_SYSTEMS}
    names = options.only.split(",")
    if unknown := set(names) - systems.keys():
        raise SystemExit(f"no system is called {', '.join(sorted(unknown))}")
    taken: dict[str, list[list[float]]] = {name: [] for name in names}
    with ExitStack() as stack:
        asking = {}
        for name in names:
            environment = environment_of(systems[name].peer, options)
            turn = JobTurn(systems[name], environment, options, is_first=False)
            server = stack.enter_context(harness.redis_server(binary, is_aof=not options.no_aof))
            asking[name] = stack.enter_context(turn.asking(server))
            asking[name](WARM_UP_SAMPLES)
        for block in range(options.blocks):
            for name in names if block % 2 == 0 else reversed(names):
                taken[name].append(asking[name](options.samples))
    _tell(taken)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="penstock-jobs,bee-50", help="systems, by comma")
    parser.add_argument("--blocks", type=int, default=100, help="turns of each")
    parser.add_argument("--samples", type=int, default=10, help="round trips a turn")
    parser.add_argument("--no-aof", action="store_true", help="Redis in memory alone")
    parser.add_argument("--redis", help="redis-server to use; the newest on the PATH by default")
    parser.add_argument("--folder", type=Path, default=default_folder(), help="where peers live")
    parser.set_defaults(reinstall=False, jobs=_DRAINED_FIRST, call=1000)
    return parser.parse_args()


def _tell(taken: dict[str, list[list[float]]]) -> None:
    first = [statistics.median(block) for block in next(iter(taken.values()))]
    print("| system | ratio | p25 ms | p50 ms | p99 ms |\n|---|---|---|---|---|")
    for name, blocks in taken.items():
        medians = [statistics.median(block) for block in blocks]
        ratio = statistics.median(a / b for a, b in zip(medians, first, strict=True))
        values = [value for block in blocks for value in block]
        shares = [f"{harness.percentile(values, share):.2f}" for share in (0.25, 0.5, 0.99)]
        print(f"| {name} | {ratio:.2f} | {' | '.join(shares)} |")


if __name__ == "__main__":
    sys.exit(main())
