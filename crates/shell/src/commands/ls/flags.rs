//! The options of `ls`.
//!
//! Standard output is never a terminal here: there are no colours and no columns, and names are not quoted. There are
//! no symlinks that -L and -H could follow.

use super::keyword::{OPERAND_ERROR_STATUS, keyword};
use super::order::SortOrder;
use super::size::SizeScale;
use super::times::TimeStyle;
use crate::call::CommandError;
use crate::options::{OptSpec, OptionArg};
use crate::pattern::GlobPattern;
use trumanfs_types::meta::{Meta, Time};

const OPTIONS: OptSpec = OptSpec {
    short: "1aABcdfFgGhHiI:klLnNoprRsStuUvX",
    long: &[
        ("all", OptionArg::None, 'a'),
        ("almost-all", OptionArg::None, 'A'),
        ("classify", OptionArg::Optional, 'F'),
        ("color", OptionArg::Optional, 'C'),
        ("dereference", OptionArg::None, 'L'),
        ("dereference-command-line", OptionArg::None, 'H'),
        ("directory", OptionArg::None, 'd'),
        ("file-type", OptionArg::None, '*'),
        ("format", OptionArg::Required, 'O'),
        ("full-time", OptionArg::None, 'E'),
        ("group-directories-first", OptionArg::None, 'D'),
        ("hide", OptionArg::Required, 'Y'),
        ("human-readable", OptionArg::None, 'h'),
        ("ignore", OptionArg::Required, 'I'),
        ("ignore-backups", OptionArg::None, 'B'),
        ("indicator-style", OptionArg::Required, '/'),
        ("inode", OptionArg::None, 'i'),
        ("kibibytes", OptionArg::None, 'k'),
        ("literal", OptionArg::None, 'N'),
        ("no-group", OptionArg::None, 'G'),
        ("numeric-uid-gid", OptionArg::None, 'n'),
        ("recursive", OptionArg::None, 'R'),
        ("reverse", OptionArg::None, 'r'),
        ("show-control-chars", OptionArg::None, 'N'),
        ("si", OptionArg::None, 'M'),
        ("size", OptionArg::None, 's'),
        ("sort", OptionArg::Required, 'T'),
        ("time", OptionArg::Required, 'm'),
        ("time-style", OptionArg::Required, 'y'),
        ("zero", OptionArg::None, 'z'),
    ],
    error_status: OPERAND_ERROR_STATUS,
};

/// The names with a dot at the start that are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HiddenNames {
    No,
    /// All but `.` and `..`.
    Almost,
    All,
}

/// The time of a file that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeKind {
    Modified,
    Changed,
    Accessed,
}

impl TimeKind {
    /// Returns the selected time.
    pub(super) fn of(self, meta: &Meta) -> Time {
        match self {
            TimeKind::Modified => meta.mtime,
            TimeKind::Changed => meta.ctime,
            TimeKind::Accessed => meta.atime,
        }
    }
}

/// The kinds of files that are marked by a character after the name. Each variant includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(super) enum TypeMark {
    None,
    Slash,
    Type,
    Classify,
}

/// A pattern of names to leave out.
struct IgnorePattern(GlobPattern, bool);

impl IgnorePattern {
    fn new(text: &[u8]) -> IgnorePattern {
        IgnorePattern(GlobPattern::new(text), text.starts_with(b"."))
    }

    /// Returns whether a name matches. A leading dot is matched by a literal dot only (`FNM_PERIOD`).
    fn matches(&self, name: &[u8]) -> bool {
        (self.1 || !name.starts_with(b".")) && self.0.matches(name)
    }
}

/// The options of one call.
pub(super) struct LsSettings {
    pub(super) hidden: HiddenNames,
    ignore_patterns: Vec<IgnorePattern>,
    /// Patterns like `ignore_patterns`, but without effect where hidden names are listed (`--hide`).
    hide_patterns: Vec<IgnorePattern>,
    pub(super) long: bool,
    /// True if a directory operand is listed itself (`-d`).
    pub(super) directories_as_files: bool,
    pub(super) recursive: bool,
    pub(super) order: SortOrder,
    pub(super) reverse: bool,
    pub(super) directories_first: bool,
    pub(super) stamp: TimeKind,
    pub(super) style: TimeStyle,
    pub(super) mark: TypeMark,
    pub(super) inodes: bool,
    pub(super) blocks: bool,
    pub(super) owners: bool,
    pub(super) groups: bool,
    pub(super) numbers: bool,
    pub(super) scale: SizeScale,
    /// The byte that ends a line.
    pub(super) end: u8,
}

impl Default for LsSettings {
    fn default() -> LsSettings {
        LsSettings {
            hidden: HiddenNames::No,
            ignore_patterns: Vec::new(),
            hide_patterns: Vec::new(),
            long: false,
            directories_as_files: false,
            recursive: false,
            order: SortOrder::Name,
            reverse: false,
            directories_first: false,
            stamp: TimeKind::Modified,
            style: TimeStyle::default(),
            mark: TypeMark::None,
            inodes: false,
            blocks: false,
            owners: true,
            groups: true,
            numbers: false,
            scale: SizeScale::Plain,
            end: b'\n',
        }
    }
}

impl LsSettings {
    /// Parses the arguments. Returns the operands too.
    ///
    /// # Errors
    /// [`CommandError::Usage`].
    pub(super) fn read(args: &[Vec<u8>]) -> Result<(LsSettings, Vec<&[u8]>), CommandError> {
        let typed = OPTIONS.read(args)?;
        let mut settings = LsSettings::default();
        let mut order = None;
        let mut style = None;
        for (letter, value) in typed.options {
            let value = value.unwrap_or_default();
            match letter {
                'f' => {
                    (settings.hidden, settings.long, settings.blocks) =
                        (HiddenNames::All, false, false)
                }
                'l' => settings.long = true,
                'n' => (settings.long, settings.numbers) = (true, true),
                'g' => (settings.long, settings.owners) = (true, false),
                'o' => (settings.long, settings.groups) = (true, false),
                'E' => (settings.long, style) = (true, Some(&b"full-iso"[..])),
                'O' => settings.long = keyword("--format", value, FORMATS)?,
                'y' => style = Some(value),
                _ => {}
            }
            match letter {
                'f' | 'U' => order = Some(SortOrder::None),
                't' => order = Some(SortOrder::Time),
                'S' => order = Some(SortOrder::Size),
                'X' => order = Some(SortOrder::Extension),
                'v' => order = Some(SortOrder::Version),
                'T' => order = Some(keyword("--sort", value, ORDERS)?),
                'c' => settings.stamp = TimeKind::Changed,
                'u' => settings.stamp = TimeKind::Accessed,
                'm' => settings.stamp = keyword("--time", value, STAMPS)?,
                'C' if parse_when("--color", value)? => {
                    let message = "--color=always is not supported: nothing here shows colours";
                    return Err(CommandError::Usage(message.into(), OPERAND_ERROR_STATUS));
                }
                'F' if parse_when("--classify", value)? => settings.mark = TypeMark::Classify,
                '/' => settings.mark = keyword("--indicator-style", value, MARKS)?,
                letter => settings.simple(letter, value),
            }
        }
        // A time that is asked for but not shown determines the order.
        let seen = settings.long || settings.stamp == TimeKind::Modified;
        settings.order = order.unwrap_or(if seen {
            SortOrder::Name
        } else {
            SortOrder::Time
        });
        if let Some(style) = style.filter(|_| settings.long) {
            settings.style = TimeStyle::from_name(style)?;
        }
        Ok((settings, typed.operands))
    }

    /// Applies an option that needs no other. -k is the default.
    fn simple(&mut self, letter: char, value: &[u8]) {
        match letter {
            'a' => self.hidden = HiddenNames::All,
            'A' => self.hidden = HiddenNames::Almost,
            'B' => self
                .ignore_patterns
                .extend([IgnorePattern::new(b"*~"), IgnorePattern::new(b".*~")]),
            'I' => self.ignore_patterns.push(IgnorePattern::new(value)),
            'Y' => self.hide_patterns.push(IgnorePattern::new(value)),
            'd' => self.directories_as_files = true,
            'R' => self.recursive = true,
            'r' => self.reverse = true,
            'D' => self.directories_first = true,
            'p' => self.mark = TypeMark::Slash,
            '*' => self.mark = TypeMark::Type,
            'i' => self.inodes = true,
            's' => self.blocks = true,
            'G' => self.groups = false,
            'h' => self.scale = SizeScale::Binary,
            'M' => self.scale = SizeScale::Decimal,
            'z' => self.end = 0,
            _ => {}
        }
    }

    /// Returns whether a directory's entry is listed.
    pub(super) fn is_listed(&self, name: &[u8]) -> bool {
        let hidden = match self.hidden {
            HiddenNames::No => {
                name.starts_with(b".")
                    || self
                        .hide_patterns
                        .iter()
                        .any(|pattern| pattern.matches(name))
            }
            HiddenNames::Almost => matches!(name, b"." | b".."),
            HiddenNames::All => false,
        };
        !hidden
            && !self
                .ignore_patterns
                .iter()
                .any(|pattern| pattern.matches(name))
    }
}

/// The values of `--format`, and whether each means a long listing.
const FORMATS: &[(&str, bool)] = &[("long", true), ("verbose", true), ("single-column", false)];

const ORDERS: &[(&str, SortOrder)] = &[
    ("none", SortOrder::None),
    ("time", SortOrder::Time),
    ("size", SortOrder::Size),
    ("extension", SortOrder::Extension),
    ("version", SortOrder::Version),
];

const STAMPS: &[(&str, TimeKind)] = &[
    ("atime", TimeKind::Accessed),
    ("access", TimeKind::Accessed),
    ("use", TimeKind::Accessed),
    ("ctime", TimeKind::Changed),
    ("status", TimeKind::Changed),
];

const MARKS: &[(&str, TypeMark)] = &[
    ("none", TypeMark::None),
    ("slash", TypeMark::Slash),
    ("file-type", TypeMark::Type),
    ("classify", TypeMark::Classify),
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
fn parse_when(option: &str, typed: &[u8]) -> Result<bool, CommandError> {
    match typed {
        b"" => Ok(true),
        typed => keyword(option, typed, WHENS),
    }
}
