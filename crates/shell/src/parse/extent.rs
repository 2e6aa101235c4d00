//! Finds the end of unsupported syntax: the matching delimiter, skipping quotes and nested delimiters.

use super::parser::LineParser;
use crate::lex::SyntaxRefusal;

impl LineParser<'_> {
    /// Skips an opening delimiter and everything up to its partner.
    ///
    /// # Errors
    /// A missing partner.
    pub(crate) fn skip_extent(&mut self, close: u8) -> Result<(), SyntaxRefusal> {
        self.lexer.skip(1);
        // The delimiters expected, innermost last. A quote among them determines how its content is read.
        let mut awaited = vec![close];
        while let Some(closing) = awaited.last().copied() {
            let Some(byte) = self.lexer.take() else {
                return Err(SyntaxRefusal::unclosed(
                    awaited.first().copied().unwrap_or(close),
                ));
            };
            let next = self.lexer.peek();
            match (byte, closing) {
                (byte, closing) if byte == closing => {
                    awaited.pop();
                }
                (_, b'\'') => {}
                (b'\\', _) => self.lexer.skip(1),
                (_, b'`') => {}
                (b'$', _) if matches!(next, Some(b'(' | b'{')) => {
                    self.lexer.skip(1);
                    awaited.push(if next == Some(b'(') { b')' } else { b'}' });
                }
                (b'`' | b'"', _) => awaited.push(byte),
                (_, b'"') => {}
                (b'\'', _) => awaited.push(b'\''),
                (b'(', b')') => awaited.push(b')'),
                (b'[', b']') => awaited.push(b']'),
                _ => {}
            }
        }
        Ok(())
    }
}
