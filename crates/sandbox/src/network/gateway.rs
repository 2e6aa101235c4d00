//! [`Gateway`]: what answers for the network of one program while it runs.
//!
//! Threads: one that waits at all listeners and answers questions of names; one for each connection, of which there are
//! only so many. They end when the gateway does, but for one that waits for the host's resolver or for a connection.

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::PollFlags;
use rustix::net::RecvFlags;
use rustix::pipe::{PipeFlags, pipe_with};

use super::gate::ConnectionGate;
use super::log::{ConnectionLog, ConnectionObserver, ConnectionReport, new_record};
use super::name_table::NameTable;
use super::refusal_packet;
use super::relay::relay;
use super::session::serve;
use super::settings::NetworkSetup;
use super::stop_signal::{StopSignal, WaitOutcome};
use crate::NetworkSockets;
use trumanfs_policy::network::Host;

/// The most connections at once; others wait to be accepted.
const MAX_CONNECTIONS: usize = 128;

/// The time between two looks at whether there may be more connections again.
const RECHECK_PAUSE: Duration = Duration::from_millis(20);

/// The time that the end of connections is waited for when the program has ended.
const END_LIMIT: Duration = Duration::from_secs(2);

/// The thread that answers for a network. Dropping it ends all connections.
pub struct Gateway {
    gate: Arc<ConnectionGate>,
    stopping: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    /// Ends when every connection has.
    ended: Receiver<()>,
}

/// The sockets and state of the thread that accepts connections.
struct ListenerSet {
    gate: Arc<ConnectionGate>,
    udp: UdpSocket,
    /// The socket that receives the packets with which the kernel refuses connections.
    refused: Option<OwnedFd>,
    /// Those in the sandbox.
    tcp: Vec<TcpListener>,
    /// Those on the host, each with the port of the program.
    published: Vec<(TcpListener, u16)>,
    stop: StopSignal,
    count: Arc<AtomicUsize>,
    alive: Sender<()>,
}

impl Gateway {
    /// Begins to answer. `observer` gets a line for each connection.
    ///
    /// # Errors
    /// `EMFILE` and the like, where there can be no pipe or no thread.
    pub fn start(
        sockets: NetworkSockets,
        opened: NetworkSetup,
        observer: ConnectionObserver,
    ) -> std::io::Result<Gateway> {
        let settings = opened.settings;
        let gate = Arc::new(ConnectionGate {
            rules: settings.rules,
            answers: settings.answers.clone(),
            host_ports: settings.host_ports,
            ports: settings.anywhere,
            names: Mutex::new(NameTable::default()),
            within: sockets.within.map(Mutex::new),
            log: ConnectionLog::new(observer, settings.answers),
            secrets: settings.secrets,
            tls: opened.tls,
        });
        let (stop, stopping) = pipe_with(PipeFlags::CLOEXEC)?;
        let (alive, ended) = mpsc::channel();
        let listening = ListenerSet {
            gate: gate.clone(),
            udp: sockets.udp.into(),
            refused: sockets.refused,
            tcp: sockets.tcp.into_iter().map(TcpListener::from).collect(),
            published: opened.published,
            stop: StopSignal(Arc::new(stop)),
            count: Arc::new(AtomicUsize::new(0)),
            alive,
        };
        listening.udp.set_nonblocking(true)?;
        let published = listening.published.iter().map(|(listener, _)| listener);
        for listener in listening.tcp.iter().chain(published) {
            listener.set_nonblocking(true)?;
        }
        let thread = std::thread::Builder::new()
            .name("network".to_owned())
            .spawn(move || listening.run())?;
        Ok(Gateway {
            gate,
            stopping: Some(stopping),
            thread: Some(thread),
            ended,
        })
    }

    /// Ends all connections, and returns what came of them.
    #[must_use]
    pub fn finish(mut self) -> ConnectionReport {
        self.stop();
        self.gate.log.report()
    }

    fn stop(&mut self) {
        drop(self.stopping.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
            // All senders are gone, or it takes too long.
            let _ = self.ended.recv_timeout(END_LIMIT);
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.stop();
    }
}

impl ListenerSet {
    fn run(self) {
        self.accept();
        // What the program did last.
        self.note_refused();
    }

    /// Accepts connections until the network ends.
    fn accept(&self) {
        loop {
            let is_full = self.count.load(Ordering::Acquire) >= MAX_CONNECTIONS;
            let mut fds: Vec<(&dyn AsFd, PollFlags)> = vec![(&self.udp, PollFlags::IN)];
            let published = self.published.iter().map(|(listener, _)| listener);
            let all = self.tcp.iter().chain(published);
            fds.extend(self.refused.iter().map(|r| (r as &dyn AsFd, PollFlags::IN)));
            fds.extend(
                all.take_while(|_| !is_full)
                    .map(|l| (l as &dyn AsFd, PollFlags::IN)),
            );
            let until = is_full.then(|| Instant::now() + RECHECK_PAUSE);
            let ready = match self.stop.wait(&fds, until) {
                WaitOutcome::Stopped => return,
                WaitOutcome::Late => continue,
                WaitOutcome::Ready(ready) => ready,
            };
            let mut ready = ready.into_iter();
            if ready.next() == Some(true) {
                self.answer_names();
            }
            if self.refused.is_some() && ready.next() == Some(true) {
                self.note_refused();
            }
            let all = self.tcp.iter().map(|listener| (listener, None));
            let published = self.published.iter();
            let all = all.chain(published.map(|(listener, port)| (listener, Some(*port))));
            for ((listener, published), _) in all.zip(ready).filter(|(_, ready)| *ready) {
                match listener.accept() {
                    Ok((stream, _)) => self.spawn_connection(stream, published),
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                    // No descriptors are left, for one: others may end.
                    Err(_) => std::thread::sleep(RECHECK_PAUSE),
                }
            }
        }
    }

    /// Takes note of some connections that the kernel has refused.
    fn note_refused(&self) {
        let Some(refused) = &self.refused else { return };
        let mut packet = [0; 64];
        for _ in 0..MAX_CONNECTIONS {
            let Ok((len, _)) = rustix::net::recv(refused, &mut packet, RecvFlags::DONTWAIT) else {
                return;
            };
            if let Some(meant) = packet.get(..len).and_then(refusal_packet::refused_address) {
                self.gate.note_refused_by_kernel(*meant.ip(), meant.port());
            }
        }
    }

    /// Answers some questions of names.
    fn answer_names(&self) {
        /// Longer ones come by TCP.
        const MAX_DATAGRAM_BYTES: usize = 4096;
        let mut message = [0; MAX_DATAGRAM_BYTES];
        for _ in 0..MAX_CONNECTIONS {
            let Ok((len, from)) = self.udp.recv_from(&mut message) else {
                return;
            };
            if let Some(answer) = message
                .get(..len)
                .and_then(|message| self.gate.answer(message))
            {
                let _ = self.udp.send_to(&answer, from);
            }
        }
    }

    /// Serves a connection on a thread of its own: one of the host to a port of the program, where that is given.
    fn spawn_connection(&self, stream: TcpStream, published: Option<u16>) {
        // What is accepted blocks, whatever the listener does (accept(2)).
        if self.count.load(Ordering::Acquire) >= MAX_CONNECTIONS
            || stream.set_nonblocking(false).is_err()
        {
            return;
        }
        self.count.fetch_add(1, Ordering::AcqRel);
        let one = ConnectionGuard(self.count.clone());
        let (gate, stop, alive) = (self.gate.clone(), self.stop.clone(), self.alive.clone());
        // A thread that cannot be started drops all this, and the connection with it.
        let _ = std::thread::Builder::new()
            .name("connection".to_owned())
            .spawn(move || {
                match published {
                    Some(port) => serve_published(&gate, &stream, port, &stop),
                    None => serve(&gate, stream, &stop),
                }
                drop((one, alive));
            });
    }
}

/// A count of one open connection, taken back when it is dropped.
struct ConnectionGuard(Arc<AtomicUsize>);

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Connects somebody on the host to what the program serves at a port.
fn serve_published(gate: &ConnectionGate, client: &TcpStream, port: u16, stop: &StopSignal) {
    let began = Instant::now();
    let mut line = new_record("publish", &Host::Address(Ipv4Addr::LOCALHOST.into()), port);
    line.rule = format!("network.publish: {port}");
    match gate.connect_within(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)) {
        Ok(server) => {
            let counts = relay(client, &server, Vec::new(), None, stop);
            // As the program sees it.
            (line.bytes_sent, line.bytes_received) = (counts.received, counts.sent);
        }
        Err(errno) => line.reason = Some(format!("no connection to the program: {errno}")),
    }
    gate.log.add(&line.with_duration(began));
}
