"""Unique tasks and back-pressure: what producers see."""

from __future__ import annotations

import penstock


def main() -> None:
    with penstock.connect() as ps:
        reports = ps.queue("reports")
        reports.configure(max_length=1000)

        first = reports.enqueue_unique(b"sales of Monday", key="daily")
        second = reports.enqueue_unique(b"sales of Monday, again", key="daily")
        print(first.is_new, second.is_new, second.task)

        try:
            reports.enqueue_many([b"x"] * 1001)
        except penstock.QueueFull as error:
            print(error)


if __name__ == "__main__":
    main()
