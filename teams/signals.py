"""What other apps are told about teams, inside the transaction of the change: an error of theirs takes it back."""

from __future__ import annotations

from django.dispatch import Signal

cohort_changed = Signal()
"""A team has come to another cohort: `team` with the new name, `left` the old one ("" for none), `now`."""
