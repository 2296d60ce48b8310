"""Measure penstock, its peers and the raw limits of Redis in one run on one machine.

Every system does the same no-op work on a fresh private Redis. The systems take turns over the
rounds, so that a slow minute of the machine falls on all of them; figures are medians.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.peers import harness, report
from bench.peers.adapters.stopwatch import PAYLOAD_BYTES
from bench.peers.harness import Series, Server, StepFailed, Worker
from bench.peers.install import PEERS, Environment, InstallFailed, default_folder, install
from bench.peers.report import Outcome, Report
from bench.peers.systems import SYSTEMS, Jobs, System

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    Step = Callable[[Server, Outcome], None]

LATENCY_WARM_UP = 20
SETTLE_S = 1.0
IDLE_S = 10.0


def main() -> int:
    options = _options()
    harness.end_cleanly_when_told_to()
    systems = _chosen(options.only)
    binary = options.redis or harness.find_redis_server()
    environments, outcomes = _install(systems, options)
    versions = {name: found.versions for name, found in environments.items()}
    result = Report(_machine(binary, options), outcomes, versions)
    Run(options, binary, environments, result).all_rounds()
    _write(result, options)
    return 1 if any(outcome.errors for outcome in outcomes.values()) or result.raw_errors else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    names = ", ".join(system.name for system in SYSTEMS)
    parser.add_argument("--only", help=f"systems or peers, by comma; also raw. Of: raw, {names}")
    parser.add_argument("--rounds", type=int, default=3, help="figures are medians over these")
    parser.add_argument("--jobs", type=int, help="jobs of every step, instead of each one's own")
    parser.add_argument("--samples", type=int, default=300, help="latency samples a round")
    parser.add_argument("--minutes", type=float, default=22, help="no turn begins after these")
    parser.add_argument("--no-aof", action="store_true", help="Redis in memory alone")
    parser.add_argument("--redis", help="redis-server to use; the newest on the PATH by default")
    parser.add_argument("--folder", type=Path, default=default_folder(), help="where peers live")
    parser.add_argument("--reinstall", action="store_true", help="install the peers anew")
    parser.add_argument("--out", type=Path, help="write every value as JSON")
    parser.add_argument("--markdown", type=Path, help="write the tables here, not only to stdout")
    parser.add_argument("--chart", type=Path, help="draw a chart, .svg or .png (needs matplotlib)")
    return parser.parse_args()


def _chosen(only: str | None) -> list[System]:
    if only is None:
        return [system for system in SYSTEMS if system.is_default]
    wanted = {name.strip() for name in only.split(",")} - {"raw"}
    known = {system.name for system in SYSTEMS} | {system.peer for system in SYSTEMS}
    if unknown := wanted - known:
        raise SystemExit(f"no system is called {', '.join(sorted(unknown))}; see --help")
    chosen = [
        system
        for system in SYSTEMS
        if system.name in wanted or (system.peer in wanted and system.is_default)
    ]
    # Without the setting whose producer it shares, a system measures the producer itself.
    measured = {system.peer for system in chosen if system.has_own_producer}
    return [
        system if system.peer in measured else replace(system, has_own_producer=True)
        for system in chosen
    ]


def _install(
    systems: list[System], options: argparse.Namespace
) -> tuple[dict[str, Environment], dict[str, Outcome]]:
    """Environments by peer; a peer that cannot be installed is only reported."""
    environments: dict[str, Environment] = {}
    failures: dict[str, str] = {}
    for name in dict.fromkeys(system.peer for system in systems):
        print(f"install {name} ...", end=" ", file=sys.stderr, flush=True)
        try:
            environments[name] = _environment(name, options)
            print(_versions_of(environments[name]), file=sys.stderr)
        except (InstallFailed, OSError, subprocess.SubprocessError) as error:
            failures[name] = f"install: {error}"
            print(f"failed: {error}", file=sys.stderr)
    outcomes = {system.name: Outcome(system) for system in systems}
    for outcome in outcomes.values():
        if failure := failures.get(outcome.system.peer):
            outcome.errors.append(failure)
    return environments, outcomes


def _environment(name: str, options: argparse.Namespace) -> Environment:
    if name != "penstock":
        return install(PEERS[name], options.folder, is_fresh=options.reinstall)
    try:
        version = metadata.version("penstock")
    except metadata.PackageNotFoundError:
        version = "working tree"
    libraries = {library: metadata.version(library) for library in ("hiredis", "uvloop")}
    return Environment((sys.executable,), harness.ROOT, {"penstock": version} | libraries)


def _versions_of(environment: Environment) -> str:
    return ", ".join(f"{name} {version}" for name, version in environment.versions.items())


@dataclass
class Run:
    """All rounds over all systems, within the time that was given."""

    options: argparse.Namespace
    binary: str
    environments: dict[str, Environment]
    result: Report

    def all_rounds(self) -> None:
        deadline = time.monotonic() + self.options.minutes * 60
        for number in range(self.options.rounds):
            if not self._round(number, deadline):
                told = f"after {self.options.minutes:g} minutes, in round {number + 1}"
                self.result.machine["cut short"] = told
                print(f"stopped {told}", file=sys.stderr)
                return

    def _round(self, number: int, deadline: float) -> bool:
        """One turn of each system, in an order of the round's own; False when time ran out."""
        if self.options.only is None or "raw" in self.options.only.split(","):
            self._raw(number)
        turns = [
            one for one in self.result.outcomes.values() if one.system.peer in self.environments
        ]
        random.Random(number).shuffle(turns)
        for outcome in turns:
            if time.monotonic() > deadline:
                return False
            started_at = time.monotonic()
            environment = self.environments[outcome.system.peer]
            turn = Turn(outcome.system, environment, self.options, is_first=number == 0)
            try:
                with self._redis() as server:
                    turn.run(server, outcome)
            except (StepFailed, OSError) as error:
                outcome.errors.append(f"round {number + 1}: {error}")
            took_s = time.monotonic() - started_at
            print(f"round {number + 1}, {took_s:.0f} s, {outcome.line()}", file=sys.stderr)
        return True

    def _raw(self, number: int) -> None:
        command = [sys.executable, "-m", "bench.peers.raw"]
        try:
            with self._redis() as server:
                env = {"BENCH_PORT": str(server.port), "PYTHONPATH": str(harness.ROOT)}
                limits = harness.run_step(command, env, server.folder)
        except (StepFailed, OSError) as error:
            self.result.raw_errors.append(f"round {number + 1}: {error}")
            print(f"raw limits failed: {error}", file=sys.stderr)
            return
        for limit, figures in limits.items():
            known = self.result.raw.setdefault(limit, {})
            for figure, value in figures.items():
                known.setdefault(figure, Series()).values.append(value)
        print(f"round {number + 1}, raw limits measured", file=sys.stderr)

    def _redis(self) -> AbstractContextManager[Server]:
        return harness.redis_server(self.binary, is_aof=not self.options.no_aof)


class Turn:
    """One system's turn in one round: enqueue, bulk, drain, latency and, once, idle."""

    def __init__(
        self,
        system: System,
        environment: Environment,
        options: argparse.Namespace,
        *,
        is_first: bool,
    ) -> None:
        self._system = system
        self._environment = environment
        self._samples: int = options.samples
        self._is_first = is_first
        fixed = options.jobs
        self._jobs = Jobs(fixed, fixed, fixed) if fixed else system.jobs

    def run(self, server: Server, outcome: Outcome) -> None:
        if self._system.has_own_producer:
            self._try(self._enqueue, server, outcome)
        self._try(self._work, server, outcome)

    def _try(self, step: Step, server: Server, outcome: Outcome) -> None:
        try:
            step(server, outcome)
        except StepFailed as error:
            outcome.errors.append(str(error))

    def _enqueue(self, server: Server, outcome: Outcome) -> None:
        one = self._adapter(server, "enqueue-one", self._jobs.one_by_one)
        outcome.add("one_per_s", one["jobs"] / one["seconds"])
        outcome.add("one_client_us", one["client_us"])
        outcome.add("one_redis_us", one["redis_us"])
        outcome.add("bytes_per_job", one["bytes_per_job"])
        server.flush()
        bulk = self._adapter(server, "enqueue-bulk", self._jobs.bulk)
        outcome.bulk = bulk["bulk"]
        if outcome.bulk != "none":
            outcome.add("bulk_per_s", bulk["jobs"] / bulk["seconds"])
            outcome.add("bulk_client_us", bulk["client_us"])
            outcome.add("bulk_redis_us", bulk["redis_us"])

    def _work(self, server: Server, outcome: Outcome) -> None:
        server.flush()
        queued = int(self._adapter(server, "enqueue-bulk", self._jobs.drain)["queued"])
        records = self._records(server)
        records.write_bytes(b"")
        env = self._env(server)
        with harness.running(self._command("worker"), env, server.folder, "worker") as process:
            worker = Worker(process, server, records)
            drained = harness.drain(worker, queued)
            for figure in ("per_s", "worker_us", "redis_us"):
                if (value := drained[figure]) is not None:
                    outcome.add(f"drain_{figure}", value)
            self._latency(worker, outcome)
            if self._is_first:
                time.sleep(SETTLE_S)
                quiet = harness.idle(worker, IDLE_S)
                outcome.add("idle_sent_per_s", quiet["sent_per_s"])
                outcome.add("idle_executed_per_s", quiet["executed_per_s"])
                outcome.add("idle_ms_per_s", quiet["worker_ms_per_s"])

    def _latency(self, worker: Worker, outcome: Outcome) -> None:
        time.sleep(SETTLE_S)
        start = worker.count()
        samples = LATENCY_WARM_UP + self._samples
        self._adapter(worker.server, "latency", samples)
        times = worker.times(start)
        waits = [(began - made) / 1e6 for began, made in times[LATENCY_WARM_UP:]]
        outcome.add("p50_ms", harness.percentile(waits, 0.50))
        outcome.add("p99_ms", harness.percentile(waits, 0.99))

    def _adapter(self, server: Server, verb: str, jobs: int) -> dict[str, Any]:
        return harness.run_step(self._command(verb, str(jobs)), self._env(server), server.folder)

    def _command(self, *arguments: str) -> list[str]:
        adapter = harness.ADAPTERS / self._system.adapter
        return [*self._environment.command, str(adapter), *arguments]

    def _env(self, server: Server) -> dict[str, str]:
        source = [str(harness.ROOT / "src")] if self._system.peer == "penstock" else []
        return {
            "BENCH_PORT": str(server.port),
            "BENCH_RECORDS": str(self._records(server)),
            "BENCH_SETTING": self._system.setting,
            "BENCH_PEER_DIR": str(self._environment.folder),
            "PYTHONPATH": os.pathsep.join([str(harness.ADAPTERS), *source]),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def _records(self, server: Server) -> Path:
        return server.folder / "records"


def _machine(binary: str, options: argparse.Namespace) -> dict[str, Any]:
    return {
        "redis": ".".join(map(str, harness.redis_version(binary))),
        "aof": "off" if options.no_aof else "everysec",
        "python": platform.python_version(),
        "node": _node_version(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "rounds": options.rounds,
        "payload bytes": PAYLOAD_BYTES,
        "latency samples a round": options.samples,
        "measured at": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
    }


def _node_version() -> str:
    try:
        done = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.SubprocessError):
        return "none"
    return done.stdout.strip()


def _write(result: Report, options: argparse.Namespace) -> None:
    text = report.markdown(result)
    print(text)
    if options.markdown:
        options.markdown.write_text(text)
    if options.out:
        options.out.write_text(json.dumps(report.as_json(result), indent=2) + "\n")
    if options.chart and not report.draw(result, options.chart):
        print("no chart: matplotlib is not installed (pip install matplotlib)", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
