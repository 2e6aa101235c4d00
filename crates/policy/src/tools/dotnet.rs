//! dotnet: flags in all their spellings, `/p:X=Y` and `@file.rsp` among them.

use super::super::scan::{ParsedArgument, ParsedFlag, ScanResult};
use super::super::schema::{FlagList, WordReading};
use super::super::verdict::{CommandRefusal, RefusalClass};
use super::super::words::shown;
use super::case::{CheckedCommand, CommandCase, SubCommandMatch};

/// Short names and long ones of the same flag (dotnet-build(1), MSBuild's command line).
const LONG: &[(&str, &str)] = &[
    ("v", "verbosity"),
    ("c", "configuration"),
    ("f", "framework"),
    ("r", "runtime"),
    ("o", "output"),
    ("l", "logger"),
    ("p", "property"),
    ("h", "help"),
    ("?", "help"),
    ("e", "environment"),
    ("a", "arch"),
    ("m", "maxcpucount"),
    ("bl", "binarylogger"),
];

/// Flags whose value is the next word where none is attached, by their long names.
const VALUE: &[&str] = &[
    "verbosity",
    "configuration",
    "framework",
    "runtime",
    "output",
    "logger",
    "filter",
    "settings",
    "results-directory",
    "project",
    "source",
    "version-suffix",
    "arch",
    "os",
    "collect",
    "test-adapter-path",
    "diag",
    "environment",
    "property",
    "artifacts-path",
    "blame-hang-timeout",
    "blame-hang-dump-type",
    "launch-profile",
    "configfile",
    "packages",
    "test-list",
    "tl",
];

/// Short words for how much is said, and long ones.
const VERBOSITIES: &[(&str, &str)] = &[
    ("q", "quiet"),
    ("m", "minimal"),
    ("n", "normal"),
    ("d", "detailed"),
    ("diag", "diagnostic"),
];

/// Checks a command of dotnet.
pub(super) fn check<'q>(case: &CommandCase<'q>) -> Result<CheckedCommand<'q>, CommandRefusal> {
    if case.entry.subcommands.is_none() && case.argv().len() == case.first {
        return Ok(case.allowed(""));
    }
    let found = case.first_subcommand("dotnet")?;
    let scanned = scan(case, &found)?;
    case.check_values(&scanned)?;
    let arguments = &found.sub.arguments;
    let key = format!("subcommands.{}", found.name);
    if arguments.kinds.is_some() || arguments.first.is_some() {
        case.check_arguments(&scanned.arguments, arguments, &key, &|_| WordReading::Path)?;
    } else {
        let is_open =
            [found.sub.allow_project_paths, found.sub.allow_test_paths].contains(&Some(true));
        for argument in &scanned.arguments {
            if !is_open {
                let reason = format!(
                    "{} is a path, and neither allow_project_paths nor allow_test_paths allows one for `{}`; run it in the project's directory",
                    shown(argument.word),
                    found.typed
                );
                return Err(case.refused(
                    RefusalClass::Argument,
                    &format!("{key}.allow_project_paths"),
                    reason,
                ));
            }
            case.within.check(argument.word)?;
        }
    }
    let mut checked = case.allow_subcommand(&found, &scanned)?;
    checked
        .env
        .push(("DOTNET_CLI_TELEMETRY_OPTOUT", b"1".to_vec()));
    checked.env.push(("DOTNET_NOLOGO", b"1".to_vec()));
    checked
        .env
        .push(("DOTNET_CLI_HOME", case.question.home.to_vec()));
    Ok(checked)
}

/// Returns the one name of a flag that has several spellings; nothing for a word that is none.
fn canonical(word: &str) -> Option<(String, Option<&str>)> {
    if word.starts_with('@') {
        return Some((word.to_owned(), None));
    }
    let rest = word
        .strip_prefix("--")
        .or_else(|| word.strip_prefix('-'))
        .or_else(|| word.strip_prefix('/'))?;
    let (name, value) = match rest.find([':', '=']) {
        Some(at) => (rest.get(..at)?, rest.get(at + 1..)),
        None => (rest, None),
    };
    let long = LONG
        .iter()
        .find(|(short, _)| *short == name)
        .map_or(name, |(_, long)| long);
    Some((long.to_owned(), value))
}

/// Returns the long word of a verbosity.
fn long_verbosity(value: Vec<u8>) -> Vec<u8> {
    let same = |word: &str| value.eq_ignore_ascii_case(word.as_bytes());
    let found = VERBOSITIES
        .iter()
        .find(|(short, long)| same(short) || same(long));
    match found {
        Some((_, long)) => long.as_bytes().to_vec(),
        None => value,
    }
}

fn scan<'q>(
    case: &CommandCase<'q>,
    found: &SubCommandMatch<'q>,
) -> Result<ScanResult<'q>, CommandRefusal> {
    let words = case.argv();
    let lists = case.lists_of(found);
    let same =
        |listed: &str, name: &str| canonical(listed).is_some_and(|(listed, _)| listed == name);
    let lists_it = |flags: &FlagList, name: &str, word: &str| {
        flags.exact.contains(word) || flags.names.keys().any(|listed| same(listed, name))
    };
    let mut scanned = ScanResult {
        end: words.len(),
        ..ScanResult::default()
    };
    let mut at = found.at + 1;
    while let Some(word) = words.get(at) {
        let text = std::str::from_utf8(word).unwrap_or("-");
        // A path of the home begins with a slash too.
        let is_path = text.starts_with('/') && case.within.below_home(word).is_some();
        let Some((name, value)) = canonical(text).filter(|_| !is_path) else {
            scanned.arguments.push(ParsedArgument {
                word,
                at,
                is_literal: false,
            });
            at += 1;
            continue;
        };
        for (denied, key) in &lists.denied {
            if denied
                .iter()
                .any(|denied| same(denied, &name) || denied == text)
            {
                let reason = format!("`{text}` is on {key}, whatever else allows it; leave it out");
                return Err(CommandRefusal::new(RefusalClass::Flag, key.clone(), reason));
            }
        }
        let required = lists
            .required
            .iter()
            .find(|required| same(&required.flag, &name));
        if required.is_none()
            && !lists
                .allowed
                .iter()
                .any(|flags| lists_it(flags, &name, text))
        {
            return Err(lists.refused(word));
        }
        let needs_next = value.is_none() && VALUE.contains(&name.as_str());
        let next = words.get(at + 1).filter(|next| !next.starts_with(b"-"));
        if needs_next && next.is_none() {
            return Err(CommandRefusal::new(
                RefusalClass::Flag,
                lists.key.clone(),
                format!("`{text}` of {} needs a value", lists.of),
            ));
        }
        let behind = next.filter(|_| needs_next).cloned();
        let value = value.map(Vec::from).or(behind);
        let is_verbosity = name == "verbosity";
        scanned.flags.push(ParsedFlag {
            name: required.map_or(name, |required| required.flag.clone()),
            value: match is_verbosity {
                true => value.map(long_verbosity),
                false => value,
            },
            read_as: WordReading::Path,
            at,
            takes_next: needs_next,
        });
        at += 1 + usize::from(needs_next);
    }
    Ok(scanned)
}
