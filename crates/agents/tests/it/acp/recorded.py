"""Replays a recording of a real agent: `<-` marks what the agent sent, and `->` what it received."""

import json
import sys

for line in open(sys.argv[1]):
    way, message = line[:2], json.loads(line[3:])
    if way == "<-":
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()
        continue
    heard = sys.stdin.readline()
    if not heard:
        sys.exit(0)
    heard = json.loads(heard)
    assert [heard.get("method"), heard["id"]] == [message.get("method"), message["id"]], heard
