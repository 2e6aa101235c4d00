//! SOCKS 5 (RFC 1928), as far as a program needs it to reach a host: no authentication, CONNECT.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::byte_reader::ByteReader;
use trumanfs_policy::network::Host;

/// The meaning of the bytes of a part of the protocol.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SocksMessage<T> {
    /// There must be more.
    Partial,
    /// All of it, and how many bytes it had.
    Whole(T, usize),
    /// The bytes are something else.
    Other,
}

/// Why a request is not carried out, as the protocol says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum SocksReply {
    Done = 0,
    NotAllowed = 2,
    Unreachable = 4,
    NoSuchCommand = 7,
    NoSuchAddress = 8,
}

/// The target of a request: a host as it was spelled, and a port.
pub(super) type SocksTarget = Result<(Result<Host, Vec<u8>>, u16), SocksReply>;

/// Reads the greeting: whether going without authentication is offered.
pub(super) fn greeting(bytes: &[u8]) -> SocksMessage<bool> {
    let mut rest = ByteReader(bytes);
    match rest.byte() {
        None => SocksMessage::Partial,
        Some(5) => match rest.counted(1) {
            None => SocksMessage::Partial,
            Some(methods) => {
                SocksMessage::Whole(methods.0.contains(&0), bytes.len() - rest.0.len())
            }
        },
        Some(_) => SocksMessage::Other,
    }
}

/// The answer to a greeting.
pub(super) fn greeting_reply(is_offered: bool) -> [u8; 2] {
    [5, if is_offered { 0 } else { 0xff }]
}

/// Reads the request.
pub(super) fn request(bytes: &[u8]) -> SocksMessage<SocksTarget> {
    let mut rest = ByteReader(bytes);
    let Some([version, command, reserved, kind]) = rest.take(4) else {
        return match bytes.first() {
            None | Some(5) => SocksMessage::Partial,
            Some(_) => SocksMessage::Other,
        };
    };
    if (*version, *reserved) != (5, 0) {
        return SocksMessage::Other;
    }
    let host = match kind {
        1 => rest.take(4).map(|a| match <[u8; 4]>::try_from(a) {
            Ok(octets) => Ok(Host::of_v4(Ipv4Addr::from(octets))),
            Err(_) => Err(a.to_vec()),
        }),
        4 => rest.take(16).map(|a| match <[u8; 16]>::try_from(a) {
            Ok(octets) => Ok(Host::Address(Ipv6Addr::from(octets).into())),
            Err(_) => Err(a.to_vec()),
        }),
        3 => {
            let name = rest.counted(1);
            name.map(|name| Host::parse(name.0).map_err(|_| name.0.to_vec()))
        }
        _ => return SocksMessage::Whole(Err(SocksReply::NoSuchAddress), bytes.len()),
    };
    let (Some(host), Some(port)) = (host, rest.short()) else {
        return SocksMessage::Partial;
    };
    let len = bytes.len() - rest.0.len();
    match command {
        1 => SocksMessage::Whole(Ok((host, port)), len),
        _ => SocksMessage::Whole(Err(SocksReply::NoSuchCommand), len),
    }
}

/// The answer to a request. The address that it should name means nothing here.
pub(super) fn reply(reply: SocksReply) -> [u8; 10] {
    [5, reply as u8, 0, 1, 0, 0, 0, 0, 0, 0]
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    fn host(text: &str) -> Result<Host, Vec<u8>> {
        Ok(Host::parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn greetings() {
        for (bytes, part) in [
            (&b""[..], SocksMessage::Partial),
            (b"\x05", SocksMessage::Partial),
            (b"\x05\x02\0", SocksMessage::Partial),
            (b"\x05\x01\0", SocksMessage::Whole(true, 3)),
            (b"\x05\x02\x02\0\x05", SocksMessage::Whole(true, 4)),
            (b"\x05\x01\x02", SocksMessage::Whole(false, 3)),
            (b"\x05\0", SocksMessage::Whole(false, 2)),
            (b"\x04\x01", SocksMessage::Other),
            (b"GET /", SocksMessage::Other),
        ] {
            assert_eq!(greeting(bytes), part, "{bytes:?}");
        }
    }

    #[test]
    fn requests() {
        for (bytes, wanted, len) in [
            (
                &b"\x05\x01\0\x01\x5d\xb8\xd8\x22\x01\xbbmore"[..],
                Ok((host("93.184.216.34"), 443)),
                10,
            ),
            (
                b"\x05\x01\0\x03\x09A.example\0\x50",
                Ok((host("a.example"), 80)),
                16,
            ),
            (
                b"\x05\x01\0\x03\x0a2130706433\0\x50",
                Ok((host("127.0.0.1"), 80)),
                17,
            ),
            (
                b"\x05\x01\0\x03\x03a\0b\0\x50",
                Ok((Err(b"a\0b".to_vec()), 80)),
                10,
            ),
            (b"\x05\x01\0\x03\0\0\x50", Ok((Err(Vec::new()), 80)), 7),
            (
                b"\x05\x01\0\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\x50",
                Ok((host("::1"), 80)),
                22,
            ),
            (
                b"\x05\x02\0\x01\x01\x02\x03\x04\0\x50",
                Err(SocksReply::NoSuchCommand),
                10,
            ),
            (
                b"\x05\x03\0\x01\0\0\0\0\0\0",
                Err(SocksReply::NoSuchCommand),
                10,
            ),
        ] {
            assert_eq!(
                request(bytes),
                SocksMessage::Whole(wanted, len),
                "{bytes:?}"
            );
            for cut in 0..len {
                assert_eq!(
                    request(&bytes[..cut]),
                    SocksMessage::Partial,
                    "{bytes:?} cut at {cut}"
                );
            }
        }
        assert_eq!(
            request(b"\x05\x01\0\x02xxx"),
            SocksMessage::Whole(Err(SocksReply::NoSuchAddress), 7)
        );
        for bytes in [&b"\x04\x01\0\x50"[..], b"\x05\x01\x01\x01", b"CONNECT"] {
            assert_eq!(request(bytes), SocksMessage::Other);
        }
        assert_eq!(
            reply(SocksReply::NotAllowed),
            [5, 2, 0, 1, 0, 0, 0, 0, 0, 0]
        );
        assert_eq!(greeting_reply(false), [5, 0xff]);
    }
}
