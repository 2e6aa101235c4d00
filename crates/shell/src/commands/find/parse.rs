//! Parses the expression: GNU's operators and precedence, by recursive descent. All of it is parsed before anything
//! runs.

use std::time::{SystemTime, UNIX_EPOCH};

use super::exec::Template;
use super::predicate::{Reader, Settings, Test};
use crate::call::{Call, Stop, usage};

/// How deep parentheses may be nested: each level is a stack frame.
const NESTED: usize = 200;

/// An expression ready to be evaluated.
#[derive(Debug)]
pub(super) enum Expr {
    Test(Test),
    Not(Box<Expr>),
    /// All of them, up to the first that is false.
    And(Vec<Expr>),
    /// Any of them, up to the first that is true.
    Or(Vec<Expr>),
    /// All of them; the value is that of the last.
    List(Vec<Expr>),
}

/// What a call of `find` does: its expression and the limits of its walk.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) expression: Expr,
    /// The depth from which on directories are not entered (`-maxdepth`).
    pub(super) deepest: usize,
    /// The depth below which entries are not evaluated (`-mindepth`).
    pub(super) least: usize,
    pub(super) contents_first: bool,
    /// The commands that are run with many paths at once (`-exec … +`).
    pub(super) gathered: Vec<Template>,
}

/// A word of an expression, or several words that belong together.
enum Token<'a> {
    Open,
    Close,
    /// As it was typed.
    Not(&'a [u8]),
    And(&'a [u8]),
    Or(&'a [u8]),
    Comma(&'a [u8]),
    Test(Test),
}

impl Token<'_> {
    /// Returns the text of a binary operator.
    fn binary(&self) -> Option<&[u8]> {
        match self {
            Token::And(typed) | Token::Or(typed) | Token::Comma(typed) => Some(typed),
            _ => None,
        }
    }
}

impl Plan {
    /// Parses an expression.
    ///
    /// # Errors
    /// A malformed expression, in GNU's words.
    pub(super) fn read(words: &[Vec<u8>], call: &Call<'_>) -> Result<Plan, Stop> {
        let (tokens, settings) = tokens(words, call)?;
        let acts = |token: &Token<'_>| matches!(token, Token::Test(test) if test.acts());
        let silent = tokens.iter().any(acts);
        let mut expression = Expr::Test(Test::Constant(true));
        if !tokens.is_empty() {
            let mut parser = Parser {
                tokens: tokens.into_iter().peekable(),
                before: Before::Start,
                nested: 0,
            };
            expression = parser.list()?;
            if parser.tokens.peek().is_some() {
                return Err(usage("you have too many ')'"));
            }
        }
        if !silent {
            let print = Expr::Test(Test::Print(b'\n'));
            expression = Expr::And(vec![expression, print]);
        }
        Ok(Plan {
            expression,
            deepest: settings.deepest.unwrap_or(usize::MAX),
            least: settings.least,
            contents_first: settings.contents_first,
            gathered: settings.gathered,
        })
    }
}

fn tokens<'a>(words: &'a [Vec<u8>], call: &Call<'_>) -> Result<(Vec<Token<'a>>, Settings), Stop> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_nanos());
    let mut reader = Reader {
        call,
        settings: Settings::default(),
        now: i128::try_from(now).unwrap_or_default(),
    };
    let (mut tokens, mut rest) = (Vec::new(), words);
    while let Some((word, after)) = rest.split_first() {
        rest = after;
        let typed = word.as_slice();
        tokens.push(match typed {
            b"(" => Token::Open,
            b")" => Token::Close,
            b"!" | b"-not" => Token::Not(typed),
            b"-a" | b"-and" => Token::And(typed),
            b"-o" | b"-or" => Token::Or(typed),
            b"," => Token::Comma(typed),
            [b'-', _, ..] => Token::Test(reader.read(typed, &mut rest)?),
            _ => {
                let message = [b"paths must precede expression: `", typed, b"'"];
                return Err(usage(message.concat()));
            }
        });
    }
    Ok((tokens, reader.settings))
}

/// The token before the place where an expression is expected.
#[derive(Clone, Copy)]
enum Before<'a> {
    Start,
    Open,
    Operator(&'a [u8]),
}

struct Parser<'a, T: Iterator<Item = Token<'a>>> {
    tokens: std::iter::Peekable<T>,
    before: Before<'a>,
    nested: usize,
}

impl<'a, T: Iterator<Item = Token<'a>>> Parser<'a, T> {
    fn list(&mut self) -> Result<Expr, Stop> {
        let mut all = vec![self.or()?];
        while let Some(Token::Comma(typed)) = self
            .tokens
            .next_if(|token| matches!(token, Token::Comma(_)))
        {
            self.before = Before::Operator(typed);
            all.push(self.or()?);
        }
        Ok(single(all, Expr::List))
    }

    fn or(&mut self) -> Result<Expr, Stop> {
        let mut all = vec![self.and()?];
        while let Some(Token::Or(typed)) =
            self.tokens.next_if(|token| matches!(token, Token::Or(_)))
        {
            self.before = Before::Operator(typed);
            all.push(self.and()?);
        }
        Ok(single(all, Expr::Or))
    }

    fn and(&mut self) -> Result<Expr, Stop> {
        let mut all = vec![self.unary()?];
        loop {
            match self.tokens.peek() {
                Some(Token::And(typed)) => {
                    self.before = Before::Operator(typed);
                    self.tokens.next();
                }
                Some(Token::Open | Token::Not(_) | Token::Test(_)) => {}
                _ => return Ok(single(all, Expr::And)),
            }
            all.push(self.unary()?);
        }
    }

    fn unary(&mut self) -> Result<Expr, Stop> {
        let mut not = false;
        while let Some(Token::Not(typed)) =
            self.tokens.next_if(|token| matches!(token, Token::Not(_)))
        {
            not = !not;
            self.before = Before::Operator(typed);
        }
        let expression = match self.tokens.next() {
            Some(Token::Test(test)) => Expr::Test(test),
            Some(Token::Open) => self.parentheses()?,
            token => return Err(self.expected(token)),
        };
        Ok(if not {
            Expr::Not(Box::new(expression))
        } else {
            expression
        })
    }

    fn parentheses(&mut self) -> Result<Expr, Stop> {
        self.nested += 1;
        if self.nested > NESTED {
            return Err(usage("parentheses are nested too deep"));
        }
        self.before = Before::Open;
        let expression = self.list()?;
        self.nested -= 1;
        match self.tokens.next() {
            Some(Token::Close) => Ok(expression),
            _ => Err(usage(
                "invalid expression; I was expecting to find a ')' somewhere but did not see one.",
            )),
        }
    }

    /// Returns the error for a place where an expression should begin.
    fn expected(&self, token: Option<Token<'_>>) -> Stop {
        let operator = token.as_ref().and_then(Token::binary);
        let message: Vec<u8> = match (self.before, &token, operator) {
            (_, _, Some(typed)) => [
                b"invalid expression; you have used a binary operator '",
                typed,
                b"' with nothing before it.",
            ]
            .concat(),
            (Before::Operator(typed), None, _) => {
                [b"expected an expression after '", typed, b"'"].concat()
            }
            (Before::Operator(typed), Some(_), _) => {
                [b"expected an expression between '", typed, b"' and ')'"].concat()
            }
            (Before::Open, None, _) => {
                b"invalid expression; expected to find a ')' but didn't see one. \
                Perhaps you need an extra predicate after '('"
                    .to_vec()
            }
            (Before::Open, Some(_), _) => {
                b"invalid expression; empty parentheses are not allowed.".to_vec()
            }
            (Before::Start, ..) => b"you have too many ')'".to_vec(),
        };
        usage(message)
    }
}

/// Leaves out a list that holds a single expression.
fn single(mut all: Vec<Expr>, several: fn(Vec<Expr>) -> Expr) -> Expr {
    match (all.pop(), all.is_empty()) {
        (Some(only), true) => only,
        (last, _) => {
            all.extend(last);
            several(all)
        }
    }
}
