//! The options of `grep`, parsed once.
//!
//! Owns GNU's rules for options that exclude or override each other. Back-references and Perl expressions are refused
//! by name, here or in `expression`.

use std::io::Read;

use super::expression::{Syntax, Whole};
use super::filter::Filter;
use crate::call::{Call, Stop, of_io, reason, usage};
use crate::options::{OptSpec, Takes};

/// The exit status for any error.
pub(super) const TROUBLE: u8 = 2;

// Options that have a long name only.
const BINARY_FILES: char = '\u{1}';
const COLOR: char = '\u{2}';
const EXCLUDE: char = '\u{3}';
const EXCLUDE_DIR: char = '\u{4}';
const GROUP_SEPARATOR: char = '\u{5}';
const INCLUDE: char = '\u{6}';
const LABEL: char = '\u{7}';
const LINE_BUFFERED: char = '\u{8}';
const NO_GROUP_SEPARATOR: char = '\u{9}';
const NO_IGNORE_CASE: char = '\u{a}';

const KNOWN: OptSpec = OptSpec {
    short: "0123456789A:B:C:EFGHILPRZabcd:e:f:hilm:noqrsvwx",
    long: &[
        ("after-context", Takes::Value, 'A'),
        ("basic-regexp", Takes::Nothing, 'G'),
        ("before-context", Takes::Value, 'B'),
        ("binary-files", Takes::Value, BINARY_FILES),
        ("byte-offset", Takes::Nothing, 'b'),
        ("color", Takes::Maybe, COLOR),
        ("colour", Takes::Maybe, COLOR),
        ("context", Takes::Value, 'C'),
        ("count", Takes::Nothing, 'c'),
        ("dereference-recursive", Takes::Nothing, 'R'),
        ("directories", Takes::Value, 'd'),
        ("exclude", Takes::Value, EXCLUDE),
        ("exclude-dir", Takes::Value, EXCLUDE_DIR),
        ("extended-regexp", Takes::Nothing, 'E'),
        ("file", Takes::Value, 'f'),
        ("files-with-matches", Takes::Nothing, 'l'),
        ("files-without-match", Takes::Nothing, 'L'),
        ("fixed-strings", Takes::Nothing, 'F'),
        ("group-separator", Takes::Value, GROUP_SEPARATOR),
        ("ignore-case", Takes::Nothing, 'i'),
        ("include", Takes::Value, INCLUDE),
        ("invert-match", Takes::Nothing, 'v'),
        ("label", Takes::Value, LABEL),
        ("line-buffered", Takes::Nothing, LINE_BUFFERED),
        ("line-number", Takes::Nothing, 'n'),
        ("line-regexp", Takes::Nothing, 'x'),
        ("max-count", Takes::Value, 'm'),
        ("no-filename", Takes::Nothing, 'h'),
        ("no-group-separator", Takes::Nothing, NO_GROUP_SEPARATOR),
        ("no-ignore-case", Takes::Nothing, NO_IGNORE_CASE),
        ("no-messages", Takes::Nothing, 's'),
        ("null", Takes::Nothing, 'Z'),
        ("only-matching", Takes::Nothing, 'o'),
        ("perl-regexp", Takes::Nothing, 'P'),
        ("quiet", Takes::Nothing, 'q'),
        ("recursive", Takes::Nothing, 'r'),
        ("regexp", Takes::Value, 'e'),
        ("silent", Takes::Nothing, 'q'),
        ("text", Takes::Nothing, 'a'),
        ("with-filename", Takes::Nothing, 'H'),
        ("word-regexp", Takes::Nothing, 'w'),
    ],
    wrong: TROUBLE,
};

/// What is printed for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutputMode {
    /// Its selected lines.
    Lines,
    /// The number of selected lines.
    Count,
    /// Its name, if a line is selected.
    With,
    /// Its name, if no line is selected.
    Without,
    /// Nothing: only the status counts.
    Nothing,
}

/// How a file with NUL bytes is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binary {
    /// A note says that it matches; its lines are not printed.
    Told,
    /// As text.
    Text,
    /// As a file without matches.
    Skipped,
}

/// How an operand that is a directory is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Directories {
    /// Reading it fails.
    Read,
    /// All files below it are searched.
    Recurse,
    /// It is skipped.
    Skip,
}

/// The options and operands of one call.
#[derive(Debug)]
pub(super) struct Options<'a> {
    /// The patterns, each followed by a newline; empty where there is none (`-f` of an empty file).
    pub(super) patterns: Vec<u8>,
    pub(super) syntax: Syntax,
    pub(super) whole: Whole,
    pub(super) ignore_case: bool,
    pub(super) invert: bool,
    pub(super) report: OutputMode,
    pub(super) binary: Binary,
    pub(super) directories: Directories,
    pub(super) only_matching: bool,
    pub(super) numbers: bool,
    pub(super) offsets: bool,
    /// Whether names are printed; `None` where that depends on the operands.
    pub(super) names: Option<bool>,
    /// Whether a NUL follows a name (`-Z`).
    pub(super) null: bool,
    pub(super) silent: bool,
    pub(super) flush: bool,
    pub(super) before: u64,
    pub(super) after: u64,
    /// The separator between groups of lines; `None` for no separator.
    pub(super) separator: Option<&'a [u8]>,
    /// The maximum number of selected lines per file.
    pub(super) most: u64,
    pub(super) label: &'a [u8],
    pub(super) filter: Filter,
    /// The files and directories to search.
    pub(super) operands: Vec<&'a [u8]>,
}

impl<'a> Options<'a> {
    /// Parses the arguments of a call, and reads the pattern files that they name.
    ///
    /// # Errors
    /// [`Stop::Usage`] in GNU's words.
    pub(super) fn read(call: &mut Call<'a>) -> Result<Options<'a>, Stop> {
        let typed = KNOWN.read(call.args)?;
        let mut options = Options::new(typed.operands);
        let mut patterns: Option<Vec<u8>> = None;
        let mut syntax = None;
        let (mut before, mut after, mut around) = (None, None, None);
        let mut separator: Option<&[u8]> = Some(b"--");
        let mut last = ' ';
        for (letter, value) in typed.options {
            let value = value.unwrap_or_default();
            match letter {
                'A' => after = Some(context(value)?),
                'B' => before = Some(context(value)?),
                'C' => around = Some(context(value)?),
                '0'..='9' => {
                    // The digits of one number arrive one by one.
                    let digit = u64::from(letter.to_digit(10).unwrap_or_default());
                    let tens = around.filter(|_| last.is_ascii_digit()).unwrap_or(0);
                    around = Some(tens.saturating_mul(10).saturating_add(digit));
                }
                'E' => choose(&mut syntax, Syntax::Extended)?,
                'F' => choose(&mut syntax, Syntax::Fixed)?,
                'G' => choose(&mut syntax, Syntax::Basic)?,
                'P' => return Err(trouble("Perl expressions (-P) are not supported")),
                'H' => options.names = Some(true),
                'h' => options.names = Some(false),
                'I' => options.binary = Binary::Skipped,
                'a' => options.binary = Binary::Text,
                BINARY_FILES => options.binary = binary(value)?,
                'L' => options.list(OutputMode::Without),
                'l' => options.list(OutputMode::With),
                'q' => options.report = OutputMode::Nothing,
                'c' if options.report == OutputMode::Lines => options.report = OutputMode::Count,
                'c' => {}
                'R' | 'r' => options.directories = Directories::Recurse,
                'd' => options.directories = directories(value)?,
                'Z' => options.null = true,
                'b' => options.offsets = true,
                'e' => {
                    let patterns = patterns.get_or_insert_default();
                    patterns.extend_from_slice(value);
                    patterns.push(b'\n');
                }
                'f' => read_patterns(call, value, patterns.get_or_insert_default())?,
                'i' => options.ignore_case = true,
                NO_IGNORE_CASE => options.ignore_case = false,
                'm' => options.most = most(value)?,
                'n' => options.numbers = true,
                'o' => options.only_matching = true,
                's' => options.silent = true,
                'v' => options.invert = true,
                'x' => options.whole = Whole::Line,
                'w' if options.whole == Whole::Line => {}
                'w' => options.whole = Whole::Word,
                COLOR => color(value)?,
                EXCLUDE => options.filter.files(value, false),
                INCLUDE => options.filter.files(value, true),
                EXCLUDE_DIR => options.filter.directories(value),
                GROUP_SEPARATOR => separator = Some(value),
                NO_GROUP_SEPARATOR => separator = None,
                LABEL => options.label = value,
                // The remaining known options.
                _ => options.flush = true,
            }
            last = letter;
        }
        options.syntax = syntax.unwrap_or(Syntax::Basic);
        options.before = before.or(around).unwrap_or(0);
        options.after = after.or(around).unwrap_or(0);
        let grouped = before.or(after).or(around).is_some();
        options.separator = separator.filter(|_| grouped);
        options.patterns = match patterns {
            Some(patterns) => patterns,
            None if options.operands.is_empty() => return Err(trouble("no pattern was given")),
            None => [options.operands.remove(0), b"\n"].concat(),
        };
        Ok(options)
    }

    fn new(operands: Vec<&'a [u8]>) -> Options<'a> {
        Options {
            patterns: Vec::new(),
            syntax: Syntax::Basic,
            whole: Whole::Part,
            ignore_case: false,
            invert: false,
            report: OutputMode::Lines,
            binary: Binary::Told,
            directories: Directories::Read,
            only_matching: false,
            numbers: false,
            offsets: false,
            names: None,
            null: false,
            silent: false,
            flush: false,
            before: 0,
            after: 0,
            separator: None,
            most: u64::MAX,
            label: b"(standard input)",
            filter: Filter::default(),
            operands,
        }
    }

    /// Sets the output mode. `-q` overrides `-l` and `-L`, which override `-c`.
    fn list(&mut self, report: OutputMode) {
        if self.report != OutputMode::Nothing {
            self.report = report;
        }
    }
}

fn trouble(message: impl Into<Vec<u8>>) -> Stop {
    Stop::Usage(message.into(), TROUBLE)
}

fn choose(syntax: &mut Option<Syntax>, chosen: Syntax) -> Result<(), Stop> {
    match syntax.replace(chosen) {
        Some(before) if before != chosen => Err(trouble("conflicting matchers specified")),
        _ => Ok(()),
    }
}

fn context(value: &[u8]) -> Result<u64, Stop> {
    number(value).ok_or_else(|| trouble([value, b": invalid context length argument"].concat()))
}

fn most(value: &[u8]) -> Result<u64, Stop> {
    match value {
        // A negative number means no limit.
        [b'-', digits @ ..] if number(digits).is_some() => Ok(u64::MAX),
        _ => number(value).ok_or_else(|| trouble("invalid max count")),
    }
}

/// Parses digits; a number too large to represent saturates.
fn number(value: &[u8]) -> Option<u64> {
    let digits = value.strip_prefix(b"+").unwrap_or(value);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0u64, |value, digit| {
        value
            .saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    });
    Some(value)
}

fn binary(value: &[u8]) -> Result<Binary, Stop> {
    match value {
        b"binary" => Ok(Binary::Told),
        b"text" => Ok(Binary::Text),
        b"without-match" => Ok(Binary::Skipped),
        _ => Err(trouble("unknown binary-files type")),
    }
}

fn directories(value: &[u8]) -> Result<Directories, Stop> {
    match value {
        b"read" => Ok(Directories::Read),
        b"recurse" => Ok(Directories::Recurse),
        b"skip" => Ok(Directories::Skip),
        // GNU grep's status here too, unlike its other errors.
        _ => Err(usage(
            [b"invalid argument '", value, b"' for '--directories'"].concat(),
        )),
    }
}

/// Accepts values that mean output without colours: it never goes to a terminal.
fn color(value: &[u8]) -> Result<(), Stop> {
    match value {
        b"" | b"auto" | b"tty" | b"if-tty" | b"never" | b"no" | b"none" => Ok(()),
        b"always" | b"yes" | b"force" => Err(trouble("colours (--color=always) are not supported")),
        _ => Err(trouble(
            [b"invalid argument '", value, b"' for '--color'"].concat(),
        )),
    }
}

/// Appends the lines of a file, adding the newline that the last one may lack.
fn read_patterns(call: &mut Call<'_>, typed: &[u8], patterns: &mut Vec<u8>) -> Result<(), Stop> {
    let wrong = |error: trumanfs_types::error::Error| {
        let reason = reason(error.errno());
        trouble([typed, b": ", reason.as_bytes()].concat())
    };
    let before = patterns.len();
    let read = match typed {
        b"-" => call.stdin.read_to_end(patterns),
        _ => call.open(typed).map_err(wrong)?.read_to_end(patterns),
    };
    call.check()?;
    read.map_err(|error| wrong(of_io(&error)))?;
    if patterns.len() > before && patterns.last() != Some(&b'\n') {
        patterns.push(b'\n');
    }
    Ok(())
}
