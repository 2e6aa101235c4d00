//! Decisions by table, the laws that all decisions keep, and the shipped policies.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

mod attacks;
mod environment;
mod grammars;
mod loading;

const HOME: &[u8] = b"/home/agent";
const TABLE: &str = include_str!("tests/decisions.txt");
const POLICY: &str = include_str!("tests/policy.yaml");

fn policy(name: &str) -> Policy {
    match name {
        "test" => Policy::parse(POLICY.as_bytes(), "policy.yaml").unwrap(),
        name => {
            let examined = Policy::examine_shipped(name).unwrap();
            assert!(
                examined.problems.is_empty(),
                "{name}: {:?}",
                examined.problems
            );
            examined.policy.unwrap()
        }
    }
}

fn ask<'a>(argv: &'a [Vec<u8>], cwd: &'a [u8]) -> CommandRequest<'a> {
    CommandRequest {
        argv,
        cwd,
        home: HOME,
        env: &[],
        timeout: None,
        paths: &TextPaths,
    }
}

fn decide_line(policy: &Policy, line: &str) -> Result<AllowedCommand, CommandRefusal> {
    let argv = split(line.as_bytes())?;
    decide(policy, &ask(&argv, b"src"))
}

/// Reads the characters that the table writes out.
fn written(text: &str) -> String {
    let mut read = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        read.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let (c, length) = match rest.as_bytes().first() {
            Some(b'n') => ('\n', 1),
            Some(b'r') => ('\r', 1),
            Some(b'0') => ('\0', 1),
            Some(b'\\') => ('\\', 1),
            _ => {
                let end = rest.find('}').unwrap();
                let code = u32::from_str_radix(&rest[2..end], 16).unwrap();
                (char::from_u32(code).unwrap(), end + 1)
            }
        };
        read.push(c);
        rest = &rest[length..];
    }
    read + rest
}

#[test]
fn decisions_are_those_of_the_table() {
    let mut policies: BTreeMap<&str, Policy> = BTreeMap::new();
    let (mut name, mut allowed, mut denied, mut wrong) = ("", 0, 0, Vec::new());
    for row in TABLE
        .lines()
        .filter(|row| !row.is_empty() && !row.starts_with('#'))
    {
        if let Some(next) = row.strip_prefix("policy ") {
            name = next;
            policies.insert(name, policy(name));
            continue;
        }
        let (verdict, rest) = row.split_once(' ').unwrap();
        let (rule, command) = rest.trim_start().split_once(' ').unwrap();
        let (line, runs) = match command.split_once(" => ") {
            Some((line, runs)) => (written(line.trim_start()), Some(runs)),
            None => (written(command.trim_start()), None),
        };
        *(if verdict == "allow" {
            &mut allowed
        } else {
            &mut denied
        }) += 1;
        let (found, said) = match decide_line(&policies[name], &line) {
            Ok(allowed) => {
                let expected = runs.map_or(line.clone(), str::to_owned);
                let argv = split(expected.as_bytes()).unwrap();
                let same = allowed.argv == argv;
                let argv: Vec<_> = allowed
                    .argv
                    .iter()
                    .map(|word| String::from_utf8_lossy(word))
                    .collect();
                let said = if same {
                    String::new()
                } else {
                    format!(" runs {argv:?}")
                };
                (("allow", allowed.rule), said)
            }
            Err(refused) => {
                assert!(!refused.reason.is_empty());
                (("deny", refused.rule), String::new())
            }
        };
        let shown = format!(
            "{name}: {line:?}: {} {}{said}, not {verdict} {rule}",
            found.0, found.1
        );
        if found != (verdict, rule.to_owned()) || !said.is_empty() {
            wrong.push(shown);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        allowed + denied >= 250 && denied >= allowed,
        "{allowed} allowed, {denied} denied"
    );
}

/// The lines of the table, with the policies they are for.
fn lines() -> Vec<(&'static str, String)> {
    let mut name = "";
    let mut lines = Vec::new();
    for row in TABLE
        .lines()
        .filter(|row| !row.is_empty() && !row.starts_with('#'))
    {
        if let Some(next) = row.strip_prefix("policy ") {
            name = next;
            continue;
        }
        let command = row.split_whitespace().skip(2).collect::<Vec<_>>().join(" ");
        lines.push((name, written(command.split(" => ").next().unwrap())));
    }
    lines
}

/// Puts the keys of all maps into another order.
fn shuffled(node: &mut yaml::YamlNode, turns: &mut impl Iterator<Item = usize>) {
    match &mut node.value {
        yaml::YamlValue::Scalar(..) => {}
        yaml::YamlValue::List(items) => items.iter_mut().for_each(|item| shuffled(item, turns)),
        yaml::YamlValue::Map(fields) => {
            for last in (1..fields.len()).rev() {
                fields.swap(last, turns.next().unwrap() % (last + 1));
            }
            fields
                .iter_mut()
                .for_each(|field| shuffled(&mut field.node, turns));
        }
    }
}

fn shuffled_policy(name: &str, seed: u64) -> Policy {
    let text = if name == "test" {
        POLICY
    } else {
        shipped::text(name).unwrap()
    };
    let mut root = yaml::read(text.as_bytes(), name).unwrap().unwrap();
    let mut state = seed | 1;
    let mut turns = std::iter::repeat_with(move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    });
    shuffled(&mut root, &mut turns);
    let mut reader = read::FieldReader::new(name);
    let rules = read::entries(&mut reader, &root);
    assert!(reader.problems.is_empty(), "{:?}", reader.problems);
    Policy(std::sync::Arc::new(rules))
}

/// Words that policies and programs know, so that random commands get past the first checks.
fn word() -> impl Strategy<Value = Vec<u8>> {
    let known = TABLE
        .split_whitespace()
        .map(|word| word.as_bytes().to_vec())
        .collect::<Vec<_>>();
    let pieces = prop::sample::select(vec![
        "-", "--", "=", "/", "..", ":", "::", "@", ",", "~", "a", "-n", "\u{2013}", "/p:", "(",
        ")", "9",
    ]);
    prop_oneof![
        6 => prop::sample::select(known),
        2 => prop::collection::vec(pieces, 0..6).prop_map(|parts| parts.concat().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..12),
    ]
}

fn argv() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let programs = policy("default")
        .programs()
        .map(|name| name.as_bytes().to_vec())
        .collect::<Vec<_>>();
    (
        prop::sample::select(programs),
        prop::collection::vec(word(), 0..7),
    )
        .prop_map(|(program, words)| [vec![program], words].concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    /// Whatever is asked, there is an answer, and the same one twice; what runs begins with the words that were asked for.
    #[test]
    fn every_command_has_one_answer(argv in argv(), cwd in prop_oneof![Just(&b""[..]), Just(&b"src/app"[..]), Just(&b"/home/agent/x"[..])]) {
        for name in ["default", "test"] {
            let policy = policy_once(name);
            let first = decide(policy, &ask(&argv, cwd));
            prop_assert_eq!(&first, &decide(policy, &ask(&argv, cwd)));
            if let Ok(allowed) = first {
                prop_assert_eq!(&allowed.argv[0], &argv[0]);
                prop_assert!(allowed.argv.len() >= argv.len());
                // Asked again, what runs is allowed, and runs as it is: what is required is there.
                let again = decide(policy, &ask(&allowed.argv, cwd));
                prop_assert_eq!(again.map(|again| again.argv), Ok(allowed.argv));
            }
        }
    }

    /// A damaged file is read or refused; what is wrong has a line that the file has.
    #[test]
    fn every_text_is_read_or_refused(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), cut in any::<prop::sample::Index>()) {
        let mut text = POLICY.as_bytes().to_vec();
        for (at, byte) in changes {
            let at = at.index(text.len());
            text[at] = byte;
        }
        for text in [&text[..], &text[..cut.index(text.len())]] {
            let examined = Policy::examine(text, "p");
            prop_assert_eq!(examined.policy.is_some(), examined.problems.is_empty());
            let lines = text.iter().filter(|b| matches!(b, b'\n' | b'\r')).count() + 2;
            for problem in &examined.problems {
                prop_assert!(problem.line.is_none_or(|line| line >= 1 && line <= lines), "{}", problem);
            }
        }
    }

    #[test]
    fn every_line_has_an_answer(line in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = split(&line);
    }

    /// Checks that quoted text is one word, whatever is in it.
    #[test]
    fn quoted_words_come_back(words in prop::collection::vec("[ -~]{0,12}", 1..5)) {
        let line: Vec<String> = words.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect();
        let argv = split(line.join(" ").as_bytes());
        prop_assert_eq!(argv, Ok(words.iter().map(|word| word.clone().into_bytes()).collect::<Vec<_>>()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(12) })]

    #[test]
    fn the_order_of_keys_means_nothing(seed in any::<u64>()) {
        for name in ["default", "test"] {
            let other = shuffled_policy(name, seed);
            for (_, line) in lines().iter().filter(|(of, _)| *of == name) {
                prop_assert_eq!(decide_line(policy_once(name), line), decide_line(&other, line), "{}", line);
            }
        }
    }
}

fn policy_once(name: &str) -> &'static Policy {
    use std::sync::OnceLock;
    static DEFAULT: OnceLock<Policy> = OnceLock::new();
    static TEST: OnceLock<Policy> = OnceLock::new();
    match name {
        "default" => DEFAULT.get_or_init(|| policy("default")),
        _ => TEST.get_or_init(|| policy("test")),
    }
}

#[test]
fn a_virtual_environment_of_the_home_is_active() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("app/.venv")).unwrap();
    std::fs::create_dir_all(dir.path().join("lib")).unwrap();
    std::fs::write(dir.path().join("app/.venv/pyvenv.cfg"), "").unwrap();
    let paths = RootPaths::open(dir.path()).unwrap();
    let policy = Policy::parse(
        b"pytest: {}\npython: { flags: [-V], detect_venv: false }\npython3: { flags: [-V] }\n",
        "p",
    )
    .unwrap();
    for (program, cwd, found, is_program) in [
        ("pytest", "app", true, true),
        ("pytest", "lib", false, false),
        ("python", "app", false, false),
        ("python3", "app", true, false),
    ] {
        // A bare python would read its code from standard input.
        let flag = program.starts_with("python").then(|| b"-V".to_vec());
        let argv = [vec![program.as_bytes().to_vec()], Vec::from_iter(flag)].concat();
        let allowed = decide(
            &policy,
            &CommandRequest {
                paths: &paths,
                ..ask(&argv, cwd.as_bytes())
            },
        )
        .unwrap();
        assert_eq!(
            environment::value(&allowed, "VIRTUAL_ENV").is_some(),
            found,
            "{program} in {cwd}"
        );
        assert_eq!(
            environment::value(&allowed, "PATH")
                .unwrap()
                .starts_with("/home/agent/app/.venv/bin:"),
            found
        );
        // Its Python is the program only where the entry lets code of the home run anyway.
        let first = allowed
            .search_path
            .starts_with(b"/home/agent/app/.venv/bin:");
        assert_eq!(first, is_program, "{program} in {cwd}");
    }
}

/// A store with a policy of its own, a machine's policy, and records of trust.
struct Machine {
    dir: tempfile::TempDir,
}

impl Machine {
    fn new() -> Machine {
        let dir = tempfile::tempdir().unwrap();
        for name in ["store", "state", "etc"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        Machine { dir }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn trust(&self) -> trust::TrustRecords {
        trust::TrustRecords::at(&self.path("state"))
    }

    /// Finds the policy. Returns its programs, or why there is none.
    fn find(&self, flag: Option<&str>, variable: Option<&str>) -> Result<String, String> {
        let (flag, store) = (flag.map(|flag| self.named(flag)), self.path("store"));
        let search = locate::PolicySearch {
            flag: flag.as_deref(),
            variable: variable.map(|name| self.named(name).into_os_string()),
            system: self.path("etc/policy.yaml"),
            store: Some(&store),
            trust: Some(self.trust()),
        };
        let found = search.find().map_err(|error| error.to_string())?;
        Ok(found.policy.programs().collect::<Vec<_>>().join(" "))
    }

    /// A shipped policy by its name, a file by its path.
    fn named(&self, name: &str) -> std::path::PathBuf {
        match name.contains('.') {
            true => self.path(name),
            false => name.into(),
        }
    }
}

#[test]
fn the_first_policy_that_is_there_counts() {
    let machine = Machine::new();
    let none = machine.find(None, None).unwrap_err();
    assert!(none.contains("--policy default"), "{none}");
    machine.write("store/policy.yaml", "of_store: {}\n");
    let untrusted = machine.find(None, None).unwrap_err();
    assert!(
        untrusted.contains("store/policy.yaml counts only once it is trusted"),
        "{untrusted}"
    );
    locate::trust_by(&machine.trust(), &machine.path("store")).unwrap();
    assert_eq!(machine.find(None, None).unwrap(), "of_store");
    machine.write("etc/policy.yaml", "of_machine: {}\n");
    assert_eq!(machine.find(None, None).unwrap(), "of_machine");
    machine.write("own.yaml", "own: {}\n");
    machine.write("other.yaml", "other: {}\n");
    assert_eq!(machine.find(None, Some("own.yaml")).unwrap(), "own");
    assert_eq!(
        machine.find(Some("other.yaml"), Some("own.yaml")).unwrap(),
        "other"
    );
    assert!(
        machine
            .find(Some("production"), None)
            .unwrap()
            .contains("sort")
    );
    // What is named and cannot be used is an error, whatever else is there.
    assert!(
        machine
            .find(Some("missing.yaml"), None)
            .unwrap_err()
            .contains("there is no such file")
    );
    machine.write("own.yaml", "own: 3\n");
    assert!(
        machine
            .find(None, Some("own.yaml"))
            .unwrap_err()
            .contains("own.yaml:1: own: ")
    );
    machine.write("etc/policy.yaml", "");
    assert!(machine.find(None, None).unwrap_err().contains("no entry"));
}

#[test]
fn trust_is_for_one_store_and_one_text() {
    let machine = Machine::new();
    machine.write("store/policy.yaml", "a: {}\n");
    let trusted = locate::trust_by(&machine.trust(), &machine.path("store")).unwrap();
    assert_eq!(trusted.digest.len(), 64);
    machine.write("store/policy.yaml", "a: {}\nbash: {}\n");
    assert!(
        machine
            .find(None, None)
            .unwrap_err()
            .contains("has changed since it was trusted")
    );
    machine.write("store/policy.yaml", "a: {}\n");
    assert_eq!(machine.find(None, None).unwrap(), "a");
    // A copy of the store is another store.
    std::fs::rename(machine.path("store"), machine.path("copy")).unwrap();
    std::fs::create_dir(machine.path("store")).unwrap();
    machine.write("store/policy.yaml", "b: {}\n");
    assert!(machine.find(None, None).is_err());
    // Nor does a store vouch for itself, or a broken policy get trust.
    let inside = trust::TrustRecords::at(&machine.path("store").canonicalize().unwrap());
    assert!(locate::trust_by(&inside, &machine.path("store")).is_err());
    machine.write("store/policy.yaml", "b: 3\n");
    assert!(locate::trust_by(&machine.trust(), &machine.path("store")).is_err());
    let real = machine.path("copy");
    assert!(!machine.trust().forget(&real).unwrap());
}

fn watched(machine: &Machine, source: PolicySource) -> WatchedPolicy {
    let text = file::read(source.file().unwrap()).unwrap();
    let policy = Policy::parse(&text.bytes, "p").unwrap();
    WatchedPolicy::new(
        locate::LocatedPolicy {
            source,
            policy,
            text: Some(text),
        },
        Some(machine.trust()),
    )
}

fn programs(watched: &WatchedPolicy) -> (String, Option<String>) {
    let (policy, warning) = watched.current();
    (policy.programs().collect::<Vec<_>>().join(" "), warning)
}

#[test]
fn a_policy_follows_its_file_and_survives_a_broken_one() {
    let machine = Machine::new();
    machine.write("p.yaml", "a: {}\n");
    let watched = watched(&machine, PolicySource::File(machine.path("p.yaml")));
    assert_eq!(programs(&watched), ("a".to_owned(), None));
    // The same length, within the same tick of the clock.
    machine.write("p.yaml", "b: {}\n");
    assert_eq!(programs(&watched), ("b".to_owned(), None));
    machine.write("p.yaml", "b: {\n");
    let (names, warning) = programs(&watched);
    assert_eq!(names, "b");
    assert!(
        warning.is_some_and(
            |warning| warning.contains("last sound one") && warning.contains("p.yaml:")
        )
    );
    assert_eq!(
        programs(&watched),
        ("b".to_owned(), None),
        "it is said once"
    );
    machine.write("p.yaml", "c: 3\n");
    assert!(programs(&watched).1.is_some(), "another fault is said, too");
    std::fs::remove_file(machine.path("p.yaml")).unwrap();
    let (names, warning) = programs(&watched);
    assert!(names == "b" && warning.is_some_and(|warning| warning.contains("no such file")));
    machine.write("p.yaml", "c: {}\n");
    assert_eq!(programs(&watched), ("c".to_owned(), None));
}

#[test]
fn a_store_cannot_change_the_policy_that_is_in_force() {
    let machine = Machine::new();
    machine.write("store/policy.yaml", "a: {}\n");
    let store = machine.path("store").canonicalize().unwrap();
    locate::trust_by(&machine.trust(), &store).unwrap();
    let file = store.join("policy.yaml");
    let watched = watched(
        &machine,
        PolicySource::Store {
            store: store.clone(),
            file,
        },
    );
    machine.write("store/policy.yaml", "a: {}\nbash: { flags: [-c] }\n");
    let (names, warning) = programs(&watched);
    assert!(names == "a" && warning.is_some_and(|warning| warning.contains("not trusted")));
    locate::trust_by(&machine.trust(), &store).unwrap();
    assert_eq!(programs(&watched), ("a bash".to_owned(), None));
}
