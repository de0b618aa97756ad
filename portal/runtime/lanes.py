"""One Celery worker in which each queue has threads of its own.

Celery knows one pool and one limit on unfinished messages for all queues of a worker, so whatever is slow in one of
them holds up all others; a worker for each queue would be a process for each. Here every queue is read through a
channel of its own, and its tasks run in an executor of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from celery.bootsteps import StartStopStep
from celery.concurrency.base import apply_target
from celery.concurrency.thread import ApplyResult, TaskPool  # type: ignore[attr-defined]
from kombu.common import ignore_errors
from typing_extensions import override

from portal.settings import queues

MAIN = queues.RECONCILES
"""The queue that Celery reads by itself; `--concurrency` is its number of threads."""
OTHERS = {name: threads for name, threads in queues.THREADS.items() if name != MAIN}


class Lanes(TaskPool):
    """Hands each task to the threads of the queue that it came from."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lanes = {
            name: ThreadPoolExecutor(max_workers=threads, thread_name_prefix=name)
            for name, threads in OTHERS.items()
        }

    @override
    def on_stop(self) -> None:
        for lane in self.lanes.values():
            lane.shutdown(wait=False, cancel_futures=True)
        super().on_stop()
        for lane in self.lanes.values():
            lane.shutdown()

    @override
    def on_apply(
        self,
        target: Callable[..., Any],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        callback: Callable[..., Any] | None = None,
        accept_callback: Callable[..., Any] | None = None,
        **_: Any,
    ) -> ApplyResult:
        main: ThreadPoolExecutor = self.executor  # type: ignore[attr-defined]
        lane = self.lanes.get(_queue_of(args or ()), main)
        return ApplyResult(lane.submit(apply_target, target, args, kwargs, callback, accept_callback))


def _queue_of(args: tuple[Any, ...]) -> str:
    """The queue in a task's arguments for the pool: its name, its id, its request, …"""
    request = args[2] if len(args) > 2 else {}
    return str((request.get("delivery_info") or {}).get("routing_key") or "")


class ReadOthers(StartStopStep):
    """Reads the other queues, each through a channel that takes as many messages as the queue has threads."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        self.consumers: list[Any] = []
        super().__init__(parent, **kwargs)

    @override
    def start(self, parent: Any) -> None:
        """Also with each new connection, when the broker was away: the channels of the one before went with it."""
        self.consumers = []
        handle = parent.create_task_handler()
        for name, threads in OTHERS.items():
            consumer = parent.app.amqp.TaskConsumer(
                parent.connection.channel(),
                queues=[parent.app.amqp.queues[name]],
                on_decode_error=parent.on_decode_error,
            )
            consumer.on_message = handle
            consumer.qos(prefetch_count=threads)
            consumer.consume()
            self.consumers.append(consumer)

    @override
    def stop(self, parent: Any) -> None:
        """Take no more. The channels stay open for what is in hand: one that closes gives that back to its queue, and
        another worker would begin it beside this one.
        """
        for consumer in self.consumers:
            ignore_errors(parent, consumer.cancel)

    def shutdown(self, parent: Any) -> None:
        """Everything in hand is done."""
        self.stop(parent)
        for consumer in self.consumers:
            ignore_errors(parent, consumer.channel.close)
        self.consumers = []
