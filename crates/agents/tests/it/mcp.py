"""An MCP server that misbehaves on demand: over stdin and stdout, or (`http`) over HTTP."""

import http.server
import json
import os
import subprocess
import sys
import uuid

MODE = sys.argv[1]


def tool(name, **more):
    return {"name": name, "inputSchema": {"type": "object"}, **more}


PAGES = {
    None: ([tool("one", annotations={"readOnlyHint": True}), tool("twice", description="first")], "p2"),
    "p2": (
        [
            tool("twice", description="second"),
            tool("odd.name/ü"),
            tool("repeat", annotations={"idempotentHint": True}),
        ],
        "p3",
    ),
    "p3": (
        [
            {
                "name": "wordy",
                "description": "\x1b[31m" + "x" * 9000,
                "inputSchema": {
                    "properties": {
                        "description": {"type": "string", "description": "a\x07b", "pattern": "\x07"}
                    }
                },
            }
        ],
        None,
    ),
}


def listing(cursor):
    if MODE == "pages":
        tools, cursor = PAGES[cursor]
    elif MODE == "endless":
        tools, cursor = [], "again"
    elif MODE == "many":
        n = int(cursor or 0)
        tools, cursor = [tool(f"t{n}-{i}") for i in range(100)], str(n + 1)
    else:
        names = "echo crash silent garbage huge endless_line where ask broken fail no_text forget hang_up"
        tools, cursor = [tool(name) for name in names.split()], None
    return {"tools": tools, **({"nextCursor": cursor} if cursor else {})}


def hello(params):
    version = "1999-01-01" if MODE == "version" else params["protocolVersion"]
    capabilities = {} if MODE == "no_tools" else {"tools": {}}
    return {
        "protocolVersion": version,
        "capabilities": capabilities,
        "serverInfo": {"name": "odd", "version": "1"},
    }


def text(words, **more):
    return {"content": [{"type": "text", "text": words}], **more}


# Over stdin and stdout.


def write(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def read():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def ask():
    """Sends every request that a server can send, and returns the responses."""
    answers = []
    requests = [
        ("roots/list", {}),
        (
            "sampling/createMessage",
            {"messages": [{"role": "user", "content": {"type": "text", "text": "x"}}], "maxTokens": 1},
        ),
        ("elicitation/create", {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}),
        ("ping", {}),
        ("odd/method", {}),
    ]
    for number, (method, params) in enumerate(requests):
        write({"jsonrpc": "2.0", "id": f"s{number}", "method": method, "params": params})
        answer = read()
        answers.append(answer.get("result", answer.get("error")))
    return answers


def call(name, arguments):
    if name == "echo":
        return text(json.dumps(arguments))
    if name == "crash":
        print("out of cheese", file=sys.stderr, flush=True)
        os._exit(3)
    if name == "garbage":
        sys.stdout.write("Loading ...\n{\"half\": \n\n\x00\xff\n")
        return text("after garbage")
    if name == "huge":
        return text("x" * (3 << 20))
    if name == "endless_line":
        sys.stdout.write("x" * (17 << 20))
        return text("")
    if name == "where":
        subprocess.Popen(["sleep", "1000"], start_new_session=True)
        return text(json.dumps([os.getcwd(), os.environ.get("ADDED"), os.environ.get("HOME")]))
    if name == "ask":
        return text(json.dumps(ask()))
    if name == "fail":
        return text("no such luck", isError=True)
    if name == "no_text":
        return {"content": [], "structuredContent": {"n": 1}}
    return None


def touch(name):
    open(name, "w").close()


def serve():
    while True:
        message = read()
        method, params, id = message.get("method"), message.get("params") or {}, message.get("id")
        answer = {"jsonrpc": "2.0", "id": id}
        if method == "initialize":
            write({**answer, "result": hello(params)})
        elif method == "tools/list":
            write({**answer, "result": listing(params.get("cursor"))})
        elif method == "notifications/cancelled":
            touch("cancelled")
        elif method == "tools/call" and params["name"] == "silent":
            touch("silent")
        elif method == "tools/call" and params["name"] == "broken":
            write({**answer, "result": "not an object"})
        elif method == "tools/call":
            result = call(params["name"], params.get("arguments"))
            error = {"code": -32602, "message": "there is no such \x1b[1mtool"}
            write({**answer, "result": result} if result else {**answer, "error": error})


# Over HTTP: responses are JSON, except those of `hang_up`, `silent` and `huge`.

SESSIONS = set()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", kind="application/json", **headers):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def do_DELETE(self):
        SESSIONS.discard(self.headers["Mcp-Session-Id"])
        touch("left")
        self.answer(200)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["Authorization"] != "Bearer tok":
            return self.answer(401, b'{"error": {"message": "who are you?"}}')
        method, params, id = message.get("method"), message.get("params") or {}, message.get("id")
        reply = lambda result: json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode()
        if method == "initialize":
            session = str(uuid.uuid4())
            SESSIONS.add(session)
            return self.answer(200, reply(hello(params)), Mcp_Session_Id=session)
        if self.headers["Mcp-Session-Id"] not in SESSIONS:
            return self.answer(404, b'{"error": {"message": "session not found"}}')
        if self.headers["Mcp-Protocol-Version"] != "2025-11-25":
            return self.answer(400, b'{"error": {"message": "which version?"}}')
        if id is None:
            if method == "notifications/cancelled":
                touch("cancelled")
            return self.answer(202)
        if method == "tools/list":
            return self.answer(200, reply(listing(params.get("cursor"))))
        if params["name"] == "forget":
            SESSIONS.clear()
        if params["name"] == "huge":
            event = b"event: message\r\ndata: " + reply(text("x" * (12 << 20))) + b"\r\n\r\n"
            return self.answer(200, event, "text/event-stream")
        if params["name"] in ("hang_up", "silent"):
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(b": hello\n\n")
            self.wfile.flush()
            if params["name"] == "silent":
                touch("silent")
                self.rfile.read()
            return None
        return self.answer(200, reply(call(params["name"], params.get("arguments")) or text("done")))


if MODE == "http":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()
elif MODE == "deaf":
    print("downloading the internet", file=sys.stderr, flush=True)
    touch("deaf")
    sys.stdin.read()
elif MODE == "noise":
    print("Usage: odd [options]", flush=True)
    print("missing option", file=sys.stderr, flush=True)
    sys.exit(2)
elif MODE == "chatter":
    print("Server is ready!", flush=True)
    touch("deaf")
    sys.stdin.read()
else:
    serve()
