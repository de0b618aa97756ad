from __future__ import annotations

from functools import partial

import pytest

from foundation.http.problems import flatten
from jobs.serializers import TrainingRunPatchSerializer, TrainingRunSerializer
from tests.api.request_kinds import MINIMAL, faults
from tests.tables import each_row

MIB = 1024 * 1024
problems = partial(faults, TrainingRunSerializer)


DEEP = []
for _ in range(900):
    DEEP = [DEEP]

REFUSED = [
    ("name", 7, "invalid"),
    ("image", "a/UPPER", "invalid_image"),
    ("image", "a b", "invalid_image"),
    ("image", "a:b:c", "invalid_image"),
    ("image", "a@sha256:12", "invalid_image"),
    ("image", "a\n", "invalid_image"),
    ("image", "a" * 256, "invalid_image"),
    ("image", "a" * 600, "max_length"),
    ("command", "python train.py", "not_a_list"),
    ("command", ["a"] * 257, "max_length"),
    ("command", ["", "a"], "blank"),
    ("command", ["a" * 70_000, "b" * 70_000], "too_large"),
    ("run_as_user", -1, "min_value"),
    ("run_as_user", True, "invalid"),
    ("run_as_user", "1000", "invalid"),
    ("image_pull_secrets", "x", "not_a_list"),
    ("capacity", "cheap", "invalid_choice"),
    ("capacity", ["spot"], "invalid_choice"),
    ("gpus_per_replica", 1025, "max_value"),
    ("gpus_per_replica", -1, "min_value"),
    ("gpus_per_replica", True, "invalid"),
    ("gpus_per_replica", 1.0, "invalid"),
    ("gpus_per_replica", 10**30, "max_value"),
    ("cpu", "lots", "invalid_quantity"),
    ("cpu", "0", "out_of_range"),
    ("cpu", "-1", "out_of_range"),
    ("cpu", "1u", "out_of_range"),
    ("cpu", "5000", "out_of_range"),
    ("cpu", 0.5, "invalid"),
    ("cpu", True, "invalid"),
    ("cpu", 10**5000, "out_of_range"),
    ("cpu", "1" * 65, "invalid_quantity"),
    ("cpu", {"request": "2", "limit": "1"}, "request_above_limit"),
    ("cpu", {"request": "2", "max": "1"}, "unknown_field"),
    ("cpu", {}, "required"),
    ("memory", "512", "out_of_range"),
    ("memory", "1Ei", "out_of_range"),
    ("memory", {"request": None}, "required"),
    ("shm", "3Gi", "shm_above_memory"),
    ("extra_resources", ["vpc.amazonaws.com/efa"], "not_a_dict"),
    ("extra_resources", {"vpc.amazonaws.com/efa": 0}, "invalid_value"),
    ("extra_resources", {"vpc.amazonaws.com/efa": "1"}, "invalid_value"),
    ("extra_resources", {"vpc.amazonaws.com/efa": True}, "invalid_value"),
    ("extra_resources", {"vpc.amazonaws.com/efa": 1025}, "invalid_value"),
    ("extra_resources", {"vpc.amazonaws.com/efa": None}, "invalid_value"),
    ("extra_resources", {"cpu": 1}, "invalid_name"),
    ("extra_resources", {"ephemeral-storage": 1}, "invalid_name"),
    ("extra_resources", {"/efa": 1}, "invalid_name"),
    ("extra_resources", {"a/b/c": 1}, "invalid_name"),
    ("extra_resources", {"\ud800/a": 1}, "invalid_name"),
    ("extra_resources", {"nvidia.com/gpu": 1}, "reserved_name"),
    ("extra_resources", {"nvidia.com/mig-1g.5gb": 1}, "reserved_name"),
    ("extra_resources", {"x.kubernetes.io/a": 1}, "reserved_name"),
    ("extra_resources", {"requests.example.com/a": 1}, "reserved_name"),
    ("extra_resources", {f"example.com/r{n}": 1 for n in range(9)}, "too_many"),
    ("ephemeral_storage", "0", "out_of_range"),
    ("working_dir", "work", "invalid_path"),
    ("working_dir", "/a/../b", "invalid_path"),
    ("priority", "urgent", "invalid_choice"),
    ("kind", "cronjob", "invalid_choice"),
    ("replicas", 0, "min_value"),
    ("time_limit_seconds", 59, "min_value"),
    ("time_limit_seconds", 30 * 86400 + 1, "max_value"),
    ("time_limit_seconds", 60.0, "invalid"),
    ("max_retries", 21, "max_value"),
    ("max_retries", -1, "min_value"),
    ("labels", ["a"], "not_a_dict"),
    ("labels", {f"l{n}": "" for n in range(33)}, "too_many"),
    ("labels", {"\ud800": "a"}, "invalid_value"),
    ("flavor", "A100", "invalid_name"),
    ("kind", "mxjob", "retired"),
    ("topology", "near", "invalid_choice"),
    ("retry", [33], "invalid"),
    ("gang", "yes", "invalid"),
    ("gang", 1, "invalid"),
    ("kind", ["job"], "invalid_choice"),
    ("elastic", DEEP, "invalid"),
    ("elastic", {"min_replicas": 2, "max_replicas": 4}, "not_for_kind"),
    ("roles", {}, "not_a_list"),
    ("roles", [{"name": "PS"}], "not_for_kind"),
    ("roles", [{"name": f"r{n}"} for n in range(9)], "max_length"),
    ("nproc_per_node", 0, "min_value"),
    ("nproc_per_node", True, "invalid"),
    ("nproc_per_node", 10**30, "max_value"),
    ("slots_per_worker", 2, "not_for_kind"),
    ("runtime_ref", "torch-distributed", "invalid"),
    ("runtime_ref", {"name": "torch-distributed"}, "not_for_kind"),
    ("roels", [], "unknown_field"),
]


@each_row(("field", "value", "code"), REFUSED, ids=[f"{case[0]}-{case[2]}" for case in REFUSED])
def test_a_wrong_value_is_refused_with_its_field_and_code(field, value, code):
    assert problems(**{field: value}) == [(field, code)]


def test_every_label_that_will_not_do_is_named():
    labels = {"fine": "x", "-a": "b", "job-name": "x", "n": 1}
    assert problems(labels=labels) == [
        ("labels.-a", "invalid_label"),
        ("labels.job-name", "reserved_name"),
        ("labels.n", "invalid_value"),
    ]


def test_no_more_labels_are_judged_than_there_may_be():
    assert problems(labels={f"-{number}": "" for number in range(50_000)}) == [("labels", "too_many")]


NESTED = [
    ({"labels": {"a": 1}}, "labels.a", "invalid_value"),
    ({"labels": {"a": None}}, "labels.a", "invalid_value"),
    ({"labels": {"-a": "b"}}, "labels.-a", "invalid_label"),
    ({"labels": {"a/b/c": "d"}}, "labels.a/b/c", "invalid_label"),
    ({"labels": {"a": "b c"}}, "labels.a", "invalid_label"),
    ({"labels": {"a": "b" * 64}}, "labels.a", "invalid_label"),
    ({"labels": {"mlportal.dev/team": "other"}}, "labels.mlportal.dev/team", "reserved_name"),
    (
        {"labels": {"app.kubernetes.io/managed-by": "me"}},
        "labels.app.kubernetes.io/managed-by",
        "reserved_name",
    ),
    ({"labels": {"kueue.x-k8s.io/queue-name": "q"}}, "labels.kueue.x-k8s.io/queue-name", "reserved_name"),
    ({"labels": {"job-name": "x"}}, "labels.job-name", "reserved_name"),
    ({"env": [{"name": "PORTAL_URL", "value": "x"}]}, "env.0.name", "reserved_name"),
    *[
        ({"env": [{"name": name, "value": "x"}]}, "env.0.name", "invalid_name")
        for name in ("1A", "A=B", "ПУТЬ")
    ],
    ({"env": [{"value": "x"}]}, "env.0.name", "required"),
    ({"env": [{"name": "A", "valu": "x"}]}, "env.0.valu", "unknown_field"),
    ({"env": [{"name": "A", "value": 1}]}, "env.0.value", "invalid"),
    ({"env": [{"name": "A", "value": "a\0"}]}, "env.0.value", "null_characters_not_allowed"),
    ({"env": [{"name": "A", "value": "\ud800"}]}, "env.0.value", "surrogate_characters_not_allowed"),
    ({"env": [{"name": "A", "value": "é" * 20_000}]}, "env.0.value", "too_large"),
    ({"env": [{"name": f"A{n}", "value": ""} for n in range(201)]}, "env", "max_length"),
    ({"env": [{"name": f"A{n}", "value": "x" * 30_000} for n in range(20)]}, "env", "too_large"),
    ({"env": [{"name": "A", "secret": "hf"}]}, "env.0.key", "required"),
    ({"env": [{"name": "A", "key": "token"}]}, "env.0.secret", "required"),
    ({"env": [{"name": "A", "value": "", "secret": "hf", "key": "token"}]}, "env.0.value", "exclusive"),
    ({"env": [{"name": "A", "secret": "HF", "key": "token"}]}, "env.0.secret", "invalid_name"),
    ({"env": [{"name": "A", "secret": "hf", "key": "a b"}]}, "env.0.key", "invalid_key"),
    ({"env": [{"name": "A", "secret": "hf", "key": "..a"}]}, "env.0.key", "invalid_key"),
    ({"env": [{"name": "A", "secret": "hf", "key": "a" * 254}]}, "env.0.key", "invalid_key"),
    ({"env": [{"name": "A", "secret": ["hf"], "key": "token"}]}, "env.0.secret", "invalid"),
    ({"command": ["a\0"]}, "command.0", "null_characters_not_allowed"),
    ({"command": ["a", 7]}, "command.1", "invalid"),
    ({"image_pull_secrets": ["A"]}, "image_pull_secrets.0", "invalid_name"),
    ({"volumes": [{"claim": "c", "path": "/proc/x"}]}, "volumes.0.path", "reserved_path"),
    ({"volumes": [{"claim": "c", "path": "/dev/fuse"}]}, "volumes.0.path", "reserved_path"),
    ({"volumes": [{"claim": "c", "path": "/"}]}, "volumes.0.path", "invalid_path"),
    ({"volumes": [{"claim": "c", "path": "/a:b"}]}, "volumes.0.path", "invalid_path"),
    ({"volumes": [{"claim": "c", "path": "/a/"}]}, "volumes.0.path", "invalid_path"),
    ({"volumes": [{"claim": "c", "path": "/a", "read_only": "yes"}]}, "volumes.0.read_only", "invalid"),
    ({"volumes": [{"claim": "c", "path": "/a", "readonly": True}]}, "volumes.0.readonly", "unknown_field"),
    (
        {"volumes": [{"claim": "c", "path": "/a"}], "config_maps": [{"name": "m", "path": "/a"}]},
        "config_maps.0.path",
        "duplicate",
    ),
    (
        {"volumes": [{"claim": "c", "path": "/workspace/out"}], "source": {"files": {"a": ""}}},
        "volumes.0.path",
        "inside_read_only",
    ),
    *[
        ({"source": {"git": {"url": url}}}, "source.git.url", code)
        for url, code in [
            ("https://me:pw@example.com/x.git", "credentials_in_url"),
            ("ssh://git@example.com/x.git", "invalid_url"),
            ("git@example.com:x.git", "invalid_url"),
            ("ssh://example.com/x.git", "invalid_url"),
            ("http://example.com/x.git", "invalid_url"),
            ("file:///etc", "invalid_url"),
            ("ext::sh -c id", "invalid_url"),
            ("--upload-pack=touch /tmp/x", "invalid_url"),
            ("https://example.com", "invalid_url"),
            ("https://example.com/a b", "invalid_url"),
            ("https://example.com/$(HOME)", "invalid_url"),
            ("https://example.com/x.git?token=1", "invalid_url"),
            ("https://example.com/a/../b", "invalid_url"),
            ("https://example.com/x\n", "invalid_url"),
            ("https://example.com/" + "a" * 500, "max_length"),
            (5, "invalid"),
        ]
    ],
    *[
        (
            {"source": {"git": {"url": "https://example.com/x.git", "ref": ref}}},
            "source.git.ref",
            "invalid_ref",
        )
        for ref in [
            "-f",
            "--all",
            "+main",
            "a..b",
            "a b",
            "a@{1}",
            ".a",
            "a/.b",
            "a.lock",
            "a/",
            "$(X)",
            "a:b",
            "a\n",
            "a" * 256,
        ]
    ],
    *[
        (
            {"source": {"git": {"url": "https://example.com/x.git", "subdir": subdir}}},
            "source.git.subdir",
            "invalid_path",
        )
        for subdir in ["/a", "../a", "a/..", "a/", "./a", "-a", "a//b", "$(X)", "a\n", "a:b"]
    ],
    ({"source": {"git": {"ref": "main"}}}, "source.git.url", "required"),
    ({"source": {"git": {"url": "https://a.b/c", "branch": "x"}}}, "source.git.branch", "unknown_field"),
    ({"source": {"git": {"url": "https://a.b/c", "secret": "A"}}}, "source.git.secret", "invalid_name"),
    ({"source": {"git": {"url": "https://a.b/c"}, "files": {"a": ""}}}, "source.git", "exclusive"),
    ({"source": {"files": {"a/b.py": ""}}}, "source.files", "invalid_file_name"),
    ({"source": {"files": {"..a": ""}}}, "source.files", "invalid_file_name"),
    ({"source": {"files": {"a.py": "x" * MIB}}}, "source.files", "too_large"),
    ({"source": {"files": {"a.py": "\0"}}}, "source.files", "invalid_value"),
    ({"source": {"files": {f"f{n}": "" for n in range(201)}}}, "source.files", "too_many"),
    ({"source": {"files": {"a": ""}, "path": "w"}}, "source.path", "invalid_path"),
    ({"checkpoint": {"path": "/ckpt"}}, "checkpoint.path", "not_persistent"),
    (
        {"checkpoint": {"path": "/d/c"}, "volumes": [{"claim": "c", "path": "/d", "read_only": True}]},
        "checkpoint.path",
        "inside_read_only",
    ),
    (
        {"checkpoint": {"path": "/d", "claim": "x"}, "volumes": [{"claim": "c", "path": "/d"}]},
        "checkpoint.path",
        "duplicate",
    ),
    ({"checkpoint": {"claim": "c"}}, "checkpoint.path", "required"),
    (
        {"checkpoint": {"path": "/c", "claim": "c", "interval_seconds": 1}},
        "checkpoint.interval_seconds",
        "min_value",
    ),
    ({"gpus_per_replica": 2}, "flavor", "required"),
    ({"retry": {"exit_codes": [0]}}, "retry.exit_codes.0", "min_value"),
    ({"retry": {"exit_codes": [256]}}, "retry.exit_codes.0", "max_value"),
    ({"retry": {"exit_codes": 33}}, "retry.exit_codes", "not_a_list"),
    ({"retry": {"codes": [33]}}, "retry.codes", "unknown_field"),
    ({"kind": "tfjob", "roles": [{"name": "Launcher"}]}, "roles.0.name", "invalid_choice"),
    ({"kind": "tfjob", "roles": [{"replicas": 2}]}, "roles.0.name", "required"),
    ({"kind": "tfjob", "roles": [{"name": "PS"}, {"name": "PS"}]}, "roles.1.name", "duplicate"),
    ({"kind": "tfjob", "roles": [{"name": "Chief", "replicas": 2}]}, "roles.0.replicas", "max_value"),
    ({"kind": "tfjob", "roles": [{"name": "PS", "cpu": "x"}]}, "roles.0.cpu", "invalid_quantity"),
    ({"kind": "tfjob", "roles": [{"name": "PS", "gpus": 1}]}, "roles.0.gpus", "unknown_field"),
    (
        {
            "kind": "tfjob",
            "flavor": "a100",
            "gpus_per_replica": 2,
            "roles": [{"name": "Chief", "gpus_per_replica": 1}],
        },
        "roles.0.gpus_per_replica",
        "uneven",
    ),
    ({"kind": "tfjob", "nproc_per_node": 2}, "nproc_per_node", "not_for_kind"),
    ({"kind": "trainjob"}, "runtime_ref", "required"),
    ({"kind": "trainjob", "runtime_ref": {"name": "T"}}, "runtime_ref.name", "invalid_name"),
    ({"kind": "trainjob", "runtime_ref": {"name": "t", "kind": "Job"}}, "runtime_ref.kind", "invalid_choice"),
    (
        {"kind": "trainjob", "runtime_ref": {"name": "t"}, "source": {"files": {"a": "b"}}},
        "source",
        "not_for_kind",
    ),
    (
        {"kind": "pytorchjob", "elastic": {"min_replicas": 4, "max_replicas": 2}},
        "elastic.min_replicas",
        "max_value",
    ),
    ({"kind": "pytorchjob", "elastic": {"min_replicas": 4}}, "elastic.max_replicas", "required"),
    (
        {"kind": "pytorchjob", "replicas": 3, "elastic": {"min_replicas": 2, "max_replicas": 4}},
        "replicas",
        "not_the_most",
    ),
    ({"args": ["x" * 70_000], "command": ["y" * 70_000]}, "args", "too_large"),
]


@each_row(("changes", "field", "code"), NESTED, ids=[f"{case[1]}-{case[2]}" for case in NESTED])
def test_what_is_wrong_inside_a_field_is_named_by_its_path(changes, field, code):
    assert problems(**changes) == [(field, code)]


def test_a_name_given_twice_is_told_at_both_places():
    twice = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    assert problems(env=twice) == [("env.0.name", "duplicate"), ("env.1.name", "duplicate")]


def test_all_problems_are_told_at_once():
    assert problems(name="A", cpu="x", env=[{"name": "1"}], nonsense=1) == [
        ("name", "invalid_name"),
        ("env.0.name", "invalid_name"),
        ("cpu", "invalid_quantity"),
        ("nonsense", "unknown_field"),
    ]


def test_whole_numbers_are_quantities_too():
    serializer = TrainingRunSerializer(data={**MINIMAL, "cpu": 4})
    assert serializer.is_valid(), serializer.errors
    assert serializer.to_spec().cpu.limit == "4"


def test_blanks_at_the_ends_of_values_are_kept():
    serializer = TrainingRunSerializer(
        data={**MINIMAL, "args": [" a "], "env": [{"name": "A", "value": " "}]}
    )
    assert serializer.is_valid(), serializer.errors
    assert serializer.to_spec().args == (" a ",)
    assert serializer.to_spec().env[0].value == " "


@pytest.mark.parametrize(
    "image",
    [
        "a",
        "a/b/c:1",
        "localhost:5000/a",
        "A.example.com/a/b",
        "[::1]:5000/a",
        "a__b/c.d/e---f:Tag_1.2-3",
        "x@sha256:" + "0" * 64,
    ],
)
def test_image_references_of_every_form_are_taken(image):
    assert problems(image=image) == []


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"priority": "high"}, []),
        ({"time_limit_seconds": 60}, []),
        ({}, [("", "required")]),
        ({"priority": None}, [("priority", "null")]),
        ({"priority": "urgent"}, [("priority", "invalid_choice")]),
        ({"time_limit_seconds": 59}, [("time_limit_seconds", "min_value")]),
        ({"time_limit_seconds": "600"}, [("time_limit_seconds", "invalid")]),
        ({"time_limit_seconds": 2**62}, [("time_limit_seconds", "max_value")]),
        *(({name: "x"}, [(name, "unknown_field")]) for name in ("image", "name", "phase", "owner", "team")),
    ],
)
def test_only_priority_and_time_limit_of_a_run_may_change(body, expected):
    serializer = TrainingRunPatchSerializer(data=body)
    serializer.is_valid()
    assert [(problem.field, problem.code) for problem in flatten(serializer.errors)] == expected
