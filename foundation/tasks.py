"""The one way to declare a background task.

A Celery message is only a wake-up: it carries ids, the rows carry the work. So every task acknowledges
late, is run again when its worker dies and stores no result.

Tasks run in threads, which nothing can interrupt, so Celery's time limits would be words. What a task waits for has
limits instead: every statement (portal.settings.stores), every call to the cluster (cluster.transport) and all
calls of one reconcile together (controller.reconcile.reconciler).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any
from uuid import UUID

from celery import Task, shared_task  # noqa: TID251 - this module is what the ban points to
from celery.exceptions import Ignore
from django.db import close_old_connections
from typing_extensions import override

from foundation import database, logs, outages

_WITHOUT_EFFECT = frozenset({"soft_time_limit", "time_limit"})
_REQUEST_ID_HEADER = "portal_request_id"
_SCALARS = (str, int, type(None))


class PortalTask(Task[..., Any]):
    """Binds the log context, refuses arguments that are no ids, hands the request id on; it reports a database that is
    away in one line for all tasks together.
    """

    abstract = True

    @override
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        ids = {name: value for name, value in kwargs.items() if name.endswith("_id")}
        request_id = (self.request.headers or {}).get(_REQUEST_ID_HEADER)
        fields = {"request_id": request_id, **ids, "task": self.name, "task_id": self.request.id}
        # Closes a connection that broke or is old, and has it looked at before its next use.
        close_old_connections()
        with logs.bind(**fields):
            try:
                result = super().__call__(*args, **kwargs)
            except Exception as error:
                if database.is_missed(error):
                    # Nothing is lost: what it was to do stands in the rows, and the sweep finds it.
                    raise Ignore from None
                raise
        outages.database.answered()
        return result

    @override
    def apply_async(self, args: Any = None, kwargs: Any = None, *rest: Any, **options: Any) -> Any:
        """Send the wake-up. Raises TypeError for positional arguments and for values that are no ids."""
        if args:
            raise TypeError(f"{self.name} takes keyword arguments only")
        sent = {name: _as_id(self.name, name, value) for name, value in (kwargs or {}).items()}
        request_id = logs.bound().get("request_id")
        if request_id:
            options["headers"] = {**(options.get("headers") or {}), _REQUEST_ID_HEADER: request_id}
        return super().apply_async(None, sent, *rest, **options)


def task(**options: Any) -> Callable[[Callable[..., Any]], PortalTask]:
    """Decorate a module-level function whose parameters are keyword-only ids and which ends in `**_future`.

    `**_future` lets a message from a newer release reach an older worker. Options are Celery's own
    (`bind=True`, `max_retries=`, ...) and win over the defaults; queues are the settings' matter. Raises TypeError
    at import for a function of another shape, and for a time limit.
    """
    if _WITHOUT_EFFECT & options.keys():
        raise TypeError("a time limit does nothing in a thread: limit what the task waits for")
    settings: dict[str, Any] = {
        "acks_late": True,
        "reject_on_worker_lost": True,
        "ignore_result": True,
        "base": PortalTask,
        **options,
    }

    def decorate(function: Callable[..., Any]) -> PortalTask:
        _check_shape(function, bound=bool(options.get("bind")))
        declared: PortalTask = shared_task(**settings)(function)
        return declared

    return decorate


def _check_shape(function: Callable[..., Any], *, bound: bool) -> None:
    parameters = list(inspect.signature(function).parameters.values())[1 if bound else 0 :]
    if not parameters or parameters[-1].kind is not inspect.Parameter.VAR_KEYWORD:
        raise TypeError(f"task {function.__qualname__} must end in **_future")
    if any(parameter.kind is not inspect.Parameter.KEYWORD_ONLY for parameter in parameters[:-1]):
        raise TypeError(f"task {function.__qualname__} takes keyword-only ids")


def _as_id(task_name: str, name: str, value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, (list, tuple)) and all(isinstance(item, (*_SCALARS, UUID)) for item in value):
        return [_as_id(task_name, name, item) for item in value]
    if isinstance(value, _SCALARS):
        return value
    raise TypeError(f"{task_name} was given {name} of type {type(value).__name__}: pass an id")
