"""Django settings, all derived from `portal.settings.env`: there is no other place that reads the environment.

What the environment does not name is embedded: PostgreSQL, Valkey and the cluster on a laptop live in
`PORTAL_DATA_DIR`, started by `manage.py up` (see portal.runtime).
"""

from __future__ import annotations

import secrets
import sys
from typing import Any
from urllib.parse import urlsplit

from csp.constants import NONE, SELF

from portal.folders import Folders
from portal.settings import env, queues, stores, told
from portal.settings.http_limits import RANGES

BASE_DIR = env.BASE_DIR
ENVIRONMENT = env.load()
DATA_DIR = ENVIRONMENT.data_dir
FOLDERS = Folders(DATA_DIR)

# --- addresses

# The browser reaches web and live under different host names on a laptop, because cookies ignore ports.
PUBLIC_URL = ENVIRONMENT.public_url or f"http://localhost:{ENVIRONMENT.bind.port or 8000}"
LIVE_URL = ENVIRONMENT.live_url or f"http://127.0.0.1:{ENVIRONMENT.live_bind.port or 8001}"
INTERNAL_URL = ENVIRONMENT.internal_url or f"http://127.0.0.1:{ENVIRONMENT.bind.port or 8000}"
PROMETHEUS_URL = ENVIRONMENT.prometheus_url
PROMETHEUS_TOKEN = ENVIRONMENT.prometheus_token or ""
_HTTPS = PUBLIC_URL.startswith("https://")

ALLOWED_HOSTS = [
    *ENVIRONMENT.allowed_hosts,
    *dict.fromkeys(
        host
        for url in (PUBLIC_URL, LIVE_URL, INTERNAL_URL, "http://localhost", "http://127.0.0.1")
        if (host := urlsplit(url).hostname)
    ),
]

# What the page of settings says of the environment: values that nobody gave, as they are made up here.
ENVIRONMENT_TOLD = told.told(
    env.for_child(),
    {
        "PORTAL_BIND": ENVIRONMENT.bind,
        "PORTAL_DATA_DIR": DATA_DIR,
        "PORTAL_INTERNAL_URL": INTERNAL_URL,
        "PORTAL_LIVE_BIND": ENVIRONMENT.live_bind,
        "PORTAL_LIVE_URL": LIVE_URL,
        "PORTAL_PUBLIC_URL": PUBLIC_URL,
        **{env.http_variable(name): getattr(ENVIRONMENT.http, name) for name in RANGES},
    },
)

# --- the cluster

EMBEDDED_CLUSTER = ENVIRONMENT.kubeconfig is None
CLUSTER_KUBECONFIG = ENVIRONMENT.kubeconfig or str(FOLDERS.kubeconfig)
# Namespaces in which the portal itself runs: no team gets one of them, and no team's pod reaches more there than its port.
OWN_NAMESPACES = env.own_namespaces(INTERNAL_URL)

# --- security


def _secret_key() -> str:
    """The given key, the one that `up` keeps, or one for this process alone (commands such as `check`)."""
    if ENVIRONMENT.secret_key:
        return ENVIRONMENT.secret_key
    if FOLDERS.secret_key.is_file():
        return FOLDERS.secret_key.read_text(encoding="ascii").strip()
    return secrets.token_urlsafe(50)


SECRET_KEY = _secret_key()
DEBUG = False
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _HTTPS
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_NAME = "__Host-portal-session" if _HTTPS else "portal-session"
CSRF_COOKIE_NAME = "__Host-portal-csrf" if _HTTPS else "portal-csrf"
CSRF_FAILURE_VIEW = "foundation.http.problems.csrf_failure"
CSRF_TRUSTED_ORIGINS = [PUBLIC_URL]
SECURE_SSL_REDIRECT = _HTTPS
# The proxy that ends TLS must set this header itself, whatever the client sent (docs: deployment).
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if _HTTPS else None
# Proxies whose X-Forwarded-For is trusted (foundation.http.context).
TRUSTED_PROXIES = ENVIRONMENT.trusted_proxies
# Pods report over PORTAL_INTERNAL_URL, which stays inside the cluster.
SECURE_REDIRECT_EXEMPT = [r"^api/v1/training-runs/[^/]+/(checkpoints|progress)/$"]
SECURE_HSTS_SECONDS = 31_536_000 if _HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = _HTTPS
# Preloading is a promise for the whole domain, which the portal cannot make.
SILENCED_SYSTEM_CHECKS = ["security.W021"]
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "connect-src": [SELF, LIVE_URL],
        "frame-src": [SELF, LIVE_URL],
        "img-src": [SELF, "data:"],
        "object-src": [NONE],
        "base-uri": [NONE],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    }
}
DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * 1024 * 1024
AUTH_USER_MODEL = "teams.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "/sign-in/"
LOGIN_REDIRECT_URL = "/"

# --- applications

INSTALLED_APPS = [
    "demo",
    "portal",
    "jobs",
    "inference",
    "gateway",
    "notices",
    "telemetry",
    "console",
    "controller",
    "quotas",
    "costs",
    "budgets",
    "workloads",
    "teams",
    "foundation",
    # Before the admin site, whose templates it replaces. The plain configuration: the site is the portal's own.
    "unfold.apps.BasicAppConfig",
    "portal.admin_site.PortalAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "csp",
    # Both would rearrange the template loaders on their own; the order below is what they need together.
    "django_cotton.apps.SimpleAppConfig",
    "template_partials.apps.SimpleAppConfig",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
]
# GZipMiddleware never: it would hold back streamed answers and opens BREACH.
MIDDLEWARE = [
    "portal.probes.ProbesMiddleware",
    "foundation.http.middleware.RequestContextMiddleware",
    "foundation.http.middleware.MetricsMiddleware",
    "foundation.http.middleware.RateMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "foundation.http.middleware.HygieneMiddleware",
    "foundation.http.middleware.VaryMiddleware",
    "foundation.http.middleware.PersonalMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    # Outside of what answers 403, and of CSRF protection too.
    "teams.trail.refusals.RefusalsMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "pages.rates.PageRateMiddleware",
    "pages.expired.ExpiredSessionMiddleware",
    "pages.error_pages.ErrorPagesMiddleware",
]
ROOT_URLCONF = "portal.urls"
WSGI_APPLICATION = "portal.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

_LOADERS = [
    "django_cotton.cotton_loader.Loader",
    "django.template.loaders.filesystem.Loader",
    "django.template.loaders.app_directories.Loader",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "OPTIONS": {
            "loaders": [
                ("template_partials.loader.Loader", [("django.template.loaders.cached.Loader", _LOADERS)])
            ],
            "builtins": [
                "django_cotton.templatetags.cotton",
                "template_partials.templatetags.partials",
            ],
            "libraries": {"portal_ui": "console.pages.tags"},
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "pages.context.shell",
            ],
        },
    }
]

# --- the admin site (portal.admin_site)

UNFOLD = {
    "SITE_TITLE": "ML Platform Portal",
    "SITE_HEADER": "ML Platform Portal",
    "SIDEBAR": {"navigation": "portal.admin_site.menu"},
}

# --- language and time

LANGUAGE_CODE = "en"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"

# --- stores

DATABASES: dict[str, dict[str, Any]] = {"default": stores.database(ENVIRONMENT.database, FOLDERS)}
REDIS_URL = ENVIRONMENT.redis_url or stores.embedded_redis_url(FOLDERS)
CACHES: dict[str, dict[str, Any]] = {"default": stores.cache(REDIS_URL)}
SESSION_ENGINE = "django.contrib.sessions.backends.db"

STATIC_URL = "/static/"
# An image brings its collected files along; elsewhere `up` collects them into the data folder.
_IMAGE_STATIC = BASE_DIR / "staticfiles"
STATIC_ROOT = _IMAGE_STATIC if _IMAGE_STATIC.is_dir() else FOLDERS.static
STATICFILES_DIRS = [folder for folder in (BASE_DIR / "static",) if folder.is_dir()]
WHITENOISE_USE_FINDERS = not (STATIC_ROOT / "staticfiles.json").is_file()
WHITENOISE_AUTOREFRESH = False
LOG_STORAGE = ENVIRONMENT.log_storage or FOLDERS.log_store
STORAGES: dict[str, dict[str, Any]] = {
    "default": {"BACKEND": "django.core.files.storage.InMemoryStorage"},
    "staticfiles": {"BACKEND": "portal.static.FingerprintedStorage"},
    "logs": {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {
            "location": LOG_STORAGE,
            "base_url": None,
            "file_permissions_mode": 0o600,
            "directory_permissions_mode": 0o700,
        },
    },
}

# --- Celery: messages are wake-ups, the rows carry the work

CELERY_BROKER_URL = stores.broker_url(REDIS_URL)
# The sweep does what a wake-up would if the broker does not take it at once: its sender must not wait.
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 3600,
    "max_retries": 1,
    "interval_start": 0,
    "interval_step": 0.1,
    "interval_max": 0.1,
    "socket_connect_timeout": 2,
}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# A worker comes back by itself, however long the broker was away.
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_TASK_SERIALIZER = "json"
CELERY_RESULT_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
# No one who reaches the broker can end a worker or change what it does: there are no commands but the wake-ups.
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TIMEZONE = "UTC"
CELERY_TASK_ROUTES = queues.ROUTES
CELERY_TASK_DEFAULT_QUEUE = queues.DEFAULT
# Celery would open a connection to PostgreSQL for every task; foundation.tasks keeps the thread's own, as requests do.
CELERY_DB_REUSE_MAX = sys.maxsize
# The periodic jobs of all apps.
CELERY_BEAT_SCHEDULE: dict[str, dict[str, Any]] = {
    "worker-heartbeat": {
        "task": "portal.tasks.worker_heartbeat",
        "schedule": 30.0,
        "options": {"expires": 30},
    },
    # How often work of lost wake-ups is found; it is also how precisely the time of a later look is kept.
    "sweep-due-workloads": {
        "task": "controller.sweep_due_workloads",
        "schedule": 2.0,
        "options": {"expires": 2},
    },
    "estimate-starts": {"task": "controller.estimate_starts", "schedule": 30.0, "options": {"expires": 30}},
    "keep-fences": {"task": "controller.keep_fences", "schedule": 30.0, "options": {"expires": 30}},
    "look-at-budgets": {"task": "budgets.look_at_budgets", "schedule": 30.0, "options": {"expires": 30}},
    "return-requests": {"task": "quotas.return_requests", "schedule": 60.0, "options": {"expires": 60}},
    "settle-usage": {"task": "controller.settle_usage", "schedule": 30.0, "options": {"expires": 30}},
    # Each turn counts what the one before has claimed: no transaction may last from one to the next.
    "sweep-supply": {"task": "costs.sweep_supply", "schedule": 300.0, "options": {"expires": 300}},
    "credit-lost-work": {"task": "costs.credit_lost_work", "schedule": 30.0, "options": {"expires": 30}},
    "check-ledger": {"task": "costs.check_ledger", "schedule": 30.0, "options": {"expires": 30}},
    "check-cost-rollups": {
        "task": "costs.check_rollups",
        "schedule": 60.0,
        "options": {"expires": 60},
    },
    "advance-sweeps": {"task": "jobs.tasks.advance_sweeps", "schedule": 10.0, "options": {"expires": 10}},
    "look-at-gpus": {"task": "telemetry.look_at_gpus", "schedule": 60.0, "options": {"expires": 60}},
    "apply-idle-policies": {
        "task": "jobs.tasks.apply_idle_policies",
        "schedule": 60.0,
        "options": {"expires": 60},
    },
    "close-teams": {"task": "controller.close_teams", "schedule": 5.0, "options": {"expires": 5}},
    "collect-garbage": {"task": "controller.collect_garbage", "schedule": 60.0, "options": {"expires": 60}},
    "purge-expired-rows": {"task": "teams.tasks.purge_expired_rows", "schedule": 3600.0},
    "forget-old-scale-samples": {"task": "inference.tasks.forget_old_samples", "schedule": 3600.0},
    "forget-old-request-counts": {"task": "gateway.tasks.forget_old_request_counts", "schedule": 3600.0},
    "deliver-notices": {"task": "notices.tasks.deliver", "schedule": 5.0, "options": {"expires": 5}},
    "look-for-waits": {"task": "notices.tasks.look_for_waits", "schedule": 60.0, "options": {"expires": 60}},
    "tell-of-costs": {"task": "notices.tasks.tell_of_costs", "schedule": 300.0, "options": {"expires": 300}},
    "forget-old-notices": {"task": "notices.tasks.forget_old", "schedule": 3600.0},
}

# --- notices

# Private networks that webhooks may go to; public addresses need no word of the operator.
NOTICE_NETWORKS = ENVIRONMENT.notice_networks
_MAIL = ENVIRONMENT.mail_server
# Empty: there is no mail.
EMAIL_HOST = _MAIL.host if _MAIL else ""
EMAIL_PORT = _MAIL.port if _MAIL else 25
EMAIL_HOST_USER = _MAIL.user if _MAIL else ""
EMAIL_HOST_PASSWORD = _MAIL.password if _MAIL else ""
EMAIL_USE_TLS = bool(_MAIL and _MAIL.security == "starttls")
EMAIL_USE_SSL = bool(_MAIL and _MAIL.security == "tls")
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = SERVER_EMAIL = ENVIRONMENT.mail_from or f"portal@{urlsplit(PUBLIC_URL).hostname}"

# --- REST

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "teams.api.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["teams.api.scopes.ScopePermission"],
    "DEFAULT_THROTTLE_CLASSES": ["teams.api.throttles.RequestThrottle"],
    "DEFAULT_PARSER_CLASSES": ["foundation.http.parsers.StrictJSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PAGINATION_CLASS": "foundation.http.pages.CursorPage",
    "DEFAULT_SCHEMA_CLASS": "teams.api.schema.PortalSchema",
    "EXCEPTION_HANDLER": "foundation.http.problems.handle",
    "DEFAULT_FILTER_BACKENDS": ["foundation.http.filters.DeclaredFilters"],
    # `?format=` is a parameter of the logs, not a choice of DRF's renderers.
    "URL_FORMAT_OVERRIDE": None,
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
# Requests a minute by the name of their platform setting, instead of what the platform's settings say: tests have their own.
REST_RATES: dict[str, int] = {}
OPENAPI_REQUEST_EXAMPLES = BASE_DIR / "portal" / "openapi" / "request_examples.yaml"
OPENAPI_ANSWER_EXAMPLES = BASE_DIR / "portal" / "openapi" / "answer_examples.json"
OPENAPI_PROBLEM_CODES = BASE_DIR / "portal" / "openapi" / "problem_codes.json"
SPECTACULAR_SETTINGS = {
    "TITLE": "ML Platform Portal",
    "VERSION": "1.0.0",
    "DESCRIPTION": "Training runs and inference endpoints on a shared Kubernetes GPU cluster.",
    "SCHEMA_PATH_PREFIX": r"/api/v1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
    "COMPONENT_SPLIT_REQUEST": True,
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "foundation.http.schema.declare_problems",
        "foundation.http.examples.add_examples",
        "foundation.http.links.declare_links",
    ],
    "ENUM_ADD_EXPLICIT_BLANK_NULL_CHOICE": False,
    "GET_LIB_DOC_EXCLUDES": "teams.api.base.classes_without_api_docs",
    "ENUM_NAME_OVERRIDES": {
        "Verdict": ["admit", "wait", "never"],
        "CardVerdict": ["admit", "wait", "never", "ended"],
        "CapacityType": "workloads.models.CapacityType",
        "RequestedCapacity": ["on-demand", "spot", "spot-first"],
        "MembershipRole": "teams.models.Membership.Role",
        "TeamState": "teams.models.TeamState",
        "TokenScope": "teams.models.ApiToken.Scope",
        "PodSecurity": "foundation.pod_security.PodSecurity",
        "RunKind": "jobs.kinds.NAMES",
        "BulkAction": ["cancel", "label"],
        "RuntimeKind": ["ClusterTrainingRuntime", "TrainingRuntime"],
    },
}

# --- tests

TEST_CRASH_POINT = ENVIRONMENT.test_crash_point

# --- logs

_STREAM = "console" if sys.stderr.isatty() else "json"
LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"context": {"()": "foundation.logs.ContextFilter"}},
    "formatters": {
        "json": {"()": "foundation.logs.JSONFormatter"},
        "console": {"()": "foundation.logs.ConsoleFormatter"},
    },
    "handlers": {
        "stream": {
            "class": "logging.StreamHandler",
            "formatter": _STREAM,
            "filters": ["context"],
        }
    },
    "root": {"handlers": ["stream"], "level": "INFO"},
    "loggers": {
        "django.server": {"handlers": ["stream"], "level": "INFO", "propagate": False},
        "django": {"level": "INFO"},
        "uvicorn": {"level": "WARNING"},
        # A line for every wake-up that was sent, received and done would drown what happened.
        "celery": {"level": "WARNING"},
    },
}
