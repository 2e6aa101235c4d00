//! [`HostPattern`]: the hosts that a line of a list means. Policies are read by it, and connections decided by it.

use std::fmt;
use std::net::IpAddr;

use super::address::is_public;
use super::host::Host;

/// `host`, `host:port`, `*.host` (what is below it), `**.host` (what is below it and itself).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPattern {
    /// As somebody has written it.
    pub text: String,
    host: HostSet,
    /// Without one, every port.
    pub port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HostSet {
    Only(Host),
    Below(String),
    AtAndBelow(String),
}

impl HostPattern {
    /// Reads a pattern. Returns why it is none.
    pub fn parse(text: &str) -> Result<HostPattern, &'static str> {
        let (host, port) = match text.rsplit_once(':') {
            // An IPv6 address with a port has brackets; without one it may go without.
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                (host, Some(parse_port(port)?))
            }
            _ => (text, None),
        };
        let below = |host: &str| match Host::parse(host.as_bytes())? {
            Host::Name(name) => Ok(name),
            Host::Address(_) => Err("nothing is below an address"),
        };
        let hosts = match (host.strip_prefix("**."), host.strip_prefix("*.")) {
            (Some(host), _) => HostSet::AtAndBelow(below(host)?),
            (_, Some(host)) => HostSet::Below(below(host)?),
            _ => HostSet::Only(Host::parse(host.as_bytes())?),
        };
        Ok(HostPattern {
            text: text.to_owned(),
            host: hosts,
            port,
        })
    }

    /// Returns the address that is listed where that is not public: a service of this machine or beside it.
    pub fn private_address(&self) -> Option<IpAddr> {
        match self.host {
            HostSet::Only(Host::Address(address)) if !is_public(address) => Some(address),
            _ => None,
        }
    }

    /// Returns the host, if the pattern matches one alone.
    pub fn single_host(&self) -> Option<&Host> {
        match &self.host {
            HostSet::Only(host) => Some(host),
            HostSet::Below(_) | HostSet::AtAndBelow(_) => None,
        }
    }

    /// Returns whether the pattern matches a host.
    pub fn matches(&self, host: &Host) -> bool {
        self.host.matches(host)
    }

    /// Returns whether this pattern matches all that another one matches, at a port of this one.
    pub fn covers(&self, other: &HostPattern) -> bool {
        let is_port = self.port.is_none() || other.port.is_none() || self.port == other.port;
        is_port
            && match (&self.host, &other.host) {
                (hosts, HostSet::Only(host)) => hosts.matches(host),
                (HostSet::Only(_), _) => false,
                (HostSet::Below(own), HostSet::AtAndBelow(name)) => is_below(name, own),
                (HostSet::Below(own) | HostSet::AtAndBelow(own), HostSet::Below(name))
                | (HostSet::AtAndBelow(own), HostSet::AtAndBelow(name)) => {
                    name == own || is_below(name, own)
                }
            }
    }
}

/// The one spelling of the hosts that a pattern means.
impl fmt::Display for HostPattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            HostSet::Only(host) => host.fmt(out),
            HostSet::Below(name) => write!(out, "*.{name}"),
            HostSet::AtAndBelow(name) => write!(out, "**.{name}"),
        }?;
        match self.port {
            Some(port) => write!(out, ":{port}"),
            None => Ok(()),
        }
    }
}

fn parse_port(text: &str) -> Result<u16, &'static str> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let port = text.parse().ok().filter(|port| is_number && *port > 0);
    port.ok_or("the port must be a number from 1 to 65535")
}

impl HostSet {
    fn matches(&self, host: &Host) -> bool {
        match (self, host) {
            (HostSet::Only(own), host) => own == host,
            (HostSet::Below(own), Host::Name(name)) => is_below(name, own),
            (HostSet::AtAndBelow(own), Host::Name(name)) => name == own || is_below(name, own),
            (_, Host::Address(_)) => false,
        }
    }
}

/// Returns whether a name lies below another one.
fn is_below(name: &str, above: &str) -> bool {
    let start = name.strip_suffix(above);
    start.is_some_and(|start| start.len() > 1 && start.ends_with('.'))
}
