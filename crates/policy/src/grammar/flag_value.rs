//! The values of flags, and the readings of words: what a grammar and a policy alike say.

/// The reading of a word that is not a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum WordReading {
    /// May name a file: it has to stay in the home.
    Path,
    /// Names no file, whatever it looks like.
    Text,
    /// May not be there.
    Refused,
}

/// The value that a flag takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum FlagValue {
    /// The policy does not say: the validator's knowledge holds, else nothing but a value behind `=`.
    Unstated,
    /// No value at all.
    Nothing,
    /// A value behind `=`, and only there, or none.
    Attached(WordReading),
    /// A value: behind `=`, or the next word.
    Value(WordReading),
    /// A value out of this list.
    OneOf(Vec<String>),
}
