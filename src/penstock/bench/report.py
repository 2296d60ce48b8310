"""The figures as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console

    from penstock.bench.figures import Results, Values

_SPEEDS = {
    "raw_evalsha": "limit: bare EVALSHA, one by one",
    "enqueue_one_by_one": "enqueue, one by one",
    "raw_lpush": "limit: LPUSH, 100 a trip",
    "enqueue_hundreds": "enqueue, 100 a call",
    "enqueue_all_at_once": "enqueue, all in one call",
    "raw_lmove_del": "limit: LMOVE+DEL, 100 a trip",
    "drain_sync": "one worker, empty function",
    "drain_async": "one worker, empty coroutine",
}
_DELAYS = {
    "raw_wake": "limit: PUBLISH, received, EVALSHA",
    "pick_up": "enqueue to handler, idle worker",
}


def print_results(console: Console, results: Results) -> None:
    setup = results.setup
    place = "a private server" if setup["is_private"] else "the given server"
    console.print(
        f"Redis {setup['redis']} ({place}, AOF {'on' if setup['aof'] else 'off'}), Python "
        f"{setup['python']}, {setup['cpus']} CPUs, medians of {setup['rounds']} rounds, tasks of "
        "100 bytes; client µs and server µs are CPU time per task",
        soft_wrap=True,
    )
    for table in (
        _speeds(results),
        _delays(results),
        _others(results),
        _growth("tasks waiting", results.by_backlog),
        _growth("bytes a task", results.by_payload),
    ):
        console.print(table)


def _speeds(results: Results) -> Table:
    table = _table("speed", "tasks/s", "of limit", "client µs", "server µs")
    for name, label in _SPEEDS.items():
        values = results.figures[name]
        client = values.get("client_us", values.get("worker_us"))
        table.add_row(
            _label(label),
            _number(values["per_s"], 0),
            _percent(results.ratios.get(name)),
            _number(client, 1),
            _number(values["server_us"], 1),
        )
    return table


def _delays(results: Results) -> Table:
    table = _table("delay", "p50 ms", "p99 ms", "x limit")
    for name, label in _DELAYS.items():
        values = results.figures[name]
        table.add_row(
            _label(label),
            _number(values["p50_ms"], 3),
            _number(values["p99_ms"], 3),
            _number(results.ratios.get(name), 2),
        )
    return table


def _others(results: Results) -> Table:
    figures, life = results.figures, results.life
    table = _table("what else", "value")
    for label, value, digits in (
        ("memory of a task, bytes", figures["memory"]["bytes_per_task"], 1),
        ("  in a bare list", figures["raw_list_memory"]["bytes_per_task"], 1),
        ("idle worker, commands/s", figures["idle"]["commands_per_s"], 2),
        ("idle worker, CPU ms/s", figures["idle"]["worker_ms_per_s"], 2),
        ("CPU of a task, producer µs", life["producer_us"], 1),
        ("CPU of a task, worker µs", life["worker_us"], 1),
        ("CPU of a task, server µs", life["server_us"], 1),
    ):
        table.add_row(label, _number(value, digits))
    return table


def _growth(name: str, rows: dict[str, Values]) -> Table:
    table = _table(name, "enqueue µs", "server µs", "start+finish µs", "server µs")
    for key, values in rows.items():
        table.add_row(f"{int(key):,}", *(_number(value, 1) for value in values.values()))
    return table


def _table(first: str, *others: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(first)
    for other in others:
        table.add_column(other, justify="right")
    return table


def _label(text: str) -> Text:
    return Text(text, style="dim" if text.startswith("limit") else "")


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def _percent(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.0%}"
