//! Keeps the map in `docs/ARCHITECTURE.md` true: reads `src/` and the other crates and fails on an arrow that is not on the
//! map, naming the rule that it breaks.
//!
//! Plain text scanning: comments and literals are blanked out first, so that only code counts. A new arrow is added
//! here *and* explained in `docs/ARCHITECTURE.md`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs
)]

#[path = "architecture/cycles.rs"]
mod cycles;
#[path = "architecture/functions.rs"]
mod functions;
#[path = "architecture/names.rs"]
mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Each room, whom it may use, and the rule in words.
const ROOMS: &[(&str, &[&str], &str)] = &[
    (
        "main",
        &["cli"],
        "main parses, runs and returns an exit code; nothing else",
    ),
    (
        "cli",
        &[
            "client", "daemon", "exec", "helper", "operator", "journal", "serve",
        ],
        "cli parses and prints: what a store is asked for goes through client",
    ),
    (
        "helper",
        &["daemon", "exec"],
        "helper recognises what the library has started this program as, and does none of the work",
    ),
    (
        "serve",
        &["client", "exec", "operator", "journal"],
        "serve is a user of client and exec, as cli is, and never of cli",
    ),
    (
        "client",
        &["control", "daemon", "operator", "world"],
        "client is what front ends share: it knows neither the command line nor exec, and the daemon by its socket, but for starting it",
    ),
    (
        "control",
        &["operator", "world"],
        "control is the protocol between client and daemon: it knows neither end",
    ),
    (
        "daemon",
        &["fuse", "control", "operator", "world"],
        "daemon does not know cli or client, nor the format of the journal",
    ),
    (
        "exec",
        &["client", "world"],
        "exec works in a mounted home like any program, or on the world in process: it knows none of fuse, daemon, cli, operator; client, which finds the home, does not know it",
    ),
    (
        "fuse",
        &["world"],
        "fuse decodes, asks the world and replies: it knows none of daemon, cli, operator, and writes no journal",
    ),
    (
        "operator",
        &["world", "journal"],
        "operator is a library over the store: none of fuse, daemon, cli",
    ),
    (
        "world",
        &["journal"],
        "world has every rule and no door: none of fuse, daemon, cli, operator",
    ),
    (
        "journal",
        &[],
        "journal knows paths, ids and time, not the world",
    ),
];

/// The executors below `exec`. They have the pipeline in common, and do not know each other.
const EXECUTORS: &[&str] = &["program", "files", "task"];

/// Words that may be used in some places only.
const WORDS: &[(&[&str], &[&str], &str)] = &[
    (
        &["unsafe", "libc"],
        &["../crates/sys/src/", "../crates/init/src/sys/"],
        "unsafe code and calls into libc stand in sys/ alone",
    ),
    (
        &["fuser"],
        &["fuse/", "daemon/session.rs"],
        "the protocol's crate is seen by fuse/ and daemon/session.rs alone: one room to change when it does",
    ),
    (
        &["rmcp", "tokio"],
        &["serve/mcp/"],
        "the SDK of the protocol and its runtime are seen by serve/mcp alone",
    ),
    (
        &["rustls", "rustls_native_certs"],
        &["../crates/sandbox/src/network/secret/tls.rs"],
        "TLS is one file's: what is verified is verified there",
    ),
    (
        &["ratatui"],
        &["cli/review/screen/"],
        "the crate of the screen is seen by cli/review/screen alone",
    ),
    (
        &["ed25519_dalek"],
        &["exec/task/key.rs"],
        "keys and signatures of file tasks are one file's: what is verified is verified strictly there",
    ),
    (
        &["ring"],
        &[
            "../crates/sandbox/src/ssh_agent/",
            "../crates/sandbox/src/network/secret/tls.rs",
        ],
        "the crate of signatures is seen by ssh_agent/, for host keys, and by secrets, for TLS",
    ),
    (
        &["clap", "println!", "print!", "eprintln!", "eprint!", "dbg!"],
        &["cli/"],
        "what was typed and every word that is printed belong to cli/",
    ),
];

/// Calls that take a path of the host. Rooms that act on the store work with descriptors and one name.
const BY_PATH: &[&str] = &[
    "std::fs::read",
    "std::fs::write",
    "std::fs::metadata",
    "std::fs::symlink_metadata",
    "std::fs::canonicalize",
    "std::fs::create_dir",
    "std::fs::remove_",
    "std::fs::rename",
    "std::fs::copy",
    "std::fs::hard_link",
    "std::fs::OpenOptions",
    "File::open",
    "File::create",
    "rustix::fs::open(",
    "rustix::fs::rename(",
    "rustix::fs::unlink(",
    "rustix::fs::stat(",
];

/// Where a path of the host is used nevertheless, and why.
const BY_PATH_ALLOWED: &[(&str, &str)] = &[
    ("world/root.rs", "Root::open opens the store, once"),
    (
        "world/store/place.rs",
        "the state of a store may lie in its owner's state home, whose path is a user's setting",
    ),
    (
        "world/store/holder.rs",
        "reads the machine's boot id from /proc",
    ),
    (
        "exec/program/system_shell/line_pipes.rs",
        "the pipes of a shell lie in a temporary directory of the host, not in the store",
    ),
    (
        "exec/task/host_files.rs",
        "keys, trust and configuration of file tasks lie outside bases, and an operator names them by path",
    ),
];

/// How long a file may be, its tests left out.
const LONG: usize = 700;

/// How long a function may be: what needs more than a screen does more than one thing.
const LONG_FUNCTION: usize = 80;

/// Where the other crates lie, from `src/`. Which of them may use which, the compiler knows.
const CRATES: &[&str] = &[
    "../crates/executor/src/",
    "../crates/init/src/",
    "../crates/mounts/src/",
    "../crates/policy/src/",
    "../crates/sandbox/src/",
    "../crates/shell/src/",
    "../crates/sys/src/",
    "../crates/types/src/",
];

struct Source {
    /// The path from `src/`.
    path: String,
    text: String,
    /// Without comments, literals and tests; line breaks are kept.
    code: String,
}

impl Source {
    /// The crate that it is of, if that is not the one with the rooms.
    fn of_crate(&self) -> Option<&'static str> {
        CRATES
            .iter()
            .copied()
            .find(|dir| self.path.starts_with(dir))
    }

    fn room(&self) -> &str {
        let first = self.path.split('/').next().unwrap();
        first.strip_suffix(".rs").unwrap_or(first)
    }
}

fn sources() -> Vec<Source> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    for dir in ["."].iter().chain(CRATES) {
        let before = found.len();
        collect(&top.join(dir), &mut found);
        assert!(found.len() > before + 2, "{dir} was not found");
    }
    found.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        let path = path.strip_prefix(&top).unwrap();
        let path = path.to_str().unwrap().to_owned();
        let code = if path.ends_with("/tests.rs") {
            String::new()
        } else {
            without_tests(&code_of(&text))
        };
        Source { path, text, code }
    };
    found.into_iter().map(read).collect()
}

fn collect(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            found.push(path);
        }
    }
}

/// Blanks out comments, strings and characters. Line breaks stay, so that line numbers do.
fn code_of(text: &str) -> String {
    let text: Vec<char> = text.chars().collect();
    let at = |i: usize| text.get(i).copied().unwrap_or('\0');
    let starts = |i: usize, what: &str| what.chars().enumerate().all(|(k, c)| at(i + k) == c);
    let mut code = String::new();
    let mut i = 0;
    while i < text.len() {
        let end = if starts(i, "//") {
            (i..text.len())
                .find(|k| at(*k) == '\n')
                .unwrap_or(text.len())
        } else if starts(i, "/*") {
            (i + 2..text.len())
                .find(|k| starts(*k, "*/"))
                .map_or(text.len(), |k| k + 2)
        } else if at(i) == 'r'
            && !is_word(at(i.wrapping_sub(1)))
            && (at(i + 1) == '"' || starts(i + 1, "#\""))
        {
            let close = if at(i + 1) == '"' { "\"" } else { "\"#" };
            let from = i + 2 + close.len() - 1;
            (from..text.len())
                .find(|k| starts(*k, close))
                .map_or(text.len(), |k| k + close.len())
        } else if at(i) == '"' {
            let mut k = i + 1;
            while k < text.len() && at(k) != '"' {
                k += if at(k) == '\\' { 2 } else { 1 };
            }
            k + 1
        } else if at(i) == '\'' && at(i + 1) == '\\' {
            (i + 3..text.len())
                .find(|k| at(*k) == '\'')
                .map_or(text.len(), |k| k + 1)
        } else if at(i) == '\'' && at(i + 2) == '\'' {
            i + 3
        } else {
            code.push(at(i));
            i += 1;
            continue;
        };
        code.extend((i..end.min(text.len())).map(|k| if at(k) == '\n' { '\n' } else { ' ' }));
        i = end;
    }
    code
}

/// Cuts off from the test module on: it is the last thing in a file.
fn without_tests(code: &str) -> String {
    let cut = code.find("#[cfg(test)]").unwrap_or(code.len());
    code[..cut].to_owned()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Where a word stands in code by itself.
fn places<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word)
        .map(|(at, _)| at)
        .filter(move |at| {
            let before = code[..*at].chars().next_back();
            let after = code[at + word.len()..].chars().next();
            !before.is_some_and(is_word)
                && (word.ends_with(['!', '(', '_']) || !after.is_some_and(is_word))
        })
}

fn line(code: &str, at: usize) -> usize {
    code[..at].matches('\n').count() + 1
}

/// The rooms that a file names, by `crate::room`, `super::room` or in a group of these, with the line.
fn arrows(source: &Source) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for at in places(&source.code, start.trim_end_matches(':')) {
            let Some(rest) = source.code[at..].strip_prefix(start) else {
                continue;
            };
            for first in first_names(rest) {
                if ROOMS.iter().any(|(room, ..)| *room == first) {
                    found.push((first, line(&source.code, at)));
                }
            }
        }
    }
    found
}

/// The first name of a path, or of each path in a group `{a::b, c}`.
fn first_names(rest: &str) -> Vec<String> {
    let name = |text: &str| -> String {
        text.trim_start()
            .chars()
            .take_while(|c| is_word(*c))
            .collect()
    };
    let Some(group) = rest.strip_prefix('{') else {
        return vec![name(rest)];
    };
    let (mut depth, mut names, mut from) = (0, Vec::new(), 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                names.push(name(&group[from..at]));
                from = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names
}

fn report(problems: &[String]) {
    assert!(
        problems.is_empty(),
        "the map of docs/ARCHITECTURE.md is not true any more:\n  {}",
        problems.join("\n  ")
    );
}

#[test]
fn rooms_use_only_whom_they_may() {
    let mut problems = Vec::new();
    let sources = sources();
    let in_rooms = |source: &&Source| source.path != "lib.rs" && source.of_crate().is_none();
    for source in sources.iter().filter(in_rooms) {
        let room = source.room();
        let Some((_, allowed, rule)) = ROOMS.iter().find(|(name, ..)| *name == room) else {
            problems.push(format!(
                "src/{}: a room that is not on the map",
                source.path
            ));
            continue;
        };
        for (used, line) in arrows(source) {
            if used != room && !allowed.contains(&used.as_str()) {
                problems.push(format!(
                    "src/{}:{line}: {room} → {used}. Rule: {rule}",
                    source.path
                ));
            }
        }
    }
    report(&problems);
}

#[test]
fn executors_do_not_know_each_other() {
    let mut problems = Vec::new();
    for source in sources() {
        let parts: Vec<&str> = source.path.split(['/', '.']).collect();
        let ["exec", own, ..] = parts[..] else {
            continue;
        };
        if !EXECUTORS.contains(&own) {
            continue;
        }
        for other in EXECUTORS.iter().filter(|other| **other != own) {
            let path = format!("exec::{other}");
            for at in places(&source.code, &path) {
                let line = line(&source.code, at);
                problems.push(format!(
                    "src/{}:{line}: {own} → {other}. Rule: what two executors need is the pipeline's",
                    source.path
                ));
            }
        }
    }
    report(&problems);
}

#[test]
fn every_arrow_on_the_map_is_used() {
    // A permission that nobody needs any more is one too many.
    let sources = sources();
    let mut problems = Vec::new();
    for (room, allowed, _) in ROOMS.iter().filter(|(room, ..)| *room != "main") {
        for used in allowed.iter() {
            let mut of_room = sources.iter().filter(|source| source.room() == *room);
            if !of_room.any(|source| arrows(source).iter().any(|(to, _)| to == used)) {
                problems.push(format!(
                    "{room} → {used}: no code uses this arrow; take it off"
                ));
            }
        }
    }
    report(&problems);
}

#[test]
fn words_stand_where_they_belong() {
    let mut problems = Vec::new();
    for source in sources() {
        for (words, homes, rule) in WORDS {
            if homes.iter().any(|home| source.path.starts_with(home)) {
                continue;
            }
            for word in *words {
                for at in places(&source.code, word) {
                    let line = line(&source.code, at);
                    problems.push(format!(
                        "src/{}:{line}: `{word}`. Rule: {rule}",
                        source.path
                    ));
                }
            }
        }
    }
    report(&problems);
}

#[test]
fn front_ends_open_no_store() {
    let mut problems = Vec::new();
    for source in sources().iter().filter(|source| source.room() == "cli") {
        for word in ["World", "Store", "Root"] {
            for at in places(&source.code, word) {
                let line = line(&source.code, at);
                problems.push(format!(
                    "src/{}:{line}: `{word}`. Rule: what a store is asked for, and by whom it is carried out, is client's",
                    source.path
                ));
            }
        }
    }
    report(&problems);
}

#[test]
fn the_store_is_worked_on_by_descriptor() {
    let mut problems = Vec::new();
    let rooms = ["world", "fuse", "operator", "exec"];
    for source in sources()
        .iter()
        .filter(|source| rooms.contains(&source.room()))
    {
        if BY_PATH_ALLOWED.iter().any(|(path, _)| *path == source.path) {
            continue;
        }
        for call in BY_PATH {
            for (at, _) in source.code.match_indices(call) {
                let line = line(&source.code, at);
                problems.push(format!(
                    "src/{}:{line}: `{call}`. Rule: no path of the host survives the start; act on a descriptor and one name",
                    source.path
                ));
            }
        }
    }
    report(&problems);
}

#[test]
fn every_file_says_first_what_it_owns() {
    let mut problems = Vec::new();
    for source in sources() {
        if !source.path.ends_with("/tests.rs") && !source.text.starts_with("//! ") {
            problems.push(format!(
                "src/{}: does not open with a `//!` header",
                source.path
            ));
        }
    }
    report(&problems);
}

#[test]
fn files_hold_one_idea() {
    let mut problems = Vec::new();
    for source in sources() {
        let lines = source.code.lines().count();
        if lines > LONG {
            problems.push(format!(
                "src/{}: {lines} lines without tests, more than {LONG}. Which sentence of its header is a second idea?",
                source.path
            ));
        }
    }
    report(&problems);
}

/// Names of what lies in a store beside the occupant's files, which `world/store/layout.rs` alone writes out.
const LAYOUT: &[&str] = &[
    ".trash",
    ".trumanfs",
    ".gitignore",
    "control.sock",
    "links",
    "pinned",
    "purging",
    "reserve",
    "sessions",
    "journal.jsonl",
    "daemon.log",
    "power-cut",
    "versions",
    ".map",
];

#[test]
fn the_layout_of_a_store_is_written_out_once() {
    let mut problems = Vec::new();
    for source in sources() {
        // What cli prints and takes are words of its own, and so are the fields of records.
        let is_of_records = matches!(
            source.path.as_str(),
            "journal/encoder.rs" | "journal/fields.rs"
        );
        if source.path == "world/store/layout.rs" || source.room() == "cli" || is_of_records {
            continue;
        }
        for (number, text) in source
            .text
            .lines()
            .take(source.code.lines().count())
            .enumerate()
        {
            let text = text.split("//").next().unwrap_or_default();
            for name in LAYOUT {
                if text.contains(&format!("\"{name}\"")) {
                    let (path, line) = (&source.path, number + 1);
                    problems.push(format!(
                        "src/{path}:{line}: \"{name}\". Rule: names below .trumanfs and .trash stand in world/store/layout.rs"
                    ));
                }
            }
        }
    }
    report(&problems);
}

/// Returns the directory of a file's module; a file beside a directory of its name belongs to that.
fn module_of<'f>(path: &'f str, files: &[String]) -> &'f str {
    let own = path.strip_suffix(".rs").unwrap_or(path);
    let has_own = |other: &String| {
        other
            .strip_prefix(own)
            .is_some_and(|rest| rest.starts_with('/'))
    };
    if files.iter().any(has_own) {
        return own;
    }
    path.rsplit_once('/').map_or("", |(dir, _)| dir)
}

#[test]
fn files_of_a_directory_are_a_module() {
    let files = ["a/mod.rs", "a/x.rs", "a/x/deep.rs", "a/y.rs", "lib.rs"].map(str::to_owned);
    let modules = files.each_ref().map(|file| module_of(file, &files));
    assert_eq!(modules, ["a", "a/x", "a/x", "a", ""]);
}

#[test]
fn no_modules_need_each_other_in_a_circle() {
    let sources = sources();
    let mut told = Vec::new();
    for of_crate in CRATES.iter().map(Some).chain([None]) {
        let of_crate = of_crate.copied();
        let files: Vec<cycles::File<'_>> = sources
            .iter()
            .filter(|source| source.of_crate() == of_crate)
            .map(|source| {
                let path = source.path.strip_prefix(of_crate.unwrap_or_default());
                (path.unwrap(), source.code.as_str())
            })
            .collect();
        let all: Vec<String> = files.iter().map(|(path, _)| (*path).to_owned()).collect();
        for (members, ties) in cycles::told(&files) {
            let modules: BTreeSet<&str> =
                members.iter().map(|path| module_of(path, &all)).collect();
            if modules.len() > 1 {
                told.push(format!("{modules:?} need each other:\n{ties}"));
            }
        }
    }
    report(&told);
}

#[test]
fn functions_fit_on_a_screen() {
    let mut problems = Vec::new();
    for source in sources() {
        // The tests beside the code are read as often as it is.
        for function in functions::functions(&code_of(&source.text)) {
            if function.lines > LONG_FUNCTION {
                problems.push(format!(
                    "src/{}:{}: {} has {} lines, more than {LONG_FUNCTION}",
                    source.path, function.line, function.name, function.lines
                ));
            }
        }
    }
    report(&problems);
}

/// Participles, pronouns, adverbs and bare verbs, which say nothing of the thing that they name.
const NO_NOUNS: &[&str] = &[
    "Asked", "Act", "Again", "Another", "At", "Began", "Begun", "Both", "Came", "Checked",
    "Chosen", "Done", "Each", "Either", "Ended", "Expected", "Failed", "Found", "Gathered",
    "Given", "Gone", "Held", "Here", "How", "Kept", "Known", "Left", "Listed", "Look", "Lost",
    "Made", "Meant", "Moved", "Named", "Needed", "Noted", "Opened", "Other", "Others", "Own",
    "Put", "Read", "Said", "Seen", "Sent", "Served", "Settled", "Shown", "Some", "Stands",
    "Started", "Still", "Such", "Taken", "Then", "There", "This", "Told", "Turn", "Wanted", "Was",
    "What", "When", "Where", "Which", "Who", "Whose", "Why", "Written",
];

/// The share of names of one word among those of types that other files see, in percent: central nouns.
const ONE_WORD: usize = 10;

#[test]
fn types_have_names_of_their_own() {
    let sources = sources();
    let mut problems = Vec::new();
    let (mut visible, mut one_word) = (0, Vec::new());
    for of_crate in CRATES.iter().copied().map(Some).chain([None]) {
        let mut known: BTreeMap<String, String> = BTreeMap::new();
        for source in sources
            .iter()
            .filter(|source| source.of_crate() == of_crate)
        {
            for found in names::types(&source.code) {
                let place = format!("src/{}:{}: {}", source.path, found.line, found.name);
                if NO_NOUNS.contains(&found.name.as_str()) {
                    problems.push(format!("{place} is no noun. Rule: say what of what it is"));
                }
                visible += usize::from(found.is_visible);
                if found.is_visible && found.is_one_word() {
                    one_word.push(found.name.clone());
                }
                if let Some(first) = known.insert(found.name, place.clone()) {
                    problems.push(format!(
                        "{place} has the name of {first}. Rule: one name, one type"
                    ));
                }
            }
        }
    }
    if one_word.len() * 100 > visible * ONE_WORD {
        problems.push(format!(
            "{} of {visible} types that other files see have one word, more than {ONE_WORD} %: {}",
            one_word.len(),
            one_word.join(" ")
        ));
    }
    report(&problems);
}

/// Files whose doc comments are texts that others see: help, and the schemas of tools.
const OTHER_OPENINGS: &[&str] = &["cli/", "serve/mcp/arguments.rs"];

#[test]
fn doc_comments_open_with_the_thing() {
    let mut problems = Vec::new();
    for source in sources() {
        if OTHER_OPENINGS
            .iter()
            .any(|start| source.path.starts_with(start))
        {
            continue;
        }
        let own = source.code.lines().count();
        for line in names::vague_openings(&source.text) {
            if line <= own {
                problems.push(format!(
                    "src/{}:{line}: a doc comment opens with What, Who, Whether, How or It. Rule: a verb in the third person, or a noun",
                    source.path
                ));
            }
        }
    }
    report(&problems);
}

#[test]
fn the_scanner_sees_code_and_nothing_else() {
    let text = "//! fuser\nuse crate::{fuse::{A, B}, world};\nlet s = \"unsafe \\\" \"; let c = '\"'; fn f<'a>() {} /* libc */ let r = r#\"clap\"#; unsafe_code\n";
    let source = Source {
        path: "cli/x.rs".to_owned(),
        text: text.to_owned(),
        code: code_of(text),
    };
    let names: Vec<_> = arrows(&source).into_iter().collect();
    assert_eq!(names, [("fuse".to_owned(), 2), ("world".to_owned(), 2)]);
    for word in ["fuser", "unsafe", "libc", "clap"] {
        assert_eq!(
            places(&source.code, word).count(),
            0,
            "{word} in {}",
            source.code
        );
    }
    assert_eq!(places(&source.code, "fn").count(), 1);
    assert_eq!(places("eprintln!(x)", "println!").count(), 0);
}
