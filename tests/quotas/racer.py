"""A process that claims and releases, or changes limits, as fast as it can: `python -m tests.quotas.racer`.

Reads its part as JSON, says that it is ready, waits for a line, and answers with what it has seen.
"""

from __future__ import annotations

import json
import logging
import random
import sys

import django

COHORTS = ("research", "vision", "")


def main():
    part = json.loads(sys.stdin.readline())
    django.setup()
    logging.disable(logging.CRITICAL)
    from django.db import connection

    connection.settings_dict.update(part["database"])
    connection.ensure_connection()
    answer("ready")
    sys.stdin.readline()
    seen = (manage if part["role"] == "manager" else race)(part, random.Random(part["seed"]))
    answer(json.dumps(seen))


def answer(line):
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def race(part, dice):
    """Claim one by one or many at once, and give back unless it `holds` on to all, with nobody's lock around it."""
    from django.db import Error

    from foundation import clock
    from quotas.errors import QuotaExceeded
    from quotas.models import Quota
    from quotas.services import Wanted, claim, claim_many, release
    from workloads.models import Workload

    quotas = {each.team_id: each for each in Quota.objects.all()}
    fresh = list(Workload.objects.filter(pk__in=part["workloads"]).order_by("pk"))
    seen = {"claimed": 0, "refused": 0, "released": 0, "errors": []}
    mine = []

    def take():
        some = [fresh.pop() for _ in range(min(len(fresh), dice.choice((1, 1, 1, 4))))]
        try:
            if len(some) == 1:
                quota = quotas[some[0].team_id]
                claim(workload=some[0], quota=quota, units=some[0].units, now=clock.now())
            else:
                wanted = [Wanted(row.pk, quotas[row.team_id].pk, row.units) for row in some]
                claim_many(wanted=wanted, now=clock.now())
        except QuotaExceeded:
            seen["refused"] += len(some)
        else:
            seen["claimed"] += len(some)
            mine.extend(some)

    while fresh:
        try:
            if part["holds"] and mine and (len(mine) > part["holds"] or dice.random() < 0.4):
                seen["released"] += release(workload=mine.pop(dice.randrange(len(mine))), now=clock.now())
            else:
                take()
        except Error as error:
            seen["errors"].append(f"{type(error).__name__}: {error}")
    return seen


def manage(part, dice):
    """Cut and raise limits, move teams and cohorts, until somebody closes the other end."""
    import select

    from django.db import Error

    from foundation import clock
    from quotas.limits import move_cohort, set_cohort_limits, set_limits
    from quotas.models import Cohort
    from teams.actors import Actor
    from teams.models import Team
    from teams.services import update_team
    from workloads.models import ResourceFlavor

    actor = Actor.system("races")
    flavor = ResourceFlavor.objects.get()
    teams = list(Team.objects.filter(pk__in=part["teams"]))
    seen = {"changes": 0, "errors": []}

    def limit(team):
        nominal = dice.randrange(part["nominal"] * 2)
        limits = {
            "nominal": nominal,
            "lending_limit": dice.choice((None, nominal // 2)),
            "borrowing_limit": dice.choice((None, dice.randrange(6))),
        }
        set_limits(
            team=team,
            flavor=flavor,
            capacity_type="on-demand",
            limits=limits,
            reason="x",
            actor=actor,
            now=clock.now(),
        )

    def move(_team):
        top, below = Cohort.objects.get(name="research"), Cohort.objects.get(name="vision")
        move_cohort(cohort=below, parent=dice.choice((top, None)), actor=actor, now=clock.now())

    def bound(_team):
        set_cohort_limits(
            cohort=Cohort.objects.get(name="vision"),
            flavor=flavor,
            capacity_type="on-demand",
            borrowing_limit=dice.choice((None, 3)),
            lending_limit=dice.choice((None, 3)),
            reason="x",
            actor=actor,
            now=clock.now(),
        )

    def join(team):
        update_team(actor=actor, team=team, changes={"cohort_name": dice.choice(COHORTS)}, now=clock.now())

    while not select.select([sys.stdin], [], [], 0.02)[0]:
        try:
            dice.choice((limit, limit, limit, move, bound, join))(dice.choice(teams))
            seen["changes"] += 1
        except Error as error:
            seen["errors"].append(f"{type(error).__name__}: {error}")
    return seen


if __name__ == "__main__":
    main()
