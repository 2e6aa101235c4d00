"""Each message of a server against the types of its protocol's revision, which the SDK has from the published schema.

    schema.py VERSION FILE    a line: {"method": what was asked for, "message": what came}; a notification has its own method
"""
import json
import sys

from mcp_types import jsonrpc, methods
from pydantic import TypeAdapter

version = sys.argv[1]
envelope = TypeAdapter(jsonrpc.JSONRPCMessage)
count = {}
for line in open(sys.argv[2]):
    line = json.loads(line)
    method, message = line["method"], line["message"]
    envelope.validate_python(message, strict=True)
    if "method" in message:
        methods.parse_server_notification(message["method"], version, message.get("params"))
        kind = "notification"
    elif "error" in message:
        assert type(message["error"]["code"]) is int and type(message["error"]["message"]) is str, message
        assert set(message) <= {"jsonrpc", "id", "error"} and message.get("id", 0) is not None, message
        kind = "error"
    else:
        methods.validate_server_result(method, version, message["result"])
        kind = "result"
    count[kind] = count.get(kind, 0) + 1
print(json.dumps(count))
