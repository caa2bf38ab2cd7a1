"""A Celery application with a task that logs: its messages are files.  Its folder is in FOLDER."""

from __future__ import annotations

import logging
import logging.config
import os
from pathlib import Path

import celery

FOLDER = Path(os.environ["FOLDER"])
for _name in ("in", "control"):
    (FOLDER / _name).mkdir(exist_ok=True)

logging.config.dictConfig(
    {
        "version": 1,
        "disable_existing_loggers": False,
        "handlers": {"app": {"class": "binlog.logging.Handler", "path": str(FOLDER / "log"), "wait": 60}},
        "loggers": {"shop": {"handlers": ["app"], "level": "INFO", "propagate": False}},
    }
)

application = celery.Celery("shop", broker="filesystem://")
application.conf.update(
    broker_transport_options={
        "data_folder_in": str(FOLDER / "in"),
        "data_folder_out": str(FOLDER / "in"),
        "control_folder": str(FOLDER / "control"),
    },
    worker_hijack_root_logger=False,
    task_ignore_result=True,
    worker_max_tasks_per_child=20,
)


@application.task
def work(number: int) -> None:
    """Log one number in each mode."""
    for level in (logging.INFO, logging.WARNING, logging.CRITICAL):
        logging.getLogger("shop").log(level, "%d %d", number, level)
