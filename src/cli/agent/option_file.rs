//! A file with options of an agent: its keys and values as words of a command line.
//!
//! Owns which keys the user's file may have, and how an error names the place in a file.

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::{Arg, ArgAction, Command, FromArgMatches};
use toml::{Table, Value};

use super::args::AgentArgs;
use super::option_source::OptionSource;
use super::secrets::SecretArgument;
use crate::client::AgentConfig;
use crate::error::{Error, Result};

/// Options of one call, which no file has.
const NOT_IN_FILES: [&str; 7] = [
    "cwd",
    "explain",
    "help",
    "no-config",
    "profile",
    "state",
    "store",
];

/// Lists to which each place adds: what one place hides or protects is so, whatever another one adds.
pub(super) const ADDED: [&str; 3] = ["hide", "read-only", "volatile"];

/// Options of which one is meant.
pub(super) const ENDS: [&str; 3] = ["ask", "discard", "keep"];

/// The remedy for a value that is not understood.
pub(super) const HELP: &str = "See `trumanfs agent --help`.";

/// A value of a file, as words of a command line: none where the option is turned off.
#[derive(Debug)]
pub(super) struct FileOption {
    pub(super) words: Vec<OsString>,
    pub(super) source: OptionSource,
}

/// The options of a file by their names: one value each, or several of a list that each place adds to.
pub(super) type FileOptions = BTreeMap<String, Vec<FileOption>>;

/// A file, and where in it something is wrong.
pub(super) struct FileKey<'a> {
    pub(super) file: &'a AgentConfig,
    pub(super) profile: Option<&'a str>,
    pub(super) key: &'a str,
}

impl FileKey<'_> {
    pub(super) fn wrong(&self, why: &str, remedy: &str) -> Error {
        let path = self.file.path.display();
        let line = self
            .line()
            .map_or(String::new(), |line| format!("line {line}: "));
        let table = self
            .profile
            .map_or(String::new(), |name| format!("profile.{name}."));
        Error::usage(format!("{path}: {line}{table}{}: {why}", self.key), remedy)
    }

    /// Returns the number of the line that the key is in.
    fn line(&self) -> Option<usize> {
        let text = &self.file.text;
        let table = toml::de::DeTable::parse(text).ok()?;
        let mut table = table.get_ref();
        for outer in self.profile.map(|name| ["profile", name]).iter().flatten() {
            table = table.get(*outer)?.get_ref().as_table()?;
        }
        let (key, _) = table.get_key_value(self.key)?;
        Some(line_at(text, key.span().start))
    }
}

fn line_at(text: &str, offset: usize) -> usize {
    let before = text.get(..offset).unwrap_or_default();
    before.matches('\n').count() + 1
}

/// Reads a file's tables.
pub(super) fn parse(file: &AgentConfig) -> Result<Table> {
    toml::from_str(&file.text).map_err(|error| {
        let path = file.path.display();
        let line = error
            .span()
            .map_or(1, |span| line_at(&file.text, span.start));
        Error::usage(
            format!("{path}: line {line}: {}", error.message()),
            "It is TOML, as in: net = [\"claude\", \"github\"]",
        )
    })
}

/// The user's file.
pub(super) struct UserFile<'a> {
    pub(super) file: &'a AgentConfig,
    pub(super) command: &'a Command,
}

impl UserFile<'_> {
    /// Returns what it says for a profile, by the name of the option. All of it is checked.
    pub(super) fn options(&self, profile: &str) -> Result<FileOptions> {
        let mut table = parse(self.file)?;
        let profiles = table
            .remove("profile")
            .unwrap_or(Value::Table(Table::new()));
        let at = |key, profile| FileKey {
            file: self.file,
            profile,
            key,
        };
        let Value::Table(profiles) = profiles else {
            let why = "it holds tables, one for each profile";
            return Err(at("profile", None).wrong(why, "Write it as [profile.claude]."));
        };
        let mut options = self.table_options(&table, None)?;
        for (name, table) in &profiles {
            let Value::Table(table) = table else {
                let why = format!("{name} is a table with options for that profile");
                return Err(at("profile", None).wrong(&why, "Write it as [profile.claude]."));
            };
            let own = self.table_options(table, Some(name))?;
            if name == profile {
                lay_over(&mut options, own);
            }
        }
        Ok(options)
    }

    fn table_options(&self, table: &Table, profile: Option<&str>) -> Result<FileOptions> {
        let source = match profile {
            None => OptionSource::UserFile,
            Some(name) => OptionSource::ProfileTable(name.to_owned()),
        };
        let mut options = BTreeMap::new();
        for (key, value) in table {
            let at = FileKey {
                file: self.file,
                profile,
                key,
            };
            let arg = self.arg(&at)?;
            let words = option_words(arg, value, &at)?;
            check(self.command, &words, &at)?;
            let source = source.clone();
            options.insert(key.clone(), vec![FileOption { words, source }]);
        }
        let is_set = |end: &&&str| {
            let mut set = options.get(**end).into_iter().flatten();
            set.any(|option| !option.words.is_empty())
        };
        let ends = ENDS.iter().filter(is_set);
        let ends: Vec<&str> = ends.copied().collect();
        if let [one, other, ..] = *ends {
            let at = FileKey {
                file: self.file,
                profile,
                key: other,
            };
            let why = format!("it stands beside {one}");
            return Err(at.wrong(&why, "Leave the one that is meant."));
        }
        Ok(options)
    }

    fn arg(&self, at: &FileKey<'_>) -> Result<&Arg> {
        let keys = || {
            self.command.get_arguments().filter(|arg| {
                let key = key_of(arg);
                !key.is_empty() && !NOT_IN_FILES.contains(&key)
            })
        };
        if let Some(arg) = keys().find(|arg| key_of(arg) == at.key) {
            return Ok(arg);
        }
        if NOT_IN_FILES.contains(&at.key) {
            return Err(at.wrong(
                "this option is of one call",
                &format!("Take the key out, and type --{}.", at.key),
            ));
        }
        let keys: Vec<&str> = keys().map(key_of).collect();
        Err(at.wrong(
            "`trumanfs agent` has no such option",
            &format!(
                "The keys are {}, and tables [profile.NAME].",
                keys.join(", ")
            ),
        ))
    }
}

/// Puts the options of a profile's table over the others.
fn lay_over(options: &mut FileOptions, own: FileOptions) {
    if ENDS.iter().any(|end| own.contains_key(*end)) {
        ENDS.iter().for_each(|end| drop(options.remove(*end)));
    }
    for (key, values) in own {
        let known = options.entry(key.clone()).or_default();
        if !ADDED.contains(&&*key) {
            known.clear();
        }
        known.extend(values);
    }
}

/// Returns the words of a value.
pub(super) fn option_words(arg: &Arg, value: &Value, at: &FileKey<'_>) -> Result<Vec<OsString>> {
    let is_list = matches!(arg.get_action(), ArgAction::Append);
    let may_be_bare = arg
        .get_num_args()
        .is_some_and(|number| number.min_values() == 0);
    let bare = || vec![OsString::from(format!("--{}", at.key))];
    match (value, arg.get_action().takes_values()) {
        (Value::Boolean(is_on), false) => return Ok(if *is_on { bare() } else { Vec::new() }),
        (Value::Boolean(is_on), true) if may_be_bare => {
            return Ok(if *is_on { bare() } else { Vec::new() });
        }
        (_, false) => {
            let why = format!("it is {}, not true or false", kind_of(value));
            return Err(at.wrong(&why, &format!("Write {} = true.", at.key)));
        }
        _ => {}
    }
    let scalar = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        _ => None,
    };
    let single = std::slice::from_ref(value);
    let values = match value {
        Value::Array(values) if is_list => values,
        value => match scalar(value) {
            Some(_) => single,
            None => {
                let wanted = if is_list {
                    "a list of texts"
                } else {
                    "one value"
                };
                let why = format!("it is {}, not {wanted}", kind_of(value));
                let example = if is_list { "[\"…\"]" } else { "\"…\"" };
                return Err(at.wrong(&why, &format!("Write {} = {example}.", at.key)));
            }
        },
    };
    let mut words = Vec::new();
    for value in values {
        let Some(text) = scalar(value) else {
            let why = format!("{} stands in the list", kind_of(value));
            return Err(at.wrong(&why, &format!("Write {} = [\"…\"].", at.key)));
        };
        words.push(word(arg, whole_path(&text, at)?));
    }
    Ok(words)
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "a text",
        Value::Integer(_) | Value::Float(_) => "a number",
        Value::Boolean(_) => "true or false",
        Value::Datetime(_) => "a time",
        Value::Array(_) => "a list",
        Value::Table(_) => "a table",
    }
}

/// Returns a value with the user's home directory for its `~`, which no shell has replaced. A path may not count from the
/// working directory: that is an occupant's.
fn whole_path(text: &str, at: &FileKey<'_>) -> Result<OsString> {
    if !["also", "bind-ro", "cdi-dir"].contains(&at.key) {
        return Ok(text.into());
    }
    let in_home = text.strip_prefix("~/").zip(std::env::home_dir());
    let path = in_home.map_or(text.into(), |(rest, home)| home.join(rest));
    if path.is_absolute() {
        return Ok(path.into());
    }
    let why = format!("{text} counts from the working directory");
    Err(at.wrong(&why, "Write the whole path, or ~/PATH."))
}

/// Checks words by the parsers of the command line.
pub(super) fn check(command: &Command, words: &[OsString], at: &FileKey<'_>) -> Result<()> {
    let end = ["--", "program"].map(OsString::from);
    let words = words.iter().cloned().chain(end);
    let parsed = command.clone().try_get_matches_from(words);
    let args = parsed.and_then(|matches| AgentArgs::from_arg_matches(&matches));
    let args = args.map_err(|error| at.wrong(&clap_reason(&error), HELP))?;
    if let Some(why) = args.secret.iter().find_map(SecretArgument::problem) {
        return Err(at.wrong(why, HELP));
    }
    if args.only.iter().any(|only| only.is_of_any()) {
        return Err(at.wrong(
            "it does not say which secret it limits",
            "Write it as \"NAME METHOD /PATH\".",
        ));
    }
    Ok(())
}

/// Returns the name of an option, as a file has it.
pub(super) fn key_of(arg: &Arg) -> &str {
    arg.get_long().unwrap_or_default()
}

pub(super) fn word(arg: &Arg, value: OsString) -> OsString {
    let mut word = OsString::from(format!("--{}=", key_of(arg)));
    word.push(value);
    word
}

/// Returns what clap says of a word, without the usage.
pub(super) fn clap_reason(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines: Vec<&str> = text
        .lines()
        .take_while(|line| !line.trim().is_empty())
        .map(str::trim)
        .collect();
    let text = lines.join(" ");
    text.strip_prefix("error: ").unwrap_or(&text).to_owned()
}
