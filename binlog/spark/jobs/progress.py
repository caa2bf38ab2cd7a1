"""Run Spark jobs and report their progress."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

_Result = TypeVar("_Result")

_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a job.  tasks_done, tasks: of the stages planned so far.  records: read, if that is known."""

    tasks_done: int
    tasks: int
    records: int | None = None


Report = Callable[[Progress], None]
"""A function that receives the progress a few times per second, in the waiting thread."""


def run_with_progress(spark: Any, action: Callable[[], _Result], report: Report | None) -> _Result:
    """Call an action that runs Spark jobs, and report their progress until it returns.

    Ctrl-C, or any other exception in the waiting thread, cancels the jobs.
    """
    if not hasattr(spark, "sparkContext"):
        return action()  # Spark Connect does not report tasks
    context, group = spark.sparkContext, f"binlog-{uuid.uuid4().hex}"
    ended: list[_Result | BaseException] = []

    def run() -> None:
        try:
            context.setJobGroup(group, "binlog")
            # In a new thread Java has no active session, in which a write looks up its format.  This sets one.
            spark.createDataFrame([], "none INT")
            ended.append(action())
        except BaseException as error:  # noqa: BLE001 - it is raised again, in the thread that waits
            ended.append(error)

    thread = threading.Thread(target=run, name="binlog-job", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(_POLL_SECONDS)
            if report is not None:
                report(_progress(context.statusTracker(), group))
    except BaseException:
        context.cancelJobGroup(group)
        thread.join()
        raise
    [result] = ended
    if isinstance(result, BaseException):
        raise result
    return result


def _progress(tracker: Any, group: str) -> Progress:
    done = total = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in [] if info is None else info.stageIds:
            found = tracker.getStageInfo(stage)
            if found is not None:
                done, total = done + found.numCompletedTasks, total + found.numTasks
    return Progress(done, total)
