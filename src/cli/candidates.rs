//! Candidates for the completion of a command line: runs, sessions, points in time, stores and homes.
//!
//! Owns what the scripts of `completions` ask for while somebody types. Whatever cannot be had is no candidate, and no
//! error. The scripts must take each line as data: an occupant may have chosen some of it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use clap::{Args, Command, ValueEnum};

use super::exit::ExitReason;
use super::omitted_target::target_of;
use super::output::Printer;
use crate::client::{Client, known_targets};
use crate::name::escape;

/// The number of runs that are offered.
const MAX_RUNS: usize = 50;
/// The longest description of a candidate, in characters.
const MAX_DESCRIPTION: usize = 60;

/// Arguments of `trumanfs complete-values`.
#[derive(Args, Debug)]
pub(super) struct CandidatesArgs {
    /// The kind of value
    #[arg(value_enum)]
    kind: CandidateKind,
    /// The words of the command line, as far as they are typed
    #[arg(last = true)]
    words: Vec<OsString>,
}

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CandidateKind {
    /// Ids of runs
    Runs,
    /// Ids of sessions
    Sessions,
    /// Checkpoints and other points in time
    Points,
    /// Stores and homes
    Targets,
}

impl CandidateKind {
    /// Returns the kind of values that an option or an operand takes, by the name of its value.
    pub(super) fn of_value_name(name: &str) -> Option<CandidateKind> {
        match name {
            "RUN" => Some(CandidateKind::Runs),
            "SESSION" => Some(CandidateKind::Sessions),
            "POINT" => Some(CandidateKind::Points),
            _ => None,
        }
    }

    /// Returns the word that asks for this kind.
    pub(super) fn word(self) -> &'static str {
        match self {
            CandidateKind::Runs => "runs",
            CandidateKind::Sessions => "sessions",
            CandidateKind::Points => "points",
            CandidateKind::Targets => "targets",
        }
    }
}

/// Prints candidates, a line each: the value, a tab, and what it is.
pub(super) fn print(args: &CandidatesArgs, command: &Command) -> ExitReason {
    let mut printer = Printer::new();
    for (value, what) in candidates(args, command) {
        let what: String = what.chars().take(MAX_DESCRIPTION).collect();
        printer.bytes(format!("{value}\t{what}\n").as_bytes());
    }
    ExitReason::Ok
}

fn candidates(args: &CandidatesArgs, command: &Command) -> Vec<(String, String)> {
    if args.kind == CandidateKind::Targets {
        let paths = known_targets().into_iter();
        let shown = paths.map(|path| (escape(path.as_os_str().as_bytes()), path));
        return shown
            .filter(|(shown, path)| OsStr::new(shown) == path)
            .map(|(shown, _)| (shown, String::new()))
            .collect();
    }
    let words: Vec<OsString> = args.words.iter().map(|word| unquote(word)).collect();
    let Ok(client) = Client::open(&target_of(&words, command)) else {
        return Vec::new();
    };
    let named = |names: &[(&str, &str)]| -> Vec<(String, String)> {
        let owned = |(name, what): &(&str, &str)| ((*name).to_owned(), (*what).to_owned());
        names.iter().map(owned).collect()
    };
    let mut found = Vec::new();
    match args.kind {
        CandidateKind::Runs => {
            found.extend(named(&[("last", "the newest run")]));
            let runs = client.recent_runs(MAX_RUNS).unwrap_or_default().into_iter();
            found.extend(runs.map(|run| (run.id.to_string(), run.command)));
        }
        CandidateKind::Sessions => {
            found.extend(named(&[("last", "the newest session")]));
            let ids = client.session_ids().unwrap_or_default().into_iter();
            found.extend(ids.map(|id| (id, String::new())));
        }
        CandidateKind::Points => {
            let checkpoints = client.checkpoints().unwrap_or_default().into_iter();
            found.extend(
                checkpoints.map(|point| (point.name, format!("checkpoint, {}", point.time))),
            );
            found.extend(named(&[
                ("last", "the start of the newest session"),
                ("today", "since midnight"),
                ("yesterday", "since midnight a day ago"),
            ]));
        }
        CandidateKind::Targets => {}
    }
    found
}

/// Returns a word as the shell will hand it over: `~/` stands for the home directory, and quoting goes.
fn unquote(word: &OsStr) -> OsString {
    let bytes = word.as_bytes();
    let (mut word, rest) = match (bytes.strip_prefix(b"~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => ([home.as_bytes(), b"/"].concat(), rest),
        _ => (Vec::new(), bytes),
    };
    word.extend(rest.iter().filter(|b| !b"\\'\"".contains(b)));
    OsString::from_vec(word)
}
