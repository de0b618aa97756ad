"""Cohorts, limits and rules of teams from a bootstrap file."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import yaml

from foundation.models import PlatformSettings
from portal.bootstrap import BootstrapError, load
from quotas.models import Cohort, Quota, QuotaChange, TeamPolicy
from teams.models import AuditEvent, Team
from tests.effort import spread

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 10, 1, tzinfo=UTC)
LATER = NOW + timedelta(days=1)
FILE = {
    "settings": {"minimum_run_seconds": 0, "fair_share_half_life_hours": 24},
    # A cohort may stand before the one that it is below.
    "cohorts": [{"name": "language", "parent": "research"}, {"name": "research"}],
    "teams": [
        {"slug": "vision", "cohort": "research", "policy": {"weight": 2, "high_priority": "members"}},
        {"slug": "speech", "cohort": "language", "policy": {"shows_name": True}},
    ],
    "flavors": [{"name": "a100", "card": "a100", "capacity": {"on-demand": {}}}],
    "quotas": [
        {
            "team": "vision", "flavor": "a100", "nominal": 8, "borrowing_limit": 4, "lending_limit": 6,
            "user_limit": 2, "max_time_limit_seconds": 3600,
        },
        {"team": "speech", "flavor": "a100", "nominal": 4, "borrowing_limit": None},
    ],
}  # fmt: skip
COUNTS = {"settings": 1, "cohorts": 2, "teams": 2, "flavors": 1, "quotas": 2}


def text(**sections):
    return yaml.safe_dump({**FILE, **sections})


def test_cohorts_limits_and_rules_become_rows():
    assert load(text(), now=NOW).changed == COUNTS
    settings = PlatformSettings.current()
    assert (settings.minimum_run_seconds, settings.fair_share_half_life_hours) == (0, 24)
    assert dict(Cohort.objects.values_list("name", "parent__name")) == {
        "language": "research",
        "research": None,
    }
    assert dict(Team.objects.values_list("slug", "cohort_name")) == {
        "speech": "language",
        "vision": "research",
    }
    policy = TeamPolicy.objects.get(team__slug="vision")
    assert (policy.weight, policy.high_priority, policy.shows_name) == (2, "members", False)
    assert TeamPolicy.objects.get(team__slug="speech").shows_name
    quota = Quota.objects.get(team__slug="vision")
    limits = (quota.nominal, quota.borrowing_limit, quota.lending_limit, quota.user_limit)
    assert limits == (8, 4, 6, 2)
    assert quota.max_time_limit_seconds == 3600
    # Both lend: 8 and at most 4 more, 4 and all 6 that vision lends.
    assert dict(Quota.objects.values_list("team__slug", "ceiling")) == {"speech": 10, "vision": 12}


def test_a_second_run_changes_nothing():
    load(text(), now=NOW)
    audited, changes = AuditEvent.objects.count(), QuotaChange.objects.count()
    report = load(text(), now=LATER)
    assert report.changed == {}
    assert report.unchanged == COUNTS
    assert (AuditEvent.objects.count(), QuotaChange.objects.count()) == (audited, changes)


def test_what_the_file_leaves_out_stays_as_it_is():
    load(text(), now=NOW)
    short = {
        "cohorts": [{"name": "language"}],
        "teams": [{"slug": "vision"}],
        "quotas": [{"team": "vision", "flavor": "a100", "nominal": 8}],
    }
    assert load(yaml.safe_dump(short), now=LATER).changed == {}
    assert Cohort.objects.get(name="language").parent.name == "research"
    assert Team.objects.get(slug="vision").cohort_name == "research"
    assert Quota.objects.get(team__slug="vision").borrowing_limit == 4


@pytest.mark.parametrize(
    ("section", "change"),
    [
        ("cohorts", [{"name": "language", "parent": None}]),
        ("teams", [{"slug": "vision", "cohort": None}]),
        ("teams", [{"slug": "vision", "policy": {"weight": 3}}]),
        ("quotas", [{"team": "vision", "flavor": "a100", "borrowing_limit": None}]),
        ("quotas", [{"team": "vision", "flavor": "a100", "nominal": 5}]),
    ],
)
def test_a_changed_file_changes_what_it_names(section, change):
    load(text(), now=NOW)
    assert load(yaml.safe_dump({section: change}), now=LATER).changed == {section: 1}
    assert load(yaml.safe_dump({section: change}), now=LATER).changed == {}


WRONG_NUMBERS = (-1, 1.5, "1.5", True, 10**12)
BAD = [
    ("cohorts", [{"name": "Big"}], "cohorts[0].name"),
    ("cohorts", [{"name": "a"}, {"colour": "red"}], "cohorts[1].name"),
    ("cohorts", [{"name": "a", "teams": ["vision"]}], "cohorts[0].teams"),
    ("cohorts", [{"name": "a", "parent": "nope"}], "cohorts[0].parent"),
    ("cohorts", [{"name": "a", "parent": "a"}], "cohorts[0].parent"),
    ("cohorts", [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}], "cohorts[0].parent"),
    ("cohorts", [{"name": "a", "parent": []}], "cohorts[0].parent"),
    ("cohorts", [{"name": []}], "cohorts[0].name"),
    ("cohorts", ["a"], "cohorts[0]"),
    ("cohorts", {"name": "a"}, "cohorts"),
    ("teams", [{"slug": "vision", "cohort": "nope"}], "teams[0].cohort"),
    ("teams", [{"slug": "vision", "policy": {"weight": 0}}], "teams[0].policy.weight"),
    ("teams", [{"slug": "vision", "policy": {"high_priority": "all"}}], "teams[0].policy.high_priority"),
    ("teams", [{"slug": "vision", "policy": {"shows_name": "yes"}}], "teams[0].policy.shows_name"),
    ("teams", [{"slug": "vision", "policy": {"queue": "stopped"}}], "teams[0].policy.queue"),
    ("teams", [{"slug": "vision", "policy": []}], "teams[0].policy"),
    ("quotas", [{"team": "vision", "flavor": "nope", "nominal": 1}], "quotas[0].flavor"),
    ("quotas", [{"team": "nope", "flavor": "a100", "nominal": 1}], "quotas[0].team"),
    ("quotas", [{"team": "vision", "flavor": "a100", "nominal": 1, "used": 1}], "quotas[0].used"),
    ("quotas", [{"team": "vision", "flavor": "a100", "nominal": 1, "capacity": "reserved"}], "quotas[0].capacity"),
    ("quotas", [{"team": "vision", "flavor": "a100", "nominal": 1, "lending_limit": 2}], "quotas[0].lending_limit"),
    *(
        ("quotas", [{"team": "vision", "flavor": "a100", "nominal": 1, name: wrong}], f"quotas[0].{name}")
        for name in ("nominal", "borrowing_limit", "lending_limit", "user_limit", "max_time_limit_seconds")
        for wrong in WRONG_NUMBERS
    ),
]  # fmt: skip


@pytest.mark.parametrize(("section", "value", "says"), spread(BAD, usual=15))
def test_a_wrong_file_is_refused_with_the_place_and_nothing_of_it_is_done(section, value, says):
    with pytest.raises(BootstrapError) as refused:
        load(text(**{section: value}), now=NOW)
    assert f"{says}:" in str(refused.value)
    assert not Cohort.objects.exists()
    assert not Team.objects.exists()


def test_cohorts_that_exist_make_no_cycle_either():
    load(text(), now=NOW)
    with pytest.raises(BootstrapError, match=r"cohorts\[0\]\.parent: .*a cycle"):
        load(yaml.safe_dump({"cohorts": [{"name": "research", "parent": "language"}]}), now=LATER)
