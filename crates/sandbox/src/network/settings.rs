//! [`NetworkSettings`]: what a policy and a command say of the network, ready for a sandbox.

use std::ffi::OsString;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

use super::answers::HostAnswers;
use super::secret::{SecretRoute, TlsClient};
use crate::CapturedPorts;
use trumanfs_policy::network::HostPattern;
use trumanfs_policy::network::HostRules;
use trumanfs_policy::network::{PROXY, SOCKS, anywhere, wrong_ports};
use trumanfs_policy::{NetworkRule, PublishedPort};

/// The first port of loopback for secrets: the one behind the HTTP proxy's.
const FIRST_SECRET_PORT: u16 = PROXY + 1;

/// The part of what the policy allows that one command asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkRequest {
    /// No network.
    Nothing,
    /// These hosts, as the policy writes them, and nothing else. It is an error to ask for a host that the policy does
    /// not allow.
    Hosts(Vec<String>),
    /// Of these hosts those that the policy allows: for a line, in which each program is allowed hosts of its own.
    AtMost(Vec<String>),
}

impl NetworkRequest {
    /// Checks that each host that is asked for means something.
    ///
    /// # Errors
    /// The first one that means nothing, and why.
    pub fn check(&self) -> Result<(), String> {
        let (NetworkRequest::Hosts(hosts) | NetworkRequest::AtMost(hosts)) = self else {
            return Ok(());
        };
        hosts
            .iter()
            .try_for_each(|host| match HostPattern::parse(host) {
                Ok(_) => Ok(()),
                Err(why) => Err(format!("`{host}` is no host: {why}")),
            })
    }
}

/// The network of one program.
#[derive(Debug, Clone)]
pub struct NetworkSettings {
    pub(super) rules: HostRules,
    pub(super) answers: Option<Arc<HostAnswers>>,
    pub(super) host_ports: Vec<u16>,
    pub(super) publish: Vec<PublishedPort>,
    pub(super) anywhere: Vec<u16>,
    pub(super) secrets: Vec<BoundSecret>,
}

/// A secret, and the port of loopback at which it is added to requests.
#[derive(Debug, Clone)]
pub(super) struct BoundSecret {
    pub(super) route: Arc<SecretRoute>,
    pub(super) port: u16,
}

/// Settings with what has to be open for them on the host.
#[derive(Debug)]
pub struct NetworkSetup {
    pub(super) settings: NetworkSettings,
    /// Ports of the host's loopback, each with the one of the program that it stands for.
    pub(super) published: Vec<(TcpListener, u16)>,
    /// The trust in servers that get secrets, where there are any.
    pub(super) tls: Option<TlsClient>,
}

impl NetworkSetup {
    /// Returns the ports that the sandbox listens at. Its programs want the variables of [`add_proxy_variables`], too.
    pub fn captured(&self) -> CapturedPorts {
        self.settings.captured()
    }
}

impl NetworkSettings {
    /// Puts together what a policy says and what a command asks for. Nothing: there is no network at all.
    ///
    /// # Errors
    /// A part that means nothing, contradicts another, or is more than the policy allows. Nothing may run then.
    pub fn new(
        rule: &NetworkRule,
        asked: Option<&NetworkRequest>,
    ) -> Result<Option<NetworkSettings>, String> {
        NetworkSettings::made_of(rule, asked, None)
    }

    fn made_of(
        rule: &NetworkRule,
        asked: Option<&NetworkRequest>,
        answers: Option<Arc<HostAnswers>>,
    ) -> Result<Option<NetworkSettings>, String> {
        let rules = HostRules::new(&rule.allow, &rule.deny)?.with_all(rule.all);
        if let Some(wrong) = wrong_ports(rule).into_iter().next() {
            return Err(format!("network.{}: {}", wrong.list.key(), wrong.why));
        }
        let (rules, host_ports, publish) = match asked {
            Some(NetworkRequest::Nothing) => return Ok(None),
            Some(NetworkRequest::Hosts(hosts)) => (rules.narrow(hosts)?, Vec::new(), Vec::new()),
            Some(NetworkRequest::AtMost(hosts)) => (rules.at_most(hosts)?, Vec::new(), Vec::new()),
            None => (rules, rule.host_ports.clone(), rule.publish.clone()),
        };
        let is_answered = answers
            .as_ref()
            .is_some_and(|answers| answers.needs_network());
        if rules.is_empty() && host_ports.is_empty() && publish.is_empty() && !is_answered {
            return Ok(None);
        }
        let anywhere: Vec<u16> = anywhere(rules.ports()).into_iter().collect();
        Ok(Some(NetworkSettings {
            rules,
            answers,
            host_ports,
            publish,
            anywhere,
            secrets: Vec::new(),
        }))
    }

    /// Returns the ports of hosts that are reached without a proxy.
    pub fn captured_ports(&self) -> Vec<u16> {
        self.anywhere.clone()
    }

    /// Puts together the network of an agent, with the answers of whoever watches it while it runs, and with secrets that
    /// are added to its requests. Nothing: there is no network at all, and none that an answer could allow.
    ///
    /// # Errors
    /// As [`NetworkSettings::new`].
    pub fn of_agent(
        rule: &NetworkRule,
        answers: Option<Arc<HostAnswers>>,
        secrets: &[Arc<SecretRoute>],
    ) -> Result<Option<NetworkSettings>, String> {
        let settings = NetworkSettings::made_of(rule, None, answers.clone())?;
        if secrets.is_empty() {
            return Ok(settings);
        }
        let nothing = || NetworkSettings {
            rules: HostRules::default(),
            answers,
            host_ports: Vec::new(),
            publish: Vec::new(),
            anywhere: anywhere(std::iter::empty()).into_iter().collect(),
            secrets: Vec::new(),
        };
        let mut settings = settings.unwrap_or_else(nothing);
        let is_taken = |port: &u16| {
            let mut published = settings.publish.iter().map(|published| published.port);
            settings.host_ports.contains(port)
                || settings.anywhere.contains(port)
                || published.any(|taken| taken == *port)
        };
        let free = (FIRST_SECRET_PORT..).filter(|port| !is_taken(port));
        let bound = secrets.iter().cloned().zip(free);
        let bound: Vec<_> = bound
            .map(|(route, port)| BoundSecret { route, port })
            .collect();
        settings.secrets = bound;
        Ok(Some(settings))
    }

    /// Returns the variables by which a program finds where its secrets are added.
    #[must_use]
    pub fn secret_variables(&self) -> Vec<(String, String)> {
        let of_secret = |bound: &BoundSecret| {
            let url = format!("http://127.0.0.1:{}", bound.port);
            let env = bound.route.env.iter();
            let set = env.map(|(name, value)| (name.clone(), value.replace("{url}", &url)));
            set.collect::<Vec<_>>()
        };
        self.secrets.iter().flat_map(of_secret).collect()
    }

    /// Returns the ports that the sandbox listens at.
    fn captured(&self) -> CapturedPorts {
        let own = [PROXY, SOCKS].into_iter().chain(self.host_ports.clone());
        let own = own.chain(self.secrets.iter().map(|bound| bound.port));
        let mut loopback: Vec<u16> = own.filter(|port| !self.anywhere.contains(port)).collect();
        loopback.sort_unstable();
        loopback.dedup();
        CapturedPorts {
            anywhere: self.anywhere.clone(),
            loopback,
            within: true,
        }
    }

    /// Opens what the host has to have open: the ports that are published; and reads what it trusts, for secrets.
    ///
    /// # Errors
    /// The port that cannot be had, and why; nothing is trusted.
    pub fn open(self) -> Result<NetworkSetup, String> {
        let open = |published: &PublishedPort| {
            let on_host = published.on_host;
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, on_host));
            listener.map(|listener| (listener, published.port)).map_err(|error| {
                format!("network.publish: port {on_host} of this machine's 127.0.0.1: {error}; end what listens there, or publish another port")
            })
        };
        let published: Result<Vec<_>, String> = self.publish.iter().map(open).collect();
        let tls = match self.secrets.is_empty() {
            true => None,
            false => Some(TlsClient::new()?),
        };
        Ok(NetworkSetup {
            published: published?,
            tls,
            settings: self,
        })
    }
}

/// Adds the variables by which programs find the proxies of a network. They are a hint: what does not heed them is
/// captured.
pub fn add_proxy_variables(env: &mut Vec<(OsString, OsString)>) {
    let http = format!("http://127.0.0.1:{PROXY}");
    let socks = format!("socks5h://127.0.0.1:{SOCKS}");
    // Python's urllib takes an IPv6 address in brackets, others without. Not all programs can read the last one. What
    // they ask a proxy for then, the gateway connects to in the sandbox.
    let local = "localhost,127.0.0.1,::1,[::1],::,[::],0.0.0.0,sandbox,127.0.0.0/8";
    for (name, value) in [
        ("HTTP_PROXY", &*http),
        ("HTTPS_PROXY", &http),
        ("ALL_PROXY", &socks),
        ("NO_PROXY", local),
        ("http_proxy", &http),
        ("https_proxy", &http),
        ("all_proxy", &socks),
        ("no_proxy", local),
        ("NODE_USE_ENV_PROXY", "1"),
    ] {
        if !env.iter().any(|(known, _)| known == name) {
            env.push((name.into(), value.into()));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn rule(allow: &[&str], host_ports: &[u16], publish: &[u16]) -> NetworkRule {
        NetworkRule {
            allow: allow.iter().map(|host| (*host).to_owned()).collect(),
            deny: Vec::new(),
            host_ports: host_ports.to_vec(),
            publish: publish.iter().map(|port| (*port).into()).collect(),
            all: false,
        }
    }

    #[test]
    fn nothing_is_no_network() {
        assert!(
            NetworkSettings::new(&NetworkRule::default(), None)
                .unwrap()
                .is_none()
        );
        let rule = rule(&["a.example"], &[5432], &[3000]);
        assert!(
            NetworkSettings::new(&rule, Some(&NetworkRequest::Nothing))
                .unwrap()
                .is_none()
        );
        let none = NetworkRequest::Hosts(Vec::new());
        assert!(NetworkSettings::new(&rule, Some(&none)).unwrap().is_none());
    }

    #[test]
    fn a_command_gets_no_more_than_the_policy_allows() {
        let asked = NetworkRequest::Hosts(vec!["a.example".to_owned()]);
        let why = NetworkSettings::new(&NetworkRule::default(), Some(&asked)).unwrap_err();
        assert_eq!(
            why,
            "--net: the policy does not allow a.example; it allows no host"
        );
        let rule = rule(&["a.example", "b.example"], &[5432], &[3000]);
        let settings = NetworkSettings::new(&rule, Some(&asked)).unwrap().unwrap();
        assert!(settings.host_ports.is_empty() && settings.publish.is_empty());
        // A program of a line has what it may have of that, or nothing.
        for (asked, some) in [
            ("c.example", false),
            ("**.example", true),
            ("b.example:80", true),
        ] {
            let asked = NetworkRequest::AtMost(vec![asked.to_owned()]);
            let settings = NetworkSettings::new(&rule, Some(&asked)).unwrap();
            assert_eq!(settings.is_some(), some, "{asked:?}");
            assert!(settings.is_none_or(|s| s.host_ports.is_empty() && s.publish.is_empty()));
        }
    }

    #[test]
    fn ports_are_listened_at_once() {
        let rule = rule(
            &["a.example:8443", "b.example:8443", "c.example:5432"],
            &[5432, 6000],
            &[3000],
        );
        let captured = NetworkSettings::new(&rule, None)
            .unwrap()
            .unwrap()
            .captured();
        assert_eq!(captured.anywhere, [22, 53, 80, 443, 5432, 8443]);
        assert_eq!(captured.loopback, [1080, 3128, 6000]);
        assert!(captured.within);
    }

    #[test]
    fn the_ports_that_a_command_names_are_listened_at_too() {
        let asked = NetworkRequest::Hosts(vec!["a.example:8080".to_owned()]);
        let rule = rule(&["a.example"], &[], &[]);
        let settings = NetworkSettings::new(&rule, Some(&asked)).unwrap().unwrap();
        assert_eq!(settings.captured().anywhere, [22, 53, 80, 443, 8080]);
    }

    #[test]
    fn secrets_have_ports_that_nothing_else_has() {
        let route = |name: &str| {
            let value = zeroize::Zeroizing::new(b"the-secret".to_vec());
            Arc::new(SecretRoute {
                name: name.to_owned(),
                host: trumanfs_policy::network::Host::parse(b"a.example").unwrap(),
                port: 443,
                header: super::super::SecretHeader::default(),
                value: super::super::SecretValue::new(value).unwrap(),
                only: Vec::new(),
                dropped: Vec::new(),
                env: vec![(format!("{name}_URL"), "{url}/v1".to_owned())],
            })
        };
        let secrets = [route("A"), route("B")];
        let none = NetworkSettings::of_agent(&NetworkRule::default(), None, &[]).unwrap();
        assert!(none.is_none());
        let alone = NetworkSettings::of_agent(&NetworkRule::default(), None, &secrets).unwrap();
        let alone = alone.unwrap();
        assert_eq!(alone.captured().loopback, [1080, 3128, 3129, 3130]);
        assert_eq!(alone.captured().anywhere, [22, 53, 80, 443]);
        assert!(!format!("{alone:?}").contains("the-secret"));
        let rule = rule(&["b.example:3131"], &[3129], &[3130]);
        let settings = NetworkSettings::of_agent(&rule, None, &secrets)
            .unwrap()
            .unwrap();
        let url =
            |name: &str, port: u16| (format!("{name}_URL"), format!("http://127.0.0.1:{port}/v1"));
        assert_eq!(
            settings.secret_variables(),
            [url("A", 3132), url("B", 3133)]
        );
    }

    #[test]
    fn ports_that_cannot_be_are_named() {
        for (rule, part) in [
            (rule(&[], &[3128], &[]), "network.host_ports: 3128"),
            (rule(&[], &[53], &[]), "network.host_ports: 53"),
            (rule(&[], &[5432, 5432], &[]), "network.host_ports: 5432"),
            (
                rule(&["a.example:8443"], &[], &[8443]),
                "network.publish: 8443",
            ),
            (rule(&[], &[5432], &[5432]), "network.publish: 5432"),
            (rule(&["*"], &[], &[]), "network.allow: \"*\""),
        ] {
            let why = NetworkSettings::new(&rule, None).unwrap_err();
            assert!(why.starts_with(part), "{why}");
        }
        let many: Vec<u16> = (10_000..10_300).collect();
        assert!(NetworkSettings::new(&rule(&[], &many, &[]), None).is_err());
    }
}
