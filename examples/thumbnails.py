"""Produce and handle tasks in one module.

python examples/thumbnails.py                      # puts tasks in
penstock worker run examples.thumbnails -c 4       # takes them out; Ctrl-C to stop
"""

from __future__ import annotations

import json

import penstock


@penstock.handler("thumbnails")
def make_thumbnail(task: bytes, context: penstock.Context) -> bytes | None:
    """A task is bytes; what they mean is up to you."""
    order = json.loads(task)
    for _step in range(order["steps"]):
        if context.cancelled:  # somebody called queue.cancel(...), or this worker lost the task
            return None
    return f"made {order['name']} under token {context.token}".encode()


def main() -> None:
    with penstock.connect() as ps:
        queue = ps.queue("thumbnails")
        orders = ({"name": f"image-{n}.png", "steps": 3} for n in range(10))
        accepted = queue.enqueue_many(json.dumps(order).encode() for order in orders)
        print(f"{accepted} tasks accepted, {queue.count()} wait")


if __name__ == "__main__":
    main()
