use super::*;

fn head(lines: &str) -> String {
    format!("{}\r\n\r\n", lines.trim().replace('\n', "\r\n"))
}

#[test]
fn a_head_is_read_when_it_is_whole() {
    let text = head("POST /x?y HTTP/1.1\nHost: a.example\nContent-Length: 12\nX:  y \t");
    let bytes = [text.as_bytes(), b"body"].concat();
    for cut in 0..text.len() {
        assert_eq!(read(&bytes[..cut]), Ok(None), "cut at {cut}");
    }
    let head = read(&bytes).expect("a head").expect("all of it");
    assert_eq!(
        (head.method, head.target, head.len),
        ("POST", "/x?y", text.len())
    );
    assert_eq!(
        (head.framing, head.host()),
        (BodyLength::Length(12), Some("a.example"))
    );
    let early = [b"\r\n", &bytes[..]].concat();
    assert_eq!(
        read(&early).expect("a head").expect("all of it").len,
        text.len() + 2
    );
}

#[test]
fn what_two_readers_could_understand_differently_is_refused() {
    for text in [
        "GET /\n",
        "GET / HTTP/2.0\n",
        "GET / HTTP/1.1 x\n",
        "GET  / HTTP/1.1\n",
        "GET /a b HTTP/1.1\n",
        "G(T / HTTP/1.1\n",
        "GET / HTTP/1.1\nHost : a\n",
        "GET / HTTP/1.1\nHost: a\n b\n",
        "GET / HTTP/1.1\n Host: a\n",
        "GET / HTTP/1.1\nHost\n",
        "GET / HTTP/1.1\nA: b\0c\n",
        "GET / HTTP/1.1\nA: b\rc\n",
        "GET / HTTP/1.1\n: a\n",
        "GET /\u{e9} HTTP/1.1\n",
        "POST / HTTP/1.1\nContent-Length: 1\nContent-Length: 2\n",
        "POST / HTTP/1.1\nContent-Length: 1\nContent-Length: 1\n",
        "POST / HTTP/1.1\nContent-Length: +1\n",
        "POST / HTTP/1.1\nContent-Length: 1, 1\n",
        "POST / HTTP/1.1\nContent-Length:\n",
        "POST / HTTP/1.1\nContent-Length: 99999999999999999999\n",
        "POST / HTTP/1.1\nTransfer-Encoding: gzip, chunked\n",
        "POST / HTTP/1.1\nTransfer-Encoding: chunked\nContent-Length: 3\n",
        "POST / HTTP/1.1\nTransfer-Encoding: identity\n",
        "POST / HTTP/1.1\nTransfer-Encoding: chunked\nTransfer-Encoding: chunked\n",
        "POST / HTTP/1.1\nTransfer-Encoding: xchunked\n",
    ] {
        let read_text = text.trim_end_matches('\n').replace('\n', "\r\n") + "\r\n\r\n";
        assert!(read(read_text.as_bytes()).is_err(), "{text:?}");
    }
    // Lines that end with a line feed alone are no lines.
    assert!(read(b"GET / HTTP/1.1\nHost: a\r\n\r\n").is_err());
    assert!(read(b"GET / HTTP/1.1\r\nA: b\nHost: a\r\n\r\n").is_err());
    assert!(read(&vec![b'a'; MAX_HEAD_BYTES]).is_err());
    assert_eq!(read(&vec![b'a'; MAX_HEAD_BYTES - 1]), Ok(None));
}

#[test]
fn a_host_is_named_once_or_not_at_all() {
    for (fields, host) in [
        ("Host: a", Some("a")),
        ("hOSt: a:80", Some("a:80")),
        ("X: y", None),
        ("Host: a\nhost: a", None),
    ] {
        let text = head(&format!("GET / HTTP/1.1\n{fields}"));
        assert_eq!(
            read(text.as_bytes()).expect("a head").expect("all").host(),
            host
        );
    }
}

#[test]
fn a_server_gets_the_request_without_what_was_the_proxy_s() {
    let text = head(
        "GET http://a.example/x HTTP/1.1\nHost: b.example\nAccept: */*\nProxy-Authorization: Basic xyz\nConnection: keep-alive, X-Own, Content-Length\n\
         Keep-Alive: 5\nProxy-Connection: x\nX-Own: 1\nUpgrade: websocket\nTE: trailers\nContent-Length: 2",
    );
    let head = read(text.as_bytes()).expect("a head").expect("all of it");
    let sent = String::from_utf8(head.for_server("/x", "a.example")).expect("text");
    let lines: Vec<&str> = sent.split("\r\n").collect();
    let wanted = [
        "GET /x HTTP/1.1",
        "Host: a.example",
        "Accept: */*",
        "Content-Length: 2",
        "Connection: close",
        "",
        "",
    ];
    assert_eq!(lines, wanted);
}

#[test]
fn only_the_host_of_a_request_to_a_proxy_may_be_more_than_ascii() {
    for (line, is_read) in [
        ("CONNECT bücher.example:443", true),
        ("GET http://bücher.example/x", true),
        ("GET http://bücher.example/ü", false),
        ("GET http://bücher.example?ü", false),
        ("GET https://bücher.example/", false),
        ("GET /ü", false),
        ("GÉT /", false),
    ] {
        let text = head(&format!("{line} HTTP/1.1\nHost: bücher.example"));
        assert_eq!(read(text.as_bytes()).is_ok(), is_read, "{line}");
    }
}

#[test]
fn urls_and_authorities() {
    for (target, parts) in [
        ("http://a.example", Some(("a.example", "/"))),
        (
            "HTTP://a.example:8080/x?y",
            Some(("a.example:8080", "/x?y")),
        ),
        ("http://a.example?y", Some(("a.example", "/?y"))),
        ("http://u:p@a.example/", Some(("u:p@a.example", "/"))),
        (
            "http://good.example#@evil.example/",
            Some(("good.example", "/#@evil.example/")),
        ),
        ("https://a.example/", None),
        ("/x", None),
        ("*", None),
    ] {
        let found = split_url(target);
        let found = found
            .as_ref()
            .map(|(authority, path)| (*authority, &**path));
        assert_eq!(found, parts, "{target}");
    }
    for (text, parts) in [
        ("a.example", Some(("a.example", 80))),
        ("a.example:8080", Some(("a.example", 8080))),
        ("[::1]:8080", Some(("[::1]", 8080))),
        ("[::1]", Some(("[::1]", 80))),
        ("::1", Some(("::1", 80))),
        ("a.example:", None),
        ("a.example:0", None),
        ("a.example:+1", None),
        ("a.example:65536", None),
    ] {
        assert_eq!(split_authority(text, 80), parts, "{text}");
    }
    assert!(
        refusal_response("403 Forbidden", "no")
            .ends_with(b"Content-Length: 3\r\nConnection: close\r\n\r\nno\n")
    );
}
