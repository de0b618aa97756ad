"""A team's own query sees the series of its own namespace, however it is written."""

from __future__ import annotations

import promql_parser as promql
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from inference.autoscaling.scalers import query_patch
from inference.enforced_query import DEPTH_MAX, NOTHING, TOKENS_MAX, Border, QueryRefusedError, enforced, held
from inference.scaling_spec import ScalingSpec
from tests.effort import drawn
from tests.inference.scaler_samples import built
from tests.tables import each_row

OURS = Border("team-ours")


def selectors(node):
    """Every selector of an expression."""
    if isinstance(node, promql.VectorSelector):
        yield node
    inner = [getattr(node, name, None) for name in ("lhs", "rhs", "expr", "param", "vector_selector")]
    for each in [*inner, *getattr(node, "args", ())]:
        if isinstance(each, promql.Expr):
            yield from selectors(each)


def nests(node, *, inside=False):
    """Whether an expression has a subquery inside of a subquery."""
    is_one = isinstance(node, promql.SubqueryExpr)
    inner = [getattr(node, name, None) for name in ("lhs", "rhs", "expr", "param")]
    below = [each for each in [*inner, *getattr(node, "args", ())] if isinstance(each, promql.Expr)]
    return (is_one and inside) or any(nests(each, inside=inside or is_one) for each in below)


def is_ours(selector):
    return ("namespace", "MatchOp.Equal", "team-ours") in {
        (matcher.name, str(matcher.op), matcher.value) for matcher in selector.matchers.matchers
    }


@each_row(
    ("query", "runs"),
    [
        ("sum(a)", 'sum(a{namespace="team-ours"})'),
        ('a{namespace="theirs"}', 'a{namespace="team-ours",namespace="theirs"}'),
        ('a{namespace=~".*"}', 'a{namespace="team-ours",namespace=~".*"}'),
        ('a{namespace="team-ours"}', 'a{namespace="team-ours"}'),
        ('{__name__=~".+"}', '{namespace="team-ours",__name__=~".+"}'),
        ('{"a"}', '{namespace="team-ours",__name__="a"}'),
        ("a or b", 'a{namespace="team-ours"} or b{namespace="team-ours"}'),
        ("absent(a)", 'absent(a{namespace="team-ours"})'),
        ("a offset -90s", 'a{namespace="team-ours"} offset -90s'),
        ("rate(a[5m] offset 1w)", 'rate(a{namespace="team-ours"}[5m] offset 7d)'),
        (
            "max_over_time(rate(a[1m])[1h:30s])",
            'max_over_time(rate(a{namespace="team-ours"}[1m])[1h:30s])',
        ),
        ("max_over_time((a > 1)[5m:])", 'max_over_time((a{namespace="team-ours"} > 1)[5m:])'),
        ("topk(scalar(a), b)", 'topk(scalar(a{namespace="team-ours"}), b{namespace="team-ours"})'),
        (
            "a * on (x) group_left (y) b",
            'a{namespace="team-ours"} * on (x) group_left (y) b{namespace="team-ours"}',
        ),
        ("(1 - 2) ^ a", '(1 - 2) ^ a{namespace="team-ours"}'),
        ("1 - (2 - 3)", "1 - (2 - 3)"),
        ("a # } or b{\n== bool 2", 'a{namespace="team-ours"} == bool 2'),
        (r'a{b="\"} or c{d=\""}', r'a{namespace="team-ours",b="\"} or c{d=\""}'),
        ("a{b='}'}", 'a{namespace="team-ours",b="}"}'),
        (r'a{b="\x41\u00e9"}', r'a{namespace="team-ours",b="A\u00e9"}'),
        (
            'label_replace(a, "namespace", "theirs", "x", "\\"), b, ")',
            'label_replace(a{namespace="team-ours"}, "namespace", "theirs", "x", "\\"), b, ")',
        ),
        ("sum{}", 'sum{namespace="team-ours"}'),
        ("DCGM_FI_DEV_GPU_UTIL", 'DCGM_FI_DEV_GPU_UTIL{exported_namespace="team-ours"}'),
        ('{__name__=~"DCGM.*"}', '{namespace="team-ours",__name__=~"DCGM.*"}'),
        ("1e400 + 0x1F", "Inf + 31"),
    ],
)
def test_every_selector_demands_the_namespace_beside_what_it_says_itself(query, runs):
    assert enforced(query, OURS) == runs
    assert enforced(runs, OURS) == runs


def test_where_labels_are_honoured_gpus_are_held_by_the_plain_label():
    assert enforced("DCGM_FI_X", Border("t", exported_labels=False)) == 'DCGM_FI_X{namespace="t"}'


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("a{", "unexpected end of input"),
        ("info(a)", "no selector"),
        ("a @ 5", "@ has no place"),
        ("a @ -5", "@ has no place"),
        ("max_over_time(a[5m:] @ end())", "@ has no place"),
        ('a{b="1" or c="2"}', "joined by or"),
        ("a + fill(0) b", "fill"),
        ('sum by ("a) or (b") (a)', "no name of a label"),
        ('a{"x=1} or b{y"="2"}', "no name of a label"),
        ("a offset nan", "cannot convert"),
        ("a[99999999y]", "too large"),
        ("-(" * DEPTH_MAX + "a" + ")" * DEPTH_MAX, "nested more than"),
        ("+".join("a" * TOKENS_MAX), "words and signs"),
    ],
)
def test_what_cannot_be_held_is_refused_with_the_reason(query, said):
    with pytest.raises(QueryRefusedError, match=said):
        enforced(query, OURS)
    assert held(query, OURS) == NOTHING


NAMES = st.sampled_from(
    ["a", "up", "node:x:y", "sum", "offset", "start", "inf_", "kube_pod_info", "namespace"]
)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8)


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


MATCHERS = st.builds(
    lambda name, op, text: f"{name}{op}{quoted(text)}",
    st.sampled_from(["namespace", "pod", "by", "__name__x"]),
    st.sampled_from(["=", "!="]),
    TEXTS,
)
SERIES = st.builds(
    lambda name, matchers: f"{name}{{{','.join(matchers)}}}" if matchers else name,
    NAMES.filter(lambda name: name not in {"sum", "offset", "start"}),
    st.lists(MATCHERS, max_size=3),
)
OFFSETS = st.sampled_from(["", " offset 5m", " offset -1h30m"])
INSTANT = st.builds("{}{}".format, SERIES, OFFSETS)


def grown(inner):
    joined = st.sampled_from(
        ["+", "or", "and", "unless", "/ on (pod)", "* ignoring (x) group_left (y)", "> bool"]
    )
    return st.one_of(
        st.builds(
            lambda a, op, b: f"({a}) {op} ({b})" if "group" not in op else f"{a} + {b}", inner, joined, inner
        ),
        st.builds("sum by (pod) ({})".format, inner),
        st.builds("topk(scalar({}), {})".format, inner, inner),
        st.builds(lambda a, text: f"count_values({quoted(text)}, {a})", inner, TEXTS.filter(bool)),
        st.builds(lambda a, text: f'label_replace({a}, "x", {quoted(text)}, "pod", "(.*)")', inner, TEXTS),
        st.builds("absent({})".format, inner),
        st.builds("max_over_time(({})[5m:1m]{})".format, inner, OFFSETS),
        st.builds("rate({}[5m]{})".format, SERIES, OFFSETS),
        st.builds("-({})".format, inner),
        st.builds("{} # }} or b{{\n".format, inner),
    )


@settings(max_examples=drawn(usual=25, soak=5000))
@given(st.recursive(INSTANT, grown, max_leaves=8))
def test_after_it_every_selector_of_any_expression_has_the_namespace(query):
    # What has a subquery in a subquery is refused, which is tested above.
    assume(not nests(promql.parse(query)))
    before = list(selectors(promql.parse(query)))
    text = enforced(query, OURS)
    after = list(selectors(promql.parse(text)))
    assert all(is_ours(selector) for selector in after)
    assert [selector.name for selector in after] == [selector.name for selector in before]
    for then, now in zip(before, after, strict=True):
        said = {(m.name, str(m.op), m.value) for m in then.matchers.matchers}
        kept = {(m.name, str(m.op), m.value) for m in now.matchers.matchers}
        assert kept == said | {("namespace", "MatchOp.Equal", "team-ours")}
    assert enforced(text, OURS) == text


def test_an_object_of_an_older_release_gets_the_query_that_is_held():
    companion = built()["prometheus_to_zero"].primary
    first, wakes = companion["spec"]["triggers"]
    scaling = ScalingSpec(trigger="prometheus", query="avg(lag_seconds) or vector(0)", threshold=30)
    border = Border("team-vision")
    assert query_patch(companion, scaling, border) == {}

    old = {**first, "metadata": {**first["metadata"], "query": scaling.query}}
    companion = {**companion, "spec": {**companion["spec"], "triggers": [old, wakes]}}
    assert query_patch(companion, scaling, border) == {"spec": {"triggers": [first, wakes]}}
    assert query_patch(companion, None, border) == {}


def test_a_query_that_grows_too_long_is_refused_before_a_scaler_asks_it():
    sums = ["+".join(["a"] * 25)] * 10
    with pytest.raises(QueryRefusedError, match="more than 8000 characters"):
        enforced(f"({') + ('.join(sums)})", Border("n" * 63))
