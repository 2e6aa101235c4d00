//! Tests of the decisions: with keys made here, and with bytes of no meaning.

use base64ct::{Base64, Encoding};
use proptest::prelude::*;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair,
};

use super::known_hosts::KnownHosts;
use super::session::{AgentDecision, AgentSession};
use trumanfs_policy::network::HostRules;

fn string(bytes: &[u8]) -> Vec<u8> {
    let len = u32::try_from(bytes.len()).unwrap();
    [&len.to_be_bytes(), bytes].concat()
}

fn strings(parts: &[&[u8]]) -> Vec<u8> {
    parts.iter().flat_map(|part| string(part)).collect()
}

/// A server with a key.
struct Server {
    pair: Ed25519KeyPair,
}

impl Server {
    fn new(seed: u8) -> Server {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap();
        Server { pair }
    }

    fn key(&self) -> Vec<u8> {
        strings(&[b"ssh-ed25519", self.pair.public_key().as_ref()])
    }

    fn line(&self, names: &str) -> String {
        format!(
            "{names} ssh-ed25519 {}\n",
            Base64::encode_string(&self.key())
        )
    }

    fn bind(&self, id: &[u8], is_forwarding: bool) -> Vec<u8> {
        let signature = strings(&[b"ssh-ed25519", self.pair.sign(id).as_ref()]);
        bind_message(&self.key(), id, &signature, is_forwarding)
    }
}

fn bind_message(key: &[u8], id: &[u8], signature: &[u8], is_forwarding: bool) -> Vec<u8> {
    let strings = strings(&[b"session-bind@openssh.com", key, id, signature]);
    [&[27], &strings[..], &[u8::from(is_forwarding)]].concat()
}

const USER_KEY: &[u8] = b"\0\0\0\x0bssh-ed25519\0\0\0\x01k";

/// Makes the data that a client has signed to log in; `host_key`: for the method that names it.
fn login_data(id: &[u8], host_key: Option<&[u8]>) -> Vec<u8> {
    let method: &[u8] = match host_key {
        Some(_) => b"publickey-hostbound-v00@openssh.com",
        None => b"publickey",
    };
    let mut data = string(id);
    data.push(50);
    data.extend(strings(&[b"git", b"ssh-connection", method]));
    data.push(1);
    data.extend(strings(&[b"ssh-ed25519", USER_KEY]));
    data.extend(host_key.map(string).unwrap_or_default());
    data
}

fn sign(data: &[u8]) -> Vec<u8> {
    [&[13], &strings(&[USER_KEY, data])[..], &[0; 4]].concat()
}

fn rules(hosts: &[&str]) -> HostRules {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    HostRules::new(&hosts, &[]).unwrap()
}

fn known(text: &str) -> KnownHosts {
    let mut known = KnownHosts::default();
    known.add(text.as_bytes());
    known
}

fn reason(decision: AgentDecision) -> String {
    match decision {
        AgentDecision::Refuse(refusal) => refusal.reason,
        other => format!("{other:?}"),
    }
}

const LIST: &[u8] = &[11];

#[test]
fn login_to_a_bound_session_is_all_that_is_signed() {
    let server = Server::new(1);
    let (rules, known) = (rules(&["git.test"]), known(&server.line("git.test")));
    let mut session = AgentSession::new(&rules, &known);
    assert!(reason(session.decide(LIST)).contains("no session"));
    assert!(reason(session.decide(&sign(&login_data(b"id", None)))).contains("no session"));
    assert_eq!(
        session.decide(&server.bind(b"id", false)),
        AgentDecision::Bind
    );
    assert_eq!(
        session.decide(&server.bind(b"id", false)),
        AgentDecision::Bind
    );
    assert_eq!(session.decide(LIST), AgentDecision::List);
    for host_key in [None, Some(&server.key()[..])] {
        let decision = session.decide(&sign(&login_data(b"id", host_key)));
        let AgentDecision::Sign(request) = decision else {
            unreachable!("{decision:?}");
        };
        assert_eq!((&*request.host, &*request.user), ("git.test:22", "git"));
    }
    let other_key = Server::new(2).key();
    let mut more = login_data(b"id", None);
    more.push(0);
    let mut no_signature = login_data(b"id", None);
    let at = string(b"id").len() + 1 + strings(&[b"git", b"ssh-connection", b"publickey"]).len();
    no_signature[at] = 0;
    let sshsig = [&b"SSHSIG"[..], &strings(&[b"git", b"", b"sha512", b"hash"])].concat();
    for (data, part) in [
        (login_data(b"other", None), "another session"),
        (login_data(b"id", Some(&other_key)), "no login"),
        (login_data(b"id", Some(b"")), "no login"),
        (more, "no login"),
        (no_signature, "no login"),
        (sshsig, "no login"),
        (Vec::new(), "no login"),
    ] {
        let said = reason(session.decide(&sign(&data)));
        assert!(said.contains(part), "{part}: {said}");
    }
    // The key that signs is the one that the login names.
    let data = login_data(b"id", None);
    let message = [&[13], &strings(&[b"another key", &data])[..], &[0; 4]].concat();
    assert!(reason(session.decide(&message)).contains("no login"));
    let mut flags = sign(&data);
    *flags.last_mut().unwrap() = 8;
    assert!(reason(session.decide(&flags)).contains("unknown kind"));
    // Adding, removing, locking, smart cards, other extensions, and what is no message.
    let query = [&[27], &string(b"query")[..]].concat();
    for message in [
        &[17][..],
        &[18],
        &[19],
        &[22, 0],
        &[20],
        &[25],
        &[1],
        &[11, 0],
        &query,
        &[],
    ] {
        assert!(
            reason(session.decide(message)).contains("only logins"),
            "{message:?}"
        );
    }
}

#[test]
fn session_is_bound_to_a_known_and_allowed_host() {
    let (server, other) = (Server::new(1), Server::new(2));
    let text = server.line("git.test,10.0.0.1") + &other.line("other.test");
    let allowed = rules(&["git.test"]);
    let decide = |text: &str, rules: &HostRules, message: &[u8]| {
        let known = known(text);
        reason(AgentSession::new(rules, &known).decide(message))
    };
    let bind = server.bind(b"id", false);
    assert_eq!(decide(&text, &allowed, &bind), "Bind");
    assert!(decide(&text, &allowed, &server.bind(b"id", true)).contains("not forwarded"));
    assert!(decide(&text, &allowed, &other.bind(b"id", false)).contains("that of other.test:22"));
    assert!(decide("", &allowed, &bind).contains("for no host"));
    assert!(decide(&text, &rules(&["git.test:443"]), &bind).contains("does not allow"));
    for not_signed in [
        bind_message(
            &server.key(),
            b"id",
            &strings(&[b"ssh-ed25519", &[0; 64]]),
            false,
        ),
        // By a key that is known, too.
        bind_message(
            &server.key(),
            b"id",
            &strings(&[b"ssh-ed25519", other.pair.sign(b"id").as_ref()]),
            false,
        ),
        bind_message(
            &server.key(),
            b"id",
            &strings(&[b"ssh-rsa", server.pair.sign(b"id").as_ref()]),
            false,
        ),
    ] {
        assert!(decide(&text, &allowed, &not_signed).contains("has not signed"));
    }
    let certificate = strings(&[b"ssh-ed25519-cert-v01@openssh.com", b"x"]);
    let unknown = bind_message(&certificate, b"id", &strings(&[b"a", b"b"]), false);
    assert!(decide(&text, &allowed, &unknown).contains("ssh-ed25519-cert-v01@openssh.com"));
    // A connection is for one session.
    let (both, known) = (rules(&["git.test", "other.test"]), known(&text));
    let mut session = AgentSession::new(&both, &known);
    assert_eq!(session.decide(&bind), AgentDecision::Bind);
    for second in [server.bind(b"id2", false), other.bind(b"id", false)] {
        assert!(reason(session.decide(&second)).contains("another session"));
    }
    assert_eq!(
        reason(session.decide(&sign(&login_data(b"id2", None)))),
        "it is a login to another session"
    );
}

#[test]
fn keys_over_curves_verify() {
    let random = SystemRandom::new();
    let verify = |by: &'static EcdsaSigningAlgorithm, kind: &str, curve: &str, half: usize| {
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(by, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(by, pkcs8.as_ref(), &random).unwrap();
        let key = strings(&[
            kind.as_bytes(),
            curve.as_bytes(),
            pair.public_key().as_ref(),
        ]);
        let line = format!("git.test {kind} {}", Base64::encode_string(&key));
        let (rules, known) = (rules(&["git.test"]), known(&line));
        for id in [&b"id"[..], b"another", b"x"] {
            let signed = pair.sign(&random, b"id").unwrap();
            let number = |half: &[u8]| {
                let start = half.iter().position(|byte| *byte != 0).unwrap();
                let sign = [0; 1][..usize::from(half[start] >> 7)].to_vec();
                string(&[&sign, &half[start..]].concat())
            };
            let (r, s) = signed.as_ref().split_at(half);
            let blob = [number(r), number(s)].concat();
            let message = bind_message(&key, id, &strings(&[kind.as_bytes(), &blob]), false);
            let decision = AgentSession::new(&rules, &known).decide(&message);
            assert_eq!(decision == AgentDecision::Bind, id == b"id", "{decision:?}");
        }
    };
    verify(
        &ECDSA_P256_SHA256_FIXED_SIGNING,
        "ecdsa-sha2-nistp256",
        "nistp256",
        32,
    );
    verify(
        &ECDSA_P384_SHA384_FIXED_SIGNING,
        "ecdsa-sha2-nistp384",
        "nistp384",
        48,
    );
}

#[test]
fn known_hosts_are_read_as_openssh_does() {
    let (one, two) = (Server::new(1), Server::new(2));
    let hosts = rules(&["git.test", "**.wide.test", "port.test:2222", "port.test"]);
    let is_known = |text: &str| known(text).allowed_host(&one.key(), &hosts).is_ok();
    // ssh-keygen -H of git.test.
    let salt = Base64::encode_string(&[7; 20]);
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &[7; 20]);
    let hash = |name: &str| {
        let hash = ring::hmac::sign(&key, name.as_bytes());
        format!("|1|{salt}|{}", Base64::encode_string(hash.as_ref()))
    };
    for names in [
        "git.test",
        "GIT.test",
        "x,git.test",
        "*.test",
        "g?t.test",
        "a.wide.test",
        "[port.test]:2222",
        &hash("git.test"),
        &hash("[port.test]:2222"),
    ] {
        assert!(is_known(&one.line(names)), "{names}");
        assert!(!is_known(&two.line(names)), "{names}");
        // A mark that nobody knows is taken for the worst.
        for mark in ["@revoked", "@cert-authority", "@new"] {
            let marked = format!("{mark} {}", one.line(names));
            assert!(!is_known(&marked), "{mark} {names}");
        }
        let revoked = format!(
            "{}@revoked other.test {}",
            one.line(names),
            &one.line("")[1..]
        );
        assert!(!is_known(&revoked), "{names}");
    }
    for names in [
        "other.test",
        "!git.test",
        "*.test,!git.test,!port.test",
        "[git.test]:99999",
        "[other.test]:2222",
        &hash("other.test"),
        "|2|x|y",
        "|1|x",
        "#git.test",
    ] {
        assert!(!is_known(&one.line(names)), "{names}");
    }
    for text in [
        "git.test",
        "git.test ssh-ed25519",
        "git.test ssh-ed25519 ???",
        "\u{0}",
        "@",
    ] {
        assert!(!is_known(text), "{text}");
    }
    let text = [
        one.line("git.test,secret.test,10.0.0.1"),
        two.line("secret.test"),
        format!("@cert-authority {}", two.line("git.test")),
        format!("@revoked {}", two.line("*.test")),
        one.line(&hash("git.test")),
        one.line(&hash("secret.test")),
    ];
    let lines = known(&text.concat()).allowed_lines(&hosts);
    let revoked = two.line("git.test,port.test");
    let wanted = [
        one.line("git.test"),
        format!("@revoked {revoked}"),
        one.line(&hash("git.test")),
    ];
    assert_eq!(lines, wanted.concat());
}

proptest! {
    /// Whatever a program sends: no panic, and no signature but for the one login.
    #[test]
    fn bytes_of_no_meaning_sign_nothing(
        messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..8),
        number in prop::sample::select(vec![11u8, 13, 27]),
    ) {
        let server = Server::new(1);
        let (rules, known) = (rules(&["git.test"]), known(&server.line("git.test")));
        for is_bound in [false, true] {
            let mut session = AgentSession::new(&rules, &known);
            if is_bound {
                prop_assert_eq!(session.decide(&server.bind(b"id", false)), AgentDecision::Bind);
            }
            for message in &messages {
                let message = [&[number], &message[..]].concat();
                let decision = session.decide(&message);
                let is_refused = matches!(decision, AgentDecision::Refuse(_));
                prop_assert!(is_refused || is_bound && message == LIST, "{:?}", decision);
            }
        }
    }

    /// A byte that is changed, lost or added in a good message makes it a bad one, or leaves what it means.
    #[test]
    fn nearly_good_messages_are_no_other_ones(at in 0usize..400, byte: u8, kind in 0..3) {
        let server = Server::new(1);
        let (rules, known) = (rules(&["git.test"]), known(&server.line("git.test")));
        let change = |message: &[u8]| {
            let mut message = message.to_vec();
            let at = at % message.len();
            match kind {
                0 => message[at] = byte,
                1 => { message.remove(at); }
                _ => message.insert(at, byte),
            }
            message
        };
        let good = server.bind(b"id", false);
        let mut session = AgentSession::new(&rules, &known);
        let bad = change(&good);
        if bad != good {
            prop_assert!(matches!(session.decide(&bad), AgentDecision::Refuse(_)));
        }
        prop_assert_eq!(session.decide(&good), AgentDecision::Bind);
        let good = sign(&login_data(b"id", Some(&server.key())));
        if let AgentDecision::Sign(request) = session.decide(&change(&good)) {
            // The name of the user and the algorithm are the program's to choose.
            prop_assert_eq!(request.host, "git.test:22");
        }
    }

    #[test]
    fn known_hosts_of_no_meaning_name_no_host(text in ".{0,300}", names in "[ -~]{0,40}") {
        let server = Server::new(1);
        let rules = rules(&["git.test"]);
        let mut known = known(&text);
        prop_assert!(known.allowed_host(&server.key(), &rules).is_err());
        known.add(server.line(&names).as_bytes());
        let lines = known.allowed_lines(&rules);
        prop_assert!(lines.lines().count() <= 1, "{}", lines);
    }
}
