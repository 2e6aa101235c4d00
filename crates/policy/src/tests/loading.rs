//! Errors of policy files: the message names file, line and key.

use super::*;

fn said(text: &str) -> Vec<String> {
    let examined = Policy::examine(text.as_bytes(), "p.yaml");
    assert_eq!(examined.policy.is_none(), !examined.problems.is_empty());
    examined.problems.iter().map(ToString::to_string).collect()
}

/// A file, and how the first message about it begins.
const MESSAGES: &[(&str, &str)] = &[
    (
        "git:\n  subcommands:\n    status: { flagz: [-s] }\n",
        "p.yaml:3: git.subcommands.status.flagz: unknown key of a sub-command; the keys are ",
    ),
    (
        "git:\n  safe_cmdlets: [x]\n",
        "p.yaml:2: git.safe_cmdlets: unknown key of this entry; the keys are ",
    ),
    (
        "python:\n  modes: { script: false }\n",
        "p.yaml:2: python.modes.script: unknown key of `modes`; the keys are repl",
    ),
    (
        "git:\n  default_timeout: soon\n",
        "p.yaml:2: git.default_timeout: `soon` stands here; a number of seconds",
    ),
    (
        "git:\n  default_timeout: 0\n",
        "p.yaml:2: git.default_timeout: `0` stands here",
    ),
    (
        "git:\n  default_timeout: -3\n",
        "p.yaml:2: git.default_timeout: `-3` stands here",
    ),
    (
        "git:\n  default_timeout: \"3\"\n",
        "p.yaml:2: git.default_timeout: `3` stands here",
    ),
    (
        "git:\n  default_timeout: 3\n  default_timeout: 4\n",
        "p.yaml:3: git.default_timeout: the key stands here twice, first in line 2",
    ),
    (
        "git: 3\n",
        "p.yaml:1: git: `3` stands here; a map of keys is expected",
    ),
    (
        "- git\n",
        "p.yaml:1: a list stands here; a map of keys is expected",
    ),
    (
        "a:\n  flags: -s\n",
        "p.yaml:2: a.flags: `-s` stands here; a list is expected",
    ),
    (
        "a:\n  flags:\n",
        "p.yaml:2: a.flags: nothing stands here; a list is expected",
    ),
    ("a:\n  flags: [s]\n", "p.yaml:2: a.flags: `s` is no flag"),
    (
        "a:\n  flags: [-s, -s]\n",
        "p.yaml:2: a.flags: `-s` stands here twice",
    ),
    (
        "a:\n  flags: [-1]\n",
        "p.yaml:2: a.flags: `-1` is no text; write \"-1\"",
    ),
    (
        "a:\n  flags: { --x: maybe }\n",
        "p.yaml:2: a.flags.--x: what the flag takes is expected",
    ),
    (
        "a:\n  safe_env: { CI: 1 }\n",
        "p.yaml:2: a.safe_env.CI: `1` is no text; write \"1\"",
    ),
    (
        "a:\n  safe_env: { 'A B': x }\n",
        "p.yaml:2: a.safe_env.A B: `A B` is no variable",
    ),
    (
        "a:\n  env_overrides: { GIT_CONFIG_COUNT: '0' }\n",
        "p.yaml:2: a.env_overrides.GIT_CONFIG_COUNT: ",
    ),
    (
        "a:\n  validator: nobody\n",
        "p.yaml:2: a.validator: `nobody` is neither a validator nor another entry",
    ),
    ("a:\n  validator: b\nb:\n  validator: a\n", "p.yaml:"),
    (
        "a:\n  read_only: yes\n",
        "p.yaml:2: a.read_only: `yes` stands here; true or false is expected",
    ),
    (
        "a:\n  require_flags: { --x: false }\n",
        "p.yaml:2: a.require_flags.--x: a flag that has to be there is not false",
    ),
    (
        "a:\n  bind_ro: [../x]\n",
        "p.yaml:2: a.bind_ro: `../x` is no absolute path",
    ),
    (
        "a:\n  network: { allow: ['*'] }\n",
        "p.yaml:2: a.network.allow: `*` is no host",
    ),
    (
        "a:\n  network: { allow: ['https://x'] }\n",
        "p.yaml:2: a.network.allow: `https://x` is no host",
    ),
    (
        "a:\n  network: { allow: [good.test, 'a..b'] }\n",
        "p.yaml:2: a.network.allow: `a..b` is no host: a part of it between two dots is empty",
    ),
    (
        "a:\n  network:\n    deny:\n      - bü cher.example\n",
        "p.yaml:4: a.network.deny: `bü cher.example` is no host: it has a character that no name has",
    ),
    (
        "a:\n  subcommands: { b: { network: { allow: ['1.2.3.4.5'] } } }\n",
        "p.yaml:2: a.subcommands.b.network.allow: `1.2.3.4.5` is no host: it ends like an address",
    ),
    (
        "a:\n  network: { allow: ['x.example:0'] }\n",
        "p.yaml:2: a.network.allow: `x.example:0` is no host: the port must be",
    ),
    (
        "a:\n  network: { allow: ['*.10.0.0.1'] }\n",
        "p.yaml:2: a.network.allow: `*.10.0.0.1` is no host: nothing is below an address",
    ),
    (
        "a:\n  network: { ports: [1] }\n",
        "p.yaml:2: a.network.ports: unknown key of `network`",
    ),
    (
        "a:\n  network: { publish: [70000] }\n",
        "p.yaml:2: a.network.publish: 70000 is no port",
    ),
    (
        "a:\n  network: { host_ports: [0] }\n",
        "p.yaml:2: a.network.host_ports: 0 is no port",
    ),
    (
        "a:\n  network: { host_ports: [-1] }\n",
        "p.yaml:2: a.network.host_ports: `-1` stands here; a whole number is expected",
    ),
    (
        "a:\n  network:\n    host_ports:\n      - 5432\n      - 3128\n",
        "p.yaml:5: a.network.host_ports: 3128: the sandbox answers there itself",
    ),
    (
        "a:\n  network:\n    host_ports:\n      - 5432\n      - 5432\n",
        "p.yaml:5: a.network.host_ports: 5432: it stands here twice",
    ),
    (
        "a:\n  network:\n    publish: [443]\n",
        "p.yaml:3: a.network.publish: 443: the program cannot listen there",
    ),
    (
        "a:\n  network:\n    publish:\n      - 8443\n    allow: ['x.example:8443']\n",
        "p.yaml:4: a.network.publish: 8443: the program cannot listen there",
    ),
    (
        "a:\n  subcommands:\n    b:\n      network:\n        publish:\n          - 3000\n        host_ports: [3000]\n",
        "p.yaml:6: a.subcommands.b.network.publish: 3000: it is one of host_ports, too",
    ),
    (
        "'*':\n  network: { publish: [1080] }\na: {}\n",
        "p.yaml:2: *.network.publish: 1080: the sandbox answers there itself",
    ),
    (
        "a/b: {}\n",
        "p.yaml:1: a/b: a program is named by its bare name",
    ),
    ("npm:\n  run: {}\n  subcommands: { run: {} }\n", "p.yaml:"),
    (
        "npm:\n  run: { flags: [-a], allowed_flags: [-b] }\n",
        "p.yaml:2: npm.run.allowed_flags: `flags` and `allowed_flags` are two names",
    ),
    (
        "pwsh:\n  dangerous_patterns: ['(']\n",
        "p.yaml:2: pwsh.dangerous_patterns: `(` is no regular expression",
    ),
    (
        "'*':\n  flags: [-a]\n",
        "p.yaml:2: *.flags: unknown key of this entry",
    ),
    (
        "'*':\n  extends: other\n",
        "p.yaml:2: *.extends: `other` is no shipped policy",
    ),
    (
        "echo:\n  flags: []\n  match:\n    - echo a\n    - echo -n\n",
        "p.yaml:5: echo.match: `echo -n` is not allowed: ",
    ),
    (
        "echo:\n  flags: []\n  not_match: [echo a]\n",
        "p.yaml:3: echo.not_match: `echo a` is allowed, by echo",
    ),
    (
        "echo:\n  match: [true]\ntrue: {}\n",
        "p.yaml:2: echo.match: `true` is no text",
    ),
    (
        "echo:\n  match: ['which']\nwhich: {}\n",
        "p.yaml:2: echo.match: `which` is allowed by which, not by this entry",
    ),
    ("", "p.yaml: the file has no entry"),
    ("# nothing\n", "p.yaml: the file has no entry"),
];

#[test]
fn messages_name_file_line_and_key() {
    for (text, begins) in MESSAGES {
        let said = said(text);
        assert!(
            said.first().is_some_and(|first| first.starts_with(begins)),
            "{text}\n{said:#?}"
        );
    }
}

#[test]
fn names_may_have_dots() {
    let text = "python3.11: { validator: python, flags: [\"-V\"], match: [python3.11 -V] }\npython3: { flags: [] }\n";
    assert_eq!(said(text), Vec::<String>::new());
}

#[test]
fn everything_that_is_wrong_is_said() {
    let said = said("a: { flagz: 1 }\nb: { default_timeout: x }\nc: { ptrace: 3, flags: [y] }\n");
    assert_eq!(said.len(), 4, "{said:#?}");
}

#[test]
fn shipped_policies_are_sound_and_allow_what_their_names_say() {
    let names: Vec<&str> = shipped_names().collect();
    assert_eq!(names, ["default", "development", "production"]);
    for name in names {
        policy(name);
    }
    assert!(Policy::shipped().programs().count() > 30);
    for (line, allowed_by) in [
        ("git status", [true, true, true]),
        ("git commit -m x", [true, true, false]),
        ("git push", [false, true, false]),
        ("python -c 'print(1)'", [false, true, false]),
        ("sort a", [true, true, true]),
        ("sort -o b a", [true, true, false]),
        ("rm a", [false, false, false]),
    ] {
        let verdicts = ["default", "development", "production"]
            .map(|name| decide_line(&policy(name), line).is_ok());
        assert_eq!(verdicts, allowed_by, "{line}");
    }
}

#[test]
fn a_policy_may_build_on_a_shipped_one() {
    let text = "'*': { extends: default }\ngit:\n  subcommands:\n    push: { flags: [-u] }\n    status: {}\nsort: { flags: [] }\nhello: {}\n";
    let policy = Policy::parse(text.as_bytes(), "p.yaml").unwrap();
    for (line, allowed) in [
        ("git push -u x", true),
        ("git log", true),
        ("git status -s", false),
        ("sort a", true),
        ("sort -r a", false),
        ("hello", true),
        ("uniq -c", true),
    ] {
        assert_eq!(decide_line(&policy, line).is_ok(), allowed, "{line}");
    }
}

#[test]
fn entries_that_can_start_anything_are_warned_of() {
    let warned = |text: &str| {
        let examined = Policy::examine(text.as_bytes(), "p");
        assert!(examined.problems.is_empty(), "{:?}", examined.problems);
        examined
            .warnings
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n")
    };
    for program in ["awk", "xargs", "make", "tar", "env", "bash", "sed"] {
        let text = warned(&format!("{program}: {{ flags: [-x] }}\n"));
        assert!(
            text.starts_with(&format!(
                "p:1: {program}: warning: `{program}` can start any program"
            )),
            "{text}"
        );
    }
    assert_eq!(warned("xargs: { first_argument: [wc, rm] }\n"), "");
    assert!(warned("xargs: { first_argument: [wc, sh] }\n").contains("can start any program"));
    assert!(warned("make: {}\n").contains("can start any program"));
    assert!(warned("find: { flags: [-exec], deny_tokens: [] }\n").contains("`find -exec` can"));
    assert!(warned("find: { flags: [-exec] }\n").contains("`find -exec` could"));
    assert!(warned("python: { flags: [-c] }\n").contains("`-c` runs code"));
    assert!(warned("git: { subcommands: { config: {} } }\n").contains("first_argument"));
    assert!(warned("a: { flags: [-x], deny_global_flags: [-x] }\n").contains("which wins"));
    assert_eq!(
        warned("sed: { flags: [-n], require_flags: [--sandbox] }\nfind: { flags: [-name] }\n"),
        ""
    );
}

#[test]
fn an_address_that_is_not_public_is_warned_of() {
    let text = "a:\n  network:\n    allow:\n      - good.test\n      - 10.1.2.3:443\n      - 93.184.216.34\n      - '127.1'\n    deny: [10.9.9.9]\n";
    let examined = Policy::examine(text.as_bytes(), "p");
    assert!(examined.policy.is_some());
    let warnings: Vec<String> = examined.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    let start = "p:5: a.network.allow: warning: `10.1.2.3` is no public address. Because it is listed as an address, the program reaches it";
    assert!(warnings[0].starts_with(start), "{warnings:?}");
    assert!(
        warnings[1].starts_with("p:7: ") && warnings[1].ends_with("host_ports"),
        "{warnings:?}"
    );
}
