//! Sets of bytes, and expressions that match one byte.

use regex_syntax::hir::{Class, ClassBytes, ClassBytesRange, Hir};

/// Makes a set of the bytes for which a predicate holds.
pub(super) fn byte_class(has: impl Fn(u8) -> bool) -> ClassBytes {
    let members = (0..=u8::MAX).filter(|byte| has(*byte));
    ClassBytes::new(members.map(|byte| ClassBytesRange::new(byte, byte)))
}

/// Makes an expression that matches one byte, or both cases of it.
pub(super) fn byte_expression(byte: u8, ignore_case: bool) -> Hir {
    if ignore_case && byte.is_ascii_alphabetic() {
        let cases = [byte.to_ascii_lowercase(), byte.to_ascii_uppercase()];
        Hir::class(Class::Bytes(byte_class(|b| cases.contains(&b))))
    } else {
        Hir::literal([byte])
    }
}

/// Makes an expression that matches a byte of a set, the newline excepted.
pub(super) fn line_class(mut set: ClassBytes) -> Hir {
    set.difference(&ClassBytes::new([ClassBytesRange::new(b'\n', b'\n')]));
    Hir::class(Class::Bytes(set))
}

/// Returns whether a byte belongs to a word.
pub(super) fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Returns whether a byte is white space in the C locale.
pub(super) fn is_space_byte(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}
