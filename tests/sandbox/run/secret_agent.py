# Stands in for an agent: asks its model by a stream, and says what came as soon as it is there.
import http.client
import json
import os
import urllib.parse

at = urllib.parse.urlsplit(os.environ["ANTHROPIC_BASE_URL"])
key = os.environ["ANTHROPIC_API_KEY"]
connection = http.client.HTTPConnection(at.hostname, at.port, timeout=60)
body = json.dumps({"stream": True, "messages": []})
connection.request("POST", "/v1/messages?beta=true", body, {"x-api-key": key, "Authorization": "Bearer " + key})
answer = connection.getresponse()
assert answer.status == 200, answer.read()
for line in answer:
    if line.startswith(b"data: "):
        with open(line[6:].decode().strip(), "w") as out:
            out.write(key)
