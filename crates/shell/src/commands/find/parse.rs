//! Parses the expression: GNU's operators and precedence, by recursive descent. All of it is parsed before anything
//! runs.

use std::time::{SystemTime, UNIX_EPOCH};

use super::exec::CommandTemplate;
use super::predicate::{FindTest, PredicateReader, WalkSettings};
use crate::call::{Call, CommandError, usage_error};
use crate::commands::expression::PosixSyntax;

/// The maximum nesting of parentheses: each level is a stack frame.
const MAX_NESTING: usize = 200;

/// An expression ready to be evaluated.
#[derive(Debug)]
pub(super) enum FindExpr {
    Test(FindTest),
    Not(Box<FindExpr>),
    /// A conjunction: evaluated up to the first operand that is false.
    And(Vec<FindExpr>),
    /// A disjunction: evaluated up to the first operand that is true.
    Or(Vec<FindExpr>),
    /// A list: every operand is evaluated, and the last one gives the value.
    List(Vec<FindExpr>),
}

/// The plan of a call of `find`: its expression and the limits of its walk.
#[derive(Debug)]
pub(super) struct FindPlan {
    pub(super) expression: FindExpr,
    /// The depth from which on directories are not entered (`-maxdepth`).
    pub(super) max_depth: usize,
    /// The depth below which entries are not evaluated (`-mindepth`).
    pub(super) min_depth: usize,
    pub(super) contents_first: bool,
    /// The commands that are run with many paths at once (`-exec … +`).
    pub(super) batch_commands: Vec<CommandTemplate>,
}

/// A word of an expression, or several words that belong together.
enum FindToken<'a> {
    Open,
    Close,
    /// A negation, as typed.
    Not(&'a [u8]),
    And(&'a [u8]),
    Or(&'a [u8]),
    Comma(&'a [u8]),
    Test(FindTest),
}

impl FindToken<'_> {
    /// Returns the text of a binary operator.
    fn operator_text(&self) -> Option<&[u8]> {
        match self {
            FindToken::And(typed) | FindToken::Or(typed) | FindToken::Comma(typed) => Some(typed),
            _ => None,
        }
    }
}

impl FindPlan {
    /// Parses an expression.
    ///
    /// # Errors
    /// A malformed expression, in GNU's words.
    pub(super) fn read(words: &[Vec<u8>], call: &Call<'_>) -> Result<FindPlan, CommandError> {
        let (tokens, settings) = tokenize(words, call)?;
        let acts =
            |token: &FindToken<'_>| matches!(token, FindToken::Test(test) if test.is_action());
        let silent = tokens.iter().any(acts);
        let mut expression = FindExpr::Test(FindTest::Constant(true));
        if !tokens.is_empty() {
            let mut parser = FindParser {
                tokens: tokens.into_iter().peekable(),
                before: PrecedingToken::Start,
                nested: 0,
            };
            expression = parser.parse_list()?;
            if parser.tokens.peek().is_some() {
                return Err(usage_error("you have too many ')'"));
            }
        }
        if !silent {
            let print = FindExpr::Test(FindTest::Print(b'\n'));
            expression = FindExpr::And(vec![expression, print]);
        }
        Ok(FindPlan {
            expression,
            max_depth: settings.max_depth.unwrap_or(usize::MAX),
            min_depth: settings.min_depth,
            contents_first: settings.contents_first,
            batch_commands: settings.batch_commands,
        })
    }
}

fn tokenize<'a>(
    words: &'a [Vec<u8>],
    call: &Call<'_>,
) -> Result<(Vec<FindToken<'a>>, WalkSettings), CommandError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_nanos());
    let mut reader = PredicateReader {
        call,
        settings: WalkSettings::default(),
        syntax: PosixSyntax::FIND_DEFAULT,
        now: i128::try_from(now).unwrap_or_default(),
    };
    let (mut tokens, mut rest) = (Vec::new(), words);
    while let Some((word, after)) = rest.split_first() {
        rest = after;
        let typed = word.as_slice();
        tokens.push(match typed {
            b"(" => FindToken::Open,
            b")" => FindToken::Close,
            b"!" | b"-not" => FindToken::Not(typed),
            b"-a" | b"-and" => FindToken::And(typed),
            b"-o" | b"-or" => FindToken::Or(typed),
            b"," => FindToken::Comma(typed),
            [b'-', _, ..] => FindToken::Test(reader.read(typed, &mut rest)?),
            _ => {
                let message = [b"paths must precede expression: `", typed, b"'"];
                return Err(usage_error(message.concat()));
            }
        });
    }
    Ok((tokens, reader.settings))
}

/// The token before the position at which an expression is expected.
#[derive(Clone, Copy)]
enum PrecedingToken<'a> {
    Start,
    Open,
    Operator(&'a [u8]),
}

struct FindParser<'a, T: Iterator<Item = FindToken<'a>>> {
    tokens: std::iter::Peekable<T>,
    before: PrecedingToken<'a>,
    nested: usize,
}

impl<'a, T: Iterator<Item = FindToken<'a>>> FindParser<'a, T> {
    fn parse_list(&mut self) -> Result<FindExpr, CommandError> {
        let mut all = vec![self.parse_or()?];
        while let Some(FindToken::Comma(typed)) = self
            .tokens
            .next_if(|token| matches!(token, FindToken::Comma(_)))
        {
            self.before = PrecedingToken::Operator(typed);
            all.push(self.parse_or()?);
        }
        Ok(unwrap_single(all, FindExpr::List))
    }

    fn parse_or(&mut self) -> Result<FindExpr, CommandError> {
        let mut all = vec![self.parse_and()?];
        while let Some(FindToken::Or(typed)) = self
            .tokens
            .next_if(|token| matches!(token, FindToken::Or(_)))
        {
            self.before = PrecedingToken::Operator(typed);
            all.push(self.parse_and()?);
        }
        Ok(unwrap_single(all, FindExpr::Or))
    }

    fn parse_and(&mut self) -> Result<FindExpr, CommandError> {
        let mut all = vec![self.parse_unary()?];
        loop {
            match self.tokens.peek() {
                Some(FindToken::And(typed)) => {
                    self.before = PrecedingToken::Operator(typed);
                    self.tokens.next();
                }
                Some(FindToken::Open | FindToken::Not(_) | FindToken::Test(_)) => {}
                _ => return Ok(unwrap_single(all, FindExpr::And)),
            }
            all.push(self.parse_unary()?);
        }
    }

    fn parse_unary(&mut self) -> Result<FindExpr, CommandError> {
        let mut not = false;
        while let Some(FindToken::Not(typed)) = self
            .tokens
            .next_if(|token| matches!(token, FindToken::Not(_)))
        {
            not = !not;
            self.before = PrecedingToken::Operator(typed);
        }
        let expression = match self.tokens.next() {
            Some(FindToken::Test(test)) => FindExpr::Test(test),
            Some(FindToken::Open) => self.parse_parentheses()?,
            token => return Err(self.missing_expression(token)),
        };
        Ok(if not {
            FindExpr::Not(Box::new(expression))
        } else {
            expression
        })
    }

    fn parse_parentheses(&mut self) -> Result<FindExpr, CommandError> {
        self.nested += 1;
        if self.nested > MAX_NESTING {
            return Err(usage_error("parentheses are nested too deep"));
        }
        self.before = PrecedingToken::Open;
        let expression = self.parse_list()?;
        self.nested -= 1;
        match self.tokens.next() {
            Some(FindToken::Close) => Ok(expression),
            _ => Err(usage_error(
                "invalid expression; I was expecting to find a ')' somewhere but did not see one.",
            )),
        }
    }

    /// Returns the error for a position at which an expression should begin.
    fn missing_expression(&self, token: Option<FindToken<'_>>) -> CommandError {
        let operator = token.as_ref().and_then(FindToken::operator_text);
        let message: Vec<u8> = match (self.before, &token, operator) {
            (_, _, Some(typed)) => [
                b"invalid expression; you have used a binary operator '",
                typed,
                b"' with nothing before it.",
            ]
            .concat(),
            (PrecedingToken::Operator(typed), None, _) => {
                [b"expected an expression after '", typed, b"'"].concat()
            }
            (PrecedingToken::Operator(typed), Some(_), _) => {
                [b"expected an expression between '", typed, b"' and ')'"].concat()
            }
            (PrecedingToken::Open, None, _) => {
                b"invalid expression; expected to find a ')' but didn't see one. \
                Perhaps you need an extra predicate after '('"
                    .to_vec()
            }
            (PrecedingToken::Open, Some(_), _) => {
                b"invalid expression; empty parentheses are not allowed.".to_vec()
            }
            (PrecedingToken::Start, ..) => b"you have too many ')'".to_vec(),
        };
        usage_error(message)
    }
}

/// Leaves out a list that holds a single expression.
fn unwrap_single(mut all: Vec<FindExpr>, several: fn(Vec<FindExpr>) -> FindExpr) -> FindExpr {
    match (all.pop(), all.is_empty()) {
        (Some(only), true) => only,
        (last, _) => {
            all.extend(last);
            several(all)
        }
    }
}
