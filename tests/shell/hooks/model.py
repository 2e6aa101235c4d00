#!/usr/bin/env python3
"""A model that says what a script says, for agents that are real.

    model.py CALLS.json REQUESTS.jsonl      CALLS: [{"name": TOOL, "input": {…} or "a text"}, null, …]

Prints its port on 127.0.0.1 and serves until its standard input ends. The first answer of a conversation is the first call,
the next answer the next one, and the last one, as each null, ends the turn: what has been answered shows in the request, so nothing is
remembered between requests. Speaks the Messages API (Claude Code, opencode), the Responses API (Codex) and the Gemini API (Gemini
CLI), all as streams. Each request is appended to REQUESTS as {"path": …, "asked": …}.
"""

import http.server
import json
import sys
import threading

CALLS = json.load(open(sys.argv[1], encoding="utf-8"))
REQUESTS = open(sys.argv[2], "a", encoding="utf-8")


def messages(asked):
    """Yields the events of an answer of the Messages API."""
    parts = [part for message in asked["messages"] if isinstance(message["content"], list) for part in message["content"]]
    done = sum(part.get("type") == "tool_result" or part.get("text") == "done" for part in parts)
    # What an agent asks without tools is its own affair: a title, a summary.
    calls = [call for call in CALLS[done : done + 1] if call] if asked.get("tools") else []
    message = {"id": f"msg_{done}", "type": "message", "role": "assistant", "model": asked["model"], "content": []}
    ends = {"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
    yield {"type": "message_start", "message": message | ends}
    if calls:
        block = {"type": "tool_use", "id": f"toolu_{done}", "name": calls[0]["name"], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(calls[0]["input"])}
    else:
        block = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": "done"}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    end = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": 1}}
    yield {"type": "message_stop"}


def responses(asked):
    """Yields the events of an answer of the Responses API."""
    ended = lambda item: any(part.get("text") == "done" for part in item.get("content") or [] if isinstance(part, dict))
    done = sum(item.get("type", "").endswith("_call_output") or ended(item) for item in asked["input"])
    item = {"id": f"item_{done}", "status": "completed"}
    if done >= len(CALLS) or not CALLS[done]:
        text = {"type": "output_text", "text": "done", "annotations": []}
        item |= {"type": "message", "role": "assistant", "content": [text]}
    else:
        # A call may have a `namespace` besides its name.
        call = dict(CALLS[done])
        words = call.pop("input")
        item |= call | {"call_id": f"call_{done}"}
        if isinstance(words, str):
            item |= {"type": "custom_tool_call", "input": words}
        else:
            item |= {"type": "function_call", "arguments": json.dumps(words)}
    response = {"id": f"resp_{done}"}
    yield {"type": "response.created", "response": response}
    yield {"type": "response.output_item.added", "output_index": 0, "item": item}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    yield {"type": "response.completed", "response": response | {"output": [item], "usage": usage}}


def contents(asked):
    """Returns the parts of an answer of the Gemini API."""
    parts = [part for content in asked["contents"] for part in content["parts"]]
    done = sum("functionResponse" in part or part.get("text") == "done" for part in parts)
    calls = [call for call in CALLS[done : done + 1] if call] if asked.get("tools") else []
    part = {"functionCall": {"name": calls[0]["name"], "args": calls[0]["input"]}} if calls else {"text": "done"}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "script"}


class Model(http.server.BaseHTTPRequestHandler):
    """One connection of an agent."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        path = self.path.partition("?")[0]
        REQUESTS.write(json.dumps({"path": path, "asked": asked}) + "\n")
        REQUESTS.flush()
        events = {"/v1/messages": messages, "/v1/responses": responses}.get(path)
        if path.endswith(":streamGenerateContent"):
            self.answer("text/event-stream", f"data: {json.dumps(contents(asked))}\r\n\r\n")
        elif path.endswith(":generateContent"):
            self.answer("application/json", json.dumps(contents(asked)))
        elif events:
            lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events(asked))
            self.answer("text/event-stream", "".join(lines))
        else:
            self.answer("application/json", json.dumps({"input_tokens": 1}))

    def do_GET(self):
        self.answer("application/json", "{}")

    do_HEAD = do_GET

    def answer(self, kind, text):
        body = text.encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_):
        pass


SERVER = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=SERVER.serve_forever, daemon=True).start()
print(SERVER.server_port, flush=True)
sys.stdin.read()
