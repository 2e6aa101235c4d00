//! Parses one predicate of an expression and its arguments into a [`Test`].

use chrono::Local;
use rustix::fs::FileType;

use super::exec::{Exec, Template};
use super::wording::{invalid, missing};
use crate::call::{Call, Stop, reason, usage};
use crate::datetime;
use crate::mode::ModeChange;
use crate::pattern::Pattern;
use trumanfs_types::meta::{Meta, Time};

/// A test of an entry, or an action on it.
#[derive(Debug)]
pub(super) enum Test {
    Constant(bool),
    Name(Pattern),
    Path(Pattern),
    Kind(Vec<FileType>),
    /// The size in units of so many bytes, the last unit counted whole.
    Size(Compare, u64, u64),
    Age(Clock, Window),
    Empty,
    Mode(Compare, u32),
    Prune,
    Quit,
    /// The byte printed after the path.
    Print(u8),
    Delete,
    Exec(Template),
    /// The index of its command in the plan's `gathered`.
    ExecMany(usize),
}

impl Test {
    /// Whether it is an action, so that paths are not printed by default.
    pub(super) fn acts(&self) -> bool {
        matches!(
            self,
            Test::Print(_) | Test::Delete | Test::Exec(_) | Test::ExecMany(_)
        )
    }
}

/// How a number is compared: `-N`, `N` or `+N`; for a mode `/M`, `M` or `-M`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compare {
    Less,
    Same,
    More,
}

/// One of an entry's times.
#[derive(Debug, Clone, Copy)]
pub(super) enum Clock {
    Access,
    Content,
    Attributes,
}

impl Clock {
    pub(super) fn of(self, meta: &Meta) -> i128 {
        nanos(match self {
            Clock::Access => meta.atime,
            Clock::Content => meta.mtime,
            Clock::Attributes => meta.ctime,
        })
    }
}

/// A span of time, open at its start and closed at its end, in nanoseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window(pub(super) i128, pub(super) i128);

const SECOND: i128 = 1_000_000_000;

fn nanos(time: Time) -> i128 {
    i128::from(time.sec) * SECOND + i128::from(time.nsec)
}

/// The global options of a walk.
#[derive(Debug, Default)]
pub(super) struct Settings {
    pub(super) deepest: Option<usize>,
    pub(super) least: usize,
    pub(super) contents_first: bool,
    pub(super) gathered: Vec<Template>,
}

/// Reads predicates from the words of an expression.
pub(super) struct Reader<'a, 'c> {
    pub(super) call: &'a Call<'c>,
    pub(super) settings: Settings,
    /// Now, in nanoseconds since 1970.
    pub(super) now: i128,
}

/// Parses a predicate that takes one argument.
type WithArgument<'a, 'c> = fn(&mut Reader<'a, 'c>, &[u8], &[u8]) -> Result<Test, Stop>;

impl<'a, 'c> Reader<'a, 'c> {
    /// Parses a predicate, taking its arguments from the words after it.
    ///
    /// # Errors
    /// A malformed predicate, in GNU's words.
    pub(super) fn read(&mut self, typed: &[u8], rest: &mut &[Vec<u8>]) -> Result<Test, Stop> {
        let plain = match typed {
            b"-true" => Test::Constant(true),
            b"-false" => Test::Constant(false),
            b"-empty" => Test::Empty,
            b"-prune" => Test::Prune,
            b"-quit" => Test::Quit,
            b"-print" => Test::Print(b'\n'),
            b"-print0" => Test::Print(0),
            b"-depth" | b"-d" => {
                self.settings.contents_first = true;
                Test::Constant(true)
            }
            b"-delete" => {
                self.settings.contents_first = true;
                Test::Delete
            }
            b"-exec" => {
                return Ok(match Exec::read(rest, self.call.state)? {
                    Exec::Each(template) => Test::Exec(template),
                    Exec::Many(template) => {
                        self.settings.gathered.push(template);
                        Test::ExecMany(self.settings.gathered.len() - 1)
                    }
                });
            }
            _ => return self.with_argument(typed, rest),
        };
        Ok(plain)
    }

    fn with_argument(&mut self, typed: &[u8], rest: &mut &[Vec<u8>]) -> Result<Test, Stop> {
        let read: WithArgument<'a, 'c> = match typed {
            b"-name" => |_, _, arg| Ok(Test::Name(Pattern::new(arg))),
            b"-iname" => |_, _, arg| Ok(Test::Name(Pattern::new(arg).ignoring_case())),
            b"-path" | b"-wholename" => |_, _, arg| Ok(Test::Path(Pattern::new(arg))),
            b"-ipath" | b"-iwholename" => {
                |_, _, arg| Ok(Test::Path(Pattern::new(arg).ignoring_case()))
            }
            b"-type" => |_, _, arg| kinds(arg).map(Test::Kind),
            b"-size" => |_, _, arg| size(arg),
            b"-perm" => |_, _, arg| mode(arg),
            b"-maxdepth" => |reader, typed, arg| {
                reader.settings.deepest = Some(depth(typed, arg)?);
                Ok(Test::Constant(true))
            },
            b"-mindepth" => |reader, typed, arg| {
                reader.settings.least = depth(typed, arg)?;
                Ok(Test::Constant(true))
            },
            b"-mtime" | b"-atime" | b"-ctime" => Self::days,
            b"-mmin" | b"-amin" | b"-cmin" => Self::minutes,
            b"-newer" => |reader, _, arg| {
                let found = reader.call.path(arg);
                match found.and_then(|path| reader.call.home().stat(&path)) {
                    Ok(meta) => Ok(newer(nanos(meta.mtime))),
                    Err(error) => {
                        let reason = reason(error.errno());
                        Err(usage([arg, b": ", reason.as_bytes()].concat()))
                    }
                }
            },
            b"-newermt" => |_, _, arg| match datetime::parse(arg, Local::now()) {
                Some(at) => Ok(newer(
                    i128::from(at.timestamp()) * SECOND + i128::from(at.timestamp_subsec_nanos()),
                )),
                None => Err(usage(
                    [
                        b"I cannot figure out how to interpret '",
                        arg,
                        b"' as a date or time",
                    ]
                    .concat(),
                )),
            },
            _ => return Err(usage([b"unknown predicate `", typed, b"'"].concat())),
        };
        let Some((arg, after)) = rest.split_first() else {
            return Err(missing(typed));
        };
        *rest = after;
        read(self, typed, arg)
    }

    fn days(&mut self, typed: &[u8], arg: &[u8]) -> Result<Test, Stop> {
        let day = 86_400 * SECOND;
        let (compare, age) = self.age(typed, arg, day)?;
        let at = self.now - day - age;
        Ok(Test::Age(
            clock(typed),
            match compare {
                // GNU adds a second here.
                Compare::Less => Window(self.now - SECOND - age, i128::MAX),
                Compare::Same => Window(at, at + day),
                Compare::More => Window(i128::MIN, at - 1),
            },
        ))
    }

    fn minutes(&mut self, typed: &[u8], arg: &[u8]) -> Result<Test, Stop> {
        let minute = 60 * SECOND;
        let (compare, age) = self.age(typed, arg, minute)?;
        let at = self.now - age;
        Ok(Test::Age(
            clock(typed),
            match compare {
                Compare::Less => Window(at, i128::MAX),
                Compare::Same => Window(at, at + minute),
                Compare::More => Window(i128::MIN, at - 1),
            },
        ))
    }

    /// Parses `-N`, `N` or `+N` units, where `N` may have a fraction.
    fn age(&self, typed: &[u8], arg: &[u8], unit: i128) -> Result<(Compare, i128), Stop> {
        let (compare, number) = compared(arg);
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
            _ => Err(invalid(arg, typed)),
        }
    }
}

fn clock(typed: &[u8]) -> Clock {
    match typed.get(1) {
        Some(b'a') => Clock::Access,
        Some(b'c') => Clock::Attributes,
        _ => Clock::Content,
    }
}

fn newer(than: i128) -> Test {
    Test::Age(Clock::Content, Window(than, i128::MAX))
}

fn compared(arg: &[u8]) -> (Compare, &[u8]) {
    match arg {
        [b'+', number @ ..] => (Compare::More, number),
        [b'-', number @ ..] => (Compare::Less, number),
        number => (Compare::Same, number),
    }
}

fn whole(digits: &[u8]) -> Option<u64> {
    let is_number = digits.iter().all(u8::is_ascii_digit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_number);
    digits?.parse().ok()
}

fn depth(typed: &[u8], arg: &[u8]) -> Result<usize, Stop> {
    let depth = whole(arg).and_then(|depth| usize::try_from(depth).ok());
    depth.ok_or_else(|| {
        let what = b"Expected a positive decimal integer argument to ";
        usage([&what[..], typed, b", but got '", arg, b"'"].concat())
    })
}

/// Parses letters separated by commas. There are no symlinks and no devices: their letters are accepted and match
/// nothing.
fn kinds(arg: &[u8]) -> Result<Vec<FileType>, Stop> {
    if arg.is_empty() {
        return Err(usage(
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
                return Err(usage(
                    "Last file type in list argument to -type is missing, i.e., list is ending on: ','",
                ));
            }
            [_, _, ..] => {
                return Err(usage(
                    "Must separate multiple arguments to -type using: ','",
                ));
            }
            letter => {
                return Err(usage([b"Unknown argument to -type: ", letter].concat()));
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

fn size(arg: &[u8]) -> Result<Test, Stop> {
    let (compare, text) = compared(arg);
    let Some((last, digits)) = text.split_last() else {
        let message: &[u8] = match arg {
            b"" => b"invalid null argument to -size",
            _ => &[b"invalid -size type `", arg, b"'"].concat(),
        };
        return Err(usage(message));
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
            return Err(usage(
                [b"invalid -size type `", &[*last][..], b"'"].concat(),
            ));
        }
    };
    match whole(digits) {
        Some(units) => Ok(Test::Size(compare, units, unit)),
        None => Err(usage([b"Invalid argument `", arg, b"' to -size"].concat())),
    }
}

fn mode(arg: &[u8]) -> Result<Test, Stop> {
    let (compare, text) = match arg {
        [b'-', text @ ..] => (Compare::More, text),
        [b'/', text @ ..] => (Compare::Less, text),
        text => (Compare::Same, text),
    };
    // `+` with digits once meant what `/` means now; GNU find no longer reads it.
    let old = matches!(text, [b'+', b'0'..=b'9', ..]);
    match ModeChange::parse(text).filter(|_| !old) {
        Some(change) => Ok(Test::Mode(compare, change.for_directory(0, 0).0)),
        None => Err(usage([b"invalid mode '", arg, b"'"].concat())),
    }
}
