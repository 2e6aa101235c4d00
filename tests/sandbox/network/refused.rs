//! What is refused and how a program hears of it; and the host's loopback. No address of the world is needed for that.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use trumanfs::exec::program::policy::NetworkRule;
use trumanfs::exec::program::sandbox::NetworkAccess;

use super::net::{allow, run_during, sh};
use crate::common::need_tools;
use crate::room::Room;

#[test]
fn without_a_rule_there_is_no_network() {
    let room = Room::new();
    let plan = room.plan(&[
        "bash",
        "-uc",
        "! exec 3<>/dev/tcp/93.184.216.34/80; cat /etc/resolv.conf",
    ]);
    let reached = super::net::run(&room, &NetworkRule::default(), plan);
    assert!(reached.outcome.err.contains("unreachable"), "{reached:?}");
    assert!(reached.lines.is_empty());
    assert_eq!(room.plan(&["true"]).network, NetworkAccess::None);
}

#[test]
fn a_refusal_names_its_rule_whichever_way_is_taken() {
    need_tools!("curl");
    let room = Room::new();
    let rule = allow(&["good.test"]);
    // By the proxy, by its CONNECT, by SOCKS, and straight to an address: names that are not allowed have none.
    for (script, said, noted) in [
        (
            "curl -sS -m20 http://evil.test/",
            "trumanfs: evil.test:80 is refused by network.allow: the policy allows good.test\n",
            "evil.test:80 is refused by network.allow",
        ),
        (
            "curl -sS -m20 https://evil.test/ 2>&1",
            "response 403",
            "evil.test:443 is refused by network.allow",
        ),
        (
            "curl -sS -m20 --proxy socks5h://127.0.0.1:1080 http://evil.test/ 2>&1",
            "(2)",
            "evil.test:80 is refused by network.allow",
        ),
        (
            "curl -sS -m20 --noproxy '*' http://evil.test/ 2>&1",
            "Could not resolve host",
            "evil.test:53 is refused by network.allow",
        ),
        (
            "curl -sS -m20 --noproxy '*' http://93.184.216.34/",
            "93.184.216.34:80 is refused by network.allow: an address has to be listed as such; the policy allows good.test",
            "93.184.216.34:80 is refused by network.allow",
        ),
        (
            "curl -sS -m20 --noproxy '*' https://93.184.216.34/ 2>&1",
            "alert access denied",
            "93.184.216.34:443 is refused by network.allow",
        ),
    ] {
        let reached = sh(&room, &rule, script);
        assert!(reached.outcome.out.contains(said), "{script}: {reached:#?}");
        reached.refused(noted);
    }
}

/// The kernel refused it, and neither the outcome nor the audit log knew.
#[test]
fn a_port_at_which_nobody_listens_is_in_the_outcome() {
    let room = Room::new();
    let rule = allow(&["good.test", "other.test:9000"]);
    for (to, noted) in [
        (
            "good.test/8080",
            "good.test:8080 is refused by network: ports: without a proxy, hosts are reached at their ports 22 80 443 9000 alone; \
             list good.test:8080 in `network.allow` or --net, or connect by the proxy",
        ),
        (
            "other.test/8080",
            "other.test:8080 is refused by network.allow: the policy allows good.test other.test:9000",
        ),
        (
            "93.184.216.34/25",
            "93.184.216.34:25 is refused by network.allow: an address has to be listed as such",
        ),
    ] {
        // The last thing that the program does, and more than once.
        let script = format!("for i in 1 2 3; do (exec 3<>/dev/tcp/{to}); done");
        let reached = sh(&room, &rule, &script);
        let said = &reached.outcome.err;
        assert!(said.contains("Connection refused"), "{reached:#?}");
        reached.refused(noted);
        assert_eq!(reached.report.refusals.len(), 1, "{reached:#?}");
        let lines: Vec<_> = reached.lines.iter().map(|l| (l.by, l.verdict)).collect();
        assert_eq!(lines, [("closed", "deny")], "{reached:#?}");
    }
    // What is the program's own is no refusal: loopback, and a connection to itself that it resets.
    let reset = "import socket, struct
try: socket.create_connection(('127.0.0.1', 81))
except ConnectionRefusedError: pass
else: raise SystemExit('nobody listens there')
served = socket.create_server(('0.0.0.0', 8000))
client = socket.create_connection(('10.1.2.3', 8000))
accepted, _ = served.accept()
client.sendall(b'x')
accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
accepted.close()
try: client.recv(1)
except ConnectionResetError: print('reset')";
    if !std::path::Path::new("/usr/bin/python3").exists() {
        crate::need::skip!("system-python", "there is no /usr/bin/python3");
    }
    let plan = room.plan(&["/usr/bin/python3", "-c", reset]);
    let reached = super::net::run(&room, &rule, plan);
    assert_eq!(reached.outcome.out, "reset\n", "{reached:#?}");
    assert!(reached.lines.is_empty(), "{reached:#?}");
}

#[test]
fn ssh_tells_why_it_does_not_reach() {
    need_tools!("ssh");
    let room = Room::new();
    let script = "ssh -o StrictHostKeyChecking=no -o BatchMode=yes git@93.184.216.34 2>&1";
    let reached = sh(&room, &allow(&["good.test"]), script);
    let said = &reached.outcome.out;
    assert!(said.contains("Received disconnect"), "{said}");
    assert!(
        said.contains("93.184.216.34:22 is refused by network.allow"),
        "{said}"
    );
    reached.refused("93.184.216.34:22 is refused");
}

#[test]
fn names_are_answered_without_asking_anybody() {
    let room = Room::new();
    if !std::path::Path::new("/usr/bin/python3").exists() {
        crate::need::skip!("system-python", "there is no /usr/bin/python3");
    }
    std::fs::write(room.home.join("ask.py"), include_str!("ask.py")).unwrap();
    let rule = NetworkRule {
        deny: vec!["bad.good.test".to_owned()],
        ..allow(&["**.good.test", "only.test:8443"])
    };
    let reached = sh(&room, &rule, "/usr/bin/python3 ask.py");
    assert_eq!(
        reached.outcome.out,
        "good.test A 0 198.18.0.1\n\
         good.test A 0 198.18.0.1\n\
         a.good.test A 0 198.18.0.2\n\
         GOOD.Test A 0 198.18.0.1\n\
         good.test AAAA 0 -\n\
         good.test HTTPS 0 -\n\
         good.test SVCB 0 -\n\
         good.test TXT 0 -\n\
         only.test A 0 198.18.0.3\n\
         bad.good.test A 3 -\n\
         evil.test A 3 -\n\
         c2VjcmV0.evil.test TXT 3 -\n\
         34.216.184.93.in-addr.arpa PTR 3 -\n\
         2130706433 A 3 -\n\
         tcp good.test A 0 198.18.0.1\n\
         tcp evil.test A 3 -\n"
    );
    let refusals = reached.report.refusals.join("\n");
    assert!(
        refusals.contains("c2VjcmV0.evil.test:53".to_lowercase().as_str()),
        "{refusals}"
    );
    assert!(refusals.contains("bad.good.test:53 is refused by network.deny: bad.good.test"));
    assert!(!refusals.contains("arpa"));
}

/// IPv6 leads nowhere, and at once: a program that tries it first goes on to IPv4.
#[test]
fn ipv6_fails_at_once() {
    if !std::path::Path::new("/usr/bin/python3").exists() {
        crate::need::skip!("system-python", "there is no /usr/bin/python3");
    }
    const SCRIPT: &str = "
import errno, socket, time
def tried(what, act):
    began = time.monotonic()
    try:
        print(what, act())
    except socket.gaierror:
        print(what, 'no address')
    except OSError as error:
        print(what, errno.errorcode[error.errno])
    assert time.monotonic() - began < 3, what
def connect(address, kind=socket.SOCK_STREAM):
    s = socket.socket(socket.AF_INET6, kind)
    s.connect((address, 443))
    return 'connected'
for address in ['2606:2800:220:1::34', 'fe80::1', '64:ff9b::5db8:d822', 'fd00::1', '::ffff:93.184.216.34']:
    tried(address, lambda: connect(address))
tried('udp', lambda: connect('2606:2800:220:1::34', socket.SOCK_DGRAM))
tried('AAAA', lambda: socket.getaddrinfo('good.test', 80, socket.AF_INET6))
tried('both', lambda: {family.name for family, *_ in socket.getaddrinfo('good.test', 80)})
";
    let room = Room::new();
    // (An IPv4 address in the spelling of IPv6 is IPv4 to the kernel: it arrives at the launcher, which decides.)
    for (rule, mapped, both) in [
        (allow(&["good.test"]), "connected", "{'AF_INET'}"),
        (NetworkRule::default(), "ENETUNREACH", "no address"),
    ] {
        let plan = room.plan(&["/usr/bin/python3", "-c", SCRIPT]);
        let reached = super::net::run(&room, &rule, plan);
        assert_eq!(reached.outcome.err, "");
        assert_eq!(
            reached.outcome.out,
            format!(
                "2606:2800:220:1::34 ENETUNREACH\nfe80::1 EINVAL\n64:ff9b::5db8:d822 ENETUNREACH\nfd00::1 ENETUNREACH\n\
                 ::ffff:93.184.216.34 {mapped}\nudp ENETUNREACH\nAAAA no address\nboth {both}\n"
            )
        );
    }
}

#[test]
fn a_service_of_the_host_is_seen_where_its_port_is_listed() {
    need_tools!("curl");
    let listed = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, hidden) = (
        listed.local_addr().unwrap().port(),
        other.local_addr().unwrap().port(),
    );
    let server = std::thread::spawn(move || {
        let (mut client, _) = listed.accept().unwrap();
        let mut head = [0; 1024];
        assert!(client.read(&mut head).unwrap() > 0);
        client
            .write_all(b"HTTP/1.0 200 OK\r\n\r\nfrom the host\n")
            .unwrap();
    });
    let room = Room::new();
    let rule = NetworkRule {
        host_ports: vec![port],
        ..NetworkRule::default()
    };
    let script = format!(
        "curl -sS -m20 http://localhost:{port}/
         curl -sS -m20 http://127.0.0.1:{hidden}/ 2>/dev/null || echo hidden
         curl -sS -m20 --noproxy '' -x http://127.0.0.1:3128 http://127.0.0.1:{hidden}/
         curl -sS -m20 --noproxy '' -x http://127.0.0.1:3128 http://localhost:{port}/"
    );
    let reached = sh(&room, &rule, &script);
    let said: Vec<&str> = reached.outcome.out.lines().collect();
    assert_eq!(said[..2], ["from the host", "hidden"], "{reached:#?}");
    assert!(said[2].contains("is refused by network.allow"), "{said:?}");
    assert!(said[3].contains("is refused by network.allow"), "{said:?}");
    server.join().unwrap();
    let line = reached
        .lines
        .iter()
        .find(|line| line.by == "host_ports")
        .unwrap();
    assert_eq!(
        (line.port, line.verdict, line.bytes_received),
        (port, "allow", 33)
    );
    assert!(other.set_nonblocking(true).is_ok() && other.accept().is_err());
}

/// A program serves at its own loopback, and others find it there by whatever name, with a proxy in the way.
#[test]
fn own_loopback_is_reached_by_each_of_its_names() {
    need_tools!("curl", "python3");
    let port = port_that_is_given_to_nobody();
    let room = Room::new();
    std::fs::write(room.home.join("page"), "own\n").unwrap();
    let script = format!(
        "python3 -m http.server {port} >/dev/null 2>&1 & server=$!
         for host in localhost 127.0.0.1 127.0.0.2 0.0.0.0 sandbox; do
           for how in -m20 \"-m20 --noproxy none.example\" \"--noproxy none.example -x http://127.0.0.1:3128\" \"--noproxy none.example -x socks5h://127.0.0.1:1080\"; do
             curl -sS --retry-connrefused --retry 8 --retry-delay 1 $how http://$host:{port}/page || echo $host $how
           done
           python3 -c 'import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode(), end=\"\")' http://$host:{port}/page
         done
         curl -sS -m20 -x http://127.0.0.1:3128 --noproxy none.example http://127.0.0.2:80/page | head -c 60; echo
         kill $server"
    );
    let reached = sh(&room, &allow(&["a.example"]), &script);
    let said: Vec<&str> = reached.outcome.out.lines().collect();
    let (last, served) = said.split_last().unwrap();
    assert!(
        served.len() == 25 && served.iter().all(|line| *line == "own"),
        "{reached:#?}"
    );
    assert!(last.contains("127.0.0.2:80 is refused"), "{last}");
}

#[test]
fn localhost_is_listed_as_its_address_is() {
    need_tools!("curl");
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = service.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut client, _) = service.accept().unwrap();
            let mut head = [0; 1024];
            assert!(client.read(&mut head).unwrap() > 0);
            client
                .write_all(b"HTTP/1.0 200 OK\r\n\r\nfrom the host\n")
                .unwrap();
        }
    });
    let room = Room::new();
    let listed = format!("localhost:{port}");
    let script = format!(
        "curl -sS -m20 http://localhost:{port}/
         curl -sS -m20 --noproxy none.example -x http://127.0.0.1:3128 http://localhost:{port}/"
    );
    let reached = sh(&room, &allow(&[&listed]), &script);
    assert_eq!(
        reached.outcome.out, "from the host\nfrom the host\n",
        "{reached:#?}"
    );
    server.join().unwrap();
}

/// A free port below those that the kernel gives to callers (`ip_local_port_range`, from 32768): a
/// caller that is given the very port it calls is connected to itself (RFC 9293, 3.5), and another
/// test may be given it as well.
fn port_that_is_given_to_nobody() -> u16 {
    let first = std::process::id() % 10_000;
    (0..10_000)
        .map(|n| 20_000 + u16::try_from((first + n) % 10_000).unwrap())
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .unwrap()
}

#[test]
fn a_port_of_the_program_is_seen_where_it_is_published() {
    if !std::path::Path::new("/usr/bin/python3").exists() {
        crate::need::skip!("system-python", "there is no /usr/bin/python3");
    }
    let port = port_that_is_given_to_nobody();
    let on_host = (port + 1..)
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .unwrap();
    let elsewhere = format!("{on_host}:{port}").parse().unwrap();
    let room = Room::new();
    let rule = NetworkRule {
        publish: vec![port.into(), elsewhere],
        ..NetworkRule::default()
    };
    let script = format!(
        "import socket\ns = socket.create_server(('127.0.0.1', {port}))\nopen('ready', 'w')\n\
         for _ in range(2):\n c, _ = s.accept(); n = c.recv(9); c.sendall(b'served ' + n); c.close()\n"
    );
    let plan = room.plan(&["/usr/bin/python3", "-c", &script]);
    let reached = run_during(&room, &rule, plan, || {
        let end = Instant::now() + Duration::from_secs(30);
        while !room.home.join("ready").exists() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        for (name, port) in [("one", port), ("two", on_host)] {
            let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
            client.write_all(name.as_bytes()).unwrap();
            let mut said = String::new();
            client.read_to_string(&mut said).unwrap();
            assert_eq!(said, format!("served {name}"));
        }
    });
    let lines: Vec<_> = reached
        .lines
        .iter()
        .map(|line| (line.by, line.bytes_sent, line.bytes_received))
        .collect();
    assert_eq!(lines, [("publish", 10, 3); 2], "{reached:#?}");
    // It ends with the program. A process that another test is just starting may hold the socket until it has executed its program.
    let end = Instant::now() + Duration::from_secs(10);
    while TcpStream::connect(("127.0.0.1", port)).is_ok() {
        assert!(Instant::now() < end, "the port is still served");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn many_connections_neither_hang_nor_fill_the_log() {
    if !std::path::Path::new("/usr/bin/python3").exists() {
        crate::need::skip!("system-python", "there is no /usr/bin/python3");
    }
    let room = Room::new();
    // More at once than are served at once, which say nothing; then more than have a line.
    let script = "
import socket, time
idle = [socket.create_connection(('127.0.0.1', 3128)) for _ in range(100)]
for _ in range(1200):
    s = socket.create_connection(('127.0.0.1', 3128))
    s.sendall(b'GET http://evil.test/ HTTP/1.1\\r\\n\\r\\n')
    assert s.recv(12) == b'HTTP/1.1 403'
    s.close()
print('done')
";
    let plan = room.plan(&["/usr/bin/python3", "-c", script]);
    let reached = super::net::run(&room, &allow(&["good.test"]), plan);
    assert_eq!(reached.outcome.out, "done\n", "{:?}", reached.outcome);
    assert_eq!(reached.lines.len(), 1000);
    assert_eq!(
        (reached.report.refusals.len(), reached.report.without_line),
        (1, 200)
    );
}
