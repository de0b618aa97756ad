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
    "PORTAL_HTTP_BODY_BYTES": (
        "4194304 (4 MiB)",
        "Of web: the largest body that is taken; 413 beyond it. Each view has a limit of its own, of 2 MiB at most. The gateway takes 32 MiB.",
    ),
    "PORTAL_HTTP_BODY_SECONDS": (
        "30",
        "Of web: how long the body of a request may take to arrive; 408 after it. At the gateway the endpoint's own limit of time holds.",
    ),
    "PORTAL_HTTP_CONNECTIONS": (
        "1000",
        "Of web and of live: connections open at the same time. One more, and the one that has owed a request for longest is given up; where none does, the new one is answered 503.",
    ),
    "PORTAL_HTTP_HEADER_BYTES": ("32768 (32 KiB)", "Of web and of live: the largest headers of a request; 431 beyond it."),
    "PORTAL_HTTP_HEADER_SECONDS": (
        "10",
        "Of web and of live: how long the headers of a request may take to arrive; 408 after it.",
    ),
    "PORTAL_HTTP_IDLE_SECONDS": (
        "75",
        "Of web and of live: how long a connection may wait for its next request. More than the proxy in front keeps its own.",
    ),
    "PORTAL_HTTP_READER_SECONDS": (
        "60",
        "Of web and of live: within this time a client takes 48 KiB of what waits for it, or is cut off.",
    ),
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
    "PORTAL_MAIL_FROM": ("`portal@` and the host of `PORTAL_PUBLIC_URL`", "The sender of the portal's mail."),
    "PORTAL_MAIL_URL": (
        "none: there is no mail",
        "The mail server: `smtp://HOST:PORT`, or `smtp+starttls://` or `smtps://USER:PASSWORD@HOST:PORT`. A password goes over TLS alone.",
    ),
    "PORTAL_METRICS_BIND": (
        "none; `up` takes Unix sockets in its data folder, one a process",
        "Where each of the five processes answers `/metrics` and `/healthz`, web and live `/readyz` too, without an account: keep it off public proxies.",
    ),
    "PORTAL_NOTICE_NETWORKS": (
        "none",
        "Private networks (`10.20.0.0/16`), by commas, that webhooks of people may go to, also over http. Never one in which the cluster, its pods or the stores are.",
    ),
    "PORTAL_PROMETHEUS_TOKEN": (
        "none; `up` with its own cluster has one",
        "The bearer token that this Prometheus asks for, if it does: of a proxy in front of it, say.",
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
        "At least 32 characters. Signs cookies and run tokens, so all processes must have the same.",
    ),
    "PORTAL_TRUSTED_PROXIES": (
        "none",
        "Addresses and networks (`192.0.2.0/28`) of the proxies in front, by commas and without any that pods have, whose `X-Forwarded-For` says who the client is. Without it all clients of a proxy share its address.",
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
    "lost_work_credit_seconds": "The most work since its last checkpoint that a team gets its money back for, of an attempt that"
    " was preempted, whose quota was cut or whose node was lost; 0 for none.",
    "git_image": "Image of the init containers that fetch `source.git`: it has git and a shell, and runs as any user.",
    "storage_image": "Image of the init container that fetches `model.uri`: its program takes two arguments, where from and"
    " where to, as KServe's storage initializer does.",
    "gang_scheduler": "Which scheduler places the pods of a gang together (`volcano`, `coscheduling`), where the cluster"
    " serves its PodGroup; empty: admission alone.",
    "optional_kinds": "Kinds of runs that are offered where the cluster serves them, besides `job`. `keda`: endpoints"
    " scale by KEDA where it is served; else by the cluster's autoscaler, on CPU alone. `podmonitor`: one for each endpoint that has metrics.",
    "scaler_prometheus_url": "Where KEDA, inside the cluster, asks Prometheus. Empty: where `PORTAL_PROMETHEUS_URL` says.",
    "image_prefixes": "Registries or beginnings of image names that requests may use, such as `ghcr.io/acme`, of teams without a"
    " list of their own. Empty: any image.",
    "pod_security": "Which profile of Pod Security the namespaces of teams enforce that have none of their own: `baseline`,"
    " `restricted`, or `automatic`: restricted, or baseline while a kind is offered whose pods restricted refuses.",
    "reads_per_minute": "Requests to REST that read (GET), of one user in a minute; one token has half. Refused with 429 and Retry-After.",
    "writes_per_minute": "Requests to REST that change or submit, of one user in a minute; one token has half. One more for each 16 KiB of a body.",
    "expensive_per_minute": "Imports, advice, exports and tries of a scaler's query, of one user in a minute, beside the two above.",
    "anonymous_per_minute": "Requests to REST without a credential that holds, of one address (IPv6: of a /64) in a minute.",
    "pages_per_minute": "Pages, their parts and forms, of one user in a minute, or of one address (IPv6: of a /64) of who is not signed in.",
    "password_exchange": "Whether `POST tokens/exchange/` gives an API token for a user's name and password.",
    "ceiling_cpus": "How many CPU cores a team may hold in all pools and without GPUs, unless it has a ceiling of its own; empty for no ceiling.",
    "ceiling_memory_gib": "How many GiB of memory a team may hold, unless it has a ceiling of its own; empty for no ceiling.",
    "ceiling_ephemeral_storage_gib": "How many GiB of ephemeral storage a team may hold, unless it has a ceiling of its own; empty for no ceiling.",
    "ceiling_pods": "How many pods a team may hold, unless it has a ceiling of its own; empty for no ceiling.",
    "ceiling_volumes": "How many volumes a team may have, unless it has a ceiling of its own; empty for no ceiling.",
    "ceiling_volume_storage_gib": "How many GiB a team's volumes may have together, unless it has a ceiling of its own; empty for no ceiling.",
    "dcgm_job": "Which job of Prometheus scrapes dcgm-exporter, such as `dcgm-exporter`; several joined by `|`. Series of another job are not"
    " believed, as any pod that is scraped may publish series of that name. Empty: of any job.",
    "open_sweeps": "How many sweeps of a team may be open at once: some member of each has not ended. Empty for no limit.",
    "open_workloads": "How many runs and endpoints of a team may not have ended, those that wait among them. Empty for no limit.",
    "team_log_gib": "How many GiB of logs are kept of a team; beyond it the oldest are deleted first, before their retention ends. Empty for no limit.",
    "dcgm_labels": "How the pods of DCGM's metrics are labelled in Prometheus: `exported` (`exported_pod`, as a scrape without"
    " `honorLabels` makes it) or `plain` (`pod`).",
})  # fmt: skip
