# The servers of the world: a resolver, and what listens at its addresses. Each notes what it was asked in a file.
# Whoever is not to be reached answers SECRET.
import hashlib
import http.server
import io
import json
import os
import re
import socket
import ssl
import struct
import tarfile
import threading
import zipfile

GOOD, EVIL, RESOLVER, PRIVATE = "93.184.216.34", "93.184.216.35", "93.184.216.53", "10.1.2.3"
NAMES = {
    "good.test": [GOOD],
    "www.good.test": [GOOD],
    "xn--bcher-kva.test": [GOOD],
    "generativelanguage.googleapis.com": [GOOD],
    "evil.test": [EVIL],
    "ssh.test": ["93.184.216.36"],
    "other.test": ["93.184.216.37"],
    "private.test": [PRIVATE],
    "mixed.test": [GOOD, PRIVATE],
    "loop.test": ["127.0.0.1"],
    "metadata.test": ["169.254.169.254"],
    "zero.test": ["0.0.0.0"],
    "moved.test": [EVIL],
    "mapped.test": ["::ffff:93.184.216.34"],
    "local6.test": ["::1"],
}


def note(file, text):
    with open(file, "a") as out:
        out.write(text + "\n")


def resolve():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind((RESOLVER, 53))
    asked = {}
    while True:
        message, client = s.recvfrom(4096)
        labels, at = [], 12
        while message[at]:
            labels.append(message[at + 1 : at + 1 + message[at]].decode("latin-1"))
            at += 1 + message[at]
        name, kind = ".".join(labels).lower(), struct.unpack(">H", message[at + 1 : at + 3])[0]
        note("queries", name)
        addresses = NAMES.get(name, [])
        if name == "rebind.test" and kind == 1:
            # Public at first, and another one each time after that.
            asked[name] = asked.get(name, 0) + 1
            addresses = [GOOD if asked[name] == 1 else "127.0.0.1"]
        family = {1: socket.AF_INET, 28: socket.AF_INET6}.get(kind)
        records = b""
        count = 0
        for address in addresses:
            if family == (socket.AF_INET6 if ":" in address else socket.AF_INET):
                packed = socket.inet_pton(family, address)
                records += b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, len(packed)) + packed
                count += 1
        code = 0 if addresses or name == "rebind.test" else 3
        head = message[:2] + struct.pack(">HHHHH", 0x8180 | code, 1, count, 0, 0)
        s.sendto(head + message[12 : at + 5] + records, client)


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, *args):
        super().__init__(*args, directory="www")

    def log_message(self, *_):
        pass

    def is_good(self):
        here = self.connection.getsockname()[0]
        host = self.headers.get("Host", "").split(":")[0].lower()
        note("requests", f"{here} {host} {self.command} {self.path}")
        if here == GOOD and host in ("good.test", "www.good.test", "xn--bcher-kva.test", "generativelanguage.googleapis.com", GOOD):
            return True
        self.say(b"SECRET")
        return False

    def say(self, text):
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def model(self, asked):
        """Stands in for a model: has a file written that the prompt names, then says that it is done."""
        note("model", asked)
        note("keys", self.headers.get("x-goog-api-key", ""))
        named = re.search(r"please write (/[^ \"\\\\]+)", asked)
        if "stream" not in self.path:
            part = {"text": json.dumps({"reasoning": "none", "model_choice": "flash"})}
        elif named and "functionResponse" not in asked:
            arguments = {"file_path": named[1], "content": "written by an agent\n"}
            part = {"functionCall": {"name": "write_file", "args": arguments}}
        else:
            part = {"text": "the stand-in is done"}
        counts = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        answer = {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}], "usageMetadata": counts}
        text = json.dumps(answer).encode()
        is_stream = "alt=sse" in self.path
        if is_stream:
            text = b"data: " + text + b"\r\n\r\n"
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if is_stream else "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        if self.is_good():
            self.path = self.path.split("?")[0]
            super().do_GET()

    def do_POST(self):
        if self.is_good():
            if self.headers.get("Transfer-Encoding"):
                body = b""
                while size := int(self.rfile.readline(), 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
            else:
                body = self.rfile.read(int(self.headers["Content-Length"]))
            if "GenerateContent" in self.path or "generateContent" in self.path:
                return self.model(body.decode())
            self.say(b"got %d %s" % (len(body), hashlib.sha256(body).hexdigest()[:8].encode()))


def serve(address, port, context=None):
    server = http.server.ThreadingHTTPServer((address, port), Handler)
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def talk(address, port, text):
    listener = socket.create_server((address, port))

    def run():
        while True:
            client, _ = listener.accept()
            note("requests", f"{address} raw {port}")
            client.sendall(text)
            client.close()

    threading.Thread(target=run, daemon=True).start()


def packages():
    with open("www/x", "w") as out:
        out.write("content of x\n")
    with open("www/big", "wb") as out:
        out.write(bytes(range(256)) * 20000)
    os.makedirs("www/simple/hello")
    wheel = "hello-1.0-py3-none-any.whl"
    with zipfile.ZipFile(f"www/simple/hello/{wheel}", "w") as out:
        out.writestr("hello.py", "WORD = 'hello from pip'\n")
        out.writestr("hello-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n")
        out.writestr("hello-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        out.writestr("hello-1.0.dist-info/RECORD", "hello.py,,\nhello-1.0.dist-info/METADATA,,\nhello-1.0.dist-info/WHEEL,,\nhello-1.0.dist-info/RECORD,,\n")
    with open("www/simple/hello/index.html", "w") as out:
        out.write(f'<!DOCTYPE html><html><body><a href="{wheel}">{wheel}</a></body></html>')

    def archive(path, files):
        with tarfile.open(path, "w:gz") as out:
            for name, text in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(text)
                out.addfile(info, io.BytesIO(text.encode()))

    os.makedirs("www/npm")
    package = json.dumps({"name": "hello", "version": "1.0.0", "main": "index.js"})
    archive("www/npm/hello.tgz", {"package/package.json": package, "package/index.js": "module.exports = 'hello from npm'\n"})
    version = json.loads(package) | {"dist": {"tarball": "https://good.test/npm/hello.tgz"}}
    with open("www/npm/hello", "w") as out:
        json.dump({"name": "hello", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}, out)

    os.makedirs("www/index/he/ll")
    os.makedirs("www/crates")
    manifest = '[package]\nname = "hello"\nversion = "1.0.0"\nedition = "2021"\n'
    archive("www/crates/hello-1.0.0.crate", {"hello-1.0.0/Cargo.toml": manifest, "hello-1.0.0/src/lib.rs": "\n"})
    with open("www/crates/hello-1.0.0.crate", "rb") as crate:
        digest = hashlib.sha256(crate.read()).hexdigest()
    with open("www/index/config.json", "w") as out:
        json.dump({"dl": "https://good.test/crates/{crate}-{version}.crate"}, out)
    with open("www/index/he/ll/hello", "w") as out:
        json.dump({"name": "hello", "vers": "1.0.0", "deps": [], "cksum": digest, "features": {}, "yanked": False}, out)


open("queries", "w").close()
open("requests", "w").close()
open("model", "w").close()
open("keys", "w").close()
packages()
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain("cert.pem", "key.pem")
threading.Thread(target=resolve, daemon=True).start()
for address in (GOOD, EVIL, PRIVATE, "127.0.0.1"):
    serve(address, 80)
    serve(address, 443, tls)
    talk(address, 9000, b"raw\n" if address == GOOD else b"SECRET\n")
    talk(address, 22, b"SSH-2.0-%s\r\n" % (b"good" if address == GOOD else b"SECRET"))
open("ready", "w").close()
threading.Event().wait()
