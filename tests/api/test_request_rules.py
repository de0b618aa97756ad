"""What a request for a run and one for an endpoint must both satisfy, and how both are kept."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.errors import Invalid
from foundation.http.problems import flatten
from tests.api.request_kinds import ENDPOINT, KINDS, MINIMAL, RUN, faults, of_both_kinds
from tests.effort import drawn
from tests.manifest_strategies import broken
from tests.tables import each_row

HUGE = 2**63
WRONG: dict[str, list[Any]] = {
    "text": [5, 1.5, True, [], {}, ["x"], {"a": 1}],
    "whole": ["1", 1.5, 2.0, True, [], {}, -1, HUGE - 1, -HUGE],
    "list": ["x", 5, True, {"a": "b"}, [5], [None], [["x"]], [{"a": 1}]],
    "object": ["x", 5, True, ["x"]],
    "quantity": [
        *(True, 1.5, [], "", "lots", "1 Gi", "1GiB", "-1", "1e400", "NaN", "Infinity", "٣", "0x10", "1" * 65)
    ],
    "choice": [5, True, [], {}, "no-such-thing", "", "JOB", " normal"],
}
OF_BOTH = {
    "text": ("team", "name", "image", "working_dir", "flavor"),
    "whole": ("run_as_user", "gpus_per_replica"),
    "list": ("command", "args", "env", "volumes", "config_maps", "image_pull_secrets"),
    "object": ("labels", "source", "extra_resources"),
    "quantity": ("cpu", "memory", "shm", "ephemeral_storage"),
    "choice": ("capacity", "priority"),
}
OF_RUNS = {
    "whole": ("replicas", "time_limit_seconds", "max_retries"),
    "object": ("checkpoint",),
    "choice": ("kind",),
}
OF_ENDPOINTS = {
    "whole": ("min_replicas", "max_replicas", "request_timeout_seconds"),
    "object": ("model", "ports", "probes", "rollout"),
    "choice": ("runtime",),
}
TYPED = [
    pytest.param(KINDS[name], field, wanted, id=f"{name}-{field}")
    for name, own in (("run", OF_RUNS), ("endpoint", OF_ENDPOINTS))
    for fields in (OF_BOTH, own)
    for wanted in fields
    for field in fields[wanted]
]
NO_NAMES = [
    *("", " ", "-run", "run-", "Run", "1run", "run_1", "run.1", "run 1", "run\n", "run\t1", "räder", "名前"),
    *(
        "اسم",
        "שם",
        "имя",
        "नाम",
        "run\u200b",
        "run\u202e",
        "\ufeffrun",
        "\uff52\uff55\uff4e",
        "run🚀",
        "e\u0301",
    ),
    *("run;ls", "$(ls)", "../run", "<script>", "' OR 1=1 --", "%00", "{{7*7}}"),
    *("r" * 41, "r" * 63, "r" * 64, "r" * 300, "名" * 300),
]
SAMPLES = [
    pytest.param(kind, body, id=f"{name}-{sample}")
    for name, kind in KINDS.items()
    for sample, body in kind.samples.items()
]


@each_row(("kind", "field", "wanted"), TYPED)
def test_a_value_of_a_wrong_type_is_refused_and_its_field_named(kind, field, wanted):
    for value in WRONG[wanted]:
        told = {path.partition(".")[0] for path, _ in faults(kind.serializer, **{field: value})}
        assert field in told, value


@of_both_kinds
def test_a_name_that_no_object_can_have_is_refused(kind):
    for name in NO_NAMES:
        code = "max_length" if len(name) > 40 else "invalid_name" if name else "blank"
        assert faults(kind.serializer, name=name) == [("name", code)], name


@settings(max_examples=drawn(usual=25, soak=1000))
@given(
    name=st.text(min_size=1, max_size=300) | st.from_regex(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?", fullmatch=True)
)
def test_names_of_any_length_and_script_are_refused_or_kept_as_they_are(name):
    sent = RUN.serializer(data={**MINIMAL, "name": name})
    if sent.is_valid():
        assert sent.to_spec().name == name
    else:
        assert set(sent.errors) == {"name"}


@of_both_kinds
@pytest.mark.parametrize("missing", MINIMAL)
def test_what_is_missing_is_named(kind, missing):
    body = {name: value for name, value in MINIMAL.items() if name != missing}
    for sent, code in ((body, "required"), ({**body, missing: None}, "null")):
        serializer = kind.serializer(data=sent)
        assert not serializer.is_valid()
        assert [(each.field, each.code) for each in flatten(serializer.errors)] == [(missing, code)]


@of_both_kinds
@pytest.mark.parametrize("body", [None, [], "text", 7, [{}], {}])
def test_what_is_no_object_is_refused(kind, body):
    assert not kind.serializer(data=body).is_valid()


@pytest.mark.django_db
@of_both_kinds
@settings(max_examples=drawn(usual=40, soak=3000))
@given(data=st.data())
def test_whatever_is_sent_is_answered_with_named_problems(kind, data):
    serializer = kind.serializer(data=data.draw(broken(kind.bodies, kind.serializer().fields)))
    if serializer.is_valid():
        serializer.to_spec()
    else:
        for problem in flatten(serializer.errors):
            assert problem.code
            assert problem.field.partition(".")[0] in serializer.fields


# --- what is kept of it


@each_row(("kind", "body"), SAMPLES)
def test_a_sample_is_valid_and_what_is_stored_of_it_is_normal(kind, body):
    serializer = kind.serializer(data={"team": "vision", **body})
    assert serializer.is_valid(), serializer.errors
    assert serializer.to_spec() == kind.read(body)
    stored = kind.read(body).to_json()
    assert kind.read(stored).to_json() == stored
    again = kind.serializer(data={"team": "vision", **stored})
    assert again.is_valid(), again.errors
    assert again.to_spec() == serializer.to_spec()


@of_both_kinds
@given(data=st.data())
def test_valid_bodies_are_valid_also_after_being_stored(kind, data):
    body = data.draw(kind.bodies)
    serializer = kind.serializer(data=body)
    assert serializer.is_valid(), serializer.errors
    spec = kind.read(body)
    assert serializer.to_spec() == spec
    assert kind.read(spec.to_json()) == spec
    again = kind.serializer(data={"team": "vision", **spec.to_json()})
    assert again.is_valid(), again.errors
    assert again.to_spec().to_json() == spec.to_json()


# --- fields that later versions give a meaning


@of_both_kinds
def test_a_field_that_is_not_supported_yet_is_refused_by_name_unless_it_says_nothing(kind):
    assert set(kind.later) == set(kind.not_yet)
    for path, value in kind.later.items():
        with pytest.raises(Invalid) as caught:
            kind.read({**MINIMAL, path: value})
        assert [(error.field, error.code) for error in caught.value.errors] == [(path, "not_yet_supported")]
        assert kind.read({**MINIMAL, path: None}) == kind.read(MINIMAL)


@pytest.mark.parametrize("empty", ["", [], {}, {"a": None, "b": []}])
def test_what_is_empty_says_nothing_of_a_field_that_is_not_supported_yet(empty):
    assert ENDPOINT.read({**MINIMAL, "template": empty}) == ENDPOINT.read(MINIMAL)


def test_an_endpoint_has_no_template_yet():
    assert faults(ENDPOINT.serializer, template="big") == [("template", "not_yet_supported")]
