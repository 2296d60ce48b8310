"""What this process knows of the users that it logs in as."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.connection.address import Address

WITHOUT_LACK: set[tuple[Address, str]] = set()
"""store and namespace, of users that were found to lack no permission, so they are not asked again
"""
