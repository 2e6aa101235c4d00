# A server of TLS that stands in for a model's: python3 secret_server.py DIR CERTIFICATE NAME. Its port is in DIR/NAME.port
# when it listens; what it is asked, with the fields that may have a secret, in DIR/NAME.requests.
import hashlib
import http.server
import json
import os
import select
import ssl
import sys
import time

base, certificate, name = sys.argv[1:]
FIELDS = ("Authorization", "x-api-key", "x-goog-api-key", "X-Key")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def body(self):
        """Returns the length and the digest of the body, which may be chunked."""
        digest, length, head = hashlib.sha256(), 0, b""

        def take(count):
            nonlocal length, head
            while count:
                piece = self.rfile.read(min(count, 1 << 16))
                assert piece, "the body ends early"
                digest.update(piece)
                head = (head + piece)[:2000]
                length += len(piece)
                count -= len(piece)

        if self.headers.get("Transfer-Encoding"):
            while size := int(self.rfile.readline(), 16):
                take(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            take(int(self.headers.get("Content-Length", 0)))
        return length, digest.hexdigest(), head

    def do_GET(self):
        length, digest, head = self.body()
        asked = {field: self.headers.get_all(field) for field in FIELDS if field in self.headers}
        asked |= {"method": self.command, "path": self.path, "host": self.headers.get_all("Host"), "length": length}
        with open(f"{base}/{name}.requests", "a") as out:
            out.write(json.dumps(asked) + "\n")
        path = self.path.split("?")[0]
        if b'"stream"' in head:
            return self.stream()
        if path == "/away":
            return self.say(302, b"", Location=self.path.split("?to=")[1])
        if path == "/refused":
            return self.say(401, b'{"error": "invalid key"}')
        if path == "/echo":
            return self.say(200, b"the key is " + (self.headers["x-api-key"] or "").encode() + b".")
        if path == "/big":
            return self.big(int(self.path.split("?")[1]))
        if path == "/end":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"to the end")
            self.connection.unwrap()
            self.close_connection = True
            return None
        if path == "/cut":
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"half")
            self.close_connection = True
            return None
        return self.say(200, f"got {length} {digest}".encode())

    do_POST = do_DELETE = do_PUT = do_GET

    def say(self, status, text, **fields):
        self.send_response(status)
        for field, value in fields.items():
            self.send_header(field, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def big(self, length):
        self.send_response(200)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        piece = bytes(range(256)) * 256
        while length:
            self.wfile.write(piece[:length])
            length -= len(piece[:length])

    def stream(self):
        """Sends one event, and the other one when somebody says so."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

        def event(text):
            data = f"event: x\ndata: {text}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

        event("first")
        end = time.monotonic() + 60
        while not os.path.exists(f"{base}/go"):
            assert time.monotonic() < end
            if select.select([self.connection], [], [], 0.01)[0]:
                open(f"{base}/left", "w").close()
                return
        event("second")
        self.wfile.write(b"0\r\n\r\n")


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128

    def handle_error(self, *_):
        pass


server = Server(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(f"{certificate}.pem", f"{certificate}.key")
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
open(f"{base}/{name}.requests", "w").close()
with open(f"{base}/{name}.new", "w") as out:
    out.write(str(server.server_port))
os.rename(f"{base}/{name}.new", f"{base}/{name}.port")
server.serve_forever()
