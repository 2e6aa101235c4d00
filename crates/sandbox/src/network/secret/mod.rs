//! Secrets that a program uses without having them: a port of its loopback for each, and an HTTP proxy there that adds
//! the secret to requests for one host, by TLS.
//!
//! A request goes on only as it was understood here: one head, read strictly and written anew, and one body. The host,
//! the name in TLS and the field `Host` are the secret's own, whatever the request says. Answers are passed on as they
//! are; a redirect is followed by nobody here.
//!
//! [`SecretRoute`] is the only place of a secret's value. Nothing here prints it, and it is zeroed when it is dropped.

mod answer;
mod echo_scanner;
mod exchange;
mod request_pattern;
mod session;
mod tls;

use std::fmt;

use zeroize::Zeroizing;

pub use request_pattern::RequestPattern;
pub(super) use session::serve_secret;
pub(super) use tls::TlsClient;
use trumanfs_policy::network::Host;

/// The fewest bytes of a secret: a shorter one would be found in texts that have nothing to do with it.
const MIN_SECRET_BYTES: usize = 8;

/// The most bytes of a secret: it goes into one field of a request.
const MAX_SECRET_BYTES: usize = 8 << 10;

/// The value of a secret.
pub struct SecretValue(Zeroizing<Vec<u8>>);

impl fmt::Debug for SecretValue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("SecretValue")
    }
}

impl SecretValue {
    /// Takes a value.
    ///
    /// # Errors
    /// The reason why it cannot stand in a field of a request.
    pub fn new(value: Zeroizing<Vec<u8>>) -> Result<SecretValue, String> {
        match value.len() {
            0 => return Err("it is empty".to_owned()),
            len if len < MIN_SECRET_BYTES => {
                return Err(format!(
                    "it has {len} bytes; a secret has {MIN_SECRET_BYTES} or more"
                ));
            }
            len if len > MAX_SECRET_BYTES => {
                return Err(format!("it is longer than {MAX_SECRET_BYTES} bytes"));
            }
            _ => {}
        }
        let is_plain = |byte: &u8| matches!(byte, b' '..=b'~');
        if !value.iter().all(is_plain) || value.starts_with(b" ") || value.ends_with(b" ") {
            return Err("it has a line break, or another byte that no HTTP field has".to_owned());
        }
        Ok(SecretValue(value))
    }

    /// Returns whether these bytes have the value in them.
    #[must_use]
    pub fn is_in(&self, bytes: &[u8]) -> bool {
        memchr::memmem::find(bytes, &self.0).is_some()
    }
}

/// The field of a request that has a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretHeader {
    /// The name of the field.
    pub name: String,
    /// The word before the value, as in `Authorization: Bearer …`.
    pub scheme: Option<String>,
}

impl Default for SecretHeader {
    fn default() -> SecretHeader {
        SecretHeader {
            name: "Authorization".to_owned(),
            scheme: Some("Bearer".to_owned()),
        }
    }
}

impl SecretHeader {
    /// Reads `NAME`, or `NAME SCHEME`.
    ///
    /// # Errors
    /// The reason why it is no field for a secret.
    pub fn parse(text: &str) -> Result<SecretHeader, String> {
        let (name, scheme) = match text.split_once(' ') {
            Some((name, scheme)) => (name, Some(scheme)),
            None => (text, None),
        };
        let is_token = |text: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            !text.is_empty() && text.bytes().all(plain)
        };
        if !is_token(name)
            || !name.starts_with(|c: char| c.is_ascii_alphabetic())
            || scheme.is_some_and(|scheme| !is_token(scheme))
        {
            return Err(format!(
                "`{text}` is no field: write HEADER, or `HEADER SCHEME` as in `Authorization Bearer`"
            ));
        }
        if RESERVED.contains(&&*name.to_ascii_lowercase()) {
            return Err(format!("{name} is a field that trumanfs writes itself"));
        }
        Ok(SecretHeader {
            name: name.to_owned(),
            scheme: scheme.map(str::to_owned),
        })
    }
}

/// Fields that frame a request or say where it goes.
const RESERVED: [&str; 6] = [
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "upgrade",
    "expect",
];

/// A secret, and the requests that it is added to.
#[derive(Debug)]
pub struct SecretRoute {
    /// The name by which it is spoken of.
    pub name: String,
    /// The only host that gets it.
    pub host: Host,
    /// The port of that host.
    pub port: u16,
    /// The field that has it.
    pub header: SecretHeader,
    /// The value.
    pub value: SecretValue,
    /// The requests that may be made. None: all.
    pub only: Vec<RequestPattern>,
    /// Further fields of the program's own that do not go on: other ways to say who asks.
    pub dropped: Vec<String>,
    /// Variables of the program. In their values, `{url}` stands for the base URL.
    pub env: Vec<(String, String)>,
}

impl SecretRoute {
    /// Returns the host as a request names it.
    fn authority(&self) -> String {
        match self.port {
            443 => self.host.to_string(),
            port => format!("{}:{port}", self.host),
        }
    }

    /// Returns the line of the secret, with its end.
    fn line(&self) -> Zeroizing<Vec<u8>> {
        let (name, scheme) = (&self.header.name, self.header.scheme.as_deref());
        let parts = [
            name.as_bytes(),
            b": ",
            scheme.unwrap_or_default().as_bytes(),
            if scheme.is_some() { b" " } else { b"" },
            &self.value.0,
            b"\r\n",
        ];
        // As long as it gets: a vector that grows leaves its bytes behind.
        let mut line = Zeroizing::new(Vec::with_capacity(parts.iter().map(|p| p.len()).sum()));
        parts.iter().for_each(|part| line.extend_from_slice(part));
        line
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn secret_is_one_line_and_never_shown() {
        let value = |text: &str| SecretValue::new(Zeroizing::new(text.as_bytes().to_vec()));
        for wrong in [
            "",
            "short",
            "with\nline",
            "with\rline",
            " blanks ",
            "tab\there",
            "s\u{e9}cr\u{e9}t12",
        ] {
            assert!(value(wrong).is_err(), "{wrong:?}");
        }
        assert!(value(&"x".repeat(MAX_SECRET_BYTES + 1)).is_err());
        let value = value("sk-123456").unwrap();
        assert!(value.is_in(b"a sk-123456 b") && !value.is_in(b"sk-12345"));
        assert!(!format!("{value:?}").contains("123456"));
    }

    #[test]
    fn header_has_a_name_and_perhaps_a_scheme() {
        let parsed =
            |text: &str| SecretHeader::parse(text).map(|header| (header.name, header.scheme));
        assert_eq!(parsed("X-Key"), Ok(("X-Key".to_owned(), None)));
        assert_eq!(
            parsed("Authorization token"),
            Ok(("Authorization".to_owned(), Some("token".to_owned())))
        );
        for wrong in [
            "",
            " ",
            "A b c",
            "A\r\nB",
            "A:",
            "8443",
            "Host",
            "content-length",
            "Transfer-Encoding x",
        ] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
    }
}
