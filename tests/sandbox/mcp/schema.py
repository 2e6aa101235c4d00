"""Each message of a server against the published JSON schema of its protocol's revision.

    schema.py SCHEMA FILE    a line of FILE: {"method": what was asked for, "tool": of a call, "message": what came}; a notification
                             has its own method;
                             with "refused": NAME, the message must be none, because it is not as the definition NAME has it

Prints how many messages of each kind there were. The definition of a result or a notification is found by its method, that of an
error by its code, as the schema connects them. What a tool's result has besides its text is held against the schema that the
server itself has listed for the tool.
"""
import json
import sys

import jsonschema
from jsonschema import Draft202012Validator

schema = json.load(open(sys.argv[1]))
definitions = schema["$defs"]
Draft202012Validator.check_schema(schema)
formats = Draft202012Validator.FORMAT_CHECKER
assert {"uri", "date-time"} <= formats.checkers.keys(), "jsonschema was installed without its formats"
validators = {}
# By the constant that the schema gives for it.
of_method, of_code = {}, {}
for name, definition in definitions.items():
    properties = definition.get("properties", {})
    if method := properties.get("method", {}).get("const"):
        of_method[method] = name
    # (An error of the protocol is a whole message there, one of JSON-RPC is what stands in it.)
    for part in properties.get("error", {}).get("allOf", []):
        if code := part.get("properties", {}).get("code", {}).get("const"):
            of_code[code] = (name, None)
    if code := properties.get("code", {}).get("const"):
        of_code[code] = (name, "error")


class Refused(Exception):
    pass


def fits(name, value):
    if name not in validators:
        schema_of_it = {"$schema": schema["$schema"], "$defs": definitions, "$ref": f"#/$defs/{name}"}
        validators[name] = Draft202012Validator(schema_of_it, format_checker=formats)
    try:
        validators[name].validate(value)
    except jsonschema.ValidationError as error:
        raise Refused(name, f"{error.message} at {error.json_path}: {json.dumps(value)}") from None


def result(method, value):
    request = of_method[method]
    name = request.removesuffix("Request") + "Result"
    # (A ping is answered by nothing but a result.)
    fits(name if name in definitions else "EmptyResult", value["result"])
    if name + "Response" in definitions:
        fits(name + "Response", value)
    # What a tool says of its arguments and of its results is a schema too.
    for tool in value["result"].get("tools", []):
        for kind in ["inputSchema", "outputSchema"]:
            if kind in tool:
                Draft202012Validator.check_schema(tool[kind])


def message(method, value):
    fits("JSONRPCMessage", value)
    if "method" in value:
        fits("ServerNotification", value)
        fits(of_method[value["method"]], value)
        return "notification"
    if "error" in value:
        fits("JSONRPCErrorResponse", value)
        name, part = of_code.get(value["error"]["code"], ("Error", "error"))
        fits(name, value[part] if part else value)
        return "error"
    fits("JSONRPCResultResponse", value)
    fits("ServerResult", value["result"])
    result(method, value)
    return "result"


count = {}
# What the server lists, by tool.
shapes = {}
for line in open(sys.argv[2]):
    line = json.loads(line)
    try:
        kind = message(line["method"], line["message"])
        assert "refused" not in line, f"nothing refused this: {line}"
        if kind == "result" and line["method"] == "tools/list":
            shapes = {tool["name"]: tool.get("outputSchema") for tool in line["message"]["result"]["tools"]}
        if kind == "result" and line["method"] == "tools/call":
            (shape, content) = (shapes[line["tool"]], line["message"]["result"]["structuredContent"])
            if shape:
                jsonschema.validate(content, shape)
                assert content.keys() & shape["properties"].keys(), line
    except Refused as refused:
        assert refused.args[0] == line.get("refused"), refused
        kind = "refused"
    count[kind] = count.get(kind, 0) + 1
print(json.dumps(count))
