//! The environment of a program, built from nothing: a small base, what the tool needs, what the caller may ask for,
//! what the policy sets. The later wins.

use std::collections::BTreeMap;
use std::path::Path;

use super::own_dir::own_path;
use super::schema::{PolicyEntries, ProgramEntry};
use super::tools::{CheckedCommand, CommandCase};
use super::verdict::{CommandRefusal, RefusalClass};
use super::words::shown;

/// The variables that a caller may always set: appearance of output, language, time zone.
const HARMLESS: &[&str] = &[
    "CI",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "FORCE_COLOR",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NUMERIC",
    "LC_TIME",
    "LINES",
    "NODE_ENV",
    "NO_COLOR",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONHASHSEED",
    "PYTHONIOENCODING",
    "PYTHONUNBUFFERED",
    "PYTHONUTF8",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "TERM",
    "TZ",
];

/// Settings of git that no repository may change: programs that git starts, and places where it looks for more.
const PINS: &[(&str, &str)] = &[
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("credential.helper", ""),
    ("core.sshCommand", "ssh -o BatchMode=yes"),
    ("core.askPass", ""),
    ("core.alternateRefsCommand", "true"),
    ("log.showSignature", "false"),
    // Signing starts a program, and so does looking at a signature (`--format=%G?`).
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("gpg.program", "false"),
    ("gpg.openpgp.program", "false"),
    ("gpg.x509.program", "false"),
    ("gpg.ssh.program", "false"),
    // Differences that nobody asked for, with programs that attributes name (textconv).
    ("commit.verbose", "false"),
    ("stash.showPatch", "false"),
    ("protocol.ext.allow", "never"),
    // They would go on in the background, and nothing does once a command has ended.
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
];

/// Files of the home that programs read as their user's, though their `HOME` is elsewhere: by the variable that names each.
const USER_FILES: &[(&str, &str)] = &[
    ("GIT_CONFIG_GLOBAL", "/.gitconfig"),
    ("npm_config_userconfig", "/.npmrc"),
];

/// Directories of programs.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Variables, by name.
type EnvMap = BTreeMap<Vec<u8>, Vec<u8>>;

/// Builds the environment of a command that its words allow.
///
/// # Errors
/// The caller asks for a variable that no list allows.
pub(super) fn build(
    rules: &PolicyEntries,
    case: &CommandCase<'_>,
    checked: &CheckedCommand<'_>,
    bound: &[&Path],
) -> Result<EnvMap, CommandRefusal> {
    let mut env = base(case.question.home);
    let path = join_path(&checked.path, bound, &checked.path_end);
    env.insert(b"PATH".to_vec(), path);
    for (name, value) in &checked.env {
        env.insert(name.as_bytes().to_vec(), value.clone());
    }
    let (every, entry) = (&rules.every, case.entry);
    for (name, value) in case.question.env {
        env.insert(name.clone(), asked_for(every, entry, name, value)?);
    }
    for set in set_by_policy(rules, entry) {
        for (name, value) in set {
            env.insert(name.clone().into_bytes(), value.clone().into_bytes());
        }
    }
    Ok(env)
}

/// Returns the variables that a policy sets for an entry; the later win.
fn set_by_policy<'r>(
    rules: &'r PolicyEntries,
    entry: &'r ProgramEntry,
) -> [&'r BTreeMap<String, String>; 4] {
    let every = &rules.every;
    [
        &every.safe_env,
        &entry.safe_env,
        &every.env_overrides,
        &entry.env_overrides,
    ]
}

/// Returns the directories in which the program itself is looked up: those of the machine and of the operator. The home's
/// own come after a program has been chosen, in its PATH, or a file of the home would be any program of the policy.
pub(super) fn search_path(
    rules: &PolicyEntries,
    entry: &ProgramEntry,
    checked: &CheckedCommand<'_>,
    bound: &[&Path],
) -> Vec<u8> {
    let set = set_by_policy(rules, entry).into_iter().rev();
    let own = match checked.runs_home_code {
        true => &checked.path[..],
        false => &[],
    };
    match set.filter_map(|set| set.get("PATH")).next() {
        Some(path) => path.clone().into_bytes(),
        None => join_path(own, bound, &[]),
    }
}

/// Puts a PATH together.
fn join_path(first: &[Vec<u8>], bound: &[&Path], last: &[Vec<u8>]) -> Vec<u8> {
    let mut path: Vec<Vec<u8>> = first.to_vec();
    path.push(PATH.into());
    for dir in bound {
        // A toolchain has its programs in `bin`; one that is bound by that directory, in itself.
        let dir = if dir.ends_with("bin") {
            dir.to_path_buf()
        } else {
            dir.join("bin")
        };
        path.push(dir.into_os_string().into_encoded_bytes());
    }
    path.extend_from_slice(last);
    path.join(&b':')
}

fn base(home: &[u8]) -> EnvMap {
    let mut env = EnvMap::new();
    let mut set = |name: &str, value: Vec<u8>| env.insert(name.into(), value);
    // Not the home: nothing tells tools apart what a user keeps there and what they may leave there themselves.
    set("HOME", own_path(""));
    set("TMPDIR", b"/tmp".to_vec());
    set("LANG", b"C.UTF-8".to_vec());
    set("TERM", b"dumb".to_vec());
    set("XDG_CACHE_HOME", own_path("/.cache"));
    for (name, file) in USER_FILES {
        set(name, [home, file.as_bytes()].concat());
    }
    set("GIT_CONFIG_NOSYSTEM", b"1".to_vec());
    set("GIT_TERMINAL_PROMPT", b"0".to_vec());
    set("GIT_PAGER", b"cat".to_vec());
    set("GIT_EDITOR", b"true".to_vec());
    set("GIT_SEQUENCE_EDITOR", b"true".to_vec());
    set("GIT_CEILING_DIRECTORIES", above(home));
    set("GIT_CONFIG_COUNT", PINS.len().to_string().into_bytes());
    for (number, (key, value)) in PINS.iter().enumerate() {
        set(&format!("GIT_CONFIG_KEY_{number}"), key.as_bytes().to_vec());
        set(
            &format!("GIT_CONFIG_VALUE_{number}"),
            value.as_bytes().to_vec(),
        );
    }
    env
}

/// Returns the directory above the home: no repository is looked for there.
fn above(home: &[u8]) -> Vec<u8> {
    let cut = memchr::memrchr(b'/', home).unwrap_or(0);
    home.get(..cut.max(1)).unwrap_or(b"/").to_vec()
}

/// Returns the value of a variable that the caller asks for.
fn asked_for(
    every: &ProgramEntry,
    entry: &ProgramEntry,
    name: &[u8],
    value: &[u8],
) -> Result<Vec<u8>, CommandRefusal> {
    let key = format!("{}.allow_env", entry.name);
    let refused = |reason: String| {
        Err(CommandRefusal::new(
            RefusalClass::Environment,
            key.clone(),
            reason,
        ))
    };
    let Ok(text) = std::str::from_utf8(name) else {
        return refused(format!("{} is no name of a variable", shown(name)));
    };
    if text.is_empty() || text.contains(['=', '\0']) || value.contains(&0) {
        return refused(format!(
            "{} is no name of a variable, or its value has a NUL",
            shown(name)
        ));
    }
    for set in [
        &entry.env_overrides,
        &every.env_overrides,
        &entry.safe_env,
        &every.safe_env,
    ] {
        match set.get(text) {
            Some(fixed) if fixed.as_bytes() == value => return Ok(value.to_vec()),
            Some(fixed) => {
                let fixed = shown(fixed.as_bytes());
                return refused(format!("the policy sets {text} to {fixed}; leave it out"));
            }
            None => {}
        }
    }
    let is_listed = entry.allow_env.contains(text) || every.allow_env.contains(text);
    if is_listed || HARMLESS.contains(&text) {
        return Ok(value.to_vec());
    }
    let listed: Vec<&str> = entry
        .allow_env
        .iter()
        .chain(&every.allow_env)
        .map(String::as_str)
        .collect();
    refused(format!(
        "{text} may not be asked for; these may: {}",
        [&listed[..], HARMLESS].concat().join(" ")
    ))
}
