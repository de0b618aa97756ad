"""What is told to others, inside the transaction that writes it. Who tells people of alerts listens here."""

from __future__ import annotations

from django.dispatch import Signal

alert_opened = Signal()
"""`alert`: an Alert that has just opened."""
alert_closed = Signal()
"""`alert`: an Alert that no longer holds."""
idle_policy_warned = Signal()
"""`workload`, `message`, `now`: its idle policy is about to stop it, or warns and does no more."""
idle_policy_stopped = Signal()
"""`workload`, `message`, `now`: its idle policy has stopped it."""
