"""What a finding tells its reader: what is wrong by name, who acts, and a step that can be done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from diagnosis.findings import Cause, WhoActs, such_as_twice
from teams.actors import Actor
from teams.secret_names import record_secret
from tests.diagnosis.planted import NOW, Planted, in_its_first_attempt, workload_in
from tests.diagnosis.rows import plant_in
from tests.factories.catalogue import make_flavor, make_quota
from tests.factories.submitted import make_attempt, make_run
from tests.factories.teams import make_member, make_team
from tests.factories.workloads import put_in
from tests.pod_samples import container, failed, pending, pod, running, waiting
from tests.tables import every_row, undone
from workloads.models import ResourceFlavor
from workloads.states import Phase

pytestmark = pytest.mark.django_db


@pytest.fixture
def verdict(workloads) -> Callable[[str], Cause]:
    return lambda name: plant_in(workloads, name).findings()[0]


def asking(phase: Phase, *, secret: dict[str, str] | None = None, **spec: Any) -> Planted:
    """A run in its first attempt, of a request with these fields, whose team has a Secret with a key."""
    team, flavor = make_team("vision"), make_flavor()
    lead = Actor.of_user(make_member("lead", team=team).user)
    for name, key in (secret or {}).items():
        record_secret(team=team, name=name, keys=[key], written_here=True, actor=lead, now=NOW)
    make_quota(team, flavor, 8)
    run = make_run(team, make_member(team=team).user, flavor=flavor, **spec)
    make_attempt(run)
    return Planted(put_in(run, phase, since=NOW))


TITLES = {
    "P1": "Its node evicted it for want of disk or memory",
    "P1 volume": "It wrote more than its limit",
    "P1 own": "It wrote more than its limit",
    "S1 never": "No node is large enough: 4 GPUs a pod, at most 2 a node",
    "S4": "The nodes for it are reserved for others (by a taint)",
    "F1": "The namespace's ResourceQuota has too little left",
    "C3": "A Secret that it needs is not there",
    "C3 key": "A key of a Secret is not there",
    "C3 config map": "A ConfigMap that it needs is not there",
    "C3 root": "The image's user is not allowed",
    "T7 refused": "Its program waits for other pods, and the run has one",
    "T7 in use": "The port of its rendezvous is taken",
}
WORDS = {
    "P1 volume": "put more into its shared memory (/dev/shm, by which data loaders hand over batches) than its limit of 1Gi",
    "P1 container": "wrote more outside of its volumes than its limit of 1Gi",
    "P1": "No limit of the request was passed",
    "G1": "offers 7 of its 8 GPUs. Pod a-1-x7k2p of this run is on that node and has not started: it may be late, or fail.",
    "C3": "There is no Secret `hf`. Pod a-1-x7k2p waits for it, and holds its GPUs meanwhile.",
    "C3 key": "The Secret `hf` is there, but has no key `token`. Pod a-1-x7k2p waits for it, and holds its GPUs meanwhile.",
    "C4": "The image has no program `trian`, with which container main is to start. The command of the request begins with another one, `python`.",
    "T1": "used more memory (RAM, not that of the GPU) than its limit of 2Gi",
    "A1": "with exit code 3: this is the program's own error. It wrote: ValueError: lr must be positive",
    "F1": "It is a limit of the namespace itself, and not the team's quota in the portal",
    "C1 account": "or knows no image of that name",
}
STEPS = {
    "P1 volume": "Use Clone with more shared memory (`shm`, such as `2Gi`), which is a part of `memory`; or run fewer data loader workers.",
    "P1 own": "use Clone with more ephemeral storage (`ephemeral_storage`, such as `2Gi`)",
    "P1": "Use Run again. A request that names what it needs is put off last.",
    "P1 by kubelet": "the portal tries again by itself",
    "G1": "Tell the operator the name of the node, `a100-0`.",
    "C3": "Write the Secret `hf`: a member does so on the team's page, under Secrets. Once it is there, the run goes on by itself.",
    "C3 key": "Add the key `token` to the Secret `hf`: a member writes it on the team's page, under Secrets, with all its keys anew (or with kubectl, if it was made so). Once",
    "C4": "Look who calls `trian`, the image's entry point or a script of it",
    "T1": "Use Clone with more `memory`, such as `4Gi`",
    "T5": "Make the batch smaller, or use Clone with a flavor of more GPU memory.",
    "T7": "`NCCL_SOCKET_IFNAME` names the network",
    "T7 refused": "or start the program for one pod, as by `torchrun --standalone`",
    "A1": "Its last lines say what went wrong: correct that, and use Clone to submit it anew.",
    "S1 never": "ask for at most 2 GPUs a pod (field GPUs, in REST `gpus_per_replica`); a program that is made for several pods can get the rest by more of them",
    "S4": "If they are, use Clone with another flavor.",
    "F1": "It goes on by itself when enough is free",
    "C1 account": "First look that the image's name is right. If it is: the request names no account of the registry.",
}


def test_the_title_says_which_case_it_is(verdict):
    with every_row() as row:
        for name, title in TITLES.items():
            with row(name), undone():
                assert verdict(name).title == title


def test_the_sentence_names_what_it_is_about(verdict):
    with every_row() as row:
        for name, words in WORDS.items():
            with row(name), undone():
                assert words in verdict(name).words


def test_the_next_step_can_be_done(verdict):
    with every_row() as row:
        for name, step in STEPS.items():
            with row(name), undone():
                assert step in verdict(name).next_step


def test_room_that_is_left_in_a_quota_is_what_may_be_asked_for(verdict):
    assert "use Clone and ask for at most 2 GPUs" in verdict("F1").next_step


@pytest.mark.parametrize(
    ("limited", "never"), [("requests.nvidia.com/gpu=2", True), ("requests.nvidia.com/gpu=4", False)]
)
def test_what_a_quota_can_never_hold_does_not_go_on_by_itself(limited, never):
    it = Planted(workload_in("Admitted")).object("Job")
    text = f'pods "a" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=4, used: requests.nvidia.com/gpu=1, limited: {limited}'
    found = it.said("FailedCreate", text, kind="Job", name="a-1").findings()[0]
    assert found.repeats is never
    assert ("It can never start as it is" in found.next_step) is never


def test_the_quota_that_the_portal_sets_is_called_so():
    it = Planted(workload_in("Admitted")).object("Job")
    text = 'pods "a" is forbidden: exceeded quota: mlportal-gpus, requested: limits.memory=4Gi, used: limits.memory=6Gi, limited: limits.memory=8Gi'
    found = it.said("FailedCreate", text, kind="Job", name="a-1").findings()[0]
    assert "It is what the portal sets by the team's quotas." in found.words
    assert "4Gi limits.memory" not in found.words
    assert "4Gi memory, and 6Gi of 8Gi are used" in found.words


def test_of_what_has_failed_nothing_goes_on_by_itself():
    it = Planted(workload_in("Failed"))
    it.pods(pending(waiting("CreateContainerConfigError", 'secret "hf" not found')))
    found = it.findings()[0]
    assert found.words == "There is no Secret `hf`."
    assert found.next_step.endswith("under Secrets. Then use Run again.")


@pytest.mark.parametrize(("phase", "again"), [("Starting", True), ("Failed", False)])
def test_a_pull_is_tried_again_until_the_run_has_failed(phase, again):
    it = Planted(workload_in(phase)).pods(pending(waiting("ErrImagePull", "401 Unauthorized")))
    assert ("tried again by itself" in it.findings()[0].next_step) is again


# --- what the request says


def test_a_secret_is_to_have_the_keys_that_the_request_names():
    env = [{"name": "HF_TOKEN", "secret": "hf", "key": "token"}]
    it = asking(Phase.STARTING, secret={"hf": "token"}, env=env).pods(
        pending(waiting("CreateContainerConfigError", 'secret "hf" not found'))
    )
    found = it.findings()[0]
    assert "There is no Secret `hf`, of which the request needs the key `token`." in found.words
    assert "Write the Secret `hf` with the key `token`" in found.next_step
    assert found.secret == "hf"


def test_the_program_of_the_requests_own_command_is_corrected_there():
    it = asking(Phase.STARTING, command=["trian"]).pods(
        pending(waiting("RunContainerError", 'exec: "trian": executable file not found in $PATH'))
    )
    found = it.findings()[0]
    assert found.words == "The image has no program `trian`, with which container main is to start."
    assert found.next_step == (
        "Use Clone and correct the command: its first word `trian` is to be a program of the image."
    )


def test_a_request_that_names_the_registrys_account_is_told_which():
    secret = {"registry": ".dockerconfigjson"}
    it = asking(Phase.STARTING, secret=secret, image_pull_secrets=["registry"]).pods(
        pending(waiting("ErrImagePull", "failed to authorize: 401 Unauthorized"))
    )
    assert "the account in Secret `registry`, which the request names" in it.findings()[0].next_step


@pytest.mark.parametrize(
    ("sharing", "said"),
    [
        ("none", ""),
        ("mig", "A unit of a100-40gb is a slice of a card"),
        ("time-slicing", "The cards of a100-40gb are shared"),
    ],
)
def test_other_pods_on_the_card_are_named_where_it_is_shared(sharing, said):
    it = Planted(workload_in("Failed"))
    ResourceFlavor.objects.update(sharing=sharing)
    it.workload.refresh_from_db()
    found = it.pods(failed(1)).wrote("torch.OutOfMemoryError: CUDA out of memory.").findings()[0]
    assert found.next_step.endswith("more GPU memory.") is (sharing == "none")
    assert said in found.next_step
    assert found.repeats is (sharing != "time-slicing")


# --- an endpoint


def test_an_endpoint_is_changed_under_its_settings():
    it = Planted(workload_in("Starting", kind="endpoint"))
    found = it.pods(pending(waiting("InvalidImageName", "couldn't parse image name"))).findings()[0]
    assert found.next_step == "Correct `image`. Use Settings, change it and submit it."


# --- several pods


def test_pods_that_did_not_meet_are_named_with_the_first_that_ended():
    it = in_two_pods()
    it.pods(
        failed(1, name="a-1-worker-0"),
        pod("Running", name="a-1-master-0", containers=(container(running()),)),
    )
    it.wrote(
        "[c10d] The client socket has failed to connect to (a-1-master-0, 29500): Connection refused",
        pod="a-1-worker-0",
    )
    found = it.findings()[0]
    assert found.id == "T7"
    assert found.title == "Its pods did not find each other"
    assert "a-1-master-0 (runs)" in found.words
    assert "The first that ended was a-1-worker-0." in found.words
    assert "NCCL" not in found.next_step
    assert "Look at the log of the pod that ended first" in found.next_step


def in_two_pods() -> Planted:
    return Planted(in_its_first_attempt(make_team("vision"), "Failed", pod_count=2))


# --- a GPU that is broken elsewhere


def test_a_broken_gpu_is_not_named_of_pods_that_run_or_ask_for_none():
    it = Planted(workload_in("Running")).node("a100-0", gpus=7, has=8)
    it.pods(
        pod("Running", containers=(container(running(), restarts=1, last={"terminated": {"exitCode": 1}}),))
    )
    assert it.ids() == []
    it = asking_without_gpus().node("a100-0", gpus=7, has=8)
    assert it.pods(pending(waiting("ContainerCreating"), reason="x")).ids() == []


def asking_without_gpus() -> Planted:
    team = make_team("audio")
    run = make_run(team, make_member(team=team).user)
    make_attempt(run)
    return Planted(put_in(run, Phase.STARTING, since=NOW))


# --- who acts, and whether the same would happen again


WHO = {
    "T1": WhoActs.OWNER,
    "C4": WhoActs.OWNER,
    "C4 runtime": WhoActs.ADMIN,
    "G1": WhoActs.ADMIN,
    "P1 by kubelet": WhoActs.NOBODY,
    "P1 volume": WhoActs.OWNER,
}
REPEATS = (
    dict.fromkeys(("T1", "T5", "A1", "C4", "C1", "C2", "P1 volume", "S1 never", "T8", "F4"), True)
    | dict.fromkeys(("P1", "C1 network", "C1 account", "C4 runtime", "S1", "F1", "G1", "T2", "D3"), False)
)  # fmt: skip


def test_it_is_said_who_acts(verdict):
    with every_row() as row:
        for name, who in WHO.items():
            with row(name), undone():
                assert verdict(name).who == who


def test_it_is_said_where_the_same_request_would_fail_in_the_same_way(verdict):
    with every_row() as row:
        for name, repeats in REPEATS.items():
            with row(name), undone():
                assert verdict(name).repeats is repeats


@pytest.mark.parametrize(
    ("amount", "said"),
    [("16Gi", ", such as `32Gi`"), ("512M", ", such as `1024M`"), ("", ""), ("1.5Gi", ""), ("1e9", "")],
)
def test_a_figure_to_try_next_is_twice_a_plain_amount(amount, said):
    assert such_as_twice(amount) == said
