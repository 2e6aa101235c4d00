//! The ports that a network listens at, and which ones a rule may list: read by policies, and by the network that is opened for a program.

use std::collections::BTreeSet;

use super::super::schema::{NetworkRule, PublishedPort};
use super::pattern::HostPattern;

/// The port of 127.0.0.1 in the sandbox at which HTTP's proxy answers.
pub const PROXY: u16 = 3128;
/// The port of 127.0.0.1 in the sandbox at which SOCKS answers.
pub const SOCKS: u16 = 1080;
/// The port at which names are asked for.
pub const DNS: u16 = 53;
/// Ports of every address that are listened at: those of SSH, names, HTTP and TLS.
const USUAL: [u16; 4] = [22, DNS, 80, 443];
/// The greatest number of ports in all.
const MAX_PORTS: usize = 200;

/// A list of ports of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortList {
    /// Ports of the host that are seen inside.
    HostPorts,
    /// Ports of the program that are seen on the host.
    Publish,
}

/// A port that cannot stand where it stands.
#[derive(Debug, PartialEq, Eq)]
pub struct WrongPort {
    /// The list that it stands in.
    pub list: PortList,
    /// Its place in the list.
    pub at: usize,
    /// The port and what is wrong with it.
    pub why: String,
}

impl PortList {
    /// Returns the key of the list.
    pub fn key(self) -> &'static str {
        match self {
            PortList::HostPorts => "host_ports",
            PortList::Publish => "publish",
        }
    }
}

/// Returns the ports of every address that are listened at for hosts that are listed with these ports.
pub fn anywhere(listed: impl Iterator<Item = u16>) -> BTreeSet<u16> {
    USUAL.into_iter().chain(listed).collect()
}

/// Returns the ports of a rule that cannot be had, of each list in its order. Hosts that cannot be read list none.
pub fn wrong_ports(rule: &NetworkRule) -> Vec<WrongPort> {
    let patterns = rule.allow.iter().map(|text| HostPattern::parse(text));
    let captured = anywhere(patterns.filter_map(|pattern| pattern.ok()?.port));
    let (mut forwarded, mut on_host) = (BTreeSet::new(), BTreeSet::new());
    let host_ports = rule.host_ports.iter().map(|port| {
        let own = "the sandbox answers there itself; give the service another port";
        match *port {
            PROXY | SOCKS | DNS => Some(own),
            0 => Some("it is no port; 1 to 65535 are"),
            port => (!forwarded.insert(port)).then_some("it stands here twice"),
        }
    });
    let host_ports: Vec<_> = host_ports.collect();
    let publish = rule.publish.iter().map(|published| match published.port {
        0 => Some("it is no port; 1 to 65535 are"),
        port if forwarded.contains(&port) => Some(
            "it is one of host_ports, too: connections to it lead to this machine, so the program cannot listen there",
        ),
        PROXY | SOCKS => Some("the sandbox answers there itself; have the program listen at another port"),
        port if captured.contains(&port) => {
            Some("the program cannot listen there, because connections to hosts arrive there")
        }
        _ => (!on_host.insert(published.on_host)).then_some("it stands here twice"),
    });
    let publish: Vec<_> = publish.collect();
    let written = |ports: &[u16]| ports.iter().map(u16::to_string).collect();
    let published = rule.publish.iter().map(PublishedPort::to_string);
    let lists: [(_, Vec<String>, _); 2] = [
        (PortList::HostPorts, written(&rule.host_ports), host_ports),
        (PortList::Publish, published.collect(), publish),
    ];
    let mut wrong = Vec::new();
    let mut left = MAX_PORTS.saturating_sub(captured.len());
    for (list, ports, reasons) in lists {
        for (at, (port, reason)) in ports.iter().zip(reasons).enumerate() {
            let too_many =
                (left == 0).then(|| format!("with it there are more than {MAX_PORTS} ports"));
            left = left.saturating_sub(1);
            if let Some(reason) = reason.map(str::to_owned).or(too_many) {
                let why = format!("{port}: {reason}");
                wrong.push(WrongPort { list, at, why });
            }
        }
    }
    wrong
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Names what is wrong.
    fn wrong(allow: &[&str], host_ports: &[u16], publish: &[u16]) -> Vec<(&'static str, usize)> {
        let wrong = wrong_ports(&NetworkRule {
            allow: allow.iter().map(|host| (*host).to_owned()).collect(),
            deny: Vec::new(),
            host_ports: host_ports.to_vec(),
            publish: publish.iter().map(|port| (*port).into()).collect(),
            all: false,
        });
        wrong
            .iter()
            .map(|wrong| (wrong.list.key(), wrong.at))
            .collect()
    }

    #[test]
    fn ports_that_cannot_be_had_are_found_where_they_stand() {
        let (host_ports, publish) = ("host_ports", "publish");
        assert_eq!(
            wrong(
                &["a.example:8443"],
                &[22, 80, 443, 5432, 8443],
                &[3000, 8080]
            ),
            []
        );
        assert_eq!(
            wrong(&[], &[53, 5432, 1080, 3128, 5432, 0], &[]),
            [0, 2, 3, 4, 5].map(|at| (host_ports, at))
        );
        assert_eq!(
            wrong(
                &["a.example:8443", "*:1"],
                &[5432],
                &[53, 80, 443, 22, 3128, 1080, 8443, 5432, 1, 3000, 3000, 0]
            ),
            [0, 1, 2, 3, 4, 5, 6, 7, 10, 11].map(|at| (publish, at))
        );
        let elsewhere = |published: &[&str]| {
            let publish = published.iter().map(|text| text.parse().unwrap()).collect();
            let rule = NetworkRule {
                publish,
                ..NetworkRule::default()
            };
            wrong_ports(&rule).into_iter().map(|wrong| wrong.why)
        };
        assert_eq!(elsewhere(&["80:3000", "8080:3000", "3000"]).count(), 0);
        assert_eq!(
            elsewhere(&["8080:80", "8080:3000", "8080:3001"]).collect::<Vec<_>>(),
            [
                "8080:80: the program cannot listen there, because connections to hosts arrive there",
                "8080:3001: it stands here twice"
            ]
        );
        for text in ["", "0", "1:", ":1", "1:2:3", "65536", "a", "-1:2"] {
            assert!(text.parse::<PublishedPort>().is_err(), "{text}");
        }
        let many: Vec<u16> = (10_000..10_197).collect();
        assert_eq!(wrong(&[], &many, &[]), [(host_ports, 196)]);
        assert_eq!(
            wrong(&["a.example:1"], &many, &[3000]),
            [(host_ports, 195), (host_ports, 196), (publish, 0)]
        );
    }
}
