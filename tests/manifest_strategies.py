"""Generated request bodies: valid ones for round trips, and anything at all for the serializers."""

from __future__ import annotations

import string

from hypothesis import strategies as st

from workloads.podspec.grammar import RESERVED_FOLDERS, is_inside

LOWER = string.ascii_lowercase
names = st.from_regex(r"[a-z]([-a-z0-9]{0,30}[a-z0-9])?", fullmatch=True)
words = st.from_regex(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,20}[A-Za-z0-9])?", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
cores = st.one_of(st.integers(1, 4096).map(str), st.integers(1, 9999).map(lambda n: f"{n}m"))
# From 2, because 1M is less than the 1Mi that a body may ask for at least.
sizes = st.builds(lambda n, unit: f"{n}{unit}", st.integers(2, 900), st.sampled_from(["Mi", "Gi", "M", "G"]))
paths = (
    st.lists(names, min_size=1, max_size=3)
    .map(lambda parts: "/" + "/".join(parts))
    .filter(lambda path: not any(is_inside(path, reserved) for reserved in RESERVED_FOLDERS))
)
env_names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True).filter(
    lambda name: not name.startswith("PORTAL_")
)
images = st.sampled_from(
    ["python:3.12", "ghcr.io/a/b__c/d:v1@sha256:" + "a" * 64, "localhost:5000/x", "a/b/c"]
)


def optional(strategy):
    return st.one_of(st.none(), strategy)


env = st.lists(
    st.one_of(
        st.fixed_dictionaries({"name": env_names, "value": texts}),
        st.fixed_dictionaries({"name": env_names, "secret": names, "key": words}),
    ),
    max_size=4,
    unique_by=lambda item: item["name"],
)
SHARED = {
    "image": images,
    "command": st.lists(texts.filter(bool), max_size=3),
    "args": st.lists(texts, max_size=3),
    "working_dir": optional(paths),
    "run_as_user": optional(st.integers(0, 2**31 - 1)),
    "env": optional(env),
    "image_pull_secrets": st.lists(names, max_size=2),
    "capacity": st.sampled_from([None, "on-demand", "spot"]),
    "cpu": cores,
    "extra_resources": optional(
        st.dictionaries(names.map(lambda n: f"example.com/{n}"), st.integers(1, 9), max_size=2)
    ),
    "ephemeral_storage": optional(sizes),
    "priority": st.sampled_from([None, "low", "normal", "high"]),
    "labels": st.dictionaries(words, words, max_size=3).filter(
        lambda labels: not set(labels) & {"job-name", "controller-uid", "pod-template-hash"}
    ),
}


def fits_git(ref):
    return ".." not in ref and not ref.endswith((".", ".lock"))


def bodies(**fields):
    """Valid bodies; every mount has a place of its own, none inside another."""
    required = {"team": names, "name": names, "image": images}
    optional_fields = {**SHARED, **fields}
    del optional_fields["image"]
    return st.fixed_dictionaries(required, optional=optional_fields)


run_bodies = bodies(
    volumes=st.just([{"claim": "data", "path": "/mnt/data", "read_only": True}]),
    checkpoint=optional(st.just({"path": "/mnt/ckpt", "claim": "ckpt", "interval_seconds": 60})),
    time_limit_seconds=optional(st.integers(60, 30 * 86400)),
    max_retries=optional(st.integers(0, 20)),
    source=optional(
        st.one_of(
            st.fixed_dictionaries(
                {"files": st.dictionaries(words, texts, max_size=3)}, optional={"path": st.just("/work")}
            ),
            st.fixed_dictionaries(
                {
                    "git": st.fixed_dictionaries(
                        {"url": st.just("https://git.example.com:8443/a/b.git")},
                        optional={"ref": words.filter(fits_git), "subdir": names, "secret": optional(names)},
                    )
                },
                optional={"path": st.just("/work")},
            ),
        )
    ),
)

endpoint_bodies = bodies(
    runtime=st.sampled_from([None, "custom", "triton", "torchserve"]),
    capacity=st.sampled_from([None, "on-demand", "spot", "spot-first"]),
    model=optional(
        st.one_of(
            st.just({"claim": "models", "path": "/mnt/models"}),
            st.fixed_dictionaries(
                {
                    "uri": st.sampled_from(
                        ["s3://bucket/models/a", "gs://bucket/b", "https://h.example/a/b.tgz"]
                    )
                },
                optional={"path": st.just("/mnt/models"), "size_limit": optional(sizes)},
            ),
        )
    ),
    ports=optional(st.just({"http": 80, "grpc": None, "metrics": 9000})),
    probes=optional(
        st.fixed_dictionaries(
            {},
            optional={
                "readiness": st.just({"path": "/ready", "period_seconds": 5}),
                "liveness": optional(st.just({"path": "/live"})),
                "load_budget_seconds": st.integers(10, 7200),
            },
        )
    ),
    min_replicas=optional(st.integers(1, 1000)),
    rollout=optional(st.fixed_dictionaries({"strategy": st.sampled_from(["surge", "replace"])})),
    request_timeout_seconds=optional(st.integers(1, 3600)),
    rate_limit=optional(
        st.fixed_dictionaries(
            {"requests_per_second": st.sampled_from([0.5, 1, 10.25, 1000])},
            optional={"burst": optional(st.integers(1, 1000))},
        )
    ),
)

json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=20),
        st.sampled_from(["/data", "8", "1Gi", "a", "\ud800", "\0", "-", "..", "/../x", "1e99", "٣", " 1"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(
                st.text(max_size=5),
                st.sampled_from(
                    [
                        "name",
                        "value",
                        "claim",
                        "path",
                        "files",
                        "request",
                        "limit",
                        "http",
                        "readiness",
                        "git",
                    ]
                ),
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@st.composite
def broken(draw, valid, field_names):
    """A valid body in which some fields hold anything at all."""
    body = dict(draw(valid))
    for name in draw(st.lists(st.sampled_from(sorted(field_names)), min_size=1, max_size=4)):
        body[name] = draw(json_values)
    return body
