"""An agent that speaks the Agent Client Protocol, and misbehaves on demand."""

import json
import os
import subprocess
import sys
import time

MODE = sys.argv[1]
SESSION = "s-1"


def say(message, end="\n"):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + end)
    sys.stdout.flush()


def write(text):
    sys.stdout.write(text)
    sys.stdout.flush()


def hear():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def answer(question, result, **more):
    say({"id": question["id"], "result": result}, **more)


def refuse(question, code, message, **more):
    say({"id": question["id"], "error": {"code": code, "message": message, **more}})


def update(sort, session=SESSION, **fields):
    params = {"sessionId": session, "update": {"sessionUpdate": sort, **fields}}
    say({"method": "session/update", "params": params})


def text(words, kind="agent_message_chunk"):
    update(kind, content={"type": "text", "text": words})


def ask(id, method, **params):
    """Sends a request, and sends its response as a text chunk."""
    say({"id": id, "method": method, "params": {"sessionId": SESSION, **params}})
    reply = hear()
    assert reply["id"] == id, reply
    text(json.dumps(reply.get("result", reply.get("error")), sort_keys=True))


OPTIONS = [
    {"optionId": "for-good", "name": "Always", "kind": "allow_always"},
    {"optionId": "this-once", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


def forever():
    while True:
        time.sleep(1000)


def hello(question):
    if MODE == "silent":
        forever()
    if MODE == "die":
        sys.stderr.write("no luck today\x1b[2J\n")
        sys.exit(3)
    if MODE == "half":
        write('{"jsonrpc":"2.0","id":1,"result":{"proto')
        sys.exit(0)
    if MODE == "garbage":
        write('{"jsonrpc":"2.0","id":1,"result":{"a":"\\ud800"}}\n')
        forever()
    if MODE == "long":
        sys.stdout.write('{"jsonrpc":"2.0","id":1,"result":"')
        while True:
            sys.stdout.write("x" * 65536)
    if MODE == "flood":
        while True:
            write("still starting ...\n")
    if MODE == "strays":
        while True:
            say({"id": 99, "result": {}})
    if MODE == "wrong-id":
        say({"id": "1", "result": {"protocolVersion": 1}})
        sys.exit(0)
    if MODE == "noise":
        write("\ufeffWelcome!\r\n\n[1, 2]\n\x1b[31mred\n" + '{"level":"info"}\n')
        say({"id": 77, "result": {}})
    if MODE == "stderr":
        for _ in range(200):
            sys.stderr.write("complaint " * 20_000)
        sys.stderr.flush()
    version = 2 if MODE == "version" else 1
    capabilities = {"loadSession": MODE != "no-load"}
    info = {"name": "fake", "version": "1.2", "title": "Fake"}
    result = {"protocolVersion": version, "agentCapabilities": capabilities, "agentInfo": info}
    answer(question, {**result, "later": [1], "seen": question["params"]})
    if MODE == "twice":
        answer(question, {"protocolVersion": 7})


def begin(question):
    if MODE == "auth":
        return refuse(question, -32000, "Authentication required")
    if MODE == "nameless":
        return answer(question, {"sessionId": ""})
    answer(question, {"sessionId": SESSION, "modes": {"currentModeId": "default"}})
    update("available_commands_update", availableCommands=[])


def load(question):
    session = question["params"]["sessionId"]
    if session != SESSION:
        data = {"details": "No previous sessions found."}
        return refuse(question, -32603, "Internal error", data=data)
    if MODE == "notice":
        text("Config warning: something is not installed.")
        return answer(question, None)
    text("make a file", kind="user_message_chunk")
    text("I made it.")
    if MODE == "entries":
        update("usage_update", used=5, size=200, cost={"amount": 0.2, "currency": "USD"})
    update("tool_call", toolCallId="t-0", title="Write", kind="edit", status="completed")
    if MODE == "other":
        return answer(question, {"sessionId": "s-2"})
    answer(question, None)


def prompt(question):
    if MODE == "files":
        files()
    elif MODE == "cancel":
        text("I work.")
        notice = hear()
        text(json.dumps(notice["method"]))
        ask(5, "session/request_permission", toolCall={"toolCallId": "t", "kind": "edit"}, options=OPTIONS)
        return answer(question, {"stopReason": "cancelled"})
    elif MODE == "deaf":
        text("I never end.")
        forever()
    elif MODE == "dies":
        text("I am about to ...")
        os.kill(os.getpid(), 9)
    elif MODE == "greedy":
        number = 10
        while True:
            number += 1
            path = os.getcwd() + "/big"
            say({"id": number, "method": "fs/read_text_file", "params": {"sessionId": SESSION, "path": path}})
    elif MODE == "family":
        for _ in range(3):
            subprocess.Popen(["sleep", "1000"], start_new_session=True)
        text("I have children.")
        forever()
    elif MODE == "no-newline":
        text("The last")
        answer(question, {"stopReason": "end_turn"}, end="")
        sys.exit(0)
    elif MODE == "leaves":
        for number in range(300):
            text(str(number))
        answer(question, {"stopReason": "end_turn"})
        sys.exit(0)
    elif MODE == "no-reason":
        return answer(question, {})
    elif MODE == "big":
        text(str(len(question["params"]["prompt"][0]["text"])))
    elif MODE == "refuses":
        return refuse(question, -32602, "Session \x1b[2Jnot found")
    elif MODE == "entries":
        entries(question["params"]["prompt"][0]["text"])
    elif MODE == "endless":
        while True:
            text("x" * 65536)
    elif MODE.startswith("stops:"):
        return answer(question, {"stopReason": MODE[6:]})
    elif MODE.startswith("fails:"):
        return refuse(question, -32603, "Internal error", data={"details": MODE[6:]})
    elif MODE.startswith("system-error:"):
        update("session_info_update", _meta={"codex": {"threadStatus": {"type": "active"}}})
        text("I begin.")
        update("session_info_update", _meta={"codex": {"threadStatus": {"type": "systemError"}}})
        text(MODE[13:])
        return answer(question, {"stopReason": "end_turn"})
    elif MODE == "odd-stop":
        return answer(question, {"stopReason": "tired"})
    else:
        work()
    usage = {"inputTokens": 12, "outputTokens": 3, "cachedReadTokens": 4, "totalTokens": 19}
    answer(question, {"stopReason": "end_turn", "usage": usage})


def words(text, message, kind="agent_message_chunk"):
    update(kind, content={"type": "text", "text": text}, messageId=message)


def entries(asked):
    text(asked)
    words("A file ", "m-1", kind="agent_thought_chunk")
    words("is needed.", "m-1", kind="agent_thought_chunk")
    words("I write ", "m-1")
    words("it.", "m-1")
    update("tool_call", toolCallId="t-1", title="Preparing", kind="edit", status="pending", rawInput={}, name="Write")
    update("tool_call_update", toolCallId="t-1", rawInput={"pa": ""})
    update("tool_call_update", toolCallId="t-1", rawInput={"path": "a"})
    update("usage_update", used=9, size=0)
    update("tool_call_update", toolCallId="t-1", status="completed", rawOutput="written")
    update("tool_call_update", toolCallId="t-1", status="completed", rawOutput="again")
    lines = [{"type": "content", "content": {"type": "text", "text": line}} for line in ("it failed", "with 1")]
    update("tool_call", toolCallId="t-2", kind="execute", status="in_progress", rawInput={"command": "false"})
    update("tool_call_update", toolCallId="t-2", content=lines, status="failed")
    diff = [{"type": "diff", "path": "b"}]
    update("tool_call", toolCallId="t-3", kind="edit", title="Edit b", status="completed", content=diff)
    update("tool_call", toolCallId="t-4", kind="search", title="Never ended", status="pending")
    words("Two ", "m-2")
    words("of them.", "m-3")
    update("available_commands_update", availableCommands=[])
    update("plan", entries=[{"content": "count", "priority": "low", "status": "pending"}])
    update("tool_call_update", toolCallId="t-4")
    update("usage_update", used=10, size=200, cost={"amount": 0.25, "currency": "USD"})
    update("usage_update", used=10, size=200, cost={"amount": 0.5, "currency": "USD"})
    update("usage_update", used=10, size=200, cost={"amount": 9, "currency": "EUR"})
    update("of_tomorrow", x=1)
    update("agent_message_chunk", session="s-9", content={"type": "text", "text": "elsewhere"})
    words("All is ", "m-4")
    update("usage_update", used=10, size=200)
    words("done.", "m-4")


def work():
    text("A file is needed.", kind="agent_thought_chunk")
    text("I write it.")
    update("tool_call", toolCallId="t-1", title="Write a", kind="edit", status="pending", locations=[{"path": "a"}])
    # Without its kind: an earlier update had it.
    ask(0, "session/request_permission", toolCall={"toolCallId": "t-1"}, options=OPTIONS)
    call = {"toolCallId": "t-2", "title": "rm -rf", "kind": "execute"}
    ask("q", "session/request_permission", toolCall=call, options=OPTIONS)
    ask(1, "session/request_permission", toolCall={}, options=OPTIONS)
    ask(2, "terminal/create", command="sh")
    ask(3, "fs/read_text_file", path="/etc/passwd")
    update("tool_call_update", toolCallId="t-1", status="completed")
    update("plan", entries=[{"content": "think", "priority": "high", "status": "pending"}])
    update("usage_update", used=10, size=200, cost={"amount": 0.5, "currency": "USD"})
    update("current_mode_update", currentModeId="plan")
    update("agent_message_chunk", session="s-9", content={"type": "text", "text": "elsewhere"})
    say({"method": "_vendor/status", "params": {"ok": True}})


def files():
    here = os.getcwd()
    ask(1, "fs/read_text_file", path=here + "/a.txt")
    ask(2, "fs/read_text_file", path=here + "/a.txt", line=2, limit=1)
    ask(3, "fs/read_text_file", path="a.txt")
    ask(4, "fs/read_text_file", path="/etc/passwd")
    ask(5, "fs/read_text_file", path=here + "/link")
    ask(6, "fs/read_text_file", path=here + "/../x")
    ask(7, "fs/write_text_file", path=here + "/new/b.txt", content="written")
    ask(8, "fs/write_text_file", path="/tmp/segno-acp-outside", content="no")
    ask(9, "fs/write_text_file", path=here + "/c.txt")


WAYS = {"initialize": hello, "session/new": begin, "session/load": load, "session/prompt": prompt}
while True:
    question = hear()
    WAYS.get(question["method"], lambda _: None)(question)
