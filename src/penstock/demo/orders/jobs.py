"""What happens to an order. Workers import this module, on this machine and on Spark."""

from __future__ import annotations

import time

import penstock

ORDERS = "orders"
REMINDERS = "reminders"

_BANK_S = 0.002


class BankBusy(Exception):
    """The bank did not answer; it will later."""


@penstock.job(queue=ORDERS, type="charge")
def charge(order_id: int, customer: str, cents: int, card: str) -> dict[str, int]:
    """Take the money. What the bank says depends on the card, so that each run is the same."""
    time.sleep(_BANK_S)  # it takes a moment to answer
    if card == "expired":
        raise penstock.Reject(f"the card of {customer} has expired")
    if card == "busy" and penstock.current().attempt == 1:
        raise BankBusy(f"no answer for order {order_id}")
    return {"paid": cents, "fee": cents * 3 // 100}


@penstock.job(queue=REMINDERS, type="remind", attempts=3)
def remind(order_id: int, customer: str, cents: int) -> dict[str, str]:
    return {"letter": f"Dear {customer}, order {order_id} of {cents / 100:.2f} EUR is not paid."}
