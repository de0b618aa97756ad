"""The words of the portal: the one table that pages gloss from and docs/reference/words.md is written from. Pure.

Code, REST and documentation keep the words of the field, Kueue's and Kubernetes'; pages may say beside the first of them
what it is, by `{% gloss "cohort" %}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Word:
    """`gloss` stands behind the word in a sentence, after a comma; `meaning` is the whole sentence of the glossary.

    `instead` is what pages say, where they have no use for the word itself: it belongs to code, REST and documentation.
    """

    gloss: str
    meaning: str
    instead: str = ""


WORDS: Final[Mapping[str, Word]] = MappingProxyType({
    "admission": Word(
        "the decision that it may start",
        "The decision that a run or an endpoint may start now, by its team's quota, its budget and the room on nodes.",
    ),
    "attempt": Word(
        "one try to run it",
        "One try to run a training run. A retry, a preemption and a lost node begin another one; each keeps its own log.",
    ),
    "borrowed": Word(
        "used beyond the own quota, from what other teams leave unused",
        "Used beyond the team's own quota, from what other teams of its cohort leave unused. They can call it back.",
    ),
    "budget": Word(
        "the money that the team may spend in a period",
        "The money that a team may spend in a month or another period. Work that it does not pay for waits.",
    ),
    "capacity type": Word(
        "on-demand, or spot, which is cheaper and can be taken away",
        "`on-demand`, or `spot`: cheaper nodes that the provider may take back at any time. Beside the flavor, never part of its name.",
    ),
    "card": Word(
        "one physical GPU",
        "One physical GPU. A flavor is a whole card, a slice of it (MIG) or a share of it.",
    ),
    "ceiling": Word(
        "the most that the team may hold at once",
        "The most CPU, memory, ephemeral storage, pods or volumes that a team may hold at once, whatever its GPU quota.",
    ),
    "checkpoint": Word(
        "a saved state from which the run can go on",
        "A state that a run has saved, from which its next attempt goes on. What was done since the newest one is lost when it is stopped.",
    ),
    "claim": Word(
        "the GPUs that are held for it",
        "The units that are held for one workload from its admission until its last pod has gone. Not a volume claim.",
    ),
    "cohort": Word(
        "the teams that share unused quota",
        "Teams that lend each other the quota that they do not use. Cohorts may stand below one another.",
    ),
    "endpoint": Word(
        "a model behind an address",
        "A model served at an address of its own, by pods that stay up until somebody stops it.",
    ),
    "fair share": Word(
        "who used less goes first",
        "The order between teams that want the same GPUs: the one whose past use, by its weight, is less goes first.",
    ),
    "fence": Word(
        "a limit in the cluster itself",
        "A ResourceQuota in the team's namespace, so that nothing beside the portal can use more than the team's quota.",
    ),
    "flavor": Word(
        "a kind of GPU that can be asked for",
        "What can be asked for: a whole GPU (`a100-40gb`), a MIG slice (`a100-mig-1g.10gb`) or a share of one (`t4-shared`). Kueue's ResourceFlavor.",
    ),
    "gang": Word(
        "pods that start together or not at all",
        "The pods of one run that compute together, and so start together or not at all.",
    ),
    "grace period": Word(
        "the seconds to save what it did",
        "The seconds between SIGTERM and SIGKILL, in which a program that is stopped can save what it did.",
    ),
    "guaranteed": Word(
        "the team's own quota",
        "The part of the quota that is the team's own: what others borrowed of it comes back when the team needs it. Kueue's nominal quota.",
    ),
    "headroom": Word(
        "GPUs kept for more replicas",
        "Units that an endpoint holds for replicas which it does not run now. Preemptible runs of its team may use them meanwhile.",
    ),
    "ledger": Word(
        "the book of every charge",
        "The book in which every second of every pod is charged once, in micro-USD. Nothing in it is ever changed.",
    ),
    "lever": Word(
        "a change that would make it start sooner",
        "A change to a request that would make it start sooner, tried by the same code that admits it: fewer GPUs, another flavor, spot, a shorter limit.",
        instead="what would make it start sooner",
    ),
    "MIG": Word(
        "a card cut into slices with memory of their own",
        "Multi-Instance GPU: a card cut into slices, each with memory and compute of its own.",
    ),
    "nominal": Word(
        "the team's own quota",
        "REST's and Kueue's word for the guaranteed quota.",
        instead="guaranteed",
    ),
    "phase": Word(
        "where it stands",
        "Where a workload stands, coarsely: Queued, Admitted, Starting, Running, Stopping, Suspended, Succeeded, Failed or Cancelled.",
    ),
    "preemption": Word(
        "stopping one so that another can start",
        "Stopping a workload, with its grace period, so that another one with the better right can start. It uses up no retry.",
    ),
    "quota": Word(
        "how many GPUs the team may use",
        "How many units of a flavor and capacity type a team may use: its own (guaranteed), and up to its limit what it can borrow.",
    ),
    "reason": Word(
        "why it stands there",
        "Why a workload is in its phase, as one word of a fixed list for programs; pages say it in words.",
    ),
    "receipt": Word(
        "the stored decision",
        "A decision of admission, stored with all that it was decided on, so that it can be judged again.",
    ),
    "reconcile": Word(
        "bring the cluster in line",
        "To compare what was asked for with what is in the cluster, and do what is missing.",
        instead="nothing: people see what came of it",
    ),
    "revision": Word(
        "a numbered version of the settings",
        "A numbered version of an endpoint's settings. A change makes a new one, and any older one can be rolled back to.",
    ),
    "run": Word(
        "a command that trains on GPUs and ends",
        "A training run: a command in an image, on GPUs of the team's quota, that ends by itself.",
    ),
    "scaler": Word(
        "what adds and removes replicas",
        "What adds and removes the replicas of an endpoint by its load: KEDA, or the cluster's own autoscaler.",
    ),
    "spot": Word(
        "cheaper nodes that can be taken back",
        "Nodes that cost less and that the provider may take back at any time. A run there should save checkpoints.",
    ),
    "sweep": Word(
        "one command with many values",
        "Many runs from one request: the same command with each combination of some values.",
    ),
    "unit": Word(
        "one GPU, slice or share of a flavor",
        "One of a flavor: a whole GPU, a slice or a share. Quotas count units.",
    ),
    "weight": Word(
        "what its use is divided by",
        "What a team's past use is divided by in the fair share: with twice the weight it may use twice as much before it comes last.",
    ),
    "workload": Word(
        "a run or an endpoint",
        "What runs and endpoints have alike: team, phase, claim, attempts, costs.",
    ),
})  # fmt: skip
