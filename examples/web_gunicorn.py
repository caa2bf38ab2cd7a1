"""gunicorn's configuration for web_application.py: four prefork workers that share three logs.

The directory of the logs is LOGS in the environment, or `logs`.
"""

import os

logs = os.environ.get("LOGS", "logs")
os.makedirs(logs, exist_ok=True)

bind = os.environ.get("BIND", "127.0.0.1:8000")
workers = 4

_HANDLER = "binlog.logging.Handler"
_SHOP = {"service.name": "shop"}

logconfig_dict = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {
        "access": {"class": _HANDLER, "path": f"{logs}/access", "static": _SHOP, "cutover_bytes": "100M"},
        "application": {"class": _HANDLER, "path": f"{logs}/application", "static": _SHOP, "cutover_bytes": "100M"},
        # An action that cannot be recorded must fail: wait for the disk, and raise if it does not answer.
        "audit": {
            "class": _HANDLER,
            "path": f"{logs}/audit",
            "static": _SHOP,
            "modes": {"NOTSET": "sync"},
            "full": "raise",
            "wait": 5,
        },
    },
    "root": {"level": "INFO", "handlers": ["application"]},
    "loggers": {
        "gunicorn.access": {"level": "INFO", "handlers": ["access"], "propagate": False},
        "gunicorn.error": {"level": "INFO", "handlers": ["application"], "propagate": False},
        "audit": {"level": "INFO", "handlers": ["audit"], "propagate": False},
    },
}
