"""`python -m penstock.bench.listener URL CHANNEL RECORDS`: the least that a woken worker does.

It waits for a message, runs one script that finds nothing, and notes when.
"""

from __future__ import annotations

import sys
import time

from penstock.bench.latency import Stamper
from penstock.bench.raw_connection import open_connection

_POP = "return redis.call('RPOP', KEYS[1])"


def main(url: str, channel: str, records: str) -> None:
    stamper = Stamper(records)
    listening, working = open_connection(url), open_connection(url)
    digest = working.request("SCRIPT", "LOAD", _POP)
    listening.request("SUBSCRIBE", channel)
    while True:
        _, _, task = listening.receive()
        working.request("EVALSHA", digest, 1, f"{channel}:empty")
        stamper.note(time.monotonic_ns(), task)


if __name__ == "__main__":
    main(*sys.argv[1:])
