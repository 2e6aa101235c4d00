//! [`Host`]: what a program wants to reach, in the one spelling in which it is compared, resolved and recorded.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use idna::AsciiDenyList;
use idna::uts46::{DnsLength, Hyphens, Uts46};

/// A host. There is one spelling of each: a name in ASCII and in lower case without a dot at its end, or an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// A name, in lower case and with its labels in ASCII.
    Name(String),
    /// An address.
    Address(IpAddr),
}

impl Host {
    const LOOPBACK: Host = Host::Address(IpAddr::V4(Ipv4Addr::LOCALHOST));

    /// Returns what an IPv4 address leads to.
    pub fn of_v4(address: Ipv4Addr) -> Host {
        match address.is_unspecified() {
            true => Host::LOOPBACK,
            false => Host::Address(address.into()),
        }
    }

    /// Returns the address at which a sandbox has this host itself: loopback, or the sandbox by its name.
    pub fn within(&self) -> Option<Ipv4Addr> {
        match self {
            Host::Address(IpAddr::V4(address)) if address.is_loopback() => Some(*address),
            Host::Name(name) if name == "sandbox" => Some(Ipv4Addr::LOCALHOST),
            _ => None,
        }
    }

    /// Reads a host as it stands in requests: a name, an address, an IPv6 address in brackets. What a resolver would read
    /// as an address is one, in whatever spelling (`2130706433`, `0x7f.1`); `localhost` and 0.0.0.0 lead to 127.0.0.1. A name that is not ASCII is the one of its
    /// `xn--` form. Returns why it is none.
    pub fn parse(text: &[u8]) -> Result<Host, &'static str> {
        let text = std::str::from_utf8(text).map_err(|_| "it is no UTF-8")?;
        if let Some(inner) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
            return v6(inner);
        }
        if text.contains(':') {
            return v6(text);
        }
        let name = in_ascii(text)?;
        let name = name.strip_suffix('.').unwrap_or(&name);
        if name.is_empty() {
            return Err("it is empty");
        }
        if name.len() > 253 {
            return Err("it is longer than a name can be");
        }
        for label in name.split('.') {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            if label.is_empty() || label.len() > 63 {
                return Err("a part of it between two dots is empty, or too long");
            }
            if !label.bytes().all(is_plain) {
                return Err("it has a character that no name has");
            }
            if label.starts_with('-') || label.ends_with('-') {
                return Err("a part of it begins or ends with a hyphen");
            }
        }
        match is_numeric(name) {
            _ if name == "localhost" => Ok(Host::LOOPBACK),
            false => Ok(Host::Name(name.to_owned())),
            true => v4(name)
                .map(Host::of_v4)
                .ok_or("it ends like an address and is none"),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => out.write_str(name),
            Host::Address(IpAddr::V4(address)) => address.fmt(out),
            Host::Address(IpAddr::V6(address)) => write!(out, "[{address}]"),
        }
    }
}

/// Writes a name in ASCII and in lower case (UTS 46, as browsers do: no transitional processing). What is wrong with the
/// name besides, its callers see.
fn in_ascii(text: &str) -> Result<String, &'static str> {
    // The underscore of service names is allowed, and so are two hyphens at the third place, which other names have, too.
    let (denied, length) = (AsciiDenyList::EMPTY, DnsLength::Ignore);
    match Uts46::new().to_ascii(text.as_bytes(), denied, Hyphens::Allow, length) {
        Ok(name) => Ok(name.into_owned()),
        Err(_) if text.is_ascii() => Err("a part of it begins with xn-- and stands for no name"),
        Err(_) => Err("it has characters that no international name has (UTS 46)"),
    }
}

fn v6(text: &str) -> Result<Host, &'static str> {
    let address: Ipv6Addr = text
        .parse()
        .map_err(|_| "it has a colon and is no IPv6 address")?;
    Ok(Host::Address(address.into()))
}

/// Returns whether a name ends with a number, as only addresses do (WHATWG URL, "ends in a number").
fn is_numeric(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    last.bytes().all(|byte| byte.is_ascii_digit()) || number(last).is_some()
}

/// Reads a number as inet_aton(3): decimal, octal after a 0, hexadecimal after 0x.
fn number(text: &str) -> Option<u64> {
    let (digits, base) = match text.strip_prefix("0x") {
        Some("") => return Some(0),
        Some(digits) => (digits, 16),
        None => match text.strip_prefix('0') {
            Some("") => return Some(0),
            Some(digits) => (digits, 8),
            None => (text, 10),
        },
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(digits, base).ok()
}

/// Reads an IPv4 address in any spelling of inet_aton(3): the last part has all bytes that the others leave.
fn v4(text: &str) -> Option<Ipv4Addr> {
    let parts: Option<Vec<u64>> = text.split('.').map(number).collect();
    let parts = parts?;
    let (last, first) = parts.split_last()?;
    let left = 4usize.checked_sub(first.len()).filter(|left| *left > 0)?;
    if *last >> (8 * left) != 0 || first.iter().any(|part| *part > 255) {
        return None;
    }
    let high = first.iter().fold(0, |all, part| (all << 8) | part);
    let bits = (high << (8 * left)) | last;
    u32::try_from(bits).ok().map(Ipv4Addr::from_bits)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn each_host_has_one_spelling() {
        for (text, host) in [
            ("example.org", "example.org"),
            ("EXAMPLE.Org.", "example.org"),
            ("_srv.a-b.example", "_srv.a-b.example"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("XN--Bcher-KVA.example", "xn--bcher-kva.example"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("BÜCHER.Example.", "xn--bcher-kva.example"),
            // A letter with a combining diaeresis.
            ("bu\u{308}cher.example", "xn--bcher-kva.example"),
            ("faß.example", "xn--fa-hia.example"),
            ("例え。テスト｡", "xn--r8jz45g.xn--zckzah"),
            ("ａ.example", "a.example"),
            // What UTS 46 leaves out is invisible.
            ("a\u{200b}\u{ad}b", "ab"),
            ("r3---a.example", "r3---a.example"),
            ("２１３０７０６４３３", "127.0.0.1"),
            ("①２7.１", "127.0.0.1"),
            ("localhost", "127.0.0.1"),
            ("LocalHost.", "127.0.0.1"),
            ("sub.localhost", "sub.localhost"),
            ("deadbeef", "deadbeef"),
            ("0xyz.example", "0xyz.example"),
            ("127.0.0.1", "127.0.0.1"),
            ("127.0.0.1.", "127.0.0.1"),
            ("127.1", "127.0.0.1"),
            ("2130706433", "127.0.0.1"),
            ("0x7f.1", "127.0.0.1"),
            ("0x7F000001", "127.0.0.1"),
            ("017700000001", "127.0.0.1"),
            ("0177.0.0.01", "127.0.0.1"),
            ("0xa9fea9fe", "169.254.169.254"),
            ("1.2.772", "1.2.3.4"),
            ("0", "127.0.0.1"),
            ("0x", "127.0.0.1"),
            ("[::1]", "[::1]"),
            ("::1", "[::1]"),
            ("[::FFFF:127.0.0.1]", "[::ffff:127.0.0.1]"),
            ("[2606:2800:220:1:0:0:0:1]", "[2606:2800:220:1::1]"),
        ] {
            let parsed = Host::parse(text.as_bytes());
            assert_eq!(parsed.unwrap().to_string(), host, "{text}");
        }
    }

    #[test]
    fn what_is_unclear_is_no_host() {
        let long = format!("{}.example", "a".repeat(64));
        let longer = ["abcdefg."; 32].concat();
        for text in [
            "",
            ".",
            "a..b",
            ".a",
            "a..",
            "a b",
            "a\0.example",
            "a\n",
            "a/b",
            "a@b",
            "user:pw@b",
            "a%00b",
            "fe80::1%eth0",
            "[fe80::1%25eth0]",
            "[::1",
            "::1]",
            "[127.0.0.1]",
            "[example]",
            "a:80",
            "a?b",
            "a#b",
            "a\\b",
            "-a.example",
            "a-.example",
            "xn--a.example",
            "xn--\u{fc}.example",
            // An xn-- form of ASCII.
            "xn--abc-.example",
            "a\u{2028}b",
            "a\u{202e}b.example",
            "a％b",
            "a／b",
            "a：80",
            "ａ＠b",
            "［::1］",
            "\u{5d0}1a.example",
            "\u{300}a.example",
            "\u{ad}",
            "①.1.2.3.4",
            "1.2.3.4.5",
            "256.1.1.1",
            "1.2.3.256",
            "4294967296",
            "099",
            "1.2.3.08",
            "a.1",
            "1.2.3.0x",
            "0x1ffffffff",
            "a.0x7f",
            "*.example",
            &long,
            &longer,
        ] {
            let parsed = Host::parse(text.as_bytes());
            let is_zero = text == "1.2.3.0x";
            assert_eq!(parsed.is_err(), !is_zero, "{text}: {parsed:?}");
        }
        assert!(Host::parse(b"\xff\xfe").is_err());
    }
}
