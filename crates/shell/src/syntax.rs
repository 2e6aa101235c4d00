//! The syntax tree of a line: lists of pipelines of commands, made of words. Data only.

/// Pipelines run one after the other.
pub(super) type CommandList = Vec<AndOr>;

/// Pipelines joined by `&&` and `||`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AndOr {
    pub(super) first: Pipeline,
    pub(super) rest: Vec<(AndOrOperator, Pipeline)>,
}

/// The operator before the next pipeline, which runs after success or after failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AndOrOperator {
    And,
    Or,
}

/// Stages, each of which reads the output of the one before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pipeline {
    pub(super) negated: bool,
    pub(super) stages: Vec<Stage>,
}

/// A stage and its redirects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stage {
    pub(super) body: StageBody,
    pub(super) redirects: Vec<Redirect>,
}

/// The command or group of a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StageBody {
    /// `a=b command word …`
    Simple {
        assignments: Vec<(Vec<u8>, Word)>,
        words: Vec<Word>,
    },
    /// `( list )`: its changes of the shell's state do not last.
    Subshell(CommandList),
    /// `{ list; }`
    Group(CommandList),
}

/// A redirect of one of the three streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Redirect {
    /// 0, 1 or 2.
    pub(super) stream: u8,
    pub(super) target: RedirectTarget,
}

/// The target of a redirect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RedirectTarget {
    /// `< word`
    Read(Word),
    /// `> word`
    Write(Word),
    /// `>> word`
    Append(Word),
    /// `>&1`, `>&2`: a duplicate of that stream.
    Same(u8),
    /// The text of a here-document or here-string.
    Here(Word),
}

/// A word as typed, before expansion.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Word(pub(super) Vec<WordAtom>);

/// A part of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WordAtom {
    /// A byte that may be special: part of a glob, a brace or a tilde.
    Plain(u8),
    /// A literal byte.
    Quoted(u8),
    /// Empty quotes, which make a word even if it is empty.
    Nothing,
    /// `"$name"` or `${name}`, quoted or not. The name may be `?`.
    Variable(Box<[u8]>, bool),
    /// `$name` with neither quotes nor braces around it: the expansion of braces may lengthen the name.
    Bare(Box<[u8]>),
    /// `$(list)`, quoted or not.
    Command(Box<CommandList>, bool),
}

impl Word {
    /// Returns the word's text, if none of it is quoted or expanded.
    pub(super) fn plain(&self) -> Option<Vec<u8>> {
        let plain = |atom: &WordAtom| match atom {
            WordAtom::Plain(byte) => Some(*byte),
            _ => None,
        };
        self.0.iter().map(plain).collect()
    }
}
