# Tries to reach another host than good.test, and prints `ok NAME` for each try that did not. Whoever is not to be reached
# answers SECRET.
import socket
import ssl

GOOD, EVIL, PRIVATE = "93.184.216.34", "93.184.216.35", "10.1.2.3"


def talk(address, port, *parts):
    got = b""
    try:
        s = socket.create_connection((address, port), 20)
        s.settimeout(20)
        for part in parts:
            s.sendall(part)
            if part.startswith(b"\x05"):
                got += s.recv(300)
        while piece := s.recv(65536):
            got += piece
            if len(got) > 1 << 20:
                break
        s.close()
    except OSError as error:
        got += b"!" + str(error).encode()
    return got


def check(name, got, wanted=None):
    is_ok = b"SECRET" not in got and (wanted is None or wanted in got)
    print("ok" if is_ok else "NOT", name, "" if is_ok else got[:200])


def proxy(name, text, wanted=None):
    check("proxy: " + name, talk("127.0.0.1", 3128, text), wanted)


def get(url, host, more=""):
    return f"GET {url} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n".encode()


OK, NO, BAD = b"content of x", b" 403 ", b" 400 "
plain = get("/x", "good.test")

proxy("allowed", get("http://good.test/x", "good.test"), OK)
for host in [
    EVIL, PRIVATE, "127.0.0.1", "2130706433", "0x7f.1", "017700000001", "127.1", "0", "[::1]", "[::ffff:10.1.2.3]", "[64:ff9b::a01:203]",
    "localhost", "evil.test", "EVIL.test.", "www.good.test", "good.test.evil.test", "xgood.test", "169.254.169.254", "good.test%00.evil.test",
    "g\u00f6\u00f6d.test", "good.test@evil.test", "evil.test#good.test", "evil.test\\good.test", "good.test:80:80",
]:
    proxy("GET " + ascii(host), get(f"http://{host}/x", "good.test"))
    proxy("CONNECT " + ascii(host), f"CONNECT {host}:80 HTTP/1.1\r\nHost: good.test\r\n\r\n".encode() + get("/x", host))
proxy("https in the clear", get("https://evil.test/x", "evil.test"), BAD)
proxy("a path alone", get("/x", "evil.test"), BAD)
proxy("another Host", get("http://good.test/x", "evil.test"), OK)
proxy("two Hosts", get("http://good.test/x", "good.test\r\nHost: evil.test"), OK)
proxy("a second request", get("http://good.test/x", "good.test") + get("http://evil.test/x", "evil.test"), OK)
proxy("a second request of the same connection", get("http://good.test/x", "good.test") + get("/x", "evil.test"), OK)
proxy("both lengths", get("http://good.test/x", "good.test", "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n") + b"0\r\n\r\n" + get("/x", "evil.test"), BAD)
proxy("a folded line", get("http://good.test/x", "good.test", "X: y\r\n Host: evil.test\r\n"), BAD)
proxy("a bare line feed", b"GET http://good.test/x HTTP/1.1\nHost: evil.test\n\r\n\r\n", BAD)
proxy("a length that Connection hides", get("http://good.test/x", "good.test", "Connection: Content-Length\r\nContent-Length: 90\r\n") + get("/x", "evil.test") + b" " * 90)
tunnel = b"CONNECT good.test:80 HTTP/1.1\r\n\r\n"
proxy("in a tunnel", tunnel + plain, OK)
proxy("another Host in a tunnel", tunnel + get("/x", "evil.test"), NO)
proxy("a second request in a tunnel", tunnel + plain + get("/x", "evil.test"), OK)
proxy("a URL in a tunnel", tunnel + get("http://evil.test/x", "good.test"), NO)
proxy("no HTTP in a tunnel", tunnel + b"\x16\x03\x01\x00\x04abcd\r\n\r\n")
proxy("a port that is not 80", b"CONNECT evil.test:9000 HTTP/1.1\r\n\r\n", NO)


def socks(name, kind, host, port, then=plain, wanted=None):
    asked = b"\x05\x01\x00" + bytes([kind]) + host + port.to_bytes(2, "big")
    check("SOCKS: " + name, talk("127.0.0.1", 1080, b"\x05\x01\x00", asked, then), wanted)


def named(host):
    return bytes([len(host)]) + host


socks("allowed", 3, named(b"good.test"), 80, plain, OK)
for host in [b"evil.test", b"www.good.test", b"evil.test\0good.test", b"good.test\0.evil.test", b"2130706433", b"10.1.2.3", b"", b"good.test\r\nx", b"\xff"]:
    socks(ascii(host), 3, named(host), 80, get("/x", "evil.test"))
for address in [EVIL, PRIVATE, "127.0.0.1", "0.0.0.0"]:
    socks(address, 1, socket.inet_aton(address), 80)
socks("mapped", 4, socket.inet_pton(socket.AF_INET6, "::ffff:10.1.2.3"), 80)
socks("another Host", 3, named(b"good.test"), 80, get("/x", "evil.test"), NO)
check("SOCKS: UDP", talk("127.0.0.1", 1080, b"\x05\x01\x00", b"\x05\x03\x00\x01\0\0\0\0\0\0"), b"\x05\x07")

good = socket.gethostbyname("good.test")
assert good.startswith("198.18."), good
check("captured: allowed", talk(good, 80, plain), OK)
check("captured: another Host", talk(good, 80, get("/x", "evil.test")), NO)
check("captured: no Host", talk(good, 80, b"GET /x HTTP/1.0\r\n\r\n"), NO)
check("captured: a second request", talk(good, 80, plain + get("/x", "evil.test")), OK)
check("captured: a URL", talk(good, 80, get("http://evil.test/x", "good.test")), NO)
for address in [GOOD, EVIL, PRIVATE, "127.0.0.1", "127.0.0.2", "198.18.77.77", "169.254.169.254", "0.0.0.0"]:
    for port in (80, 443, 22, 9000):
        check(f"captured: {address}:{port}", talk(address, port, get("/x", "good.test")))


def tls(name, address, server, wanted=None, first=b""):
    context = ssl.create_default_context(cafile="ca.pem")
    context.check_hostname = False
    got = b""
    try:
        s = socket.create_connection((address, 443 if not first else 3128), 20)
        if first:
            s.sendall(first)
            got += s.recv(300)
        t = context.wrap_socket(s, server_hostname=server)
        t.sendall(plain)
        got += t.recv(65536)
        got += t.recv(65536)
    except OSError as error:
        got += b"!" + str(error).encode()
    check("TLS: " + name, got, wanted)


tls("allowed", good, "good.test", OK)
for first in (b"", b"CONNECT good.test:443 HTTP/1.1\r\n\r\n"):
    address = "127.0.0.1" if first else good
    tls("another name", address, "evil.test", b"!", first)
    tls("no name", address, None, b"!", first)
    tls("a name below", address, "www.good.test", b"!", first)
check("TLS: none", talk(good, 443, get("/x", "good.test")), b"\x15\x03\x03")
check("TLS: none in a tunnel", talk("127.0.0.1", 3128, b"CONNECT good.test:443 HTTP/1.1\r\n\r\n" + plain), b"\x15\x03\x03")

for name in ["evil.test", "www.good.test", "c2VjcmV0.evil.test", "x.good.test"]:
    try:
        check("DNS: " + name, b"SECRET" + socket.gethostbyname(name).encode())
    except OSError:
        check("DNS: " + name, b"")
for address in ["93.184.216.53", EVIL]:
    for port in (53, 123, 443):
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.settimeout(1)
        try:
            s.connect((address, port))
            s.send(b"hello")
            check(f"UDP: {address}:{port}", b"SECRET" + s.recv(300))
        except OSError:
            check(f"UDP: {address}:{port}", b"")
for address in ["2606:2800:220:1::34", "::ffff:93.184.216.35", "::1", "64:ff9b::5db8:d823"]:
    check("IPv6: " + address, talk(address, 80, get("/x", "evil.test")))
for kind in (socket.SOCK_RAW, socket.SOCK_DGRAM):
    try:
        s = socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP)
        s.settimeout(1)
        s.sendto(b"\x08\0\xf7\xff\0\0\0\0", (EVIL, 0))
        check("ICMP", b"")
    except OSError:
        check("ICMP", b"")
