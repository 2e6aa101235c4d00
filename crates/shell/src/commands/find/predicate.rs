//! Parses one predicate of an expression and its arguments into a [`FindTest`].

use chrono::{Local, Timelike};
use rustix::fs::FileType;

use super::exec::{CommandTemplate, ExecAction};
use super::messages::{invalid_argument, missing_argument};
use super::printf::PrintFormat;
use super::regex::{PathRegex, parse_syntax};
use crate::call::{Call, CommandError, reason, usage_error};
use crate::commands::expression::PosixSyntax;
use crate::datetime;
use crate::mode::ModeChange;
use crate::pattern::GlobPattern;
use trumanfs_types::meta::{Meta, Time};

/// A test of an entry, or an action on it.
#[derive(Debug)]
pub(super) enum FindTest {
    Constant(bool),
    Name(GlobPattern),
    Path(GlobPattern),
    Regex(Box<PathRegex>),
    Kind(Vec<FileType>),
    /// The size in units of so many bytes, the last unit counted whole.
    Size(CompareMode, u64, u64),
    Age(TimeField, TimeSpan),
    Empty,
    Mode(CompareMode, u32),
    Prune,
    Quit,
    /// The byte printed after the path.
    Print(u8),
    /// `-printf`.
    PrintFormatted(Box<PrintFormat>),
    Delete,
    Exec(CommandTemplate),
    /// The index of its command in the plan's `batch_commands`.
    ExecMany(usize),
}

impl FindTest {
    /// Returns whether this is an action, so that paths are not printed by default.
    pub(super) fn is_action(&self) -> bool {
        matches!(
            self,
            FindTest::Print(_)
                | FindTest::PrintFormatted(_)
                | FindTest::Delete
                | FindTest::Exec(_)
                | FindTest::ExecMany(_)
        )
    }
}

/// The comparison of a number: `-N`, `N` or `+N`; of a mode: `/M`, `M` or `-M`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CompareMode {
    Less,
    Same,
    More,
}

/// A time of an entry.
#[derive(Debug, Clone, Copy)]
pub(super) enum TimeField {
    Access,
    Content,
    Attributes,
}

impl TimeField {
    pub(super) fn time_of(self, meta: &Meta) -> i128 {
        nanos(self.of(meta))
    }

    pub(super) fn of(self, meta: &Meta) -> Time {
        match self {
            TimeField::Access => meta.atime,
            TimeField::Content => meta.mtime,
            TimeField::Attributes => meta.ctime,
        }
    }
}

/// A span of time, open at its start and closed at its end, in nanoseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeSpan(pub(super) i128, pub(super) i128);

const SECOND: i128 = 1_000_000_000;

fn nanos(time: Time) -> i128 {
    i128::from(time.sec) * SECOND + i128::from(time.nsec)
}

/// The global options of a walk.
#[derive(Debug, Default)]
pub(super) struct WalkSettings {
    pub(super) max_depth: Option<usize>,
    pub(super) min_depth: usize,
    pub(super) contents_first: bool,
    pub(super) batch_commands: Vec<CommandTemplate>,
}

/// A reader of predicates from the words of an expression.
pub(super) struct PredicateReader<'a, 'c> {
    pub(super) call: &'a Call<'c>,
    pub(super) settings: WalkSettings,
    /// The dialect of the expressions that follow (`-regextype`).
    pub(super) syntax: &'static PosixSyntax,
    /// Now, in nanoseconds since 1970; the end of today after `-daystart`.
    pub(super) now: i128,
}

/// The parser of a predicate that takes one argument.
type ArgumentReader<'a, 'c> =
    fn(&mut PredicateReader<'a, 'c>, &[u8], &[u8]) -> Result<FindTest, CommandError>;

impl<'a, 'c> PredicateReader<'a, 'c> {
    /// Parses a predicate, taking its arguments from the words after it.
    ///
    /// # Errors
    /// A malformed predicate, in GNU's words.
    pub(super) fn read(
        &mut self,
        typed: &[u8],
        rest: &mut &[Vec<u8>],
    ) -> Result<FindTest, CommandError> {
        let plain = match typed {
            b"-true" => FindTest::Constant(true),
            // There are no links and no other file systems, and no warnings.
            b"-follow"
            | b"-xdev"
            | b"-mount"
            | b"-noleaf"
            | b"-warn"
            | b"-nowarn"
            | b"-ignore_readdir_race"
            | b"-noignore_readdir_race" => FindTest::Constant(true),
            b"-daystart" => {
                self.now = end_of_today();
                FindTest::Constant(true)
            }
            b"-false" => FindTest::Constant(false),
            b"-empty" => FindTest::Empty,
            b"-prune" => FindTest::Prune,
            b"-quit" => FindTest::Quit,
            b"-print" => FindTest::Print(b'\n'),
            b"-print0" => FindTest::Print(0),
            b"-depth" | b"-d" => {
                self.settings.contents_first = true;
                FindTest::Constant(true)
            }
            b"-delete" => {
                self.settings.contents_first = true;
                FindTest::Delete
            }
            b"-exec" => {
                return Ok(match ExecAction::read(rest, self.call.state)? {
                    ExecAction::Each(template) => FindTest::Exec(template),
                    ExecAction::Many(template) => {
                        self.settings.batch_commands.push(template);
                        FindTest::ExecMany(self.settings.batch_commands.len() - 1)
                    }
                });
            }
            _ => return self.with_argument(typed, rest),
        };
        Ok(plain)
    }

    fn with_argument(
        &mut self,
        typed: &[u8],
        rest: &mut &[Vec<u8>],
    ) -> Result<FindTest, CommandError> {
        let read: ArgumentReader<'a, 'c> = match typed {
            b"-name" => |_, _, arg| Ok(FindTest::Name(GlobPattern::new(arg))),
            b"-iname" => |_, _, arg| Ok(FindTest::Name(GlobPattern::new(arg).ignoring_case())),
            b"-path" | b"-wholename" => |_, _, arg| Ok(FindTest::Path(GlobPattern::new(arg))),
            b"-ipath" | b"-iwholename" => {
                |_, _, arg| Ok(FindTest::Path(GlobPattern::new(arg).ignoring_case()))
            }
            b"-regex" | b"-iregex" => |reader, typed, arg| {
                PathRegex::new(typed, arg, reader.syntax)
                    .map(|regex| FindTest::Regex(Box::new(regex)))
            },
            b"-printf" => |_, _, arg| match PrintFormat::parse(arg) {
                Ok(format) => Ok(FindTest::PrintFormatted(Box::new(format))),
                Err(rejection) => Err(CommandError::Rejected(rejection)),
            },
            b"-regextype" => |reader, _, arg| {
                reader.syntax = parse_syntax(arg)?;
                Ok(FindTest::Constant(true))
            },
            b"-type" | b"-xtype" => |_, _, arg| parse_kinds(arg).map(FindTest::Kind),
            b"-size" => |_, _, arg| parse_size(arg),
            b"-perm" => |_, _, arg| parse_mode(arg),
            b"-maxdepth" => |reader, typed, arg| {
                reader.settings.max_depth = Some(parse_depth(typed, arg)?);
                Ok(FindTest::Constant(true))
            },
            b"-mindepth" => |reader, typed, arg| {
                reader.settings.min_depth = parse_depth(typed, arg)?;
                Ok(FindTest::Constant(true))
            },
            b"-mtime" | b"-atime" | b"-ctime" => Self::parse_days,
            b"-mmin" | b"-amin" | b"-cmin" => Self::parse_minutes,
            typed if compared_times(typed).is_some() => Self::parse_newer,
            _ => return Err(usage_error([b"unknown predicate `", typed, b"'"].concat())),
        };
        let Some((arg, after)) = rest.split_first() else {
            return Err(missing_argument(typed));
        };
        *rest = after;
        read(self, typed, arg)
    }

    fn parse_newer(&mut self, typed: &[u8], arg: &[u8]) -> Result<FindTest, CommandError> {
        let (field, reference) =
            compared_times(typed).unwrap_or((TimeField::Content, TimeReference::Date));
        let than = match reference {
            TimeReference::OfFile(reference) => {
                let found = self.call.path(arg);
                let found = found.and_then(|path| self.call.home().stat(&path));
                reference.time_of(&found.map_err(|error| {
                    let reason = reason(error.errno());
                    usage_error([arg, b": ", reason.as_bytes()].concat())
                })?)
            }
            TimeReference::Date => {
                let at = datetime::parse(arg, Local::now()).ok_or_else(|| {
                    let before = b"I cannot figure out how to interpret '";
                    usage_error([&before[..], arg, b"' as a date or time"].concat())
                })?;
                i128::from(at.timestamp()) * SECOND + i128::from(at.timestamp_subsec_nanos())
            }
        };
        Ok(FindTest::Age(field, TimeSpan(than, i128::MAX)))
    }

    fn parse_days(&mut self, typed: &[u8], arg: &[u8]) -> Result<FindTest, CommandError> {
        let day = 86_400 * SECOND;
        let (compare, age) = self.parse_age(typed, arg, day)?;
        let at = self.now - day - age;
        Ok(FindTest::Age(
            time_field(typed),
            match compare {
                // GNU adds a second here.
                CompareMode::Less => TimeSpan(self.now - SECOND - age, i128::MAX),
                CompareMode::Same => TimeSpan(at, at + day),
                CompareMode::More => TimeSpan(i128::MIN, at - 1),
            },
        ))
    }

    fn parse_minutes(&mut self, typed: &[u8], arg: &[u8]) -> Result<FindTest, CommandError> {
        let minute = 60 * SECOND;
        let (compare, age) = self.parse_age(typed, arg, minute)?;
        let at = self.now - age;
        Ok(FindTest::Age(
            time_field(typed),
            match compare {
                CompareMode::Less => TimeSpan(at, i128::MAX),
                CompareMode::Same => TimeSpan(at, at + minute),
                CompareMode::More => TimeSpan(i128::MIN, at - 1),
            },
        ))
    }

    /// Parses `-N`, `N` or `+N` units, where `N` may have a fraction.
    fn parse_age(
        &self,
        typed: &[u8],
        arg: &[u8],
        unit: i128,
    ) -> Result<(CompareMode, i128), CommandError> {
        let (compare, number) = parse_comparison(arg);
        let is_number = number.first().is_some_and(u8::is_ascii_digit)
            && number.iter().all(|b| b.is_ascii_digit() || *b == b'.');
        let units = std::str::from_utf8(number)
            .ok()
            .filter(|_| is_number)
            .and_then(|number| number.parse::<f64>().ok());
        match units {
            // Whole units separately: a float has too few digits for both.
            Some(units) if units < 1e12 => {
                let whole = (units.trunc() as i128) * unit;
                Ok((compare, whole + (units.fract() * unit as f64) as i128))
            }
            _ => Err(invalid_argument(arg, typed)),
        }
    }
}

fn time_field(typed: &[u8]) -> TimeField {
    match typed.get(1) {
        Some(b'a') => TimeField::Access,
        Some(b'c') => TimeField::Attributes,
        _ => TimeField::Content,
    }
}

/// The reference that a time is compared with: one of a file's, or a date.
#[derive(Debug, Clone, Copy)]
enum TimeReference {
    OfFile(TimeField),
    Date,
}

/// Returns the times that `-newer`, `-anewer`, `-cnewer` or `-newerXY` compares.
fn compared_times(typed: &[u8]) -> Option<(TimeField, TimeReference)> {
    let field = |letter: u8| match letter {
        b'a' => Some(TimeField::Access),
        b'c' => Some(TimeField::Attributes),
        b'm' => Some(TimeField::Content),
        _ => None,
    };
    let (of, than) = match typed {
        b"-newer" => (b'm', b'm'),
        b"-anewer" => (b'a', b'm'),
        b"-cnewer" => (b'c', b'm'),
        [b'-', b'n', b'e', b'w', b'e', b'r', of, than] => (*of, *than),
        _ => return None,
    };
    let reference = match than {
        b't' => TimeReference::Date,
        than => TimeReference::OfFile(field(than)?),
    };
    Some((field(of)?, reference))
}

/// Returns the end of the current day, in nanoseconds since 1970.
fn end_of_today() -> i128 {
    let now = Local::now();
    let since_midnight = i64::from(now.num_seconds_from_midnight());
    i128::from(now.timestamp() - since_midnight + 86_400) * SECOND
}

fn parse_comparison(arg: &[u8]) -> (CompareMode, &[u8]) {
    match arg {
        [b'+', number @ ..] => (CompareMode::More, number),
        [b'-', number @ ..] => (CompareMode::Less, number),
        number => (CompareMode::Same, number),
    }
}

fn parse_number(digits: &[u8]) -> Option<u64> {
    let is_number = digits.iter().all(u8::is_ascii_digit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_number);
    digits?.parse().ok()
}

fn parse_depth(typed: &[u8], arg: &[u8]) -> Result<usize, CommandError> {
    let depth = parse_number(arg).and_then(|depth| usize::try_from(depth).ok());
    depth.ok_or_else(|| {
        let what = b"Expected a positive decimal integer argument to ";
        usage_error([&what[..], typed, b", but got '", arg, b"'"].concat())
    })
}

/// Parses letters separated by commas. There are no symlinks and no devices: their letters are accepted and match
/// nothing.
fn parse_kinds(arg: &[u8]) -> Result<Vec<FileType>, CommandError> {
    if arg.is_empty() {
        return Err(usage_error(
            "Arguments to -type should contain at least one letter",
        ));
    }
    let mut kinds = Vec::new();
    for letter in arg.split(|b| *b == b',') {
        kinds.push(match letter {
            b"f" => FileType::RegularFile,
            b"d" => FileType::Directory,
            b"p" => FileType::Fifo,
            b"s" => FileType::Socket,
            b"l" => FileType::Symlink,
            b"b" => FileType::BlockDevice,
            b"c" => FileType::CharacterDevice,
            b"" => {
                return Err(usage_error(
                    "Last file type in list argument to -type is missing, i.e., list is ending on: ','",
                ));
            }
            [_, _, ..] => {
                return Err(usage_error(
                    "Must separate multiple arguments to -type using: ','",
                ));
            }
            letter => {
                return Err(usage_error([b"Unknown argument to -type: ", letter].concat()));
            }
        });
    }
    kinds.retain(|kind| {
        !matches!(
            kind,
            FileType::Symlink | FileType::BlockDevice | FileType::CharacterDevice
        )
    });
    Ok(kinds)
}

fn parse_size(arg: &[u8]) -> Result<FindTest, CommandError> {
    let (compare, text) = parse_comparison(arg);
    let Some((last, digits)) = text.split_last() else {
        let message: &[u8] = match arg {
            b"" => b"invalid null argument to -size",
            _ => &[b"invalid -size type `", arg, b"'"].concat(),
        };
        return Err(usage_error(message));
    };
    let (unit, digits) = match last {
        b'0'..=b'9' => (512, text),
        b'b' => (512, digits),
        b'c' => (1, digits),
        b'w' => (2, digits),
        b'k' => (1 << 10, digits),
        b'M' => (1 << 20, digits),
        b'G' => (1 << 30, digits),
        _ => {
            return Err(usage_error(
                [b"invalid -size type `", &[*last][..], b"'"].concat(),
            ));
        }
    };
    match parse_number(digits) {
        Some(units) => Ok(FindTest::Size(compare, units, unit)),
        None => Err(usage_error(
            [b"Invalid argument `", arg, b"' to -size"].concat(),
        )),
    }
}

fn parse_mode(arg: &[u8]) -> Result<FindTest, CommandError> {
    let (compare, text) = match arg {
        [b'-', text @ ..] => (CompareMode::More, text),
        [b'/', text @ ..] => (CompareMode::Less, text),
        text => (CompareMode::Same, text),
    };
    // `+` with digits is the old form of `/`, which GNU find no longer reads.
    let old = matches!(text, [b'+', b'0'..=b'9', ..]);
    match ModeChange::parse(text).filter(|_| !old) {
        Some(change) => Ok(FindTest::Mode(compare, change.for_directory(0, 0).0)),
        None => Err(usage_error([b"invalid mode '", arg, b"'"].concat())),
    }
}
