//! The dialects of POSIX expressions: those of `grep`, as its parser `dfa.c` reads them, and those of `find -regextype`,
//! as re_compile_pattern(3) does. The fields stand for the `RE_…` bits in `<regex.h>`.

/// The form of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OperatorForm {
    /// The character by itself.
    Bare,
    /// The character after a backslash.
    Escaped,
    /// No operator.
    Absent,
}

/// The meaning of a repetition with nothing before it to be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeadingRepeat {
    /// A literal character.
    Literal,
    /// As `Literal`, but an interval is an error.
    LiteralButIntervals,
    /// A repetition of nothing, or of the assertion before it.
    Applied,
    /// Nothing: the operator is passed over.
    Skipped,
    /// An error.
    Invalid,
}

/// The text that an expression is matched against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SubjectText {
    /// The lines of a file, by `grep`.
    Lines,
    /// A path, which may contain newlines.
    Path,
}

/// A dialect of POSIX expressions.
#[derive(Debug)]
pub(in super::super) struct PosixSyntax {
    pub(super) subject: SubjectText,
    pub(super) groups: OperatorForm,
    pub(super) alternation: OperatorForm,
    /// The form of `+` and `?`.
    pub(super) repeats: OperatorForm,
    pub(super) intervals: OperatorForm,
    pub(super) leading_repeat: LeadingRepeat,
    /// True if a repetition may not be repeated by `*` or an interval.
    pub(super) repeats_once: bool,
    /// True if a malformed interval is literal.
    pub(super) literal_intervals: bool,
    /// True if an unmatched `)` is literal.
    pub(super) literal_close: bool,
    /// True if `^` and `$` are anchors everywhere.
    pub(super) anchors_anywhere: bool,
    pub(super) gnu_escapes: bool,
    pub(super) back_references: bool,
    /// True if `[:alpha:]` is a class.
    pub(super) classes: bool,
    /// True if `[z-a]` is an empty set.
    pub(super) empty_ranges: bool,
    /// True if a backslash escapes in bracket expressions.
    pub(super) bracket_escapes: bool,
    /// True if `.` matches a newline.
    pub(super) dot_newline: bool,
    /// True if a newline in the pattern is an alternation.
    pub(super) newline_alternates: bool,
}

const EMACS: PosixSyntax = PosixSyntax {
    subject: SubjectText::Path,
    groups: OperatorForm::Escaped,
    alternation: OperatorForm::Escaped,
    repeats: OperatorForm::Bare,
    intervals: OperatorForm::Absent,
    leading_repeat: LeadingRepeat::Literal,
    repeats_once: false,
    literal_intervals: false,
    literal_close: false,
    anchors_anywhere: false,
    gnu_escapes: true,
    back_references: true,
    classes: false,
    empty_ranges: true,
    bracket_escapes: false,
    dot_newline: false,
    newline_alternates: false,
};

const FINDUTILS: PosixSyntax = PosixSyntax {
    dot_newline: true,
    ..EMACS
};

const POSIX_BASIC: PosixSyntax = PosixSyntax {
    repeats: OperatorForm::Escaped,
    intervals: OperatorForm::Escaped,
    leading_repeat: LeadingRepeat::LiteralButIntervals,
    repeats_once: true,
    classes: true,
    empty_ranges: false,
    dot_newline: true,
    ..EMACS
};

const POSIX_MINIMAL_BASIC: PosixSyntax = PosixSyntax {
    alternation: OperatorForm::Absent,
    repeats: OperatorForm::Absent,
    leading_repeat: LeadingRepeat::Literal,
    repeats_once: false,
    ..POSIX_BASIC
};

const GREP: PosixSyntax = PosixSyntax {
    leading_repeat: LeadingRepeat::Literal,
    repeats_once: false,
    newline_alternates: true,
    ..POSIX_BASIC
};

const POSIX_EXTENDED: PosixSyntax = PosixSyntax {
    groups: OperatorForm::Bare,
    alternation: OperatorForm::Bare,
    repeats: OperatorForm::Bare,
    intervals: OperatorForm::Bare,
    leading_repeat: LeadingRepeat::Invalid,
    repeats_once: false,
    literal_close: true,
    anchors_anywhere: true,
    ..POSIX_BASIC
};

const EGREP: PosixSyntax = PosixSyntax {
    leading_repeat: LeadingRepeat::Skipped,
    literal_intervals: true,
    newline_alternates: true,
    ..POSIX_EXTENDED
};

const GNU_AWK: PosixSyntax = PosixSyntax {
    leading_repeat: LeadingRepeat::Literal,
    literal_intervals: true,
    bracket_escapes: true,
    ..POSIX_EXTENDED
};

const POSIX_AWK: PosixSyntax = PosixSyntax {
    literal_intervals: true,
    bracket_escapes: true,
    gnu_escapes: false,
    ..POSIX_EXTENDED
};

const AWK: PosixSyntax = PosixSyntax {
    intervals: OperatorForm::Absent,
    leading_repeat: LeadingRepeat::Literal,
    bracket_escapes: true,
    gnu_escapes: false,
    back_references: false,
    ..POSIX_EXTENDED
};

/// The dialect of `grep -G`.
pub(super) const GREP_LINES: PosixSyntax = PosixSyntax {
    subject: SubjectText::Lines,
    newline_alternates: false,
    ..GREP
};

/// The dialect of `grep -E`.
pub(super) const EGREP_LINES: PosixSyntax = PosixSyntax {
    subject: SubjectText::Lines,
    leading_repeat: LeadingRepeat::Applied,
    newline_alternates: false,
    ..EGREP
};

/// The dialects of `find -regextype`, by name, in GNU's order.
const NAMED: &[(&str, &PosixSyntax)] = &[
    ("findutils-default", &FINDUTILS),
    ("ed", &POSIX_BASIC),
    ("emacs", &EMACS),
    ("gnu-awk", &GNU_AWK),
    ("grep", &GREP),
    ("posix-awk", &POSIX_AWK),
    ("awk", &AWK),
    ("posix-basic", &POSIX_BASIC),
    ("posix-egrep", &EGREP),
    ("egrep", &EGREP),
    ("posix-extended", &POSIX_EXTENDED),
    ("posix-minimal-basic", &POSIX_MINIMAL_BASIC),
    ("sed", &POSIX_BASIC),
];

impl PosixSyntax {
    /// The dialect of `find` without `-regextype`.
    pub(in super::super) const FIND_DEFAULT: &'static PosixSyntax = &FINDUTILS;

    /// Returns the dialect with a name of `find -regextype`.
    pub(in super::super) fn named(name: &[u8]) -> Option<&'static PosixSyntax> {
        let found = NAMED.iter().find(|(known, _)| known.as_bytes() == name);
        found.map(|(_, syntax)| *syntax)
    }

    /// Returns the names of the dialects of `find -regextype`.
    pub(in super::super) fn names() -> impl Iterator<Item = &'static str> {
        NAMED.iter().map(|(name, _)| *name)
    }
}
