"""Processes that claim and release, or change limits, as fast as they can: `python -m tests.quotas.racer SOCKET...`.

One is made for each of the inherited sockets, when all that they need is loaded. It reads its part as JSON, says that
it is ready, waits for a line, and answers with what it has seen.
"""

from __future__ import annotations

import json
import logging
import os
import random
import select
import socket
import sys

import django

COHORTS = ("research", "vision", "")


def main(numbers):
    django.setup()
    logging.disable(logging.CRITICAL)
    from controller.admission import scheduler  # noqa: F401 (as much as possible before there are many of it)

    sockets = [socket.socket(fileno=int(number)) for number in numbers]
    children = [child for each in sockets if (child := os.fork() or run(each, sockets))]
    for child in children:
        os.waitpid(child, 0)


def run(own, sockets):
    """In the child; never returns."""
    for other in sockets:
        if other is not own:
            other.close()
    try:
        with own, own.makefile("rw") as line:
            take_part(own, line)
    finally:
        os._exit(0)


def take_part(own, line):
    from django.db import connection

    part = json.loads(line.readline())
    connection.settings_dict.update(part["database"])
    connection.ensure_connection()
    answer(line, "ready")
    line.readline()
    roles = {"claimer": race, "admitter": admit, "manager": lambda *given: manage(*given, own)}
    seen = roles[part["role"]](part, random.Random(part["seed"]))
    answer(line, json.dumps(seen))


def answer(line, said):
    line.write(f"{said}\n")
    line.flush()


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


def admit(part, dice):
    """Submit, look at the own run as a worker does, pass over the pool when it is due, and end runs that were let in."""
    from django.db import Error, transaction

    from controller.admission import scheduler
    from foundation import clock
    from quotas.errors import QuotaExceeded
    from quotas.models import Claim, ClaimState, Pool
    from teams.models import Team, User
    from workloads import locks, services
    from workloads.models import ResourceFlavor, Workload
    from workloads.states import Phase, Priority, Reason

    teams = list(Team.objects.filter(pk__in=part["teams"]))
    owner, flavor, pool = User.objects.get(pk=part["owner"]), ResourceFlavor.objects.get(), Pool.objects.get()
    mine = f"r{part['seed']}-"
    seen = {"submitted": 0, "admitted": 0, "ended": 0, "raced": 0, "errors": []}

    def submit():
        units = dice.choice((1, 1, 2, 3))
        row = services.create_workload(
            kind="training-run",
            team=dice.choice(teams),
            owner=owner,
            name=f"{mine}{seen['submitted']}",
            priority=dice.choice(list(Priority)),
            flavor=flavor,
            capacity_type="on-demand",
            units=units,
            units_each=1,
            pod_count=units,
            preemptible=True,
            time_limit_seconds=dice.choice((600, 3600, 86400)),
            max_retries=0,
            labels={},
            actor="races",
            simulated=True,
            now=clock.now(),
        )
        seen["submitted"] += 1
        locked = locks.lock(public_id=row.public_id, now=clock.now())
        if locked is None:
            return
        try:
            verdict = scheduler.admit(locked, now=clock.now())
            seen["admitted"] += verdict is None or verdict.admitted
        finally:
            locks.unlock(locked, next_at=None, failed=False)

    def end():
        with transaction.atomic():
            held = Workload.objects.select_for_update(no_key=True, of=("self",)).select_related(
                "team", "flavor"
            )
            row = held.filter(name__startswith=mine, phase=Phase.ADMITTED.value).first()
            if row is None:
                return
            now = clock.now()
            for phase, reason in (
                (Phase.STARTING, Reason.PULLING),
                (Phase.RUNNING, Reason.PROGRESSING),
                (Phase.SUCCEEDED, Reason.COMPLETED),
            ):
                services.transition(row, to=phase, reason=reason, message="", actor="races", now=now)
            scheduler.release(row, now=now)
            seen["ended"] += 1

    while seen["submitted"] < part["count"]:
        try:
            dice.choice((submit, submit, end, lambda: scheduler.pass_over(pool, now=clock.now())))()
        except QuotaExceeded:
            seen["raced"] += 1
        except Error as error:
            seen["errors"].append(f"{type(error).__name__}: {error}")
    held = Claim.objects.exclude(state=ClaimState.RELEASED)
    seen["held"] = held.filter(workload__name__startswith=mine).count()
    return seen


def manage(part, dice, until):
    """Cut and raise limits, move teams and cohorts, until something is said."""
    from django.db import Error

    from foundation import clock
    from quotas.limits import move_cohort, set_cohort_limits
    from quotas.models import Cohort
    from teams.actors import Actor
    from teams.models import Team
    from teams.services import update_team
    from tests.factories.catalogue import limit
    from workloads.models import ResourceFlavor

    actor = Actor.system("races")
    flavor = ResourceFlavor.objects.get()
    teams = list(Team.objects.filter(pk__in=part["teams"]))
    seen = {"changes": 0, "errors": []}

    def change(team):
        nominal = dice.randrange(part["nominal"] * 2)
        limits = {
            "nominal": nominal,
            "lending_limit": dice.choice((None, nominal // 2)),
            "borrowing_limit": dice.choice((None, dice.randrange(6))),
        }
        limit(team, flavor, actor=actor, **limits)

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

    while not select.select([until], [], [], 0.02)[0]:
        try:
            dice.choice((change, change, change, move, bound, join))(dice.choice(teams))
            seen["changes"] += 1
        except Error as error:
            seen["errors"].append(f"{type(error).__name__}: {error}")
    return seen


if __name__ == "__main__":
    main(sys.argv[1:])
