"""One round of LangGraph with its SQLite checkpointer.

langgraph_sqlite.py STEPS DIR DURABILITY [LOG]

One node that runs STEPS times; the state holds the step number and the last
output (a last value, not a growing list). With LOG, every start of a step
appends a line to that file, and a thread that is already in DIR is continued.
"""

import json
import os
import sqlite3
import sys
import time
from typing import TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

steps, folder, durability = int(sys.argv[1]), sys.argv[2], sys.argv[3]
log = None
if len(sys.argv) > 4:
    log = os.open(sys.argv[4], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)


class State(TypedDict):
    step: int
    output: str


def step(state):
    number = state["step"]
    if log is not None:
        os.write(log, f"{number} {time.time_ns()}\n".encode())
    return {"step": number + 1, "output": f"{number:08d}" * 256}


connection = sqlite3.connect(
    os.path.join(folder, "checkpoints.db"), check_same_thread=False
)
saver = SqliteSaver(connection)
saver.setup()

builder = StateGraph(State)
builder.add_node("step", step)
builder.add_edge(START, "step")
builder.add_conditional_edges(
    "step", lambda state: "step" if state["step"] < steps else END
)
graph = builder.compile(checkpointer=saver)
config = {"configurable": {"thread_id": "bench"}, "recursion_limit": steps + 10}
# A checkpoint may hold nothing but the input: then there is nothing to lose,
# and `None` still means "go on from it".
known = saver.get_tuple(config) is not None
first = None if known else {"step": 0, "output": ""}

begun = time.perf_counter()
last = graph.invoke(first, config, durability=durability)
seconds = time.perf_counter() - begun

assert last["step"] == steps, last["step"]
synchronous = connection.execute("PRAGMA synchronous").fetchone()[0]
journal = connection.execute("PRAGMA journal_mode").fetchone()[0]
print(
    json.dumps(
        {
            "ms_per_step": seconds * 1e3 / steps,
            # 2 is FULL: every commit is synced before it returns.
            "full": synchronous >= 2,
            "settings": f"journal_mode={journal}, synchronous={synchronous}",
        }
    )
)
