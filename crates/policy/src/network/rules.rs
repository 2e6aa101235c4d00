//! [`HostRules`]: which hosts may be reached. A pure function of a host and a port.

use super::address::is_public;
use super::host::Host;
use super::pattern::HostPattern;

/// Allowed and refused hosts. Without a pattern that allows a host, it is refused.
#[derive(Debug, Clone, Default)]
pub struct HostRules {
    allow: Vec<HostPattern>,
    /// True if every public host is allowed besides.
    all: bool,
    deny: Vec<HostPattern>,
    /// The hosts that one command asks for, if it does; both lists have to allow a host then.
    asked: Option<Vec<HostPattern>>,
}

/// The rule that refuses a host, and its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostDenial {
    /// The key and the line of the policy.
    pub rule: String,
    /// The reason, in words.
    pub reason: String,
}

impl HostDenial {
    /// Returns a refusal by a rule, with its reason.
    pub fn new(rule: impl Into<String>, reason: impl Into<String>) -> HostDenial {
        let (rule, reason) = (rule.into(), reason.into());
        HostDenial { rule, reason }
    }
}

impl HostRules {
    /// Reads the patterns of a policy. Returns which of them means nothing, and why.
    pub fn new(allow: &[String], deny: &[String]) -> Result<HostRules, String> {
        let read = |key: &str, texts: &[String]| -> Result<Vec<HostPattern>, String> {
            let patterns = texts.iter().map(|text| {
                HostPattern::parse(text).map_err(|why| format!("network.{key}: {text:?}: {why}"))
            });
            patterns.collect()
        };
        Ok(HostRules {
            allow: read("allow", allow)?,
            all: false,
            deny: read("deny", deny)?,
            asked: None,
        })
    }

    /// The same with every public host allowed besides, if `all` is true.
    #[must_use]
    pub fn with_all(self, all: bool) -> HostRules {
        HostRules { all, ..self }
    }

    /// Narrows the rules to hosts that a command asks for. Returns what it asks for in vain.
    pub fn narrow(mut self, asked: &[String]) -> Result<HostRules, String> {
        let mut patterns = Vec::new();
        for text in asked {
            let pattern =
                HostPattern::parse(text).map_err(|why| format!("--net: {text:?}: {why}"))?;
            if !self.allow.iter().any(|allowed| allowed.covers(&pattern)) {
                return Err(format!(
                    "--net: the policy does not allow {text}; it allows {}",
                    in_words(&self.allow)
                ));
            }
            patterns.push(pattern);
        }
        self.asked = Some(patterns);
        Ok(self)
    }

    /// Narrows the rules to what they have in common with hosts that somebody asks for. Returns which of those means
    /// nothing, and why.
    pub fn at_most(mut self, asked: &[String]) -> Result<HostRules, String> {
        let mut patterns = Vec::new();
        for text in asked {
            let pattern =
                HostPattern::parse(text).map_err(|why| format!("--net: {text:?}: {why}"))?;
            let overlaps =
                |allowed: &HostPattern| allowed.covers(&pattern) || pattern.covers(allowed);
            if self.allow.iter().any(overlaps) {
                patterns.push(pattern);
            }
        }
        self.asked = Some(patterns);
        Ok(self)
    }

    /// Returns the pattern that allows a host at a port, or what refuses it.
    pub fn decide(&self, host: &Host, port: u16) -> Result<&str, HostDenial> {
        self.check_denied(host, port)?;
        let matches = |pattern: &&HostPattern| {
            pattern.matches(host) && pattern.port.is_none_or(|allowed| allowed == port)
        };
        self.allowed(host, matches)
    }

    /// Returns the pattern that allows a host at some port, or what refuses it at all of them.
    pub fn decide_name(&self, host: &Host) -> Result<&str, HostDenial> {
        self.check_name_denied(host)?;
        self.allowed(host, |pattern| pattern.matches(host))
    }

    /// Returns the rule that refuses a host at a port whatever is allowed, if there is one.
    pub fn check_denied(&self, host: &Host, port: u16) -> Result<(), HostDenial> {
        self.denied(host, |denied| denied.is_none_or(|denied| denied == port))
    }

    /// Returns the rule that refuses a host at all ports whatever is allowed, if there is one.
    pub fn check_name_denied(&self, host: &Host) -> Result<(), HostDenial> {
        self.denied(host, |denied| denied.is_none())
    }

    fn denied(&self, host: &Host, at: impl Fn(Option<u16>) -> bool) -> Result<(), HostDenial> {
        let mut patterns = self.deny.iter();
        match patterns.find(|pattern| at(pattern.port) && pattern.matches(host)) {
            None => Ok(()),
            Some(pattern) => Err(HostDenial::new(
                format!("network.deny: {}", pattern.text),
                "the policy refuses it",
            )),
        }
    }

    fn allowed(
        &self,
        host: &Host,
        matches: impl Fn(&&HostPattern) -> bool,
    ) -> Result<&str, HostDenial> {
        let listed = self.allow.iter().find(&matches);
        let by_all = || (self.all && is_public_host(host)).then_some(ALL);
        let Some(pattern) = listed.map(|pattern| &*pattern.text).or_else(by_all) else {
            let reason = match host {
                _ if self.all => "it is no public address".to_owned(),
                Host::Name(_) => format!("the policy allows {}", in_words(&self.allow)),
                Host::Address(_) => format!(
                    "an address has to be listed as such; the policy allows {}",
                    in_words(&self.allow)
                ),
            };
            return Err(HostDenial::new("network.allow", reason));
        };
        match &self.asked {
            Some(asked) if !asked.iter().any(|pattern| matches(&pattern)) => {
                let reason = format!("this command may reach {}", in_words(asked));
                Err(HostDenial::new("--net", reason))
            }
            _ => Ok(pattern),
        }
    }

    /// The ports that allowed hosts are listed with, by the policy or by the command.
    pub fn ports(&self) -> impl Iterator<Item = u16> {
        let asked = self.asked.iter().flatten();
        let listed = self.allow.iter().chain(asked);
        listed.filter_map(|pattern| pattern.port)
    }

    /// Returns the hosts that are allowed one by one, each with its port if it is allowed at one alone.
    pub fn single_hosts(&self) -> impl Iterator<Item = (&Host, Option<u16>)> {
        let patterns = self.allow.iter();
        patterns.filter_map(|pattern| Some((pattern.single_host()?, pattern.port)))
    }

    /// Returns whether no host is allowed.
    pub fn is_empty(&self) -> bool {
        self.allow.is_empty() && !self.all || self.asked.as_ref().is_some_and(Vec::is_empty)
    }
}

/// The pattern of every public host.
const ALL: &str = "all";

/// Returns whether a host may be a public one, as far as it says: what a name resolves to is looked at before the
/// connection.
fn is_public_host(host: &Host) -> bool {
    match host {
        Host::Name(_) => true,
        Host::Address(address) => is_public(*address),
    }
}

/// Names patterns, of many only the first.
fn in_words(patterns: &[HostPattern]) -> String {
    /// The greatest number of patterns in a message.
    const SHOWN: usize = 12;
    let texts = patterns.iter().map(|pattern| &*pattern.text);
    let mut shown: Vec<&str> = texts.take(SHOWN).collect();
    if shown.is_empty() {
        return "no host".to_owned();
    }
    if patterns.len() > SHOWN {
        shown.push("and others");
    }
    shown.join(" ")
}

#[cfg(test)]
#[allow(clippy::expect_used, clippy::indexing_slicing)]
mod tests;
