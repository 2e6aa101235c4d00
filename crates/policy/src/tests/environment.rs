//! The settings that an allowed command runs with: environment, time, network, directory.

use std::time::Duration;

use super::*;

const ASKING: &str = "
'*': { default_timeout: 40, network: { allow: [example.org] }, bind_ro: [/opt/all], max_output_bytes: 5, allow_env: [SHARED] }
plain: {}
tool:
  flags: []
  default_timeout: 10
  safe_env: { A: safe, B: safe }
  env_overrides: { B: over, PATH: /only }
  allow_env: [MINE, LD_PRELOAD]
  network: none
  bind_ro: [/opt/tool/bin]
  max_output_bytes: 9
  suppress_success_output: true
  ptrace: true
  read_only: true
sub:
  subcommands:
    slow: { timeout: 100, network: { allow: ['*.example.net'], deny: [a.example.net], publish: [3000] }, bind_ro: [/opt/sub], suppress_success_output: true }
    other: {}
pytest: { disable_plugin_autoload: true }
python: { flags: [], allow_script_paths: true, detect_venv: false }
npm: { subcommands: { list: {} } }
";

fn run(
    line: &str,
    env: &[(&str, &str)],
    timeout: Option<u64>,
) -> Result<AllowedCommand, CommandRefusal> {
    let policy = Policy::parse(ASKING.as_bytes(), "p").unwrap();
    let argv = split(line.as_bytes()).unwrap();
    let env: Vec<(Vec<u8>, Vec<u8>)> = env
        .iter()
        .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
        .collect();
    let timeout = timeout.map(Duration::from_secs);
    decide(
        &policy,
        &CommandRequest {
            env: &env,
            timeout,
            ..ask(&argv, b"src")
        },
    )
}

pub(super) fn value(allowed: &AllowedCommand, name: &str) -> Option<String> {
    let found = allowed
        .env
        .iter()
        .find(|(known, _)| known == name.as_bytes());
    found.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
}

#[test]
fn the_environment_is_built_from_nothing() {
    let plain = run("plain", &[], None).unwrap();
    let names: Vec<String> = plain
        .env
        .iter()
        .map(|(name, _)| String::from_utf8_lossy(name).into_owned())
        .collect();
    assert!(names.is_sorted());
    for (name, expected) in [
        ("HOME", "/tmp/.home"),
        ("TMPDIR", "/tmp"),
        ("PATH", "/usr/local/bin:/usr/bin:/bin:/opt/all/bin"),
        ("XDG_CACHE_HOME", "/tmp/.home/.cache"),
        ("GIT_CONFIG_GLOBAL", "/home/agent/.gitconfig"),
        ("npm_config_userconfig", "/home/agent/.npmrc"),
        ("GIT_CONFIG_KEY_0", "core.fsmonitor"),
        ("GIT_CONFIG_VALUE_0", "false"),
        ("GIT_CONFIG_KEY_1", "core.hooksPath"),
        ("GIT_CONFIG_VALUE_1", "/dev/null"),
    ] {
        assert_eq!(value(&plain, name).as_deref(), Some(expected), "{name}");
    }
    let pins = value(&plain, "GIT_CONFIG_COUNT")
        .unwrap()
        .parse::<usize>()
        .unwrap();
    for number in 0..pins {
        assert!(value(&plain, &format!("GIT_CONFIG_KEY_{number}")).is_some());
        assert!(value(&plain, &format!("GIT_CONFIG_VALUE_{number}")).is_some());
    }
    let tool = run("tool", &[], None).unwrap();
    assert_eq!(
        (value(&tool, "A").unwrap(), value(&tool, "B").unwrap()),
        ("safe".to_owned(), "over".to_owned())
    );
    assert_eq!(value(&tool, "PATH").unwrap(), "/only");
    let tests = run("pytest", &[], None).unwrap();
    assert_eq!(value(&tests, "PYTHONSAFEPATH").as_deref(), Some("1"));
    assert_eq!(
        value(&tests, "PYTEST_DISABLE_PLUGIN_AUTOLOAD").as_deref(),
        Some("1")
    );
    let npm = run("npm list", &[], None).unwrap();
    assert_eq!(
        value(&npm, "PATH").unwrap(),
        "/usr/local/bin:/usr/bin:/bin:/opt/all/bin:/home/agent/src/node_modules/.bin:/home/agent/node_modules/.bin"
    );
}

/// A file of the home is not a program that the policy allows, whatever it is called.
#[test]
fn programs_are_looked_up_where_the_operator_says() {
    const USUAL: &str = "/usr/local/bin:/usr/bin:/bin:/opt/all/bin";
    for (line, expected) in [
        ("plain", USUAL),
        ("tool", "/only"),
        ("npm list", USUAL),
        ("python a.py", USUAL),
    ] {
        let allowed = run(line, &[], None).unwrap();
        assert_eq!(
            String::from_utf8_lossy(&allowed.search_path),
            expected,
            "{line}"
        );
    }
    // Not where a caller says.
    let policy = Policy::parse(b"plain: {allow_env: [PATH]}", "p").unwrap();
    let argv = split(b"plain").unwrap();
    let env = [(b"PATH".to_vec(), b"/home/agent/bin".to_vec())];
    let allowed = decide(
        &policy,
        &CommandRequest {
            env: &env,
            ..ask(&argv, b"src")
        },
    )
    .unwrap();
    assert_eq!(allowed.search_path, b"/usr/local/bin:/usr/bin:/bin");
    assert_eq!(value(&allowed, "PATH").as_deref(), Some("/home/agent/bin"));
}

#[test]
fn a_caller_gets_what_a_list_allows() {
    for (name, given) in [
        ("NO_COLOR", "1"),
        ("MINE", "x"),
        ("SHARED", "x"),
        ("LD_PRELOAD", "x.so"),
        ("TZ", "UTC"),
    ] {
        let allowed = run("tool", &[(name, given)], None).unwrap();
        assert_eq!(value(&allowed, name).as_deref(), Some(given));
    }
    assert!(
        run("tool", &[("A", "safe")], None).is_ok(),
        "what it is anyway may be asked for"
    );
    for (line, name) in [
        ("plain", "LD_PRELOAD"),
        ("tool", "LD_LIBRARY_PATH"),
        ("tool", "PYTHONPATH"),
        ("tool", "NODE_OPTIONS"),
        ("tool", "BASH_ENV"),
        ("tool", "GIT_DIR"),
        ("tool", "GIT_CONFIG_COUNT"),
        ("tool", "PATH"),
        ("tool", "HOME"),
        ("tool", "A"),
        ("tool", "B"),
        ("tool", ""),
        ("tool", "X=Y"),
        ("tool", "no_color"),
        ("plain", "MINE"),
        ("tool", "TMPDIR"),
        ("tool", "BASH_FUNC_x%%"),
    ] {
        let refused = run(line, &[(name, "evil")], None).unwrap_err();
        assert_eq!(refused.class, RefusalClass::Environment, "{name}");
    }
    assert_eq!(
        run("tool", &[("TZ", "a\0b")], None).unwrap_err().class,
        RefusalClass::Environment
    );
}

#[test]
fn a_caller_may_lower_the_time_and_nothing_else() {
    for (line, asked, seconds) in [
        ("plain", None, 40),
        ("plain", Some(5), 5),
        ("plain", Some(500), 40),
        ("tool", None, 10),
        ("tool", Some(11), 10),
        ("sub slow", None, 100),
        ("sub slow", Some(99), 99),
        ("sub other", None, 40),
    ] {
        let allowed = run(line, &[], asked).unwrap();
        assert_eq!(
            allowed.timeout,
            Duration::from_secs(seconds),
            "{line} {asked:?}"
        );
    }
    assert_eq!(
        run("plain", &[], Some(0)).unwrap_err().class,
        RefusalClass::Time
    );
    let argv = [b"a".to_vec()];
    let bare = Policy::parse(b"a: {}\n", "p").unwrap();
    assert_eq!(
        decide(&bare, &ask(&argv, b"")).unwrap().timeout,
        Duration::from_secs(30)
    );
}

#[test]
fn the_most_special_rule_says_how_it_runs() {
    let plain = run("plain", &[], None).unwrap();
    assert_eq!(
        (plain.network.allow, plain.max_output_bytes, plain.read_only),
        (vec!["example.org".to_owned()], 5, false)
    );
    let tool = run("tool", &[], None).unwrap();
    assert_eq!(
        (
            tool.network,
            tool.max_output_bytes,
            tool.read_only,
            tool.ptrace,
            tool.suppress_success_output
        ),
        (NetworkRule::default(), 9, true, true, true)
    );
    let slow = run("sub slow", &[], None).unwrap();
    assert_eq!(
        (slow.network.publish, slow.suppress_success_output),
        (vec![3000.into()], true)
    );
    let bound: Vec<String> = slow
        .bind_ro
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    assert_eq!(bound, ["/opt/sub", "/opt/all"]);
    assert!(
        value(&run("sub slow", &[], None).unwrap(), "PATH")
            .unwrap()
            .ends_with(":/opt/sub/bin:/opt/all/bin")
    );
}

#[test]
fn the_working_directory_lies_in_the_home() {
    let policy = policy("default");
    let argv = [b"git".to_vec(), b"status".to_vec()];
    for (cwd, becomes) in [
        ("", "/home/agent"),
        (".", "/home/agent"),
        ("src", "/home/agent/src"),
        ("/home/agent", "/home/agent"),
        ("/home/agent//a/./b/", "/home/agent/a/b"),
        ("a/../b", "/home/agent/b"),
    ] {
        let allowed = decide(&policy, &ask(&argv, cwd.as_bytes())).unwrap();
        assert_eq!(String::from_utf8_lossy(&allowed.cwd), becomes, "{cwd}");
    }
    for cwd in [
        "..",
        "/",
        "/etc",
        "/home",
        "/home/agent/..",
        "/home/agents",
        "a/../..",
        "/home/agent/../agent2",
        "/dev/null",
        "x\0y",
    ] {
        let refused = decide(&policy, &ask(&argv, cwd.as_bytes())).unwrap_err();
        assert_eq!(refused.class, RefusalClass::Cwd, "{cwd:?}");
    }
}
