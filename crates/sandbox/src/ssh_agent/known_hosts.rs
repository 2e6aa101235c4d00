//! [`KnownHosts`]: the user's files of known hosts (sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT"), as far as hosts that are
//! allowed are concerned.
//!
//! A line that is not understood vouches for nothing. A key with a marker other than that of an authority is taken for
//! revoked, whatever host the line names; authorities vouch for certificates, which are not known here.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use base64ct::{Base64, Encoding};
use ring::hmac;

use trumanfs_policy::network::{Host, HostRules};

/// The largest file that is read, in bytes.
const MAX_BYTES: u64 = 8 << 20;

/// The port of SSH, which names of known hosts leave out.
const SSH_PORT: u16 = 22;

/// The lines of some files.
#[derive(Debug, Default)]
pub struct KnownHosts {
    lines: Vec<KnownLine>,
}

#[derive(Debug)]
struct KnownLine {
    mark: KeyMark,
    names: NameSet,
    key: Vec<u8>,
    /// The line's words from the names on.
    words: [String; 3],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyMark {
    Plain,
    Authority,
    Revoked,
}

#[derive(Debug)]
enum NameSet {
    /// A hashed name: its HMAC-SHA1 with a key.
    Hashed { salt: Vec<u8>, hash: Vec<u8> },
    /// Patterns in lower case; true: what matches it is not meant.
    Patterns(Vec<(bool, String)>),
}

/// A host with its port, as connections go there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KnownHost {
    pub(super) host: Host,
    pub(super) port: u16,
}

impl KnownHosts {
    /// Reads files. One that cannot be read, or is too large, has no lines.
    #[must_use]
    pub fn read(files: &[&Path]) -> KnownHosts {
        let mut known = KnownHosts::default();
        for file in files {
            let mut text = Vec::new();
            let read = File::open(file).and_then(|file| {
                let is_file = file.metadata()?.is_file();
                file.take(if is_file { MAX_BYTES + 1 } else { 0 })
                    .read_to_end(&mut text)
            });
            if read.is_ok_and(|len| len as u64 <= MAX_BYTES) {
                known.add(&text);
            }
        }
        known
    }

    /// Adds the lines of a text.
    pub(super) fn add(&mut self, text: &[u8]) {
        let lines = text.split(|byte| *byte == b'\n');
        let lines = lines.filter_map(|line| std::str::from_utf8(line).ok());
        self.lines.extend(lines.filter_map(KnownLine::parse));
    }

    /// Finds the host of a key that may be reached.
    ///
    /// # Errors
    /// In words, why there is none.
    pub(super) fn allowed_host(&self, key: &[u8], rules: &HostRules) -> Result<KnownHost, String> {
        let of_key = || self.lines.iter().filter(|line| line.key == key);
        if of_key().any(|line| line.mark == KeyMark::Revoked) {
            return Err("known_hosts has its key as revoked".to_owned());
        }
        let plain = || of_key().filter(|line| line.mark == KeyMark::Plain);
        let named: Vec<KnownHost> = plain().flat_map(KnownLine::plain_hosts).collect();
        let is_allowed = |host: &KnownHost| rules.decide(&host.host, host.port).is_ok();
        let mut candidates = named.iter().cloned().chain(listed_hosts(rules));
        let found = candidates
            .find(|host| is_allowed(host) && plain().any(|line| line.names.matches(&host.name())));
        found.ok_or_else(|| match named.first() {
            Some(host) => format!(
                "its key is known as that of {}, and --net does not allow that",
                host.in_words()
            ),
            None => "known_hosts has its key for no host that --net allows".to_owned(),
        })
    }

    /// Returns the lines about hosts that may be reached, with no other names; a name that is hashed stays so.
    #[must_use]
    pub fn allowed_lines(&self, rules: &HostRules) -> String {
        let mut text = String::new();
        let listed: Vec<KnownHost> = listed_hosts(rules).collect();
        for line in self.lines.iter() {
            let [names, kind, key] = &line.words;
            let mark = match line.mark {
                KeyMark::Plain => "",
                KeyMark::Authority => continue,
                KeyMark::Revoked => "@revoked ",
            };
            let mut hosts = line.plain_hosts();
            hosts.extend(listed.iter().cloned());
            hosts.retain(|host| {
                rules.decide(&host.host, host.port).is_ok() && line.names.matches(&host.name())
            });
            let mut allowed: Vec<String> = hosts.iter().map(KnownHost::name).collect();
            allowed.sort();
            allowed.dedup();
            let names = match (&line.names, allowed.is_empty()) {
                (_, true) => continue,
                (NameSet::Hashed { .. }, _) => names.clone(),
                (NameSet::Patterns(_), _) => allowed.join(","),
            };
            text.push_str(&format!("{mark}{names} {kind} {key}\n"));
        }
        text
    }
}

/// Returns the hosts that rules list by name, at the port of the rule or that of SSH.
fn listed_hosts(rules: &HostRules) -> impl Iterator<Item = KnownHost> {
    rules.single_hosts().map(|(host, port)| KnownHost {
        host: host.clone(),
        port: port.unwrap_or(SSH_PORT),
    })
}

impl KnownHost {
    /// Returns the host as files of known hosts name it.
    fn name(&self) -> String {
        match self.port {
            SSH_PORT => self.host.to_string(),
            port => format!("[{}]:{port}", self.host),
        }
    }

    /// Returns the host with its port.
    pub(super) fn in_words(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Reads a name of a file of known hosts.
    fn parse(name: &str) -> Option<KnownHost> {
        let (host, port) = match name.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.rsplit_once("]:")?;
                (host, port.parse().ok()?)
            }
            None => (name, SSH_PORT),
        };
        let host = Host::parse(host.as_bytes()).ok()?;
        Some(KnownHost { host, port })
    }
}

impl KnownLine {
    fn parse(line: &str) -> Option<KnownLine> {
        let mut words = line.split_ascii_whitespace();
        let mut first = words.next()?;
        let mut mark = KeyMark::Plain;
        if first.starts_with('#') {
            return None;
        }
        if first.starts_with('@') {
            mark = match first {
                "@cert-authority" => KeyMark::Authority,
                _ => KeyMark::Revoked,
            };
            first = words.next()?;
        }
        let (kind, encoded) = (words.next()?, words.next()?);
        Some(KnownLine {
            mark,
            names: NameSet::parse(first)?,
            key: Base64::decode_vec(encoded).ok()?,
            words: [first, kind, encoded].map(str::to_owned),
        })
    }

    /// Returns the hosts that the line names as they are.
    fn plain_hosts(&self) -> Vec<KnownHost> {
        let NameSet::Patterns(patterns) = &self.names else {
            return Vec::new();
        };
        let plain = patterns
            .iter()
            .filter(|(negated, pattern)| !negated && !pattern.contains(['*', '?']));
        plain
            .filter_map(|(_, name)| KnownHost::parse(name))
            .collect()
    }
}

impl NameSet {
    fn parse(text: &str) -> Option<NameSet> {
        if let Some(hashed) = text.strip_prefix('|') {
            let (salt, hash) = hashed.strip_prefix("1|")?.split_once('|')?;
            return Some(NameSet::Hashed {
                salt: Base64::decode_vec(salt).ok()?,
                hash: Base64::decode_vec(hash).ok()?,
            });
        }
        let patterns = text.to_ascii_lowercase();
        let patterns = patterns.split(',').map(|name| {
            let bare = name.strip_prefix('!');
            (bare.is_some(), bare.unwrap_or(name).to_owned())
        });
        Some(NameSet::Patterns(patterns.collect()))
    }

    fn matches(&self, name: &str) -> bool {
        match self {
            NameSet::Hashed { salt, hash } => {
                let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, salt);
                hmac::verify(&key, name.as_bytes(), hash).is_ok()
            }
            NameSet::Patterns(patterns) => {
                let hit = |wanted: bool| {
                    let mut of_kind = patterns.iter().filter(|(negated, _)| *negated == wanted);
                    of_kind.any(|(_, pattern)| is_match(pattern.as_bytes(), name.as_bytes()))
                };
                hit(false) && !hit(true)
            }
        }
    }
}

/// Returns whether a pattern with `*` and `?` matches a name as a whole. Takes the product of their lengths at most.
fn is_match(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut in_name) = (0, 0);
    let mut star = None;
    while let Some(byte) = name.get(in_name) {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, in_name));
                at += 1;
            }
            Some(wanted) if *wanted == b'?' || wanted == byte => {
                at += 1;
                in_name += 1;
            }
            _ => {
                let Some((star_at, taken)) = star else {
                    return false;
                };
                star = Some((star_at, taken + 1));
                at = star_at + 1;
                in_name = taken + 1;
            }
        }
    }
    let rest = pattern.get(at..).unwrap_or_default();
    rest.iter().all(|byte| *byte == b'*')
}
