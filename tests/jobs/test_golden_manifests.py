"""The manifests of runs, of endpoints and of their scalers: as they are kept in golden files, and on an API server."""

from __future__ import annotations

import pytest

from cluster.errors import ClusterRejected
from tests.inference import regenerate as endpoints
from tests.inference import scaler_samples as scalers
from tests.jobs import regenerate as runs
from tests.kind_samples import SAMPLES
from tests.manifest_clusters import template_as_pod
from tests.manifest_samples import ENDPOINT_BODIES, RUN_BODIES, golden

NOT_RESTRICTED = {"root_run", "cpu_endpoint"}
PLAIN = [*((runs, name) for name in RUN_BODIES), *((endpoints, name) for name in ENDPOINT_BODIES)]
# A cluster serves one of the two versions of MPIJob.
OF_KINDS = [(runs, name) for name in SAMPLES if not name.startswith("mpijob_v2")]


@pytest.mark.parametrize("made", [runs, endpoints, scalers], ids=lambda made: made.__name__)
def test_manifests_are_those_of_the_golden_files(made):
    kept = golden(made.FOLDER)
    built = {name: manifests.all() for name, manifests in made.built().items()}
    assert set(kept) == set(built), "a golden file for each sample, and no other"
    differ = [name for name in built if built[name] != kept[name]]
    assert not differ, f"{differ}; if that is meant: python -m {made.__name__}"


@pytest.mark.parametrize(
    ("made", "name"), [*PLAIN, *OF_KINDS], ids=lambda each: each if isinstance(each, str) else ""
)
def test_the_api_server_knows_every_field_and_warns_of_none(real_bench, made, name):
    manifests = made.built()[name]
    for manifest in manifests.all():
        warnings = real_bench.client.warnings_of(real_bench.moved(manifest))
        assert bool(warnings) == (name in NOT_RESTRICTED and manifest is manifests.primary), warnings


@pytest.mark.parametrize(("made", "name"), PLAIN, ids=lambda each: each if isinstance(each, str) else "")
def test_pods_pass_restricted_unless_they_want_user_0(real_bench, made, name):
    pod = real_bench.moved(template_as_pod(made.built()[name]))
    if name in NOT_RESTRICTED:
        with pytest.raises(ClusterRejected, match="violates PodSecurity"):
            real_bench.client.warnings_of(pod)
    else:
        assert real_bench.client.warnings_of(pod) == ()
