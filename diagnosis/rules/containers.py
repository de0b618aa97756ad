"""C: the containers do not come up. In the order of a pod's life, init containers first."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from diagnosis.evidence import Case, ContainerEvidence, PodEvidence
from diagnosis.findings import (
    Confidence,
    Proof,
    Rule,
    Sign,
    WhoActs,
    pod_rule,
    proof_of_container,
    proof_of_said,
)

CRASH_LOOP: Final = "CrashLoopBackOff"
_PULL: Final = frozenset({"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable"})
_BAD_IMAGE: Final = frozenset(
    {"InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "SignatureValidationFailed"}
)
_NOT_STARTED: Final = frozenset(
    {"CreateContainerError", "RunContainerError", "StartError", "ContainerCannotRun"}
)
_SANDBOX: Final = ("FailedCreatePodSandBox", "NetworkNotReady")
_MOUNT: Final = ("FailedMount", "FailedAttachVolume", "FailedMapVolume")
_RUNTIME: Final = re.compile(
    r"nvidia-container-cli|unresolvable CDI devices|nvidia-container-runtime", re.IGNORECASE
)
_NO_PROGRAM: Final = re.compile(r"executable file not found|no such file or directory", re.IGNORECASE)
_PROGRAM: Final = re.compile(r'exec: \\?"(?P<name>[^"\\]{1,200})\\?"')
_NO_KEY: Final = re.compile(
    r"couldn't find key (?P<key>\S+) in (?P<kind>Secret|ConfigMap) (?:[^/\s]+/)?(?P<name>[\w.-]+)"
)
_ABSENT: Final = re.compile(r'(?P<kind>secret|configmap) "(?P<name>[\w.-]+)" not found', re.IGNORECASE)
_KINDS: Final = {"secret": "Secret", "configmap": "ConfigMap"}
_ACCOUNT: Final = (
    "the registry wants an account that may read it, or knows no image of that name (many say both alike)"
)
_PROBE_KILLED: Final = re.compile(r"failed (?:startup|liveness) probe")
_RESTART_OF_SPEC: Final = "Use Clone, change it and submit it."
PULL_CAUSES: Final = (
    (re.compile(r"toomanyrequests|\b429\b|rate limit", re.IGNORECASE), "the registry refuses more pulls for now",
     "Wait, or name an account of the registry in `image_pull_secrets`; an admin can set up a mirror."),
    (re.compile(r"unauthorized|denied|\b40[13]\b|authentication required", re.IGNORECASE), _ACCOUNT,
     "First look that the image's name is right. If it is, name a Secret of the team with the registry's account in `image_pull_secrets`."),
    (re.compile(r"no match(?:ing)? (?:for|manifest)|platform", re.IGNORECASE), "it is not built for this kind of processor",
     "Name an image that is built for the processor of the nodes (mostly linux/amd64)."),
    (re.compile(r"i/o timeout|no such host|connection refused|TLS handshake|deadline exceeded", re.IGNORECASE), "the node does not reach the registry",
     "Look that the registry's name is right; if it is, an admin checks the nodes' way to it."),
    (re.compile(r"not found|manifest unknown|does not exist|name unknown", re.IGNORECASE), "there is no such image or tag",
     "Use Clone, correct the image's name or tag, and submit it."),
)  # fmt: skip
"""What the registry's words mean, the more exact ones first: cause, next step."""
_LASTING: Final = frozenset({"it is not built for this kind of processor", "there is no such image or tag"})


def states(pod: PodEvidence, *words: str) -> Iterator[ContainerEvidence]:
    """The present states of its containers with one of these reasons."""
    return (item for item in pod.containers() if not item.previous and item.reason in words)


def killed_by_probe(pod: PodEvidence) -> bool:
    """Whether its node ended a container because a probe failed: its exit code then says nothing."""
    return not pod.ready and any(_PROBE_KILLED.search(said.message) for said in pod.heard("Killing"))


@pod_rule(
    "C10",
    "It was not ready in time, and was started again",
    signal="events Unhealthy, then Killing with `failed startup probe` or `failed liveness probe`",
    next_step="If it only loads slowly, raise `probes.load_budget_seconds`; else its log says what it waits for.",
    who=WhoActs.OWNER,
)
def unhealthy(_case: Case, pod: PodEvidence) -> Iterator[Sign]:
    if not killed_by_probe(pod):
        return
    heard = [*list(pod.heard("Unhealthy"))[:1], *list(pod.heard("Killing"))[:1]]
    times = sum(said.count for said in pod.heard("Unhealthy"))
    words = f"Pod {pod.name} failed its probe {times} times and was killed for it; restarted {pod.restarts} times."
    yield Sign(words, tuple(map(proof_of_said, heard)), Confidence.LIKELY, pod=pod.name)


@pod_rule(
    "C1",
    "The image cannot be pulled",
    signal="container waits with ErrImagePull or ImagePullBackOff",
    next_step="Correct the image's name or tag, and look whether the cluster may pull it.",
    who=WhoActs.OWNER,
)
def not_pulled(case: Case, pod: PodEvidence) -> Iterator[Sign]:
    for item in states(pod, *_PULL):
        heard = [said for said in pod.heard("Failed") if "ailed to pull image" in said.message][:1]
        text = " ".join([item.message, *(said.message for said in heard)])
        cause, step = next(
            ((what, step) for pattern, what, step in PULL_CAUSES if pattern.search(text)), ("", "")
        )
        words = f"The node cannot pull {item.image or 'the image'}{': ' + cause if cause else ''}."
        if cause == _ACCOUNT:
            step = _account_step(case)
        proofs = (proof_of_container(pod, item), *map(proof_of_said, heard))
        sure = bool(cause) and cause != _ACCOUNT
        yield Sign(
            words,
            proofs,
            Confidence.CERTAIN if sure else Confidence.LIKELY,
            step,
            pod=pod.name,
            repeats=cause in _LASTING,
        )


def _account_step(case: Case) -> str:
    named = ", ".join(f"`{name}`" for name in case.asked.pull_secrets)
    if named:
        step = f"If it is, the account in Secret {named}, which the request names, has to be one that may read it: write that anew on the team's page, under Secrets."
    else:
        step = (
            "If it is: the request names no account of the registry. A member writes a Secret with the key `.dockerconfigjson` on the team's page, "
            "and names it in a clone under Registry secrets (`image_pull_secrets`)."
        )
    return f"First look that the image's name is right. {step}{'' if case.over else ' Meanwhile the pull is tried again by itself.'}"


@pod_rule(
    "C2",
    "The image cannot be used",
    signal="container waits with InvalidImageName, ErrImageNeverPull, ImageInspectError or SignatureValidationFailed",
    next_step=f"Correct `image`. {_RESTART_OF_SPEC}",
    who=WhoActs.OWNER,
    repeats=True,
)
def bad_image(_case: Case, pod: PodEvidence) -> Iterator[Sign]:
    for item in states(pod, *_BAD_IMAGE):
        words = f"The node takes {item.image or 'the image'} for no usable image ({item.reason})."
        yield Sign(words, (proof_of_container(pod, item),), pod=pod.name)


@pod_rule(
    "C3",
    "A Secret, ConfigMap or key that it needs is not there",
    signal="container waits with CreateContainerConfigError",
    next_step="Make what is named, or take it out of the request; once it is there it goes on by itself.",
    who=WhoActs.OWNER,
)
def no_config(case: Case, pod: PodEvidence) -> Iterator[Sign]:
    for item in states(pod, "CreateContainerConfigError"):
        proofs = (proof_of_container(pod, item),)
        if "runAsNonRoot" in item.message or "non-numeric user" in item.message:
            yield Sign(
                f"Container {item.name} cannot be made: {item.message}.",
                proofs,
                next_step=f"The image runs as root or names its user by a word: set `run_as_user` to a number. {_RESTART_OF_SPEC}",
                pod=pod.name,
                title="The image's user is not allowed",
                repeats=True,
            )
        elif missing := _NO_KEY.search(item.message) or _ABSENT.search(item.message):
            yield _missing(case, pod, missing, proofs)
        else:
            words = f"Container {item.name} cannot be made: {item.message or item.reason}."
            yield Sign(words, proofs, pod=pod.name)


def _missing(case: Case, pod: PodEvidence, found: re.Match[str], proofs: tuple[Proof, ...]) -> Sign:
    """A Secret or ConfigMap that is not there, or one without the key that the request names."""
    kind, name, key = _KINDS[found["kind"].lower()], found["name"], found.groupdict().get("key")
    keys = [key] if key else [*case.asked.keys.get(name, ())] if kind == "Secret" else []
    named = ", ".join(f"`{each}`" for each in keys)
    words = (
        f"The {kind} `{name}` is there, but has no key {named}"
        if key
        else f"There is no {kind} `{name}`{f', of which the request needs the key {named}' if named else ''}"
    )
    holds = ", and holds its GPUs meanwhile" if case.asked.gpus else ""
    waits = "" if case.over else f" Pod {pod.name} waits for it{holds}."
    then = "Then use Run again." if case.over else f"Once it is there, the {case.noun} goes on by itself."
    if kind == "Secret":
        how = (
            f"Add the key {named} to the Secret `{name}`: a member writes it on the team's page, under Secrets, with all its keys anew (or with kubectl, if it was made so)"
            if key
            else f"Write the Secret `{name}`{f' with the key {named}' if named else ''}: a member does so on the team's page, under Secrets"
        )
    else:
        how = f"Add the key {named} to the ConfigMap `{name}`" if key else f"Make the ConfigMap `{name}`"
        how += " in the team's namespace (who has kubectl there), or take it out of the request with Clone"
    return Sign(
        f"{words}.{waits}",
        proofs,
        next_step=f"{how}. {then}",
        pod=pod.name,
        title=f"A key of a {kind} is not there" if key else f"A {kind} that it needs is not there",
        secret=name if kind == "Secret" else "",
    )


@pod_rule(
    "C4",
    "Its program could not be started",
    signal="container waits with CreateContainerError or RunContainerError, or ended with StartError or ContainerCannotRun",
    next_step="Use Clone and correct the command: the image must have its first word as a program, and may run it.",
    who=WhoActs.OWNER,
)
def not_started(case: Case, pod: PodEvidence) -> Iterator[Sign]:
    seen: set[str] = set()
    for item in pod.containers():
        if item.reason not in _NOT_STARTED or item.name in seen:
            continue
        seen.add(item.name)
        proofs = (proof_of_container(pod, item),)
        if _RUNTIME.search(item.message):
            yield Sign(
                f"The GPU runtime of node {pod.node or '?'} could not start container {item.name}: the request is not at fault.",
                proofs,
                next_step=f"The operator looks at the NVIDIA container runtime of node {pod.node or '?'}.",
                pod=pod.name,
                who=WhoActs.ADMIN,
            )
        elif _NO_PROGRAM.search(item.message):
            yield _no_program(case, pod, item, proofs)
        else:
            yield Sign(f"Container {item.name} could not be started ({item.reason}).", proofs, pod=pod.name)


def _no_program(case: Case, pod: PodEvidence, item: ContainerEvidence, proofs: tuple[Proof, ...]) -> Sign:
    """The image has not what is to be run; `first` is what the request's own command begins with."""
    named, first = _PROGRAM.search(item.message), case.asked.command
    program = named["name"] if named else ""
    words = f"The image has no program `{program}`" if program else "The image has no such program"
    words += f", with which container {item.name} is to start."
    step = "Use Clone and correct the command."
    if program and first and first != program:
        words += f" The command of the request begins with another one, `{first}`."
        step = f"Look who calls `{program}`, the image's entry point or a script of it, and correct that; or use Clone with another command or image."
    elif program:
        step = (
            f"Use Clone and correct the command: its first word `{program}` is to be a program of the image."
        )
    return Sign(words, proofs, next_step=step, pod=pod.name, repeats=True)


@pod_rule(
    "C5",
    "It ends again and again",
    signal="container waits with CrashLoopBackOff",
    next_step="Look at the last lines of its log: they are from before the last restart.",
    who=WhoActs.OWNER,
)
def crash_loop(_case: Case, pod: PodEvidence) -> Iterator[Sign]:
    for item in states(pod, CRASH_LOOP):
        ends = [end for end in pod.containers() if end.previous and end.name == item.name]
        code = (
            f"; the last time with exit code {ends[0].exit_code}" if ends else ", each time with exit code 0"
        )
        words = f"Container {item.name} was started {item.restarts + 1} times and ended each time{code}."
        proofs = (proof_of_container(pod, item), *(proof_of_container(pod, end) for end in ends))
        yield Sign(words, proofs, pod=pod.name)


def _while_it_waits(pod: PodEvidence, *reasons: str) -> Iterator[Sign]:
    """What was said of a pod on a node that still does not run: later it is of the past."""
    if pod.started_at is not None or pod.ended or not pod.node:
        return
    heard = list(pod.heard(*reasons))
    if heard:
        newest = heard[0]
        words = f"Pod {pod.name} is on node {pod.node} and cannot start: {newest.message}"
        yield Sign(words, tuple(map(proof_of_said, heard[:2])), Confidence.LIKELY, pod=pod.name)


@pod_rule(
    "C6",
    "Its node cannot give it a network",
    signal="events FailedCreatePodSandBox or NetworkNotReady while the pod has not started",
    next_step="An admin looks at the network plugin of the node, and whether it has addresses left.",
    who=WhoActs.ADMIN,
)
def no_network(_case: Case, pod: PodEvidence) -> Iterator[Sign]:
    yield from _while_it_waits(pod, *_SANDBOX)


@pod_rule(
    "C7",
    "A volume cannot be mounted",
    signal="events FailedMount, FailedAttachVolume or FailedMapVolume while the pod has not started",
    next_step="Look that the claim, Secret or ConfigMap exists; a volume that another node holds has to be given up there first.",
    who=WhoActs.OWNER,
)
def not_mounted(_case: Case, pod: PodEvidence) -> Iterator[Sign]:
    for found in _while_it_waits(pod, *_MOUNT):
        held = "Multi-Attach" in found.words
        step = (
            "End what still mounts the volume on another node, or use a claim with access mode ReadWriteMany."
            if held
            else ""
        )
        yield Sign(found.words, found.proofs, found.confidence, step, pod=pod.name)


@pod_rule(
    "C9",
    "Its node cannot prepare the devices",
    signal="event FailedPrepareDynamicResources while the pod has not started",
    next_step="An admin looks at the DRA driver of the node.",
    who=WhoActs.ADMIN,
)
def no_devices(_case: Case, pod: PodEvidence) -> Iterator[Sign]:
    yield from _while_it_waits(pod, "FailedPrepareDynamicResources")


BEFORE_EXITS: Final[tuple[Rule, ...]] = (unhealthy, not_pulled, bad_image, no_config, not_started)
AFTER_EXITS: Final[tuple[Rule, ...]] = (crash_loop,)
BY_EVENTS: Final[tuple[Rule, ...]] = (no_network, not_mounted, no_devices)
