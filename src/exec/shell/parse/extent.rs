//! Finds where something ends that is not supported: its partner, with quotes and what is nested in it passed over.

use super::parser::Parser;
use crate::exec::shell::lex::Refusal;

impl Parser<'_> {
    /// Goes over a mark that opens something, and all up to the one that closes it.
    ///
    /// # Errors
    /// Where that does not come.
    pub(in crate::exec::shell) fn extent(&mut self, close: u8) -> Result<(), Refusal> {
        self.lexer.skip(1);
        // What has to come, the innermost last. A quote among it says how what is inside is read.
        let mut awaited = vec![close];
        while let Some(closing) = awaited.last().copied() {
            let Some(byte) = self.lexer.take() else {
                return Err(Refusal::unclosed(awaited.first().copied().unwrap_or(close)));
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
