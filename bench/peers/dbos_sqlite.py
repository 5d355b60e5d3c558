"""One round of DBOS Python on SQLite: dbos_sqlite.py STEPS DIR

One workflow that calls one step STEPS times.
"""

import json
import os
import sys
import time

import sqlalchemy
from dbos import DBOS, SetWorkflowID

steps, folder = int(sys.argv[1]), sys.argv[2]
DBOS(
    config={
        "name": "bench",
        "system_database_url": "sqlite:///" + os.path.join(folder, "dbos.db"),
        "application_version": "1",
        "log_level": "ERROR",
    }
)


@DBOS.step()
def step(number):
    return f"{number:08d}" * 256


@DBOS.workflow()
def chain(count):
    begun = time.perf_counter()
    for number in range(count):
        step(number)
    return time.perf_counter() - begun


settings = {}


@sqlalchemy.event.listens_for(sqlalchemy.pool.Pool, "checkin")
def remember(connection, _record):
    if connection is not None and not settings:
        for name in ("journal_mode", "synchronous"):
            settings[name] = connection.execute(f"PRAGMA {name}").fetchone()[0]


DBOS.launch()
with SetWorkflowID("bench"):
    seconds = chain(steps)
print(
    json.dumps(
        {
            "ms_per_step": seconds * 1e3 / steps,
            "full": settings.get("synchronous", 0) >= 2,
            "settings": ", ".join(f"{k}={v}" for k, v in settings.items()),
        }
    ),
    flush=True,
)
DBOS.destroy()
