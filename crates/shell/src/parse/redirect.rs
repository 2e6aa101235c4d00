//! Redirects, and the texts of here-documents, which follow the line with the redirect (bash(1), REDIRECTION).

use super::parser::{LineParser, PendingHereDoc};
use crate::lex::SyntaxRefusal;
use crate::syntax::{CommandList, Redirect, RedirectTarget, StageBody, Word, WordAtom};

impl LineParser<'_> {
    /// Parses a redirect, if one is next.
    pub(super) fn parse_redirect(
        &mut self,
        redirects: &mut Vec<Redirect>,
    ) -> Result<bool, SyntaxRefusal> {
        let rest = self.lexer.rest();
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let number = match rest.get(digits) {
            Some(b'<' | b'>') => rest.get(..digits).unwrap_or_default(),
            Some(b'&') if digits == 0 && rest.get(1) == Some(&b'>') => {
                return self.redirect_both(redirects).map(|()| true);
            }
            _ => return Ok(false),
        };
        let number = number.to_vec();
        self.lexer.skip(digits);
        let reads = self.lexer.rest().starts_with(b"<");
        let stream = self.redirected_stream(&number, reads);
        let target = match self.lexer.rest() {
            [b'<', b'(', ..] | [b'>', b'(', ..] => {
                self.note_unsupported("<( ) and >( ): process substitution is");
                self.lexer.skip(1);
                self.skip_extent(b')')?;
                return Ok(true);
            }
            [b'<', b'>', ..] => {
                self.note_unsupported("<>: opening for both is");
                self.lexer.skip(2);
                RedirectTarget::Read(self.parse_redirect_word()?)
            }
            [b'<', b'<', b'<', ..] => {
                self.lexer.skip(3);
                let mut text = self.parse_redirect_word()?;
                text.0.push(WordAtom::Plain(b'\n'));
                RedirectTarget::Here(text)
            }
            [b'<', b'<', ..] => {
                self.lexer.skip(2);
                self.begin_here_document()?
            }
            [b'<', b'&', ..] | [b'>', b'&', ..] => {
                self.lexer.skip(2);
                match self.duplicate_target(reads, number.is_empty())? {
                    Ok(stream) => RedirectTarget::Same(stream),
                    Err(word) => {
                        push_both(redirects, RedirectTarget::Write(word));
                        return Ok(true);
                    }
                }
            }
            [b'<', ..] => {
                self.lexer.skip(1);
                RedirectTarget::Read(self.parse_redirect_word()?)
            }
            [_, b'>', ..] => {
                self.lexer.skip(2);
                RedirectTarget::Append(self.parse_redirect_word()?)
            }
            rest => {
                // `>|` overrides `set -C`, which does not exist here.
                self.lexer
                    .skip(if rest.get(1) == Some(&b'|') { 2 } else { 1 });
                RedirectTarget::Write(self.parse_redirect_word()?)
            }
        };
        redirects.push(Redirect { stream, target });
        Ok(true)
    }

    /// Returns the redirected stream, given the number before the operator.
    fn redirected_stream(&mut self, number: &[u8], reads: bool) -> u8 {
        match (number, reads) {
            (b"", true) | (b"0", _) => 0,
            (b"", false) | (b"1", _) => 1,
            (b"2", _) => 2,
            _ => {
                let shown = String::from_utf8_lossy(number);
                self.note_unsupported(format!("{shown}: streams other than 0, 1 and 2 are"));
                1
            }
        }
    }

    /// Parses the rest after `<&` or `>&`: the stream to duplicate, or the file of `>&file`, which means `&>file`.
    fn duplicate_target(
        &mut self,
        reads: bool,
        no_number: bool,
    ) -> Result<Result<u8, Word>, SyntaxRefusal> {
        let word = self.parse_redirect_word()?;
        let plain = word.plain();
        let is_file = |text: &[u8]| text != b"-" && !text.iter().all(u8::is_ascii_digit);
        match (plain.as_deref(), reads) {
            (Some(b"1"), false) => Ok(Ok(1)),
            (Some(b"2"), false) => Ok(Ok(2)),
            (plain, false) if no_number && plain.is_none_or(is_file) => Ok(Err(word)),
            _ => {
                self.note_unsupported("closing streams, and copying others than 1 and 2, is");
                Ok(Ok(1))
            }
        }
    }

    /// Parses `&> word` or `&>> word`.
    fn redirect_both(&mut self, redirects: &mut Vec<Redirect>) -> Result<(), SyntaxRefusal> {
        self.lexer.skip(2);
        let appends = self.lexer.eat(b">");
        let word = self.parse_redirect_word()?;
        let target = if appends {
            RedirectTarget::Append(word)
        } else {
            RedirectTarget::Write(word)
        };
        push_both(redirects, target);
        Ok(())
    }

    fn parse_redirect_word(&mut self) -> Result<Word, SyntaxRefusal> {
        self.lexer.skip_blanks();
        let word = self.parse_word()?;
        if word.0.is_empty() {
            return Err(self.unexpected());
        }
        Ok(word)
    }

    /// Parses the operator of a here-document, whose text follows the line.
    fn begin_here_document(&mut self) -> Result<RedirectTarget, SyntaxRefusal> {
        let tabs_stripped = self.lexer.eat(b"-");
        let word = self.parse_redirect_word()?;
        let mut end = Vec::new();
        let mut quoted = false;
        for atom in &word.0 {
            match atom {
                WordAtom::Plain(byte) => end.push(*byte),
                WordAtom::Quoted(byte) => {
                    quoted = true;
                    end.push(*byte);
                }
                WordAtom::Nothing => quoted = true,
                WordAtom::Variable(..) | WordAtom::Bare(_) | WordAtom::Command(..) => {
                    return Err(SyntaxRefusal::unsupported(
                        "<<: expansion in the mark of a here-document is",
                    ));
                }
            }
        }
        self.pending_here_docs.push(PendingHereDoc {
            end,
            tabs_stripped,
            quoted,
        });
        Ok(RedirectTarget::Here(Word::default()))
    }

    pub(super) fn read_here_documents(&mut self) -> Result<(), SyntaxRefusal> {
        for awaited in std::mem::take(&mut self.pending_here_docs) {
            let mut text = Vec::new();
            // Without its end, the text extends to the end of the input, as in bash.
            let mut ended = false;
            while let Some(mut line) = self.lexer.take_line() {
                if awaited.tabs_stripped {
                    let start = line.iter().take_while(|b| **b == b'\t').count();
                    line = line.get(start..).unwrap_or_default();
                }
                let mut whole = line.to_vec();
                // A continued line is joined with the next before the end is looked for (`2.7.4 Here-Document`).
                while !awaited.quoted && is_continued(&whole) {
                    let Some(next) = self.lexer.take_line() else {
                        break;
                    };
                    whole.pop();
                    whole.extend_from_slice(next);
                }
                if whole == awaited.end {
                    ended = true;
                    break;
                }
                text.append(&mut whole);
                text.push(b'\n');
            }
            self.lacks_here_doc_end |= !ended;
            let text = if awaited.quoted {
                Word(text.into_iter().map(WordAtom::Quoted).collect())
            } else {
                // An error in an incomplete text may be resolved by the rest of it.
                self.parse_here_text(&text)
                    .map_err(|refusal| SyntaxRefusal {
                        may_continue: !ended,
                        ..refusal
                    })?
            };
            self.here_texts.push(text);
        }
        Ok(())
    }
}

/// Returns whether a line ends in an unquoted backslash.
fn is_continued(line: &[u8]) -> bool {
    line.iter().rev().take_while(|b| **b == b'\\').count() % 2 == 1
}

fn push_both(redirects: &mut Vec<Redirect>, target: RedirectTarget) {
    redirects.push(Redirect { stream: 1, target });
    let target = RedirectTarget::Same(1);
    redirects.push(Redirect { stream: 2, target });
}

/// Fills in the here-documents of a list in order.
pub(super) fn fill_list(list: &mut CommandList, texts: &mut impl Iterator<Item = Word>) {
    for and_or in list {
        let rest = and_or.rest.iter_mut().map(|(_, pipeline)| pipeline);
        for pipeline in std::iter::once(&mut and_or.first).chain(rest) {
            for stage in &mut pipeline.stages {
                match &mut stage.body {
                    StageBody::Subshell(list) | StageBody::Group(list) => fill_list(list, texts),
                    StageBody::Simple { .. } => {}
                }
                for redirect in &mut stage.redirects {
                    if let RedirectTarget::Here(text) = &mut redirect.target
                        && text.0.is_empty()
                        && let Some(filled) = texts.next()
                    {
                        *text = filled;
                    }
                }
            }
        }
    }
}
