use proptest::prelude::*;

use super::body_scanner::BodyScanner;
use super::client_hello::{self, ClientHello};
use super::http::{self, BodyLength};
use super::{dns, socks};
use trumanfs_policy::network::Host;

/// Bytes that look like something: pieces of each protocol, and any bytes.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            &b"GET "[..],
            b"http://a.example/",
            b" HTTP/1.1\r\n",
            b"Host: a.example\r\n",
            b"Transfer-Encoding: chunked\r\n",
            b"Content-Length: 5\r\n",
            b"\r\n",
            b"\x05\x01\0",
            b"\x05\x01\0\x03\x09a.example\0\x50",
            b"\x16\x03\x01\0\x30",
            b"\x01\0\0\x2c\x03\x03",
            b"\x09a\x07example\0\0\x01\0\x01",
            b"\0\x01\0\0\0\0\0\0",
            b"5;x\r\n",
            b"0\r\n\r\n",
            b"0x7f.1",
            b"[::1]:80",
        ])
        .prop_map(<[u8]>::to_vec),
        prop::collection::vec(any::<u8>(), 0..40),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_bytes_break_a_reader(bytes in bytes(), cut in 0..200usize) {
        let _ = dns::read(&bytes).map(|question| question.answer(dns::DnsAnswer::NoName));
        let _ = socks::greeting(&bytes);
        let _ = socks::request(&bytes);
        let _ = Host::parse(&bytes);
        if let Ok(Some(head)) = http::read(&bytes) {
            // What goes on is one head, which names the one host.
            let sent = head.for_server("/", "a.example");
            let again = http::read(&sent).map(|head| head.map(|head| (head.host() == Some("a.example"), head.len)));
            prop_assert_eq!(again, Ok(Some((true, sent.len()))));
        }
        // More bytes never change what a first message says.
        let (first, _) = bytes.split_at(cut.min(bytes.len()));
        if let ClientHello::Complete(name) = client_hello::read(first) {
            prop_assert_eq!(client_hello::read(&bytes), ClientHello::Complete(name));
        }
        let (mut whole, mut parts) = (BodyScanner::new(BodyLength::Chunked), BodyScanner::new(BodyLength::Chunked));
        let passed = whole.count_body_bytes(&bytes);
        let (one, two) = bytes.split_at(cut.min(bytes.len()));
        let mut again = parts.count_body_bytes(one);
        if again == one.len() {
            again += parts.count_body_bytes(two);
        }
        prop_assert_eq!(passed, again);
    }

    #[test]
    fn a_host_is_read_as_it_is_written(text in prop_oneof!["[a-zA-Z0-9.:_\\[\\]-]{0,40}", "(xn--)?\\PC{0,20}", "[a-zäß。．ａ１-]{1,20}"]) {
        if let Ok(host) = Host::parse(text.as_bytes()) {
            prop_assert!(host.to_string().is_ascii());
            prop_assert_eq!(Host::parse(host.to_string().as_bytes()), Ok(host));
        }
    }
}
