//! [`ConnectionGate`]: the one decision about a host, whichever way a program asks for it.
//!
//! First the rules, and only then the resolver: what is not allowed is not looked up, so names carry nothing out. What
//! a name resolves to must be public or allowed itself, all of it, or an allowed name could lead to a service of this
//! machine or beside it. An address is allowed only where a list has it, and then it is meant, public or not. The
//! connection goes to an address that was looked at, not to the name again.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};

use super::answers::{AskingConnection, HostAnswers};
use super::dns::{self, DnsAnswer};
use super::log::{ConnectionLog, new_record};
use super::name_table::NameTable;
use super::secret::{SecretRoute, TlsClient};
use super::settings::BoundSecret;
use crate::SandboxSocketSource;
use trumanfs_policy::network::Host;
use trumanfs_policy::network::is_public;
use trumanfs_policy::network::{DNS, PROXY, SOCKS};
use trumanfs_policy::network::{HostDenial, HostRules};

/// The time that connecting to one address may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// The time that connecting to what the program serves may take.
const LOCAL_CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// The most addresses of a name that are tried.
const MAX_TRIED_ADDRESSES: usize = 4;

/// The gate that decides about connections of one program.
pub(super) struct ConnectionGate {
    pub(super) rules: HostRules,
    /// The answers of whoever watches, where somebody may.
    pub(super) answers: Option<Arc<HostAnswers>>,
    pub(super) host_ports: Vec<u16>,
    /// The ports of every address that are listened at.
    pub(super) ports: Vec<u16>,
    pub(super) names: Mutex<NameTable>,
    /// Gives out sockets with which to connect to what the program serves.
    pub(super) within: Option<Mutex<SandboxSocketSource>>,
    pub(super) log: ConnectionLog,
    /// The secrets that are added to requests, each at a port of loopback.
    pub(super) secrets: Vec<BoundSecret>,
    /// Where there are secrets.
    pub(super) tls: Option<TlsClient>,
}

/// A host that may be reached, with the addresses that it has.
#[derive(Debug)]
pub(super) struct HostPermit {
    pub(super) host: Host,
    /// The pattern that allows it.
    pub(super) rule: String,
    addresses: Vec<SocketAddr>,
}

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum ConnectFailure {
    /// A rule.
    Denied(HostDenial),
    /// The network; the pattern that allowed the host.
    Failed { rule: String, reason: String },
}

impl ConnectionGate {
    /// Decides about a host, and finds out its addresses. May wait for an answer.
    pub(super) fn permit(
        &self,
        host: &Host,
        port: u16,
        asking: &AskingConnection<'_>,
    ) -> Result<HostPermit, ConnectFailure> {
        let rule = self
            .decide(host, port, asking)
            .map_err(ConnectFailure::Denied)?;
        self.resolve(host, port, rule.to_owned())
    }

    /// Returns the permit for the host of a secret, which no rule has to allow: its addresses are checked as others.
    pub(super) fn permit_secret(&self, route: &SecretRoute) -> Result<HostPermit, ConnectFailure> {
        let rule = format!("--secret {}", route.name);
        self.resolve(&route.host, route.port, rule)
    }

    /// Finds out the addresses of a host that may be reached.
    fn resolve(&self, host: &Host, port: u16, rule: String) -> Result<HostPermit, ConnectFailure> {
        let addresses = match host {
            Host::Address(address) => vec![SocketAddr::new(*address, port)],
            Host::Name(name) => match (name.as_str(), port).to_socket_addrs() {
                Ok(found) => found.collect(),
                Err(error) => {
                    let reason = format!("{name} cannot be resolved: {error}");
                    return Err(ConnectFailure::Failed { rule, reason });
                }
            },
        };
        self.check(host, &addresses)
            .map_err(ConnectFailure::Denied)?;
        Ok(HostPermit {
            host: host.clone(),
            rule,
            addresses,
        })
    }

    /// Decides by the lists and the answers: a list that refuses comes first, then what was answered, then a list that
    /// allows.
    fn decide(
        &self,
        host: &Host,
        port: u16,
        asking: &AskingConnection<'_>,
    ) -> Result<String, HostDenial> {
        self.rules.check_denied(host, port)?;
        let listed = || self.rules.decide(host, port).map(str::to_owned);
        let Some(answers) = &self.answers else {
            return listed();
        };
        let decided = answers.decide(host, port).unwrap_or_else(listed);
        decided.or_else(|denied| answers.ask(denied, (host, port), asking))
    }

    /// Returns the secret whose requests arrive at a port of loopback, and what verifies its server.
    pub(super) fn secret_at(&self, port: u16) -> Option<(&SecretRoute, &TlsClient)> {
        let bound = self.secrets.iter().find(|bound| bound.port == port)?;
        Some((&bound.route, self.tls.as_ref()?))
    }

    /// Checks what a host resolved to. An address that is not public must be allowed by itself, as that of a registry
    /// inside a company's network may be.
    fn check(&self, host: &Host, addresses: &[SocketAddr]) -> Result<(), HostDenial> {
        for address in addresses {
            let (ip, port) = (address.ip(), address.port());
            let address_host = Host::Address(ip);
            let answers = self.answers.as_ref();
            let answered = answers.and_then(|answers| answers.decide_address(&address_host, port));
            let is_allowed = || {
                matches!(answered, Some(Ok(()))) || self.rules.decide(&address_host, port).is_ok()
            };
            if matches!(host, Host::Name(_)) && !is_public(ip) && !is_allowed() {
                let reason = format!(
                    "it resolves to {ip}, which is no public address and has to be allowed, too"
                );
                return Err(HostDenial::new("network: addresses", reason));
            }
            self.rules.check_denied(&address_host, port)?;
            answered.transpose()?;
        }
        Ok(())
    }

    /// Connects to what the sandbox serves itself at an address of its loopback.
    ///
    /// # Errors
    /// `ENOTCONN` where that is not possible; what connect(2) says.
    pub(super) fn connect_within(&self, at: SocketAddrV4) -> rustix::io::Result<TcpStream> {
        let within = self.within.as_ref().ok_or(Errno::NOTCONN)?;
        let socket = within.lock().socket()?;
        set_socket_timeout(&socket, Timeout::Send, Some(LOCAL_CONNECT_LIMIT))?;
        rustix::net::connect(&socket, &at)?;
        Ok(socket.into())
    }

    /// Returns where a sandbox serves a host itself, for a program that asks a proxy for it: what the launcher listens
    /// at is not among that.
    pub(super) fn own_address(&self, host: &Host, port: u16) -> Option<SocketAddrV4> {
        let is_launchers = [PROXY, SOCKS].contains(&port)
            || self.ports.contains(&port)
            || self.host_ports.contains(&port);
        let address = host.within().filter(|_| !is_launchers)?;
        Some(SocketAddrV4::new(address, port))
    }

    /// Answers a question of the DNS. Nothing: no answer is due.
    pub(super) fn answer(&self, message: &[u8]) -> Option<Vec<u8>> {
        let question = match dns::read(message) {
            Ok(question) => question,
            Err(refusal) => return refusal,
        };
        let answer = match Host::parse(&question.name) {
            Ok(Host::Name(name)) => self.answer_name(name, question.is_address),
            // Addresses have no addresses, and what is no host has none either.
            _ => DnsAnswer::NoName,
        };
        Some(question.answer(answer))
    }

    fn answer_name(&self, name: String, is_address: bool) -> DnsAnswer {
        let host = Host::Name(name);
        let decided = match &self.answers {
            Some(answers) if answers.gives_address(&host) => self.rules.check_name_denied(&host),
            Some(answers) => {
                let decided = self.rules.decide_name(&host).map(drop);
                decided.map_err(|denied| answers.with_way(denied, &host, None))
            }
            None => self.rules.decide_name(&host).map(drop),
        };
        if let Err(denied) = decided {
            // What an address is called is asked by programs of their own accord.
            if !host.to_string().ends_with(".arpa") {
                self.log
                    .add(&new_record("dns", &host, 53).with_denial(&denied));
            }
            return DnsAnswer::NoName;
        }
        if is_address {
            match self.names.lock().address_of(&host.to_string()) {
                Some(address) => DnsAnswer::Address(address),
                None => DnsAnswer::Failure,
            }
        } else {
            DnsAnswer::NoData
        }
    }

    /// Takes note of a connection that the kernel has refused, because nobody listens at the port. A host that is
    /// allowed there is named with what reaches it.
    pub(super) fn note_refused_by_kernel(&self, address: Ipv4Addr, port: u16) {
        let host = self.host_at(address);
        let denied = match self.rules.decide(&host, port) {
            Err(denied) => match &self.answers {
                Some(answers) => answers.with_way(denied, &host, Some(port)),
                None => denied,
            },
            Ok(_) => {
                let ports = self.ports.iter().filter(|port| **port != DNS);
                let ports: Vec<String> = ports.map(u16::to_string).collect();
                let reason = format!(
                    "without a proxy, hosts are reached at their ports {} alone; list {host}:{port} in `network.allow` or --net, or \
                     connect by the proxy of HTTP_PROXY or ALL_PROXY",
                    ports.join(" ")
                );
                HostDenial::new("network: ports", reason)
            }
        };
        self.log
            .add(&new_record("closed", &host, port).with_denial(&denied));
    }

    /// Returns what a program meant that connects to an address in its sandbox.
    pub(super) fn host_at(&self, address: Ipv4Addr) -> Host {
        match self.names.lock().name_of(address) {
            Some(name) => Host::Name(name.to_owned()),
            None => Host::Address(address.into()),
        }
    }
}

impl HostPermit {
    /// Makes one of what the sandbox serves itself, which needs no rule.
    pub(super) fn of_sandbox(host: Host) -> HostPermit {
        HostPermit {
            host,
            rule: "the sandbox's own".to_owned(),
            addresses: Vec::new(),
        }
    }

    /// Connects to an address of the host.
    pub(super) fn connect(&self) -> Result<(TcpStream, IpAddr), ConnectFailure> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in self.addresses.iter().take(MAX_TRIED_ADDRESSES) {
            match TcpStream::connect_timeout(address, CONNECT_LIMIT) {
                Ok(stream) => return Ok((stream, address.ip())),
                Err(error) => last = error,
            }
        }
        Err(ConnectFailure::Failed {
            rule: self.rule.clone(),
            reason: format!("no connection to {}: {last}", self.host),
        })
    }
}
