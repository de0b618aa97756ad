"""docs/reference/diagnosis.md: the table by which failures are named, from the rules themselves."""

from __future__ import annotations

from collections.abc import Iterator

from diagnosis.findings import WhoActs
from diagnosis.judge import RULES

_WHO = {WhoActs.OWNER: "owner", WhoActs.ADMIN: "admin", WhoActs.NOBODY: "nobody"}


def page() -> list[str]:
    """The lines of the page."""
    return [
        "# Diagnosis",
        "",
        "Why a run or an endpoint failed or does not come up, as its page and `diagnosis/` in REST say it. The rows are judged in this",
        "order, and the first that holds is the verdict; further ones stand below it. What they are judged by is what the watcher kept:",
        "the status of pods, objects and nodes, Kubernetes' events, and the last lines of the log; and the request. The cluster is not asked.",
        "",
        "- **Ids** are stable. Letters: S scheduler, F admission, C containers, T ends, P and D what took the pod away, J jobs, K scalers,",
        "  G GPUs of nodes, U what does not go away, A the rest.",
        "- **Confidence** is `certain` where the cluster says so in as many words, `likely` where what was seen hardly has another cause,",
        "  `possible` where other causes fit too.",
        "- **Who acts**: `owner` is who may change the request, `admin` the operator of the cluster; `nobody` where it passes by itself. The page",
        "  says so in words.",
        "- Title, who acts and next step may be more exact than the table's, by what the request says: its limits, its command, the Secrets that it",
        "  names. Of an endpoint Settings stands where the table says Clone.",
        "- `repeats` in REST is true where the same request would surely fail in the same way; the page says so beside the next step.",
        "- Of a run with several pods, those are judged that failed first: the others lost them.",
        "- The scheduler counts each node by the first check that it fails. The latest check that any node came to is the cause, as such",
        "  a node passed all before it.",
        "- Of what succeeded, was cancelled or is suspended, nothing is named. An end that a container has got over is of the past, unless it was",
        "  the third or later one and less than ten minutes ago. That pods end while their workload is being stopped is no cause.",
        "- Where the nodes that were meant for a pod are closed, that is the cause, whatever the others lack.",
        "- [What was planted](diagnosis-planted.md) tells row by row how it was tried.",
        "",
        "| id | what it is called | what is seen | who acts | next step |",
        "|---|---|---|---|---|",
        *_rows(),
    ]


def _rows() -> Iterator[str]:
    for rule in RULES:
        cells = (rule.id, rule.title, rule.signal, _WHO[rule.who], rule.next_step)
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
