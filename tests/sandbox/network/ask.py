# Asks the sandbox's resolver, and prints the code and the address of each answer.
import socket
import struct

KINDS = {"A": 1, "PTR": 12, "TXT": 16, "AAAA": 28, "SVCB": 64, "HTTPS": 65}


def ask(name, kind, tcp=False, server="127.0.0.1"):
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    question = labels + b"\0" + struct.pack(">HH", KINDS[kind], 1)
    message = struct.pack(">HHHHHH", 4711, 0x100, 1, 0, 0, 0) + question
    if tcp:
        s = socket.create_connection((server, 53), 20)
        s.sendall(struct.pack(">H", len(message)) + message)
        answer = s.recv(4096)[2:]
    else:
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.settimeout(20)
        s.connect((server, 53))
        s.send(message)
        answer = s.recv(4096)
    number, flags, _, count = struct.unpack(">HHHH", answer[:8])
    assert number == 4711 and answer[12:].startswith(question)
    address = socket.inet_ntoa(answer[-4:]) if count else "-"
    print(("tcp " if tcp else "") + name, kind, flags & 15, address)


for name in ["good.test", "good.test", "a.good.test", "GOOD.Test"]:
    # Whichever server is asked, it is the same one.
    ask(name, "A", server="9.9.9.9" if name == "a.good.test" else "127.0.0.1")
for kind in ["AAAA", "HTTPS", "SVCB", "TXT"]:
    ask("good.test", kind)
ask("only.test", "A")
ask("bad.good.test", "A")
ask("evil.test", "A")
ask("c2VjcmV0.evil.test", "TXT")
ask("34.216.184.93.in-addr.arpa", "PTR")
ask("2130706433", "A")
ask("good.test", "A", tcp=True)
ask("evil.test", "A", tcp=True)
