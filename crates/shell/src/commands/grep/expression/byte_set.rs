//! Sets of bytes, and error messages for expressions.

use regex_syntax::hir::{ClassBytes, ClassBytesRange};

/// An error message for an expression.
pub(in super::super) type PatternError = &'static str;

pub(super) fn byte_class(has: impl Fn(u8) -> bool) -> ClassBytes {
    let members = (0..=u8::MAX).filter(|byte| has(*byte));
    ClassBytes::new(members.map(|byte| ClassBytesRange::new(byte, byte)))
}
