//! The head of an HTTP/1 request (RFC 9112), read strictly: two readers must not understand two different requests.

/// The most bytes that a head may have.
pub(super) const MAX_HEAD_BYTES: usize = 32 << 10;

/// Fields that mean something between two neighbours alone (RFC 9110, 7.6.1), or to a proxy.
const HOP_BY_HOP: [&str; 7] = [
    "connection",
    "proxy-connection",
    "keep-alive",
    "proxy-authorization",
    "te",
    "upgrade",
    "http2-settings",
];

/// A request without its body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RequestHead<'a> {
    pub(super) method: &'a str,
    pub(super) target: &'a str,
    version: &'a str,
    fields: Vec<(&'a str, &'a str)>,
    /// The framing of the body that follows the head.
    pub(super) framing: BodyLength,
    /// The number of bytes of the head.
    pub(super) len: usize,
}

/// The length of a request's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyLength {
    Length(u64),
    Chunked,
}

/// Reads a head. `Ok(None)`: there must be more.
///
/// # Errors
/// The fault of the request.
pub(super) fn read(bytes: &[u8]) -> Result<Option<RequestHead<'_>>, &'static str> {
    // A line break before the request is to be ignored (RFC 9112, 2.2).
    let skipped = if bytes.starts_with(b"\r\n") { 2 } else { 0 };
    let rest = bytes.get(skipped..).unwrap_or_default();
    let Some(end) = rest.windows(4).position(|four| four == b"\r\n\r\n") else {
        return match bytes.len() {
            0..MAX_HEAD_BYTES => Ok(None),
            _ => Err("the head of the request is too long"),
        };
    };
    let text = rest.get(..end).unwrap_or_default();
    let is_plain = |byte: &u8| matches!(byte, b'\t' | b'\r' | b'\n' | b' '..=b'~' | 0x80..);
    if !text.iter().all(is_plain) {
        return Err("the head of the request has a control character");
    }
    let text = std::str::from_utf8(text).map_err(|_| "the head of the request is no UTF-8")?;
    let mut lines = text.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let mut words = first.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err("the first line is no request of HTTP/1");
    };
    if !is_token(method) || !is_target(method, target) {
        return Err("the first line is no request of HTTP/1");
    }
    if !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
        return Err("the request is not of HTTP/1.0 or HTTP/1.1");
    }
    let mut fields = Vec::new();
    for line in lines {
        let (name, value) = line
            .split_once(':')
            .ok_or("a line of the head has no colon")?;
        // A folded line begins with a blank, and a name before a blank is read differently by others.
        if !is_token(name) || value.contains(['\r', '\n']) {
            return Err("a line of the head has no proper name");
        }
        fields.push((name, value.trim_matches([' ', '\t'])));
    }
    let framing = body_length(&fields)?;
    Ok(Some(RequestHead {
        method,
        target,
        version,
        fields,
        framing,
        len: skipped + end + 4,
    }))
}

pub(super) fn is_token(text: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_token)
}

fn body_length(fields: &[(&str, &str)]) -> Result<BodyLength, &'static str> {
    let mut encodings = values(fields, "transfer-encoding");
    let mut lengths = values(fields, "content-length");
    match (encodings.next(), lengths.next()) {
        (None, None) => Ok(BodyLength::Length(0)),
        (None, Some(text)) => {
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let length = text.parse().ok().filter(|_| is_number);
            match (length, lengths.next()) {
                (Some(length), None) => Ok(BodyLength::Length(length)),
                _ => Err("the length of the body is not clear"),
            }
        }
        (Some(encoding), None) if encoding.eq_ignore_ascii_case("chunked") => {
            match encodings.next() {
                None => Ok(BodyLength::Chunked),
                Some(_) => Err("the encoding of the body is not clear"),
            }
        }
        _ => Err("the encoding of the body is not clear"),
    }
}

fn values<'a>(fields: &[(&'a str, &'a str)], name: &str) -> impl Iterator<Item = &'a str> {
    let named = fields
        .iter()
        .filter(move |field| field.0.eq_ignore_ascii_case(name));
    named.map(|field| field.1)
}

impl RequestHead<'_> {
    /// Returns the host that the request names, if it names one and only one.
    pub(super) fn host(&self) -> Option<&str> {
        let mut hosts = values(&self.fields, "host");
        hosts.next().filter(|_| hosts.next().is_none())
    }

    /// Writes the head for the server: without what was meant for a proxy, and the last one of its connection. `host`
    /// is the value of the field of that name.
    pub(super) fn for_server(&self, target: &str, host: &str) -> Vec<u8> {
        self.for_server_without(target, host, |_| false)
    }

    /// The same without fields of which `is_dropped` says so, given their name in lower case.
    pub(super) fn for_server_without(
        &self,
        target: &str,
        host: &str,
        is_dropped: impl Fn(&str) -> bool,
    ) -> Vec<u8> {
        let named: Vec<String> = values(&self.fields, "connection")
            .flat_map(|value| value.split(','))
            .map(|name| name.trim().to_ascii_lowercase())
            .collect();
        let mut out = format!(
            "{} {target} {}\r\nHost: {host}\r\n",
            self.method, self.version
        );
        for (name, value) in &self.fields {
            let lower = name.to_ascii_lowercase();
            // What says how long the body is stays, whatever `Connection` says.
            let is_framing = matches!(&*lower, "transfer-encoding" | "content-length");
            let is_left_out = lower == "host"
                || HOP_BY_HOP.contains(&&*lower)
                || (named.contains(&lower) && !is_framing)
                || is_dropped(&lower);
            if !is_left_out {
                out.push_str(name);
                out.push_str(": ");
                out.push_str(value);
                out.push_str("\r\n");
            }
        }
        out.push_str("Connection: close\r\n\r\n");
        out.into_bytes()
    }
}

/// Returns whether a text is a request target (RFC 9112, 3.2). The host of a request to a proxy may be more than ASCII:
/// [`super::host`] alone reads the name that the request gives there, and it does not go on.
fn is_target(method: &str, target: &str) -> bool {
    let is_graphic = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    let (host, rest) = match (method, split_url(target)) {
        ("CONNECT", _) => (target, String::new()),
        (_, Some((host, path))) => (host, path),
        (_, None) => ("", target.to_owned()),
    };
    let is_plain = |c: char| c.is_ascii_graphic() || !c.is_ascii();
    !target.is_empty() && host.chars().all(is_plain) && is_graphic(&rest)
}

/// Splits `host:port`; a host without a port has this one. Nothing where the port is none.
pub(super) fn split_authority(text: &str, usual: u16) -> Option<(&str, u16)> {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
            let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
            let port = port.parse().ok().filter(|port| is_number && *port > 0)?;
            Some((host, port))
        }
        _ => Some((text, usual)),
    }
}

/// Splits the URL of a request to a proxy: who is asked, and for what. Only `http` can be asked for so.
pub(super) fn split_url(target: &str) -> Option<(&str, String)> {
    let (scheme, rest) = target.split_once("://")?;
    if !scheme.eq_ignore_ascii_case("http") {
        return None;
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end)?;
    let path = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/{path}")
    };
    Some((authority, path))
}

/// Returns an answer that says why there is no other.
pub(super) fn refusal_response(status: &str, text: &str) -> Vec<u8> {
    let len = text.len() + 1;
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n{text}\n"
    )
    .into_bytes()
}

#[cfg(test)]
#[allow(clippy::expect_used, clippy::indexing_slicing)]
mod tests;
