"""`python -m penstock.bench.listener CHANNEL RECORDS`: the least that a woken worker does.

It waits for a message, runs one script that finds nothing, and notes when; on the server that
PENSTOCK_URL names.
"""

from __future__ import annotations

import os
import sys
import time

from penstock.bench.latency import Stamper
from penstock.bench.raw_connection import open_connection

_POP = "return redis.call('RPOP', KEYS[1])"


def main(channel: str, records: str) -> None:
    url = os.environ["PENSTOCK_URL"]
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
