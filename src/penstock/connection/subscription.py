"""Messages that the server pushes, over a connection that is renewed by itself."""

from penstock.connection._async.subscription import AsyncSubscription
from penstock.connection._async.subscription import listen as alisten
from penstock.connection._sync.subscription import Subscription, listen

__all__ = ["AsyncSubscription", "Subscription", "alisten", "listen"]
