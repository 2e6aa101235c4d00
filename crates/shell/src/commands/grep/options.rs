//! The options of `grep`, parsed once.
//!
//! Owns GNU's rules for options that exclude or override each other.

use std::io::Read;

use super::filter::FileFilter;
use crate::call::{Call, CommandError, from_io_error, reason, usage_error};
use crate::commands::expression::{LinePatternMode, MatchScope, PatternSyntax};
use crate::options::{OptSpec, OptionArg};

/// The exit status for any error.
pub(super) const ERROR_STATUS: u8 = 2;

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

pub(super) const KNOWN: OptSpec = OptSpec {
    short: "0123456789A:B:C:EFGHILPRUZabcd:e:f:hilm:noqrsvwxy",
    long: &[
        ("after-context", OptionArg::Required, 'A'),
        ("basic-regexp", OptionArg::None, 'G'),
        ("before-context", OptionArg::Required, 'B'),
        ("binary", OptionArg::None, 'U'),
        ("binary-files", OptionArg::Required, BINARY_FILES),
        ("byte-offset", OptionArg::None, 'b'),
        ("color", OptionArg::Optional, COLOR),
        ("colour", OptionArg::Optional, COLOR),
        ("context", OptionArg::Required, 'C'),
        ("count", OptionArg::None, 'c'),
        ("dereference-recursive", OptionArg::None, 'R'),
        ("directories", OptionArg::Required, 'd'),
        ("exclude", OptionArg::Required, EXCLUDE),
        ("exclude-dir", OptionArg::Required, EXCLUDE_DIR),
        ("extended-regexp", OptionArg::None, 'E'),
        ("file", OptionArg::Required, 'f'),
        ("files-with-matches", OptionArg::None, 'l'),
        ("files-without-match", OptionArg::None, 'L'),
        ("fixed-strings", OptionArg::None, 'F'),
        ("group-separator", OptionArg::Required, GROUP_SEPARATOR),
        ("ignore-case", OptionArg::None, 'i'),
        ("include", OptionArg::Required, INCLUDE),
        ("invert-match", OptionArg::None, 'v'),
        ("label", OptionArg::Required, LABEL),
        ("line-buffered", OptionArg::None, LINE_BUFFERED),
        ("line-number", OptionArg::None, 'n'),
        ("line-regexp", OptionArg::None, 'x'),
        ("max-count", OptionArg::Required, 'm'),
        ("no-filename", OptionArg::None, 'h'),
        ("no-group-separator", OptionArg::None, NO_GROUP_SEPARATOR),
        ("no-ignore-case", OptionArg::None, NO_IGNORE_CASE),
        ("no-messages", OptionArg::None, 's'),
        ("null", OptionArg::None, 'Z'),
        ("only-matching", OptionArg::None, 'o'),
        ("perl-regexp", OptionArg::None, 'P'),
        ("quiet", OptionArg::None, 'q'),
        ("recursive", OptionArg::None, 'r'),
        ("regexp", OptionArg::Required, 'e'),
        ("silent", OptionArg::None, 'q'),
        ("text", OptionArg::None, 'a'),
        ("with-filename", OptionArg::None, 'H'),
        ("word-regexp", OptionArg::None, 'w'),
    ],
    error_status: ERROR_STATUS,
};

/// The output for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutputMode {
    /// The selected lines.
    Lines,
    /// The number of selected lines.
    Count,
    /// The name of the file, if a line is selected.
    MatchingNames,
    /// The name of the file, if no line is selected.
    NamesWithoutMatch,
    /// Nothing: only the status counts.
    Nothing,
}

/// The treatment of a file with NUL bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BinaryMode {
    /// A note that it matches replaces its lines.
    Noted,
    /// The file is searched as text.
    Text,
    /// The file counts as one without matches.
    Skipped,
}

/// The treatment of an operand that is a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DirectoryMode {
    /// Reading it fails.
    Read,
    /// All files below it are searched.
    Recurse,
    /// The directory is skipped.
    Skip,
}

/// The options and operands of one call.
#[derive(Debug)]
pub(super) struct GrepOptions<'a> {
    /// The patterns, each followed by a newline; empty without patterns (`-f` of an empty file).
    pub(super) patterns: Vec<u8>,
    pub(super) syntax: PatternSyntax,
    pub(super) whole: MatchScope,
    pub(super) ignore_case: bool,
    pub(super) invert: bool,
    pub(super) output_mode: OutputMode,
    pub(super) binary: BinaryMode,
    pub(super) directories: DirectoryMode,
    pub(super) only_matching: bool,
    pub(super) numbers: bool,
    pub(super) offsets: bool,
    /// True if names are printed; `None` if that depends on the operands.
    pub(super) names: Option<bool>,
    /// True if a NUL follows a name (`-Z`).
    pub(super) null: bool,
    pub(super) silent: bool,
    pub(super) flush: bool,
    pub(super) before: u64,
    pub(super) after: u64,
    /// The separator between groups of lines; `None` for no separator.
    pub(super) separator: Option<&'a [u8]>,
    /// The maximum number of selected lines per file.
    pub(super) max_count: u64,
    pub(super) label: &'a [u8],
    pub(super) filter: FileFilter,
    /// The files and directories to search.
    pub(super) operands: Vec<&'a [u8]>,
}

impl<'a> GrepOptions<'a> {
    /// Parses the arguments of a call, and reads the pattern files that they name.
    ///
    /// # Errors
    /// [`CommandError::Usage`] in GNU's words.
    pub(super) fn read(call: &mut Call<'a>) -> Result<GrepOptions<'a>, CommandError> {
        let typed = KNOWN.read(call.args)?;
        let mut options = GrepOptions::new(typed.operands);
        let mut patterns: Option<Vec<u8>> = None;
        let mut syntax = None;
        let (mut before, mut after, mut around) = (None, None, None);
        let mut separator: Option<&[u8]> = Some(b"--");
        let mut last = ' ';
        for (letter, value) in typed.options {
            let value = value.unwrap_or_default();
            match letter {
                'A' => after = Some(parse_context(value)?),
                'B' => before = Some(parse_context(value)?),
                'C' => around = Some(parse_context(value)?),
                '0'..='9' => {
                    // The digits of one number arrive one by one.
                    let digit = u64::from(letter.to_digit(10).unwrap_or_default());
                    let tens = around.filter(|_| last.is_ascii_digit()).unwrap_or(0);
                    around = Some(tens.saturating_mul(10).saturating_add(digit));
                }
                'E' | 'F' | 'G' | 'P' => set_syntax(&mut syntax, syntax_of(letter))?,
                'H' => options.names = Some(true),
                'h' => options.names = Some(false),
                'I' => options.binary = BinaryMode::Skipped,
                'a' => options.binary = BinaryMode::Text,
                BINARY_FILES => options.binary = parse_binary_mode(value)?,
                'L' => options.set_output_mode(OutputMode::NamesWithoutMatch),
                'l' => options.set_output_mode(OutputMode::MatchingNames),
                'q' => options.output_mode = OutputMode::Nothing,
                'c' if options.output_mode == OutputMode::Lines => {
                    options.output_mode = OutputMode::Count
                }
                // `-U` is for systems that end lines in another way.
                'c' | 'U' => {}
                'R' | 'r' => options.directories = DirectoryMode::Recurse,
                'd' => options.directories = parse_directory_mode(value)?,
                'Z' => options.null = true,
                'b' => options.offsets = true,
                'e' => {
                    let patterns = patterns.get_or_insert_default();
                    patterns.extend_from_slice(value);
                    patterns.push(b'\n');
                }
                'f' => read_patterns(call, value, patterns.get_or_insert_default())?,
                'i' | 'y' => options.ignore_case = true,
                NO_IGNORE_CASE => options.ignore_case = false,
                'm' => options.max_count = parse_max_count(value)?,
                'n' => options.numbers = true,
                'o' => options.only_matching = true,
                's' => options.silent = true,
                'v' => options.invert = true,
                'x' => options.whole = MatchScope::Line,
                'w' if options.whole == MatchScope::Line => {}
                'w' => options.whole = MatchScope::Word,
                COLOR => check_color(value)?,
                EXCLUDE => options.filter.add_file_pattern(value, false),
                INCLUDE => options.filter.add_file_pattern(value, true),
                EXCLUDE_DIR => options.filter.add_directory_pattern(value),
                GROUP_SEPARATOR => separator = Some(value),
                NO_GROUP_SEPARATOR => separator = None,
                LABEL => options.label = value,
                // The remaining known options.
                _ => options.flush = true,
            }
            last = letter;
        }
        options.syntax = syntax.unwrap_or(PatternSyntax::Basic);
        options.before = before.or(around).unwrap_or(0);
        options.after = after.or(around).unwrap_or(0);
        let grouped = before.or(after).or(around).is_some();
        options.separator = separator.filter(|_| grouped);
        options.patterns = match patterns {
            Some(patterns) => patterns,
            None if options.operands.is_empty() => return Err(fatal_usage("no pattern was given")),
            None => [options.operands.remove(0), b"\n"].concat(),
        };
        Ok(options)
    }

    fn new(operands: Vec<&'a [u8]>) -> GrepOptions<'a> {
        GrepOptions {
            patterns: Vec::new(),
            syntax: PatternSyntax::Basic,
            whole: MatchScope::Part,
            ignore_case: false,
            invert: false,
            output_mode: OutputMode::Lines,
            binary: BinaryMode::Noted,
            directories: DirectoryMode::Read,
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
            max_count: u64::MAX,
            label: b"(standard input)",
            filter: FileFilter::default(),
            operands,
        }
    }

    /// Returns the meaning of the patterns.
    pub(super) fn pattern_mode(&self) -> LinePatternMode {
        LinePatternMode {
            syntax: self.syntax,
            ignore_case: self.ignore_case,
            whole: self.whole,
            needs_ends: self.only_matching,
        }
    }

    /// Sets the output mode. `-q` overrides `-l` and `-L`, which override `-c`.
    fn set_output_mode(&mut self, mode: OutputMode) {
        if self.output_mode != OutputMode::Nothing {
            self.output_mode = mode;
        }
    }
}

fn fatal_usage(message: impl Into<Vec<u8>>) -> CommandError {
    CommandError::Usage(message.into(), ERROR_STATUS)
}

/// Returns the syntax that an option chooses.
pub(super) fn syntax_of(letter: char) -> PatternSyntax {
    match letter {
        'E' => PatternSyntax::Extended,
        'F' => PatternSyntax::Fixed,
        'P' => PatternSyntax::Perl,
        _ => PatternSyntax::Basic,
    }
}

fn set_syntax(
    syntax: &mut Option<PatternSyntax>,
    chosen: PatternSyntax,
) -> Result<(), CommandError> {
    match syntax.replace(chosen) {
        Some(before) if before != chosen => Err(fatal_usage("conflicting matchers specified")),
        _ => Ok(()),
    }
}

fn parse_context(value: &[u8]) -> Result<u64, CommandError> {
    parse_number(value)
        .ok_or_else(|| fatal_usage([value, b": invalid context length argument"].concat()))
}

fn parse_max_count(value: &[u8]) -> Result<u64, CommandError> {
    match value {
        // A negative number means no limit.
        [b'-', digits @ ..] if parse_number(digits).is_some() => Ok(u64::MAX),
        _ => parse_number(value).ok_or_else(|| fatal_usage("invalid max count")),
    }
}

/// Parses digits; a number too large to represent saturates.
fn parse_number(value: &[u8]) -> Option<u64> {
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

fn parse_binary_mode(value: &[u8]) -> Result<BinaryMode, CommandError> {
    match value {
        b"binary" => Ok(BinaryMode::Noted),
        b"text" => Ok(BinaryMode::Text),
        b"without-match" => Ok(BinaryMode::Skipped),
        _ => Err(fatal_usage("unknown binary-files type")),
    }
}

fn parse_directory_mode(value: &[u8]) -> Result<DirectoryMode, CommandError> {
    match value {
        b"read" => Ok(DirectoryMode::Read),
        b"recurse" => Ok(DirectoryMode::Recurse),
        b"skip" => Ok(DirectoryMode::Skip),
        // GNU grep's status here too, unlike its other errors.
        _ => Err(usage_error(
            [b"invalid argument '", value, b"' for '--directories'"].concat(),
        )),
    }
}

/// Accepts values that mean output without colours: it never goes to a terminal.
fn check_color(value: &[u8]) -> Result<(), CommandError> {
    match value {
        b"" | b"auto" | b"tty" | b"if-tty" | b"never" | b"no" | b"none" => Ok(()),
        b"always" | b"yes" | b"force" => {
            Err(fatal_usage("colours (--color=always) are not supported"))
        }
        _ => Err(fatal_usage(
            [b"invalid argument '", value, b"' for '--color'"].concat(),
        )),
    }
}

/// Appends the lines of a file, adding the newline that the last one may lack.
fn read_patterns(
    call: &mut Call<'_>,
    typed: &[u8],
    patterns: &mut Vec<u8>,
) -> Result<(), CommandError> {
    let wrong = |error: trumanfs_types::error::Error| {
        let reason = reason(error.errno());
        fatal_usage([typed, b": ", reason.as_bytes()].concat())
    };
    let before = patterns.len();
    let read = match typed {
        b"-" => call.stdin.read_to_end(patterns),
        _ => call.open(typed).map_err(wrong)?.read_to_end(patterns),
    };
    call.check()?;
    read.map_err(|error| wrong(from_io_error(&error)))?;
    if patterns.len() > before && patterns.last() != Some(&b'\n') {
        patterns.push(b'\n');
    }
    Ok(())
}
