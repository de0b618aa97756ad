from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.arithmetic import LimitNode, Tree, derive
from policy.pool_snapshot import Account
from tests.effort import drawn
from tests.quotas.pure_world import cohort, team


def tree_of(nodes):
    derived = derive(nodes)
    return Tree(
        [
            Account(n.name, n.parent, d.guaranteed, d.local, d.ceiling, d.used)
            for n in nodes
            for d in [derived[n.name]]
        ]
    )


NOTHING = st.just(0)


@st.composite
def forests(draw, held=NOTHING):
    """Cohorts in cohorts, with teams anywhere; what teams hold is drawn from `held`."""
    limit = st.none() | st.integers(0, 20)
    names: list[str | None] = [None]
    nodes = []
    for number in range(draw(st.integers(0, 4))):
        nodes.append(LimitNode(f"c{number}", draw(st.sampled_from(names)), None, draw(limit), draw(limit)))
        names.append(f"c{number}")
    for number in range(draw(st.integers(1, 5))):
        parent = draw(st.sampled_from(names))
        nodes.append(
            LimitNode(f"t{number}", parent, draw(st.integers(0, 20)), draw(limit), draw(limit), draw(held))
        )
    return draw(st.permutations(nodes))


def kueue_available(nodes, name):
    """Kueue's recursion over a node's own limits and its parent, written from its documentation."""
    by_name = {node.name: node for node in nodes}
    columns = derive(nodes)

    def available(node):
        own = columns[node.name]
        if node.parent is None:
            return own.guaranteed - own.used
        here = max(0, own.local - own.used)
        above = available(by_name[node.parent])
        if node.borrowing_limit is not None:
            stored = own.guaranteed - own.local
            used = max(0, own.used - own.local)
            above = min(stored - used + node.borrowing_limit, above)
        return here + above

    return available(by_name[name])


def kueue_columns(nodes):
    """Guaranteed quota and use of every account, by recursion from above."""
    children = {node.name: [each for each in nodes if each.parent == node.name] for node in nodes}

    def guaranteed(node):
        lent = (
            min(guaranteed(each), guaranteed(each) if each.lending_limit is None else each.lending_limit)
            for each in children[node.name]
        )
        return (node.nominal or 0) + sum(lent)

    def used(node):
        over = 0
        for each in children[node.name]:
            local = 0 if each.lending_limit is None else max(0, guaranteed(each) - each.lending_limit)
            over += max(0, used(each) - local)
        return node.held + over

    return {node.name: (guaranteed(node), used(node)) for node in nodes}


def test_two_teams_that_lend_to_each_other():
    nodes = [cohort("c"), team("a", 8, "c"), team("b", 8, "c", borrowing=2, lending=6)]
    columns = derive(nodes)
    assert columns["c"].guaranteed == columns["c"].ceiling == 14
    assert (columns["a"].local, columns["a"].ceiling) == (0, 14)
    assert (columns["b"].local, columns["b"].ceiling) == (2, 10)
    tree = tree_of(nodes)
    tree.take("b", 10)
    assert tree.borrowed("b") == 2
    assert tree.available("b") == 0
    assert tree.available("a") == 14 - 8


def test_a_team_alone_has_its_nominal_quota_and_nothing_else():
    assert derive([team("a", 8)])["a"].ceiling == 8


def test_a_cycle_of_cohorts_is_refused():
    with pytest.raises(ValueError, match="cycle"):
        derive([cohort("a", "b"), cohort("b", "a")])
    with pytest.raises(ValueError, match="cycle"):
        Tree([Account("a", "b", 0, 0, 0, 0), Account("b", "a", 0, 0, 0, 0)])


def test_what_is_local_stays_free_for_its_team_when_its_cohort_is_used_too_much():
    nodes = [cohort("c"), LimitNode("a", "c", 4, None, 2, 0), LimitNode("b", "c", 4, None, None, 9)]
    tree = tree_of(nodes)
    assert tree.available("b") < 0
    assert tree.available("a") == 2


@given(forests(held=st.integers(0, 12)))
@settings(max_examples=drawn(usual=120, soak=4000))
def test_derived_columns_are_those_of_the_definitions(nodes):
    columns = derive(nodes)
    for name, expected in kueue_columns(nodes).items():
        assert (columns[name].guaranteed, columns[name].used) == expected
        assert 0 <= columns[name].local <= columns[name].guaranteed <= columns[name].ceiling


@given(forests(held=st.integers(0, 12)))
@settings(max_examples=drawn(usual=150, soak=6000))
def test_available_is_kueues_unless_an_ancestor_is_used_too_much(nodes):
    tree, by_name = tree_of(nodes), {node.name: node for node in nodes}

    def over(name):
        above = by_name[name].parent
        return above is not None and (tree.available(above) < 0 or over(above))

    for node in nodes:
        if over(node.name):
            assert tree.available(node.name) >= kueue_available(nodes, node.name)
        else:
            assert tree.available(node.name) == kueue_available(nodes, node.name)


def allowed(tree, name, units):
    """The rule of one claim, written out: each account that it reaches must stay within its ceiling."""
    place = tree.place(name)
    while place >= 0 and units:
        if tree.used[place] + units > tree.ceiling[place]:
            return False
        local, used = tree.local[place], tree.used[place]
        units = max(0, used + units - local) - max(0, used - local)
        place = tree.parent[place]
    return True


@given(forests(held=st.integers(0, 12)))
@settings(max_examples=drawn(usual=100, soak=3000))
def test_available_is_exactly_what_one_claim_may_take(nodes):
    tree = tree_of(nodes)
    for node in nodes:
        most = tree.available(node.name)
        for units in range(1, 45):
            assert allowed(tree, node.name, units) == (units <= most)


@given(forests(), st.lists(st.tuples(st.integers(0, 4), st.integers(-9, 9)), max_size=40))
@settings(max_examples=drawn(usual=120, soak=4000))
def test_no_sequence_of_allowed_claims_passes_any_ceiling_and_all_of_it_can_be_given_back(nodes, moves):
    tree = tree_of(nodes)
    teams = sorted(node.name for node in nodes if node.nominal is not None)
    held = dict.fromkeys(teams, 0)
    for number, units in moves:
        name = teams[number % len(teams)]
        if units > 0 and units <= tree.available(name):
            tree.take(name, units)
            held[name] += units
        elif units < 0:
            back = min(held[name], -units)
            tree.give(name, back)
            held[name] -= back
        assert all(used <= ceiling for used, ceiling in zip(tree.used, tree.ceiling, strict=True))
        again = derive(
            [
                node
                if node.nominal is None
                else LimitNode(
                    node.name,
                    node.parent,
                    node.nominal,
                    node.borrowing_limit,
                    node.lending_limit,
                    held[node.name],
                )
                for node in nodes
            ]
        )
        assert all(tree.used[tree.place(name)] == again[name].used for name in again)
    for name, units in held.items():
        tree.give(name, units)
    assert not any(tree.used)


@given(forests(), st.integers(1, 9))
@settings(max_examples=drawn(usual=60, soak=2000))
def test_a_copy_changes_apart(nodes, units):
    tree = tree_of(nodes)
    before = list(tree.used)
    tree.copy().take(nodes[0].name, units)
    assert tree.used == before
