"""Running a job of Spark's, and telling how far it is."""

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
    """How far a job is.  tasks_done, tasks: of what Spark has planned so far.  records: read, where that is known."""

    tasks_done: int
    tasks: int
    records: int | None = None


Report = Callable[[Progress], None]
"""What a job tells its progress to, some times a second, in the thread that waits for it."""


def run_with_progress(spark: Any, action: Callable[[], _Result], report: Report | None) -> _Result:
    """Call an action that runs jobs of Spark's, and report how far they are until it ends.

    Ctrl-C, and whatever else is raised here meanwhile, cancels the jobs.
    """
    if not hasattr(spark, "sparkContext"):
        return action()  # Spark Connect tells nothing of a job's tasks
    context, group = spark.sparkContext, f"binlog-{uuid.uuid4().hex}"
    ended: list[_Result | BaseException] = []

    def run() -> None:
        try:
            context.setJobGroup(group, "binlog")
            # A thread of Java's has an active session of its own, in which a write looks for its format.  This sets it.
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
