"""The sentences of docs/reference that the code's tables do not hold. A name without one stops `make docs`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from workloads.states import Phase

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
    "password_exchange": "Whether `POST tokens/exchange/` gives an API token for a user's name and password.",
    "dcgm_labels": "How the pods of DCGM's metrics are labelled in Prometheus: `exported` (`exported_pod`, as a scrape without"
    " `honorLabels` makes it) or `plain` (`pod`).",
})  # fmt: skip
