"""Who has waited long is protected from those who came later, and from nobody else."""

from __future__ import annotations

from policy.judge import judge, plan
from tests.quotas.pure_world import NOW, cohort, holder, snapshot, team, waiter


def test_a_denial_for_the_elders_sake_goes_for_nobody_who_came_before_the_elder():
    """Of one line and shape: the first came after the elder, the second before it and with lower priority."""
    limits = [cohort("c"), team("nlp", 16, "c"), team("vision", 16, "c")]
    held = holder("h", "nlp", 8, ends_in=600)
    elder = waiter("elder", "nlp", 16, 2, queued_at=NOW - 5000, sequence=2)
    after = waiter("after", "vision", queued_at=NOW - 100, sequence=3)
    before = waiter("before", "vision", queued_at=NOW - 8000, sequence=1, priority=100)
    nodes = {"n1": 8, "n2": 8}
    alone = plan(snapshot(limits, nodes=nodes, holders=[held], waiters=[elder, before]))
    assert alone.admitted == ("before",)
    facts = snapshot(limits, nodes=nodes, holders=[held], waiters=[elder, after, before])
    made = plan(facts)
    assert made.verdicts["after"].rule == "backfill"
    assert made.admitted == ("before",)
    for each in ("elder", "after", "before"):
        assert judge(facts, each) == made.verdicts[each]
