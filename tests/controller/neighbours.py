"""Two teams that lend to each other."""

from __future__ import annotations

from uuid import uuid4

from foundation import clock
from foundation.models import PlatformSettings
from quotas.cohorts import create_cohort
from teams.services import update_team
from tests.factories.catalogue import SETUP, limit
from tests.factories.teams import make_member, make_team


class Neighbours:
    """Two teams of one cohort with 8 units each, on the two whole nodes that the flavor is limited to."""

    def __init__(self, bench):
        self.bench = bench
        now = clock.now()
        name = f"c-{uuid4().hex[:8]}"
        create_cohort(name=name, parent=None, actor=SETUP, now=now)
        self.borrower = bench.team
        self.owner = make_team(f"t-{uuid4().hex[:8]}", cohort_name=name)
        self.owner_member = make_member("lead", team=self.owner).user
        update_team(actor=SETUP, team=self.borrower, changes={"cohort_name": name}, now=now)
        self.borrower.refresh_from_db()
        self.limit(self.owner, nominal=8)
        PlatformSettings.objects.update_or_create(
            pk=1, defaults={"minimum_run_seconds": 0, "grace_seconds": 2}
        )

    def limit(self, team, **limits):
        return limit(team, self.bench.flavor, **limits)

    def submit_owner(self, **fields):
        """A run of all that the owner has, unless told otherwise."""
        body = {"name": f"owner-{uuid4().hex[:4]}", "gpus_per_replica": 8, **fields}
        return self.bench.submit(team=self.owner, member=self.owner_member, **body)
