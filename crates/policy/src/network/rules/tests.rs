use super::*;

fn texts(words: &str) -> Vec<String> {
    words.split_whitespace().map(str::to_owned).collect()
}

fn rules(allow: &str, deny: &str) -> HostRules {
    HostRules::new(&texts(allow), &texts(deny)).expect("rules")
}

/// Says what is decided about `host:port`.
fn said(rules: &HostRules, what: &str) -> String {
    let (host, port) = what.rsplit_once(':').expect("a port");
    let host = Host::parse(host.as_bytes()).expect("a host");
    match rules.decide(&host, port.parse().expect("a number")) {
        Ok(pattern) => pattern.to_owned(),
        Err(denied) => format!("- {}", denied.rule),
    }
}

#[test]
fn a_host_is_allowed_by_a_pattern_and_no_other() {
    let rules = rules(
        "pypi.org files.example:8443 *.sub.example **.both.example 93.184.216.34 [2606:2800::1]:443 2a00::5 Upper.Example",
        "",
    );
    for (what, by) in [
        ("pypi.org:443", "pypi.org"),
        ("PyPI.org.:80", "pypi.org"),
        ("upper.example:1", "Upper.Example"),
        ("files.example:8443", "files.example:8443"),
        ("files.example:443", "- network.allow"),
        ("evilpypi.org:443", "- network.allow"),
        ("pypi.org.evil.example:443", "- network.allow"),
        ("a.pypi.org:443", "- network.allow"),
        ("a.sub.example:443", "*.sub.example"),
        ("a.b.sub.example:443", "*.sub.example"),
        ("sub.example:443", "- network.allow"),
        ("xsub.example:443", "- network.allow"),
        ("both.example:443", "**.both.example"),
        ("a.both.example:443", "**.both.example"),
        ("aboth.example:443", "- network.allow"),
        ("93.184.216.34:443", "93.184.216.34"),
        ("0x5d.0xb8d822:443", "93.184.216.34"),
        ("93.184.216.35:443", "- network.allow"),
        ("[2606:2800::1]:443", "[2606:2800::1]:443"),
        ("[2606:2800::1]:80", "- network.allow"),
        ("[2a00::5]:80", "2a00::5"),
    ] {
        assert_eq!(said(&rules, what), by, "{what}");
    }
}

#[test]
fn all_are_the_public_hosts() {
    let rules = rules("10.0.0.5:5432", "**.denied.example").with_all(true);
    assert!(!rules.is_empty());
    for (what, by) in [
        ("a.example:443", "all"),
        ("a.example:9999", "all"),
        ("93.184.216.34:443", "all"),
        ("[2606:2800::1]:80", "all"),
        ("10.0.0.5:5432", "10.0.0.5:5432"),
        ("10.0.0.5:22", "- network.allow"),
        ("127.0.0.1:22", "- network.allow"),
        ("localhost:22", "- network.allow"),
        ("0.0.0.0:22", "- network.allow"),
        ("2130706433:22", "- network.allow"),
        ("[::1]:22", "- network.allow"),
        ("[::ffff:10.0.0.1]:22", "- network.allow"),
        ("169.254.169.254:80", "- network.allow"),
        ("a.denied.example:443", "- network.deny: **.denied.example"),
    ] {
        assert_eq!(said(&rules, what), by, "{what}");
    }
}

#[test]
fn a_name_that_is_not_ascii_is_the_one_of_its_xn_form() {
    let unicode = rules("bücher.example *.例え.test", "böse.bücher.example");
    let ascii = rules(
        "xn--bcher-kva.example *.xn--r8jz45g.test",
        "xn--bse-sna.xn--bcher-kva.example",
    );
    for rules in [unicode, ascii] {
        for (what, is_allowed) in [
            ("bücher.example:443", true),
            ("BÜCHER.example.:443", true),
            ("xn--bcher-kva.example:443", true),
            ("a.例え。test:443", true),
            ("a.xn--r8jz45g.test:443", true),
            ("例え.test:443", false),
            ("bucher.example:443", false),
            ("böse.bücher.example:443", false),
        ] {
            assert_eq!(!said(&rules, what).starts_with('-'), is_allowed, "{what}");
        }
    }
}

#[test]
fn an_empty_list_allows_nothing() {
    for rules in [
        rules("", ""),
        HostRules::default(),
        rules("", "evil.example"),
    ] {
        assert_eq!(said(&rules, "example.org:443"), "- network.allow");
        assert_eq!(said(&rules, "127.0.0.1:80"), "- network.allow");
        assert!(rules.is_empty());
    }
    let none = rules("a.example", "").narrow(&[]).expect("less");
    assert_eq!(said(&none, "a.example:443"), "- --net");
    assert!(none.is_empty());
}

#[test]
fn what_is_refused_wins() {
    let rules = rules(
        "**.example 9.9.9.9",
        "bad.example *.worse.example mail.example:25 9.9.9.9:53",
    );
    for (what, by) in [
        ("good.example:443", "**.example"),
        ("bad.example:443", "- network.deny: bad.example"),
        ("a.bad.example:443", "**.example"),
        ("worse.example:443", "**.example"),
        ("a.worse.example:443", "- network.deny: *.worse.example"),
        ("mail.example:25", "- network.deny: mail.example:25"),
        ("mail.example:443", "**.example"),
        ("9.9.9.9:53", "- network.deny: 9.9.9.9:53"),
    ] {
        assert_eq!(said(&rules, what), by, "{what}");
    }
    let name = |name: &str| rules.decide_name(&Host::Name(name.to_owned())).is_ok();
    // A name has an address where some port of it is allowed.
    assert!(name("mail.example") && name("good.example") && !name("bad.example"));
}

#[test]
fn a_command_narrows_and_never_widens() {
    let all = rules(
        "a.example b.example:8443 **.c.example *.d.example",
        "x.c.example",
    );
    for (asked, fine) in [
        ("a.example", true),
        ("a.example:443", true),
        ("A.Example.", true),
        ("b.example:8443", true),
        ("b.example:443", false),
        ("b.example", true),
        (
            "c.example d.c.example *.c.example **.c.example **.e.c.example",
            true,
        ),
        ("*.d.example *.e.d.example **.e.d.example", true),
        ("d.example", false),
        ("**.d.example", false),
        ("*.a.example", false),
        ("**.example", false),
        ("a.example evil.example", false),
        ("127.0.0.1", false),
    ] {
        let narrowed = all.clone().narrow(&texts(asked));
        assert_eq!(narrowed.is_ok(), fine, "{asked}");
    }
    let narrowed = all.narrow(&texts("b.example **.c.example")).expect("less");
    for (what, by) in [
        ("a.example:443", "- --net"),
        ("b.example:8443", "b.example:8443"),
        // The policy's port holds, although the command named none.
        ("b.example:443", "- network.allow"),
        ("y.c.example:443", "**.c.example"),
        ("x.c.example:443", "- network.deny: x.c.example"),
    ] {
        assert_eq!(said(&narrowed, what), by, "{what}");
    }
}

#[test]
fn a_pattern_that_means_nothing_is_refused() {
    for text in [
        "",
        "*",
        "**",
        "*.",
        "**.",
        "*.*.example",
        "a.*.example",
        "a*.example",
        "*example",
        ".example",
        "a.example:",
        "a.example:0",
        "a.example:65536",
        "a.example:http",
        "a.example:+80",
        "a.example:80:90",
        "http://a.example",
        "a.example/path",
        "*.1.2.3.4",
        "*.127.0.0.1",
        "[::1",
        "[::1]:x",
        "user@a.example",
        "a b",
        "b\u{202e}ücher.example",
        "xn--a.example",
        "0/0",
        "10.0.0.0/8",
        "***.a",
        "1.2.3.4.5",
    ] {
        let allow = HostRules::new(&[text.to_owned()], &[]);
        assert!(allow.is_err(), "{text}: {allow:?}");
        let why = HostRules::new(&[], &[text.to_owned()]).expect_err("an error");
        assert!(why.starts_with("network.deny: "), "{why}");
    }
}

/// A refusal goes to the program, to the outcome and to the audit log, so a long list must not make it long.
#[test]
fn a_refusal_names_some_hosts_of_a_long_list() {
    let hosts: Vec<String> = (0..10_000).map(|n| format!("h{n}.example")).collect();
    let all = HostRules::new(&hosts, &[]).expect("rules");
    let narrowed = all.clone().narrow(&hosts[..6_000]).expect("less");
    for (rules, rule) in [(&all, "network.allow"), (&narrowed, "--net")] {
        let host = Host::Name(match rule {
            "--net" => "h9999.example".to_owned(),
            _ => "evil.example".to_owned(),
        });
        let denied = rules.decide(&host, 443).expect_err("refused");
        assert_eq!(denied.rule, rule);
        assert!(denied.reason.contains("h0.example"), "{}", denied.reason);
        assert!(denied.reason.ends_with("and others"), "{}", denied.reason);
        assert!(denied.reason.len() < 500, "{}", denied.reason.len());
    }
}
