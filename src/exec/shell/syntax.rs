//! What a line says, once it is parsed: lists of pipelines of commands, made of words. Data only.

/// Pipelines one after the other.
pub(super) type List = Vec<AndOr>;

/// Pipelines joined by `&&` and `||`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AndOr {
    pub(super) first: Pipeline,
    pub(super) rest: Vec<(Join, Pipeline)>,
}

/// Whether what follows runs after success or after failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Join {
    And,
    Or,
}

/// Stages, each of which reads what the one before writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pipeline {
    pub(super) negated: bool,
    pub(super) stages: Vec<Stage>,
}

/// One stage, and where its streams go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stage {
    pub(super) what: What,
    pub(super) redirects: Vec<Redirect>,
}

/// What a stage does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    /// `a=b command word …`
    Simple {
        assignments: Vec<(Vec<u8>, Word)>,
        words: Vec<Word>,
    },
    /// `( list )`: what it changes in the shell is gone afterwards.
    Subshell(List),
    /// `{ list; }`
    Group(List),
}

/// Where one of the three streams goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Redirect {
    /// 0, 1 or 2.
    pub(super) stream: u8,
    pub(super) to: Target,
}

/// The other end of a redirect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// `< word`
    Read(Word),
    /// `> word`
    Write(Word),
    /// `>> word`
    Append(Word),
    /// `>&1`, `>&2`: where that stream goes now.
    Same(u8),
    /// The text of a here-document or here-string.
    Here(Word),
}

/// A word as typed, before expansion.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Word(pub(super) Vec<Atom>);

/// A part of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Atom {
    /// A byte that may mean something: a glob, a brace, a tilde.
    Plain(u8),
    /// A byte that stands for itself.
    Quoted(u8),
    /// Quotes with nothing between them: they make a word, if an empty one.
    Nothing,
    /// `$name`, quoted or not. The name may be `?`.
    Variable(Box<[u8]>, bool),
    /// `$(list)`, quoted or not.
    Command(Box<List>, bool),
}

impl Word {
    /// Returns the word's text, if no byte of it is quoted and nothing in it is to be expanded.
    pub(super) fn plain(&self) -> Option<Vec<u8>> {
        let plain = |atom: &Atom| match atom {
            Atom::Plain(byte) => Some(*byte),
            _ => None,
        };
        self.0.iter().map(plain).collect()
    }
}
