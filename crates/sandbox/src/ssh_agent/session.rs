//! [`AgentSession`]: one connection to the proxy, and the decision about each of its messages. Nothing is sent here.
//!
//! OpenSSH's PROTOCOL.agent has the messages. A client proves where it is logging in by session-bind@openssh.com: the
//! server's key has signed the session's identifier, which both ends have made together, so no other server's session has
//! it. What is signed then is a request to log in to that session, and nothing else.

use super::host_key::{HostKey, fingerprint};
use super::known_hosts::{KnownHost, KnownHosts};
use super::wire::WireReader;
use trumanfs_policy::network::HostRules;

/// Numbers of messages to an agent.
const REQUEST_IDENTITIES: u8 = 11;
const SIGN_REQUEST: u8 = 13;
const EXTENSION: u8 = 27;

/// The number of a message by which a client logs in (RFC 4252).
const USERAUTH_REQUEST: u8 = 50;

/// The flags of a request for a signature that are known: SHA-256 and SHA-512 for RSA.
const KNOWN_FLAGS: u32 = 2 | 4;

/// The most bytes of a session's identifier: a hash of the key exchange.
const MAX_SESSION_BYTES: usize = 128;

/// A session with a server, by what tells it from others.
#[derive(Debug, Clone, PartialEq, Eq)]
struct BoundSession {
    id: Vec<u8>,
    host_key: Vec<u8>,
    host: KnownHost,
}

/// A connection of a program to the proxy.
#[derive(Debug)]
pub(super) struct AgentSession<'a> {
    rules: &'a HostRules,
    known: &'a KnownHosts,
    bound: Option<BoundSession>,
}

/// The decision about a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AgentDecision {
    /// The message is answered with a failure.
    Refuse(AgentRefusal),
    /// The session is bound; the user's agent is told, too, as it may have keys for some destinations only.
    Bind,
    /// The user's agent lists its keys.
    List,
    /// The user's agent signs.
    Sign(SignatureRequest),
}

/// A refused message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AgentRefusal {
    /// The host, where it is known; else the fingerprint of its key, or nothing.
    pub(super) host: String,
    /// The fingerprint of the key that was to sign.
    pub(super) key: Option<String>,
    pub(super) reason: String,
}

/// A request for a signature by which a program logs in to a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SignatureRequest {
    /// With its port.
    pub(super) host: String,
    /// As the program names it.
    pub(super) user: String,
    /// The fingerprint of the key.
    pub(super) key: String,
}

impl<'a> AgentSession<'a> {
    pub(super) fn new(rules: &'a HostRules, known: &'a KnownHosts) -> AgentSession<'a> {
        let bound = None;
        AgentSession {
            rules,
            known,
            bound,
        }
    }

    /// Decides about a message, without its length.
    pub(super) fn decide(&mut self, message: &[u8]) -> AgentDecision {
        let mut read = WireReader(message);
        match (read.byte(), &self.bound) {
            (Some(EXTENSION), _) => self.decide_extension(read),
            (Some(REQUEST_IDENTITIES | SIGN_REQUEST), None) => refuse(
                None,
                None,
                "it is for no session with a host: ssh of OpenSSH 8.9 or newer names one, and nothing else is signed",
            ),
            (Some(REQUEST_IDENTITIES), Some(_)) if read.end().is_some() => AgentDecision::List,
            (Some(SIGN_REQUEST), Some(bound)) => match login(read, bound) {
                Ok(request) => AgentDecision::Sign(request),
                Err((key, reason)) => refuse(Some(bound), key, reason),
            },
            (_, bound) => refuse(bound.as_ref(), None, "only logins to hosts are signed"),
        }
    }

    fn decide_extension(&mut self, mut read: WireReader<'_>) -> AgentDecision {
        if read.string() != Some(b"session-bind@openssh.com") {
            return refuse(self.bound.as_ref(), None, "only logins to hosts are signed");
        }
        let parts = (|| {
            let (key, id) = (read.string()?, read.string()?);
            let (signature, is_forwarding) = (read.string()?, read.flag()?);
            read.end()?;
            (!id.is_empty() && id.len() <= MAX_SESSION_BYTES).then_some((
                key,
                id,
                signature,
                is_forwarding,
            ))
        })();
        let Some((key, id, signature, is_forwarding)) = parts else {
            return refuse(None, None, "it names no session");
        };
        let refuse_host = |reason: &str| {
            AgentDecision::Refuse(AgentRefusal {
                host: format!("a host with the key {}", fingerprint(key)),
                key: None,
                reason: reason.to_owned(),
            })
        };
        if is_forwarding {
            return refuse_host("the agent is not forwarded to other machines");
        }
        let host_key = HostKey(key);
        let kind = host_key.type_name().unwrap_or("unknown");
        match host_key.verify(id, signature) {
            Some(true) => {}
            Some(false) => return refuse_host("the host's key has not signed the session"),
            None => {
                return refuse_host(&format!(
                    "host keys of the type {kind} with this signature are not known: ssh-ed25519, ecdsa-sha2-nistp256 and -384, \
                     and ssh-rsa with rsa-sha2 are"
                ));
            }
        }
        let host = match self.known.allowed_host(key, self.rules) {
            Ok(host) => host,
            Err(reason) => return refuse_host(&reason),
        };
        let new = BoundSession {
            id: id.to_vec(),
            host_key: key.to_vec(),
            host,
        };
        match &self.bound {
            Some(bound) if *bound != new => refuse_host("the connection is for another session"),
            _ => {
                self.bound = Some(new);
                AgentDecision::Bind
            }
        }
    }
}

fn refuse(bound: Option<&BoundSession>, key: Option<String>, reason: &str) -> AgentDecision {
    AgentDecision::Refuse(AgentRefusal {
        host: bound.map_or_else(String::new, |bound| bound.host.in_words()),
        key,
        reason: reason.to_owned(),
    })
}

/// Reads a request for a signature, after its number: that of a login to the bound session.
///
/// # Errors
/// The fingerprint of the key, and why it is none.
fn login(
    mut read: WireReader<'_>,
    bound: &BoundSession,
) -> Result<SignatureRequest, (Option<String>, &'static str)> {
    let parts = (|| {
        let parts = (read.string()?, read.string()?, read.int()?);
        read.end()?;
        Some(parts)
    })();
    let (key, data, flags) = parts.ok_or((None, "it is no request for a signature"))?;
    let key_name = fingerprint(key);
    let refused = |reason| (Some(key_name.clone()), reason);
    if flags & !KNOWN_FLAGS != 0 {
        return Err(refused("it asks for an unknown kind of signature"));
    }
    let mut data = WireReader(data);
    let is_session = data.string().is_some_and(|id| id == bound.id);
    let fields = (|| {
        let is_request = data.byte()? == USERAUTH_REQUEST;
        let (user, service, method) = (data.string()?, data.string()?, data.string()?);
        let (has_signature, _algorithm, login_key) = (data.flag()?, data.string()?, data.string()?);
        let is_host = match method {
            b"publickey" => true,
            b"publickey-hostbound-v00@openssh.com" => data.string()? == bound.host_key,
            _ => false,
        };
        data.end()?;
        let is_login = is_request && service == b"ssh-connection" && has_signature;
        (is_login && is_host && login_key == key).then_some(user)
    })();
    match fields {
        Some(user) if is_session => Ok(SignatureRequest {
            host: bound.host.in_words(),
            user: plain_text(user),
            key: key_name,
        }),
        Some(_) => Err(refused("it is a login to another session")),
        None => Err(refused(
            "it is no login, and only logins to hosts are signed",
        )),
    }
}

/// Returns text of a program's as it can be shown, of a long one the start.
fn plain_text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let shown = text.chars().take(64);
    shown
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}
