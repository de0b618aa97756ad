"""A watcher that a test starts."""

from __future__ import annotations

from django.db import connections
from typing_extensions import override

from controller.watch.watcher import KindWatcher


class Follower(KindWatcher):
    """Its thread gives its database connection back."""

    @override
    def run(self) -> None:
        try:
            super().run()
        finally:
            connections.close_all()
