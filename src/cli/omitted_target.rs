//! TARGET left out: the store that encloses the working directory takes its place.
//!
//! Owns the decision whether the first word behind a verb is TARGET or what follows it. Every verb that takes TARGET goes
//! through here, before clap reads the line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Command;
use clap::error::ErrorKind;
use clap::parser::ValueSource;

use super::output::quote;
use crate::client::{TargetKind, enclosing_store, target_kind};
use crate::error::{Error, Result};

/// The name that TARGET has in clap's tables.
const TARGET: &str = "target";
/// The directory that stands for the store around it.
const HERE: &str = ".";

/// Returns the words of a command line with TARGET in its place, where it was left out.
///
/// # Errors
/// [`Error::Usage`] where no store encloses the working directory and no word could be TARGET, and where a word could
/// be TARGET as well as what follows it.
pub(super) fn insert_target(mut words: Vec<OsString>, command: &Command) -> Result<Vec<OsString>> {
    let Some(line) = VerbLine::read(&words, command) else {
        return Ok(words);
    };
    if line.is_omitted(&words, command)? {
        words.insert(line.verb_end, HERE.into());
    }
    Ok(words)
}

/// Returns TARGET of a command line that may be unfinished.
pub(super) fn target_of(words: &[OsString], command: &Command) -> PathBuf {
    let line = VerbLine::read(words, command);
    let first = line.and_then(|line| line.operands.into_iter().next());
    let first = first.map(PathBuf::from).filter(|first| {
        matches!(
            target_kind(first),
            TargetKind::StoreOrHome(_) | TargetKind::InHome(_)
        )
    });
    first.unwrap_or_else(|| PathBuf::from(HERE))
}

/// Shows TARGET as something that may be left out, in the help of a command and of all below it.
pub(super) fn show_as_optional(mut command: Command) -> Command {
    let names: Vec<String> = command
        .get_subcommands()
        .map(|verb| verb.get_name().to_owned())
        .collect();
    for name in names {
        command = command.mut_subcommand(&name, show_as_optional);
    }
    if !takes_target(&command) {
        return command;
    }
    let operands = command.get_positionals().map(|arg| arg.get_id().clone());
    let operands: Vec<_> = operands.collect();
    command = command.allow_missing_positional(true);
    for (before, id) in operands.into_iter().enumerate() {
        // A changed argument loses its place.
        command = command.mut_arg(&id, |arg| {
            let is_required = arg.is_required_set() && id != TARGET;
            arg.index(before + 1).required(is_required)
        });
    }
    command
}

/// Returns whether TARGET comes first behind a verb. The TARGET of `status` has a meaning of its own where it is absent.
fn takes_target(verb: &Command) -> bool {
    let first = verb.get_positionals().next();
    first.is_some_and(|first| first.get_id() == TARGET && first.is_required_set())
}

/// A command line of a verb that takes TARGET.
struct VerbLine {
    /// The words of the verb, as they are typed.
    verb: String,
    /// The place behind these words.
    verb_end: usize,
    /// What stands behind them and is no option.
    operands: Vec<OsString>,
    /// The number of operands that the verb needs, TARGET included.
    required: usize,
    /// The number of operands that the verb takes, if it is limited.
    limit: Option<usize>,
}

impl VerbLine {
    fn read(words: &[OsString], command: &Command) -> Option<VerbLine> {
        let (mut verb, mut path, mut verb_end) = (command, Vec::new(), 1);
        while verb.has_subcommands() {
            let at = words
                .iter()
                .skip(verb_end)
                .position(|word| !word.as_encoded_bytes().starts_with(b"-"))?;
            verb_end += at + 1;
            verb = verb.find_subcommand(words.get(verb_end - 1)?)?;
            path.push(verb.get_name());
        }
        if !takes_target(verb) {
            return None;
        }
        let operands: Vec<_> = verb.get_positionals().collect();
        let is_limited = |arg: &&clap::Arg| {
            let most = arg.get_num_args().map_or(1, |range| range.max_values());
            (!matches!(arg.get_action(), clap::ArgAction::Append) || most < usize::MAX)
                .then_some(most)
        };
        let required = operands.iter().filter(|arg| arg.is_required_set()).count();
        let limit = operands.iter().map(is_limited).sum();
        // Clap finds out which words are values of options. It forgives what is missing, and what is wrong.
        let rest = words.iter().skip(verb_end).cloned();
        let lenient = verb.clone().ignore_errors(true);
        let typed = lenient.no_binary_name(true).try_get_matches_from(rest);
        let typed = typed.ok()?;
        let is_typed = |id: &str| typed.value_source(id) == Some(ValueSource::CommandLine);
        let ids = operands.iter().map(|arg| arg.get_id().as_str());
        let values = ids
            .filter(|id| is_typed(id))
            .filter_map(|id| typed.get_raw(id));
        Some(VerbLine {
            verb: path.join(" "),
            verb_end,
            operands: values.flatten().map(ToOwned::to_owned).collect(),
            required,
            limit,
        })
    }

    /// Returns whether TARGET was left out, and a store encloses the working directory.
    fn is_omitted(&self, words: &[OsString], command: &Command) -> Result<bool> {
        let Some(first) = self.operands.first() else {
            if enclosing_store(Path::new(HERE))?.is_some() {
                return Ok(true);
            }
            let wrong = command.clone().try_get_matches_from(words);
            let is_missing =
                wrong.is_err_and(|error| error.kind() == ErrorKind::MissingRequiredArgument);
            return match is_missing {
                true => Err(self.nothing_encloses()),
                // Something else is wrong, which clap names.
                false => Ok(false),
            };
        };
        if first == HERE && (self.required < 2 || self.operands.len() >= self.required) {
            return Ok(false);
        }
        let first = Path::new(first);
        let kind = target_kind(first);
        if self.verb == "merge" {
            return self.is_omitted_by_merge(first, &kind);
        }
        let is_complete = self.operands.len() >= self.required;
        match kind {
            TargetKind::Unknown => Ok(false),
            TargetKind::StoreOrHome(store) if is_complete && !self.is_full() => {
                self.expect_outside(first, &store).map(|()| false)
            }
            TargetKind::StoreOrHome(_) => Ok(false),
            _ if self.is_full() => Ok(false),
            TargetKind::InHome(store) => {
                Ok(enclosing_store(Path::new(HERE))?.is_some_and(|around| around == store))
            }
            TargetKind::Directory => {
                let here = enclosing_store(Path::new(HERE))?;
                Ok(here.is_some_and(|around| is_below(first, &around)))
            }
            TargetKind::Other => Ok(enclosing_store(Path::new(HERE))?.is_some()),
        }
    }

    /// `merge [TARGET] FORK [PATH]`: the first word is a store in any case.
    fn is_omitted_by_merge(&self, first: &Path, kind: &TargetKind) -> Result<bool> {
        let second = self
            .operands
            .get(1)
            .map(|word| target_kind(Path::new(word)));
        if matches!(
            second,
            Some(TargetKind::StoreOrHome(_) | TargetKind::Unknown)
        ) {
            return Ok(false);
        }
        let here = enclosing_store(Path::new(HERE))?;
        let (Some(around), TargetKind::StoreOrHome(named)) = (here, kind) else {
            return Ok(false);
        };
        if second.is_none() {
            return Ok(true);
        }
        if is_same(&around, named) {
            return Ok(false);
        }
        let (named, around) = (in_quotes(first), in_quotes(&around));
        Err(Error::usage(
            format!("{named} may be the store to merge into, or a fork to merge into {around}"),
            format!("Give both: `trumanfs merge {around} {named}`, or the other way round."),
        ))
    }

    /// Returns whether there are as many operands as the verb takes, so that the first one must be TARGET.
    fn is_full(&self) -> bool {
        self.limit.is_some_and(|limit| self.operands.len() >= limit)
    }

    /// A store inside the one around the working directory is a path in that, too.
    fn expect_outside(&self, first: &Path, store: &Path) -> Result<()> {
        if self.limit == Some(1) {
            return Ok(());
        }
        // What was named needs nothing around it.
        let Ok(Some(around)) = enclosing_store(Path::new(HERE)) else {
            return Ok(());
        };
        if is_same(&around, store) || !is_below(first, &around) {
            return Ok(());
        }
        let (word, around, verb) = (in_quotes(first), in_quotes(&around), &self.verb);
        Err(Error::usage(
            format!("{word} is a store, and also a path in the store {around}"),
            format!(
                "For the path: `trumanfs {verb} {around} {word}`. For the store: `cd {word}`, then `trumanfs {verb}`."
            ),
        ))
    }

    fn nothing_encloses(&self) -> Error {
        let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from(HERE));
        Error::usage(
            format!(
                "no store encloses the working directory, {}",
                here.display()
            ),
            format!(
                "Give a store or a home: `trumanfs {} TARGET`. `trumanfs status` lists homes, `trumanfs stores` the \
                 projects of agents.",
                self.verb
            ),
        )
    }
}

fn in_quotes(path: &Path) -> String {
    quote(path.as_os_str().as_encoded_bytes())
}

fn is_same(one: &Path, other: &Path) -> bool {
    let resolved = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    resolved(one) == resolved(other)
}

fn is_below(path: &Path, top: &Path) -> bool {
    let resolved = |path: &Path| std::fs::canonicalize(path).ok();
    match (resolved(path), resolved(top)) {
        (Some(path), Some(top)) => path.starts_with(top),
        _ => false,
    }
}
