"""The sentences of docs/reference that the code's tables do not hold. A name without one stops `write_reference`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from workloads.states import Phase, Reason

PACKAGE_MEANING: Mapping[str, str] = MappingProxyType({
    "portal": "How is it put together? Settings, urls, processes, pages that mix features, `up` and `demo`.",
    "jobs": "Training runs: spec, manifests, status, adapter, services, REST and pages.",
    "inference": "Endpoints: the same parts.",
    "gateway": "Who may call an endpoint, and how? Also the event and log streams of the live process.",
    "controller": "What makes the cluster match the rows? Reconciler, admission, watcher, logs; no models.",
    "quotas": "Who may use how much? Quotas, claims and the pure policy that judges.",
    "costs": "What did it cost? Prices, usage intervals and the ledger.",
    "workloads": "What is there, and in which state? The row shared by runs and endpoints, and what was observed of it.",
    "teams": "Who? Users, teams, memberships, tokens, the audit trail, permissions.",
    "foundation": "With what? Clock, ids, money, errors, tasks, the REST conventions, platform settings.",
    "cluster": "Where? The only place that calls the Kubernetes API.",
    "devcluster": "A Kubernetes-API-compatible cluster on a laptop.",
})  # fmt: skip

PHASE_MEANING: Mapping[Phase, str] = MappingProxyType({
    Phase.QUEUED: "Waits for quota, or for its turn. Nothing of it is in the cluster.",
    Phase.ADMITTED: "Its units are claimed; its objects are being made, or wait for a node.",
    Phase.STARTING: "A node has it: images are pulled, containers start, an endpoint loads its model.",
    Phase.RUNNING: "A run computes; an endpoint has at least one pod up.",
    Phase.STOPPING: "Its objects are being deleted. The claim is held until the last pod is observed gone.",
    Phase.SUSPENDED: "Stopped by a user; it keeps its row, holds nothing and can be resumed.",
    Phase.SUCCEEDED: "The run ended with exit code 0.",
    Phase.FAILED: "It ended badly; reason and message say why.",
    Phase.CANCELLED: "A user ended it.",
})  # fmt: skip

REASON_MEANING: Mapping[Reason, str] = MappingProxyType({
    Reason.PENDING_EVALUATION: "Just submitted or resumed; nobody has judged it yet.",
    Reason.WAITING_FOR_QUOTA: "The team's quota and what it may borrow are used, or others stand before it in the queue.",
    Reason.EXCEEDS_MAX_QUOTA: "It asks for more than its team, or one member, may ever hold, or for a longer time limit.",
    Reason.NO_MATCHING_FLAVOR: "It was possible once: since then the quota row or the nodes have vanished.",
    Reason.TOPOLOGY_PLACEMENT_FAILED: "The quota would do, but no node has enough units free for each of its pods.",
    Reason.WAITING_FOR_PREEMPTED_WORKLOADS: "Others were asked to leave so that it may start; they have their grace period.",
    Reason.QUEUE_STOPPED: "Somebody stopped the team's queue; nothing of it is admitted until it is started again.",
    Reason.BACKOFF_WAITING: "No node took it within `schedule_deadline_seconds`; it gave its claim back and waits.",
    Reason.CLUSTER_UNAVAILABLE: "The cluster does not answer, so nothing is admitted.",
    Reason.PREEMPTED: "It had to leave so that another one starts; the message says by whose need. No retry is used up.",
    Reason.SPOT_RECLAIMED: "The spot node was taken back. No retry is used up.",
    Reason.NODE_LOST: "Its node is gone, drained or does not answer. No retry is used up; too often ends as Failed.",
    Reason.CREATING: "Its objects are being made.",
    Reason.SCHEDULING: "Its pod waits for the scheduler.",
    Reason.UNSCHEDULABLE: "The scheduler says that no node fits; the message is the scheduler's own.",
    Reason.PULLING: "The image is pulled and volumes are mounted.",
    Reason.INITIALIZING: "Init containers run.",
    Reason.GANG_WAITING: "Some of its pods run and wait for the others, which are still being started.",
    Reason.LOADING: "The container runs and its readiness probe does not succeed yet.",
    Reason.RESTARTING: "The last attempt failed and the next one follows, or a container is started again.",
    Reason.PROGRESSING: "The container runs.",
    Reason.READY: "All replicas of the endpoint are ready.",
    Reason.DEGRADED: "Part of it is not up.",
    Reason.UPDATING: "The endpoint replaces pods of the old revision by new ones.",
    Reason.SCALED_TO_ZERO: "Nobody calls the endpoint, and its scaler has taken the last replica away; it keeps its claim.",
    Reason.WAKING: "A request came for an endpoint without replicas: they are being started again.",
    Reason.SCALER_FAILED: "The scaler cannot do its work: the message says what it lacks, and how many replicas run meanwhile.",
    Reason.PREEMPTING: "It is leaving so that another one may start, and is queued again afterwards.",
    Reason.QUOTA_REDUCED: "A quota was cut below what its team uses, and it had to leave. No retry is used up.",
    Reason.USER_REQUESTED: "A user asked for it.",
    Reason.DEADLINE_EXCEEDED: "It used its time limit, counted over Starting and Running of all attempts.",
    Reason.IMAGE_PULL_FAILED: "The image cannot be pulled; after `image_pull_deadline_seconds` it fails.",
    Reason.COMPLETED: "It did what it was asked for.",
    Reason.BACKOFF_LIMIT_EXCEEDED: "The Job reports failure and no pod is left to say why.",
    Reason.OOM_KILLED: "It used more memory than its limit.",
    Reason.INVALID_SPEC: "The cluster refuses it for good; the message is the API server's own.",
    Reason.APPLICATION_ERROR: "Its program ended with an exit code other than 0.",
    Reason.START_ERROR: "Its container did not start: the image has no such program, or may not run it. Where the node tries "
    "again, it fails after `image_pull_deadline_seconds`.",
    Reason.DELETED_EXTERNALLY: "Somebody else deleted its object in the cluster.",
})  # fmt: skip

ENVIRONMENT_MEANING: Mapping[str, tuple[str, str]] = MappingProxyType({
    "PORTAL_ALLOWED_HOSTS": (
        "the hosts of the three URLs",
        "Further host names that requests may name, separated by commas.",
    ),
    "PORTAL_BIND": ("`127.0.0.1:8000`", "Where pages and REST are served. Loopback only with the embedded cluster."),
    "PORTAL_DATABASE_URL": (
        "embedded PostgreSQL",
        "`postgresql://USER:PASSWORD@HOST:PORT/NAME?sslmode=…`. PostgreSQL is the only database.",
    ),
    "PORTAL_DATA_DIR": ("`.data` in the checkout", "Where everything embedded, its secrets and its logs are kept."),
    "PORTAL_INTERNAL_URL": (
        "`http://127.0.0.1:` and the port of `PORTAL_BIND`",
        "Where pods reach REST, to report checkpoints and progress.",
    ),
    "PORTAL_KUBECONFIG": ("devcluster", "Path of a kubeconfig file, or `in-cluster` for the pod's own account."),
    "PORTAL_LIVE_BIND": (
        "`127.0.0.1:8001`",
        "Where events, log streams and the gateway are served. Loopback only with the embedded cluster.",
    ),
    "PORTAL_LIVE_URL": (
        "`http://127.0.0.1:` and the port of `PORTAL_LIVE_BIND`",
        "Where clients reach the live process. Not the host name of `PORTAL_PUBLIC_URL`: cookies ignore ports.",
    ),
    "PORTAL_LOG_STORAGE": ("a folder in `PORTAL_DATA_DIR`", "Folder of the log store; all processes must see it."),
    "PORTAL_METRICS_BIND": (
        "none; `up` takes the ports from 8002 on, one a process",
        "Where each of the five processes answers `/metrics` and `/healthz`, without an account: keep it off public proxies.",
    ),
    "PORTAL_PROMETHEUS_URL": (
        "none; `up` with its own cluster brings one",
        "The Prometheus that the portal asks for metrics.",
    ),
    "PORTAL_PUBLIC_URL": (
        "`http://localhost:` and the port of `PORTAL_BIND`",
        "Where browsers reach the pages. With `https` the proxy that ends TLS must set `X-Forwarded-Proto` itself.",
    ),
    "PORTAL_REDIS_URL": (
        "embedded Valkey",
        "`redis://`, `rediss://` or `unix://`. Wake-ups and caches only: it may be wiped at any time.",
    ),
    "PORTAL_SECRET_KEY": (
        "made once by `up`",
        "At least 32 characters. Signs cookies, tickets and run tokens, so all processes must have the same.",
    ),
    "PORTAL_TRUSTED_PROXIES": (
        "none",
        "Addresses and networks (`10.0.0.0/8`) of the proxies in front, by commas, whose `X-Forwarded-For` says who the client is. Without it all clients of a proxy share its address.",
    ),
})  # fmt: skip

SETTING_MEANING: Mapping[str, str] = MappingProxyType({
    "minimum_run_seconds": "A run younger than this is not preempted, so that its start was not for nothing.",
    "grace_seconds": "Seconds between SIGTERM and SIGKILL of a pod that is stopped.",
    "fair_share_half_life_hours": "After how many hours past use counts half in the order of the queue.",
    "default_time_limit_seconds": "Time limit of a run that names none.",
    "spot_fallback_seconds": "How long a run or an endpoint that asked for spot first waits for it before it waits for on-demand.",
    "image_pull_deadline_seconds": "How long an image may fail to be pulled, or a container to start, before the workload fails.",
    "schedule_deadline_seconds": "How long a pod may wait for a node before its claim is given back, and the pause after.",
    "log_retention_days": "How long a stored log is kept, counted from when it was written.",
    "record_retention_days": "How long rows of pods, objects and nodes are kept that have gone from the cluster, at least 31."
    " Usage and ledger stay for ever; a pod's row stays until its bill is settled and its log has expired.",
    "estimate_retention_days": "How long it is kept when a workload was expected to start and how that came out, at least 31.",
    "git_image": "Image of the init containers that fetch `source.git`: it has git and a shell, and runs as any user.",
    "storage_image": "Image of the init container that fetches `model.uri`: its program takes two arguments, where from and"
    " where to, as KServe's storage initializer does.",
    "gang_scheduler": "Which scheduler places the pods of a gang together (`volcano`, `coscheduling`), where the cluster"
    " serves its PodGroup; empty: admission alone.",
    "optional_kinds": "Kinds of runs that are offered where the cluster serves them, besides `job`. `keda`: endpoints"
    " scale by KEDA where it is served; else by the cluster's autoscaler, on CPU alone. `podmonitor`: one for each endpoint that has metrics.",
    "scaler_prometheus_url": "Where KEDA, inside the cluster, asks Prometheus. Empty: where `PORTAL_PROMETHEUS_URL` says.",
    "dcgm_labels": "How the pods of DCGM's metrics are labelled in Prometheus: `exported` (`exported_pod`, as a scrape without"
    " `honorLabels` makes it) or `plain` (`pod`).",
})  # fmt: skip
