//! The first message of a TLS connection (RFC 8446, 4.1.2): which server it asks for (RFC 6066, server_name).

use super::byte_reader::ByteReader;

/// The most bytes that a ClientHello may have, with the records around it.
pub(super) const MAX_HELLO_BYTES: usize = 16 << 10;

/// The meaning of the first bytes of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ClientHello {
    /// There must be more.
    Partial,
    /// The ClientHello asks for this name, or for none.
    Complete(Option<Vec<u8>>),
    /// The bytes are no TLS, or none that can be understood.
    Other,
}

/// Reads the first bytes of a connection.
pub(super) fn read(bytes: &[u8]) -> ClientHello {
    match join_records(bytes) {
        Err(()) => ClientHello::Other,
        Ok(message) => match hello_body(&message) {
            Err(()) => ClientHello::Other,
            Ok(None) if bytes.len() >= MAX_HELLO_BYTES => ClientHello::Other,
            Ok(None) => ClientHello::Partial,
            Ok(Some(hello)) => match server_name(hello) {
                Some(name) => ClientHello::Complete(name),
                None => ClientHello::Other,
            },
        },
    }
}

/// Joins what records of a handshake carry, as far as they are here.
fn join_records(bytes: &[u8]) -> Result<Vec<u8>, ()> {
    let mut joined = Vec::new();
    let mut rest = ByteReader(bytes);
    while !rest.is_empty() && !matches!(hello_body(&joined), Ok(Some(_))) {
        if rest.byte() != Some(22) {
            return Err(());
        }
        match rest.byte() {
            None => break,
            Some(3) => {}
            Some(_) => return Err(()),
        }
        let (Some(_), Some(len)) = (rest.byte(), rest.number(2)) else {
            break;
        };
        if len == 0 || len > MAX_HELLO_BYTES {
            return Err(());
        }
        let here = len.min(rest.0.len());
        joined.extend(rest.take(here).unwrap_or_default());
    }
    Ok(joined)
}

/// Returns the body of a ClientHello, if all of it is here. Another message is none.
fn hello_body(message: &[u8]) -> Result<Option<ByteReader<'_>>, ()> {
    let mut bytes = ByteReader(message);
    match bytes.byte() {
        None => return Ok(None),
        Some(1) => {}
        Some(_) => return Err(()),
    }
    let mut length = bytes;
    match length.number(3) {
        Some(len) if len > MAX_HELLO_BYTES => Err(()),
        _ => Ok(bytes.counted(3)),
    }
}

/// Returns the name that a ClientHello asks for; nothing at all where it breaks a rule.
fn server_name(mut hello: ByteReader<'_>) -> Option<Option<Vec<u8>>> {
    hello.take(2 + 32)?;
    hello.counted(1)?;
    hello.counted(2)?;
    hello.counted(1)?;
    if hello.is_empty() {
        return Some(None);
    }
    let mut extensions = hello.counted(2)?;
    let mut found = None;
    while !extensions.is_empty() {
        let kind = extensions.short()?;
        let mut body = extensions.counted(2)?;
        if kind != 0 {
            continue;
        }
        let mut list = body.counted(2)?;
        // One extension, with one name of the one kind that there is.
        if found.is_some() || !body.is_empty() || list.byte()? != 0 {
            return None;
        }
        found = Some(list.counted(2)?.0.to_vec());
        if !list.is_empty() {
            return None;
        }
    }
    hello.is_empty().then_some(found)
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation
)]
mod tests {
    use super::*;

    fn counted(len: usize, body: &[u8]) -> Vec<u8> {
        [&body.len().to_be_bytes()[8 - len..], body].concat()
    }

    fn extension(kind: u8, body: &[u8]) -> Vec<u8> {
        [&[0, kind][..], &counted(2, body)].concat()
    }

    fn name(name: &[u8]) -> Vec<u8> {
        let entry = [&[0][..], &counted(2, name)].concat();
        extension(0, &counted(2, &entry))
    }

    fn message(extensions: &[u8]) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend(counted(1, &[1; 32]));
        body.extend(counted(2, &[0x13, 1, 0x13, 2]));
        body.extend(counted(1, &[0]));
        body.extend(counted(2, extensions));
        [&[1][..], &counted(3, &body)].concat()
    }

    fn records(message: &[u8], size: usize) -> Vec<u8> {
        let record = |part: &[u8]| [&[22, 3, 1][..], &counted(2, part)].concat();
        message.chunks(size).flat_map(record).collect()
    }

    #[test]
    fn the_name_is_found_in_any_cut_of_records() {
        let extensions = [
            extension(16, b"\0\x03\x02h2"),
            name(b"a.example"),
            extension(43, b"\x02\x03\x04"),
        ]
        .concat();
        let hello = message(&extensions);
        let found = ClientHello::Complete(Some(b"a.example".to_vec()));
        for size in [1, 2, 3, 50, 16384] {
            let bytes = records(&hello, size);
            assert_eq!(read(&bytes), found, "records of {size}");
            for cut in 0..bytes.len() {
                assert_eq!(
                    read(&bytes[..cut]),
                    ClientHello::Partial,
                    "records of {size} cut at {cut}"
                );
            }
            // What follows is the connection's.
            assert_eq!(read(&[&bytes[..], b"\x17\x03\x03rest"].concat()), found);
        }
    }

    #[test]
    fn a_hello_without_a_name_has_none() {
        assert_eq!(
            read(&records(&message(&extension(43, b"\x02\x03\x04")), 999)),
            ClientHello::Complete(None)
        );
    }

    #[test]
    fn what_is_not_clear_is_not_tls() {
        let two = [name(b"a.example"), name(b"b.example")].concat();
        let list = [&[0][..], &counted(2, b"a"), &[0], &counted(2, b"b")].concat();
        let kind = [&[1][..], &counted(2, b"a")].concat();
        for extensions in [
            two,
            extension(0, &counted(2, &list)),
            extension(0, &counted(2, &kind)),
            extension(0, b""),
            extension(0, b"\0\x09\0\0\x20a"),
            [&name(b"a.example")[..], b"\0"].concat(),
        ] {
            assert_eq!(
                read(&records(&message(&extensions), 999)),
                ClientHello::Other,
                "{extensions:?}"
            );
        }
        for bytes in [
            &b"GET / HTTP/1.1\r\n"[..],
            b"SSH-2.0-x\r\n",
            b"\x16\x02\x00",
            b"\x80\x2e\x01\x03\x01",
            b"\x15\x03\x01\0\x02\x02\x28",
            b"\x16\x03\x01\0\0",
            b"\x16\x03\x01\xff\xff",
            b"\x16\x03\x01\0\x04\x02\0\0\0",
            b"\x16\x03\x01\0\x04\x01\xff\xff\xff",
        ] {
            assert_eq!(read(bytes), ClientHello::Other, "{bytes:?}");
        }
        // More than a ClientHello may have.
        let long = message(&extension(21, &[0; 16300]));
        assert_eq!(
            read(&records(&long, 999)[..MAX_HELLO_BYTES]),
            ClientHello::Other
        );
    }
}
