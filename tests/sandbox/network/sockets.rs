//! The sockets that a sandbox hands to its launcher, without anything that decides.

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::time::Duration;

use trumanfs::exec::program::sandbox::{
    CapturedPorts, KillCondition, NetworkAccess, NetworkSockets, SandboxPlan,
};

use crate::room::{LIMIT, Room, start};

fn captured(room: &Room, script: &str) -> SandboxPlan {
    SandboxPlan {
        network: NetworkAccess::Captured(CapturedPorts {
            anywhere: vec![22, 443],
            loopback: vec![3128],
            within: true,
        }),
        ..room.plan(&["bash", "-euc", script])
    }
}

/// Runs a script, and something with the sockets of its sandbox meanwhile; the script must succeed.
fn during(room: &Room, script: &str, act: impl FnOnce(NetworkSockets)) {
    let mut running = start(captured(room, script)).unwrap_or_else(|error| panic!("{error}"));
    act(running.take_sockets().expect("sockets"));
    assert!(running.take_sockets().is_none());
    let ended = running.wait(KillCondition {
        deadline: Some(std::time::Instant::now() + LIMIT),
        cancel: None,
    });
    assert_eq!(format!("{:?}", ended.end), "Exited(0)");
}

#[test]
fn every_address_leads_to_the_launcher() {
    let room = Room::new();
    let script = "exec 3<>/dev/tcp/93.184.216.34/443; echo a >&3; read -r x <&3; [ $x = b ]
        exec 4<>/dev/tcp/10.1.2.3/22; exec 5<>/dev/tcp/127.0.0.1/3128
        # Nobody listens there.
        ! (exec 6<>/dev/tcp/10.1.2.3/3128) 2>/dev/null
        ! (exec 6<>/dev/tcp/10.1.2.3/25) 2>/dev/null
        exec 7<>/dev/udp/9.9.9.9/53; echo q >&7; read -rN1 x <&7; [ $x = r ]";
    during(&room, script, |sockets| {
        let [ssh, tls, proxy] = <[_; 3]>::try_from(sockets.tcp)
            .unwrap()
            .map(TcpListener::from);
        let (mut first, _) = tls.accept().unwrap();
        // The address that the program meant, as the kernel tells it.
        assert_eq!(first.local_addr().unwrap().to_string(), "93.184.216.34:443");
        let mut line = [0; 2];
        first.read_exact(&mut line).unwrap();
        assert_eq!(&line, b"a\n");
        first.write_all(b"b\n").unwrap();
        let (second, _) = ssh.accept().unwrap();
        assert_eq!(second.local_addr().unwrap().to_string(), "10.1.2.3:22");
        let (third, _) = proxy.accept().unwrap();
        assert_eq!(third.local_addr().unwrap().to_string(), "127.0.0.1:3128");
        let udp = UdpSocket::from(sockets.udp);
        udp.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut question = [0; 16];
        let (len, from) = udp.recv_from(&mut question).unwrap();
        assert_eq!(&question[..len], b"q\n");
        // The kernel takes the address that was asked as the source of the answer.
        udp.send_to(b"r\n", from).unwrap();
    });
}

#[test]
fn the_launcher_connects_to_what_the_program_serves() {
    if !std::path::Path::new("/usr/bin/python3").exists() {
        crate::need::skip!("system-python", "there is no /usr/bin/python3");
    }
    let room = Room::new();
    let script = "exec /usr/bin/python3 -c \"
import socket
s = socket.create_server(('127.0.0.1', 8000))
open('ready', 'w')
for _ in range(3):
    c, _ = s.accept(); c.sendall(b'served'); c.close()
\"";
    during(&room, script, |sockets| {
        let mut within = sockets.within.unwrap();
        while !room.home.join("ready").exists() {
            std::thread::sleep(Duration::from_millis(10));
        }
        for _ in 0..3 {
            let socket = within.socket().unwrap();
            let to: std::net::SocketAddrV4 = "127.0.0.1:8000".parse().unwrap();
            rustix::net::connect(&socket, &to).unwrap();
            let mut said = String::new();
            std::net::TcpStream::from(socket)
                .read_to_string(&mut said)
                .unwrap();
            assert_eq!(said, "served");
        }
    });
}
