"""One round of strands-agents' FileSessionManager: strands_files.py STEPS DIR

Each step gives the agent one message (the last one only, not a growing list)
and hands it to the session manager the way the agent's own hooks do: append
the message, then sync. No model is called.
"""

import json
import sys
import time

from strands import Agent
from strands.models.model import Model
from strands.session.file_session_manager import FileSessionManager

steps, folder = int(sys.argv[1]), sys.argv[2]


class NoModel(Model):
    def update_config(self, **_):
        pass

    def get_config(self):
        return {}

    def structured_output(self, *_args, **_kwargs):
        raise NotImplementedError

    def stream(self, *_args, **_kwargs):
        raise NotImplementedError


manager = FileSessionManager(session_id="bench", storage_dir=folder)
agent = Agent(
    model=NoModel(), agent_id="bench", session_manager=manager, callback_handler=None
)

begun = time.perf_counter()
for number in range(steps):
    text = f"{number:08d}" * 256
    message = {"role": "assistant", "content": [{"text": text}]}
    agent.messages[:] = [message]
    manager.append_message(message, agent)
    manager.sync_agent(agent)
seconds = time.perf_counter() - begun

kept = manager.list_messages("bench", "bench")
assert len(kept) == steps, len(kept)
print(json.dumps({"ms_per_step": seconds * 1e3 / steps}))
