"""Measure penstock, its peers and the raw limits of Redis in one run on one machine.

Every system does the same no-op work on a fresh private Redis. The systems take turns over the
rounds, so that a slow minute of the machine falls on all of them; figures are medians.

--kind tasks measures queues whose results nobody keeps, --kind jobs the same systems with results
kept, beside penstock's jobs.
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

from bench.peers import harness, raw, raw_jobs, report, sheets
from bench.peers.adapters.stopwatch import PAYLOAD_BYTES
from bench.peers.harness import Series, Server, StepFailed
from bench.peers.install import PEERS, Environment, InstallFailed, default_folder, install
from bench.peers.job_systems import JOB_SYSTEMS
from bench.peers.report import Outcome, Report
from bench.peers.systems import SYSTEMS, System
from bench.peers.turns import JobTurn, TaskTurn, Turn

import penstock

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from bench.peers.sheets import Sheet


@dataclass(frozen=True)
class Kind:
    """One kind of run: who takes part, what each does, what is shown of it."""

    systems: tuple[System, ...]
    turn: type[Turn]
    # The module that measures the raw limits when it is run.
    raw: str
    sheet: Sheet


KINDS = {
    "tasks": Kind(SYSTEMS, TaskTurn, raw.__name__, sheets.TASKS),
    "jobs": Kind(JOB_SYSTEMS, JobTurn, raw_jobs.__name__, sheets.JOBS),
}


def main() -> int:
    options = _options()
    harness.end_cleanly_when_told_to()
    kind = KINDS[options.kind]
    systems = _chosen(kind.systems, options.only)
    binary = options.redis or harness.find_redis_server()
    environments, outcomes = _install(systems, options)
    versions = {name: found.versions for name, found in environments.items()}
    result = Report(kind.sheet, _machine(binary, options), outcomes, versions)
    Run(kind, options, binary, environments, result).all_rounds()
    _write(result, options)
    return 1 if any(outcome.errors for outcome in outcomes.values()) or result.raw_errors else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    every = [system.name for kind in KINDS.values() for system in kind.systems]
    names = ", ".join(dict.fromkeys(every))
    parser.add_argument("--kind", choices=KINDS, default="tasks", help="without or with results")
    parser.add_argument("--only", help=f"systems or peers, by comma; also raw. Of: raw, {names}")
    parser.add_argument("--rounds", type=int, default=3, help="figures are medians over these")
    parser.add_argument("--jobs", type=int, help="jobs of every step, instead of each one's own")
    parser.add_argument("--call", type=int, default=1000, help="jobs that one bulk call sends")
    parser.add_argument("--samples", type=int, default=300, help="samples a round, one by one")
    parser.add_argument("--minutes", type=float, default=22, help="no turn begins after these")
    parser.add_argument("--no-aof", action="store_true", help="Redis in memory alone")
    parser.add_argument("--redis", help="redis-server to use; the newest on the PATH by default")
    parser.add_argument("--folder", type=Path, default=default_folder(), help="where peers live")
    parser.add_argument("--reinstall", action="store_true", help="install the peers anew")
    parser.add_argument("--out", type=Path, help="write every value as JSON")
    parser.add_argument("--markdown", type=Path, help="write the tables here, not only to stdout")
    parser.add_argument("--chart", type=Path, help="draw a chart, .svg or .png (needs matplotlib)")
    return parser.parse_args()


def _chosen(systems: tuple[System, ...], only: str | None) -> list[System]:
    if only is None:
        wanted = {system.peer for system in systems}
    else:
        wanted = {name.strip() for name in only.split(",")} - {"raw"}
    known = {system.name for system in systems} | {system.peer for system in systems}
    if unknown := wanted - known:
        raise SystemExit(f"no system is called {', '.join(sorted(unknown))}; see --help")
    chosen = [
        system
        for system in systems
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
            environments[name] = environment_of(name, options)
            print(_versions_of(environments[name]), file=sys.stderr)
        except (InstallFailed, OSError, subprocess.SubprocessError) as error:
            failures[name] = f"install: {error}"
            print(f"failed: {error}", file=sys.stderr)
    outcomes = {system.name: Outcome(system) for system in systems}
    for outcome in outcomes.values():
        if failure := failures.get(outcome.system.peer):
            outcome.errors.append(failure)
    return environments, outcomes


def environment_of(name: str, options: argparse.Namespace) -> Environment:
    """Where a peer runs; installed if it is not there yet."""
    if name != "penstock":
        return install(PEERS[name], options.folder, is_fresh=options.reinstall)
    libraries = {library: metadata.version(library) for library in ("hiredis", "uvloop")}
    return Environment(
        (sys.executable,), harness.ROOT, {"penstock": penstock.__version__} | libraries
    )


def _versions_of(environment: Environment) -> str:
    return ", ".join(f"{name} {version}" for name, version in environment.versions.items())


@dataclass
class Run:
    """All rounds over all systems, within the time that was given."""

    kind: Kind
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
            turn = self.kind.turn(outcome.system, environment, self.options, is_first=number == 0)
            try:
                with self._redis() as server:
                    turn.run(server, outcome)
            except (StepFailed, OSError) as error:
                outcome.errors.append(f"round {number + 1}: {error}")
            took_s = time.monotonic() - started_at
            print(f"round {number + 1}, {took_s:.0f} s, {self._line(outcome)}", file=sys.stderr)
        return True

    def _line(self, outcome: Outcome) -> str:
        return outcome.line(self.kind.sheet.figures)

    def _raw(self, number: int) -> None:
        command = [sys.executable, "-m", self.kind.raw]
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
        "jobs a bulk call": options.call,
        "samples a round": options.samples,
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
