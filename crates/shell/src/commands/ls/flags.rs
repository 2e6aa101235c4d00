//! The options of `ls`.
//!
//! Standard output is never a terminal here: there are no colours and no columns, and names are not quoted. There are
//! no symlinks that -L and -H could follow.

use super::keyword::{SERIOUS, word};
use super::order::Order;
use super::size::Scale;
use super::times::Style;
use crate::call::Stop;
use crate::options::{OptSpec, Takes};
use crate::pattern::Pattern;
use trumanfs_types::meta::{Meta, Time};

const OPTIONS: OptSpec = OptSpec {
    short: "1aABcdfFgGhHiI:klLnNoprRsStuUvX",
    long: &[
        ("all", Takes::Nothing, 'a'),
        ("almost-all", Takes::Nothing, 'A'),
        ("classify", Takes::Maybe, 'F'),
        ("color", Takes::Maybe, 'C'),
        ("dereference", Takes::Nothing, 'L'),
        ("dereference-command-line", Takes::Nothing, 'H'),
        ("directory", Takes::Nothing, 'd'),
        ("file-type", Takes::Nothing, '*'),
        ("format", Takes::Value, 'O'),
        ("full-time", Takes::Nothing, 'E'),
        ("group-directories-first", Takes::Nothing, 'D'),
        ("hide", Takes::Value, 'Y'),
        ("human-readable", Takes::Nothing, 'h'),
        ("ignore", Takes::Value, 'I'),
        ("ignore-backups", Takes::Nothing, 'B'),
        ("indicator-style", Takes::Value, '/'),
        ("inode", Takes::Nothing, 'i'),
        ("kibibytes", Takes::Nothing, 'k'),
        ("literal", Takes::Nothing, 'N'),
        ("no-group", Takes::Nothing, 'G'),
        ("numeric-uid-gid", Takes::Nothing, 'n'),
        ("recursive", Takes::Nothing, 'R'),
        ("reverse", Takes::Nothing, 'r'),
        ("show-control-chars", Takes::Nothing, 'N'),
        ("si", Takes::Nothing, 'M'),
        ("size", Takes::Nothing, 's'),
        ("sort", Takes::Value, 'T'),
        ("time", Takes::Value, 'm'),
        ("time-style", Takes::Value, 'y'),
        ("zero", Takes::Nothing, 'z'),
    ],
    wrong: SERIOUS,
};

/// Which names with a dot at the start are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hidden {
    No,
    /// All but `.` and `..`.
    Almost,
    All,
}

/// Which of a file's times is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stamp {
    Modified,
    Changed,
    Accessed,
}

impl Stamp {
    /// Returns the selected time.
    pub(super) fn of(self, meta: &Meta) -> Time {
        match self {
            Stamp::Modified => meta.mtime,
            Stamp::Changed => meta.ctime,
            Stamp::Accessed => meta.atime,
        }
    }
}

/// Which kinds of files are marked by a character after the name. Each variant includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(super) enum Mark {
    None,
    Slash,
    Type,
    Classify,
}

/// A pattern of names to leave out.
struct Left(Pattern, bool);

impl Left {
    fn new(text: &[u8]) -> Left {
        Left(Pattern::new(text), text.starts_with(b"."))
    }

    /// A leading dot is matched by a literal dot only (`FNM_PERIOD`).
    fn out(&self, name: &[u8]) -> bool {
        (self.1 || !name.starts_with(b".")) && self.0.matches(name)
    }
}

/// The options of one call.
pub(super) struct Settings {
    pub(super) hidden: Hidden,
    ignored: Vec<Left>,
    /// Patterns like `ignored`, but without effect where hidden names are listed (`--hide`).
    unshown: Vec<Left>,
    pub(super) long: bool,
    /// Whether a directory operand is listed itself (`-d`).
    pub(super) itself: bool,
    pub(super) recursive: bool,
    pub(super) order: Order,
    pub(super) reverse: bool,
    pub(super) directories_first: bool,
    pub(super) stamp: Stamp,
    pub(super) style: Style,
    pub(super) mark: Mark,
    pub(super) inodes: bool,
    pub(super) blocks: bool,
    pub(super) owners: bool,
    pub(super) groups: bool,
    pub(super) numbers: bool,
    pub(super) scale: Scale,
    /// The byte that ends a line.
    pub(super) end: u8,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            hidden: Hidden::No,
            ignored: Vec::new(),
            unshown: Vec::new(),
            long: false,
            itself: false,
            recursive: false,
            order: Order::Name,
            reverse: false,
            directories_first: false,
            stamp: Stamp::Modified,
            style: Style::default(),
            mark: Mark::None,
            inodes: false,
            blocks: false,
            owners: true,
            groups: true,
            numbers: false,
            scale: Scale::Plain,
            end: b'\n',
        }
    }
}

impl Settings {
    /// Parses the arguments. Returns the operands too.
    ///
    /// # Errors
    /// [`Stop::Usage`].
    pub(super) fn read(args: &[Vec<u8>]) -> Result<(Settings, Vec<&[u8]>), Stop> {
        let typed = OPTIONS.read(args)?;
        let mut settings = Settings::default();
        let mut order = None;
        let mut style = None;
        for (letter, value) in typed.options {
            let value = value.unwrap_or_default();
            match letter {
                'f' => {
                    (settings.hidden, settings.long, settings.blocks) = (Hidden::All, false, false)
                }
                'l' => settings.long = true,
                'n' => (settings.long, settings.numbers) = (true, true),
                'g' => (settings.long, settings.owners) = (true, false),
                'o' => (settings.long, settings.groups) = (true, false),
                'E' => (settings.long, style) = (true, Some(&b"full-iso"[..])),
                'O' => settings.long = word("--format", value, FORMATS)?,
                'y' => style = Some(value),
                _ => {}
            }
            match letter {
                'f' | 'U' => order = Some(Order::None),
                't' => order = Some(Order::Time),
                'S' => order = Some(Order::Size),
                'X' => order = Some(Order::Extension),
                'v' => order = Some(Order::Version),
                'T' => order = Some(word("--sort", value, ORDERS)?),
                'c' => settings.stamp = Stamp::Changed,
                'u' => settings.stamp = Stamp::Accessed,
                'm' => settings.stamp = word("--time", value, STAMPS)?,
                'C' if when("--color", value)? => {
                    let message = "--color=always is not supported: nothing here shows colours";
                    return Err(Stop::Usage(message.into(), SERIOUS));
                }
                'F' if when("--classify", value)? => settings.mark = Mark::Classify,
                '/' => settings.mark = word("--indicator-style", value, MARKS)?,
                letter => settings.simple(letter, value),
            }
        }
        // A time that is asked for but not shown determines the order.
        let seen = settings.long || settings.stamp == Stamp::Modified;
        settings.order = order.unwrap_or(if seen { Order::Name } else { Order::Time });
        if let Some(style) = style.filter(|_| settings.long) {
            settings.style = Style::named(style)?;
        }
        Ok((settings, typed.operands))
    }

    /// Applies an option that needs no other. -k is the default.
    fn simple(&mut self, letter: char, value: &[u8]) {
        match letter {
            'a' => self.hidden = Hidden::All,
            'A' => self.hidden = Hidden::Almost,
            'B' => self.ignored.extend([Left::new(b"*~"), Left::new(b".*~")]),
            'I' => self.ignored.push(Left::new(value)),
            'Y' => self.unshown.push(Left::new(value)),
            'd' => self.itself = true,
            'R' => self.recursive = true,
            'r' => self.reverse = true,
            'D' => self.directories_first = true,
            'p' => self.mark = Mark::Slash,
            '*' => self.mark = Mark::Type,
            'i' => self.inodes = true,
            's' => self.blocks = true,
            'G' => self.groups = false,
            'h' => self.scale = Scale::Binary,
            'M' => self.scale = Scale::Decimal,
            'z' => self.end = 0,
            _ => {}
        }
    }

    /// Returns whether a directory's entry is listed.
    pub(super) fn lists(&self, name: &[u8]) -> bool {
        let hidden = match self.hidden {
            Hidden::No => {
                name.starts_with(b".") || self.unshown.iter().any(|pattern| pattern.out(name))
            }
            Hidden::Almost => matches!(name, b"." | b".."),
            Hidden::All => false,
        };
        !hidden && !self.ignored.iter().any(|pattern| pattern.out(name))
    }
}

/// The values of `--format`, and whether each means a long listing.
const FORMATS: &[(&str, bool)] = &[("long", true), ("verbose", true), ("single-column", false)];

const ORDERS: &[(&str, Order)] = &[
    ("none", Order::None),
    ("time", Order::Time),
    ("size", Order::Size),
    ("extension", Order::Extension),
    ("version", Order::Version),
];

const STAMPS: &[(&str, Stamp)] = &[
    ("atime", Stamp::Accessed),
    ("access", Stamp::Accessed),
    ("use", Stamp::Accessed),
    ("ctime", Stamp::Changed),
    ("status", Stamp::Changed),
];

const MARKS: &[(&str, Mark)] = &[
    ("none", Mark::None),
    ("slash", Mark::Slash),
    ("file-type", Mark::Type),
    ("classify", Mark::Classify),
];

const WHENS: &[(&str, bool)] = &[
    ("always", true),
    ("yes", true),
    ("force", true),
    ("never", false),
    ("no", false),
    ("none", false),
    ("auto", false),
    ("tty", false),
    ("if-tty", false),
];

/// Parses WHEN, which is `always` where it is left out.
fn when(option: &str, typed: &[u8]) -> Result<bool, Stop> {
    match typed {
        b"" => Ok(true),
        typed => word(option, typed, WHENS),
    }
}
