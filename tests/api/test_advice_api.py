"""The adviser over REST."""

from __future__ import annotations

from fractions import Fraction

import pytest

from advisor.serializers import AdviceRequestSerializer
from foundation import clock
from quotas.models import Quota
from tests.api.bench import Unchanged, problem
from tests.factories.catalogue import make_flavor, make_price, make_quota
from tests.factories.teams import make_team
from workloads.models import ForeignPod, NodeRecord, ResourceFlavor

ADVICE = "/api/v1/advice/"


def ask(bench, **values):
    with Unchanged():
        return bench.client.post(ADVICE, {"team": "vision", **values})


def advice(bench, **values) -> dict:
    answer = ask(bench, **values)
    assert answer.status_code == 200, answer.content
    return answer.json()


@pytest.fixture
def slices(bench):
    """Slices of ten gigabytes and shares of sixteen, beside the bench's whole a100-40gb."""
    mig = make_flavor(
        "a100-mig-1g.10gb",
        resource="nvidia.com/mig-1g.10gb",
        product=None,
        fraction=Fraction(1, 7),
        sharing="mig",
    )
    shared = make_flavor(
        "t4-shared",
        resource="nvidia.com/gpu.shared",
        product=None,
        fraction=Fraction(1, 4),
        sharing="time-slicing",
    )
    ResourceFlavor.objects.filter(pk=mig.pk).update(memory_gib=10)
    ResourceFlavor.objects.filter(pk=shared.pk).update(memory_gib=16)
    for flavor in (mig, shared):
        make_quota(bench.team, flavor, nominal=2)
    make_price("a100-mig-1g.10gb", 7_000_000)
    NodeRecord.objects.update(
        allocatable={"nvidia.com/gpu": 8, "nvidia.com/mig-1g.10gb": 7, "nvidia.com/gpu.shared": 4}
    )
    return mig, shared


def test_the_sum_adds_up_and_says_where_each_term_comes_from(bench):
    memory = advice(bench, text="7B bf16 training adam")["memory"]
    assert [term["name"] for term in memory["terms"]] == [
        "weights", "gradients", "master_weights", "optimizer", "activations", "logits", "context",
    ]  # fmt: skip
    assert sum(term["bytes"] for term in memory["terms"]) == memory["total_bytes"]
    assert memory["total_gib"] == pytest.approx(memory["total_bytes"] / 2**30, abs=0.001)
    assert all(term["reference_url"].startswith("https://") for term in memory["terms"])
    assert all(
        term[name] for term in memory["terms"] for name in ("title", "formula", "figures", "reference")
    )


def test_what_was_left_out_is_filled_in_and_shown(bench):
    answer = advice(bench, text="llama 2 13B fp16")
    assert answer["request"] == {
        "parameters": 13_015_864_320, "purpose": "inference", "precision": "fp16", "optimizer": "none",
        "sequence_length": 2048, "batch_size": 1, "sharding": "none", "gradient_checkpointing": False,
        "fused_attention": True, "master_weights": False,
    }  # fmt: skip
    assert (answer["model"]["layers"], answer["model"]["hidden_size"], answer["model"]["kv_heads"]) == (
        40,
        5120,
        40,
    )
    assert answer["model"]["said"] == "The shape is that of Llama 2 13B."


def test_the_smallest_flavors_come_first_with_count_pods_and_price(bench, slices):
    answer = advice(bench, text="llama 2 7B int4")
    assert [(each["flavor"], each["count"]) for each in answer["flavors"]] == [
        ("a100-mig-1g.10gb", 1), ("t4-shared", 1), ("a100-40gb", 1),
    ]  # fmt: skip
    small = answer["flavors"][0]
    assert small["holds"]
    assert small["needed_bytes"] == answer["memory"]["total_bytes"] <= small["usable_bytes"] == 9 * 2**30
    (offer,) = small["offers"]
    assert offer == {
        "capacity": "on-demand", "gpus_per_replica": 1, "replicas": 1, "units": 1, "nodes": 1,
        "rate_per_hour": {"amount_micro_usd": 1_000_000, "usd": "1.000000"},
        "quota": 2, "within_quota": True, "refused": "", "cpu": None, "memory": None, "lacks": "",
    }  # fmt: skip
    assert answer["flavors"][1]["offers"][0]["rate_per_hour"] is None


def test_seventy_billion_are_refused_on_one_card_with_the_count_that_holds_them(bench):
    alone = advice(bench, text="70B fp16", cards=1)
    assert not alone["flavors"][0]["holds"]
    assert alone["flavors"][0]["refused"].endswith("of which 36.0 are usable; 4 hold it.")
    assert alone["message"].endswith("None of the team's flavors holds it.")
    four = advice(bench, text="70B fp16")["flavors"][0]
    assert (four["count"], four["offers"][0]["gpus_per_replica"], four["offers"][0]["nodes"]) == (4, 4, 1)
    assert four["offers"][0]["rate_per_hour"]["amount_micro_usd"] == 4 * 3_600_000_000


def test_a_shared_flavor_is_not_offered_for_training_and_isolation_rules_it_out(bench, slices):
    def held(**values) -> set[str]:
        return {each["flavor"] for each in advice(bench, **values)["flavors"] if each["holds"]}

    assert held(text="125M training sgd") == {"a100-40gb", "a100-mig-1g.10gb"}
    assert held(text="125M") == {"a100-40gb", "a100-mig-1g.10gb", "t4-shared"}
    assert held(text="125M", isolation="memory") == {"a100-40gb", "a100-mig-1g.10gb"}


def test_only_flavors_of_the_team_and_capacity_types_of_its_quota_are_told(bench, slices):
    make_quota(make_team("speech"), make_flavor("h100-80gb"))
    Quota.objects.filter(flavor=slices[0]).delete()
    ResourceFlavor.objects.filter(name="t4-shared").update(enabled=False)
    assert [each["flavor"] for each in advice(bench, text="125M")["flavors"]] == ["a100-40gb"]


def test_a_team_without_quota_is_told_the_sum(bench):
    Quota.objects.all().delete()
    answer = advice(bench, text="7B")
    assert answer["flavors"] == []
    assert answer["message"].endswith("The team has no quota for any flavor.")


def test_nodes_that_may_come_count(bench):
    NodeRecord.objects.all().delete()
    ResourceFlavor.objects.update(capacity={"on-demand": {"provisionable": {"block": 4, "units": 8}}})
    offer = advice(bench, text="7B bf16 training adam fsdp")["flavors"][0]["offers"][0]
    assert (offer["gpus_per_replica"], offer["replicas"], offer["nodes"]) == (3, 2, 2)


def node_has(cpu, memory):
    NodeRecord.objects.update(others={"cpu": cpu, "memory": memory})


def test_what_a_pod_gets_besides_is_told_and_that_nodes_have_it(bench):
    node_has("96", "1000Gi")
    offer = advice(bench, text="70B fp16")["flavors"][0]["offers"][0]
    assert (offer["gpus_per_replica"], offer["cpu"], offer["memory"]) == (4, "43200m", "450Gi")
    assert (offer["refused"], offer["lacks"]) == ("", "")
    spec = bench.run(flavor="a100-40gb", gpus_per_replica=4)["spec"]
    assert (spec["cpu"], spec["memory"]) == (offer["cpu"], offer["memory"])


def test_what_pods_of_others_leave_too_little_of_is_said(bench):
    node_has("96", "1000Gi")
    daemon = {"uid": "d", "namespace": "x", "name": "d", "node_name": "a100-0", "seen_at": clock.now()}
    pod = ForeignPod.objects.create(memory_bytes=600 * 2**30, **daemon)
    offer = advice(bench, text="70B fp16")["flavors"][0]["offers"][0]
    assert offer["refused"] == ""
    assert offer["lacks"] == (
        "Each pod gets 450Gi of memory where that is left out, and beside pods of others no node has more than "
        "400Gi: ask for less."
    )
    ForeignPod.objects.filter(pk=pod.pk).update(memory_bytes=2**30, cpu_millicores=60_000)
    offer = advice(bench, text="70B fp16")["flavors"][0]["offers"][0]
    assert "43.2 cores" in offer["lacks"]
    assert "more than 36: ask for less" in offer["lacks"]


def test_nodes_that_may_come_are_told_apart_from_those_that_are_there(bench):
    node_has("96", "1000Gi")
    NodeRecord.objects.update(allocatable={"nvidia.com/gpu": 4})
    declared = {"block": 4, "units": 8, "memory": "300Gi"}
    ResourceFlavor.objects.update(capacity={"on-demand": {"provisionable": declared}})
    offer = advice(bench, text="7B bf16 training adam fsdp")["flavors"][0]["offers"][0]
    assert (offer["gpus_per_replica"], offer["replicas"], offer["memory"]) == (3, 2, "675Gi")
    assert offer["lacks"] == (
        "Each pod gets 675Gi of memory where that is left out, and beside pods of others nodes have that for "
        "1 of 2: ask for less."
    )


def test_more_than_the_quota_is_told_as_such(bench):
    Quota.objects.update(nominal=2, ceiling=2)
    offer = advice(bench, text="70B fp16")["flavors"][0]["offers"][0]
    assert (offer["units"], offer["quota"], offer["within_quota"]) == (4, 2, False)


@pytest.mark.parametrize("purpose", ["training", "inference"])
def test_the_largest_of_everything_is_answered(bench, purpose):
    most = {
        "parameters": 10**13, "sequence_length": 10**7, "batch_size": 10**6, "layers": 10**4, "hidden_size": 10**6,
        "attention_heads": 10**6, "kv_heads": 10**6, "vocabulary_size": 10**7, "fused_attention": False,
    }  # fmt: skip
    answer = advice(bench, purpose=purpose, **most)
    assert not answer["flavors"][0]["holds"]
    assert answer["memory"]["total_bytes"] > 2**64
    assert advice(bench, purpose=purpose, parameters=1000, sequence_length=1)["flavors"][0]["holds"]


def test_the_same_question_has_the_same_answer(bench, slices):
    assert ask(bench, text="7B").content == ask(bench, text="7B").content


def test_the_number_of_queries_does_not_grow_with_flavors(bench, slices, django_assert_max_num_queries):
    for number in range(6):
        make_quota(bench.team, make_flavor(f"more-{number}"))
    with django_assert_max_num_queries(8):
        assert len(bench.client.post(ADVICE, {"team": "vision", "text": "7B"}).json()["flavors"]) == 9


WRONG = [
    ({}, "parameters"),
    ({"text": "a lot"}, "text"),
    ({"text": ""}, "text"),
    ({"text": "7B " + "x" * 200}, "text"),
    ({"text": 7}, "text"),
    ({"text": "7B", "colour": "red"}, "colour"),
    ({"text": "7B", "precision": "fp4"}, "precision"),
    ({"text": "7B", "purpose": "fun"}, "purpose"),
    ({"text": "7B", "optimizer": "lion"}, "optimizer"),
    ({"text": "7B", "isolation": "some"}, "isolation"),
    ({"text": "7B", "sharding": "zero"}, "sharding"),
    ({"text": "7B", "gradient_checkpointing": "yes"}, "gradient_checkpointing"),
    ({"text": "7B", "layers": 32}, "hidden_size"),
    ({"text": "7B", "purpose": "inference", "optimizer": "adam"}, "optimizer"),
    ({"parameters": 999}, "parameters"),
]


@pytest.mark.parametrize(("values", "field"), WRONG)
def test_what_is_wrong_is_named(bench, values, field):
    problem(ask(bench, **values), 422, field)


COUNTS = ("sequence_length", "batch_size", "layers", "hidden_size", "kv_heads", "vocabulary_size", "cards")


@pytest.mark.parametrize("field", ["parameters", *COUNTS])
def test_a_number_that_is_none_or_out_of_reach_is_named(field):
    for value in (0, -1, 1.5, "8", 10**14, True, {}):
        told = AdviceRequestSerializer(data={"team": "vision", "text": "7B", field: value})
        assert not told.is_valid()
        assert set(told.errors) == {field}, value


def test_a_body_that_is_no_object_is_refused(bench):
    assert bench.client.post(ADVICE, [1]).status_code in {400, 422}
    assert bench.client.get(ADVICE).status_code == 405
