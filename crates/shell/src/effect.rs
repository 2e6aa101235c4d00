//! The effect of a line, as far as it can be determined before it runs: whether it may change anything.

use super::admit::literal_text;
use super::call::{DEV_NULL, ShellState};
use super::syntax::{AndOr, CommandList, RedirectTarget, Stage, StageBody, Word, WordAtom};

/// Returns whether a line may change anything; not if it runs only commands that read.
pub(super) fn may_change(list: &CommandList, state: &ShellState) -> bool {
    let mut pipelines = list.iter().flat_map(|AndOr { first, rest }| {
        std::iter::once(first).chain(rest.iter().map(|(_, pipeline)| pipeline))
    });
    pipelines.any(|pipeline| {
        pipeline
            .stages
            .iter()
            .any(|each| stage_may_change(each, state))
    })
}

fn stage_may_change(stage: &Stage, state: &ShellState) -> bool {
    let word = |each: &Word| word(each, state);
    let does = match &stage.body {
        StageBody::Subshell(list) | StageBody::Group(list) => may_change(list, state),
        StageBody::Simple { assignments, words } => {
            assignments.iter().any(|(_, value)| word(value))
                || words.iter().any(word)
                || command_may_change(words, state)
        }
    };
    does || stage
        .redirects
        .iter()
        .any(|redirect| match &redirect.target {
            RedirectTarget::Write(each) | RedirectTarget::Append(each) => {
                literal_text(each).as_deref() != Some(DEV_NULL)
            }
            RedirectTarget::Read(each) | RedirectTarget::Here(each) => word(each),
            RedirectTarget::Same(_) => false,
        })
}

fn word(word: &Word, state: &ShellState) -> bool {
    word.0.iter().any(|atom| match atom {
        WordAtom::Command(list, _) => may_change(list, state),
        _ => false,
    })
}

fn command_may_change(words: &[Word], state: &ShellState) -> bool {
    let Some((name, rest)) = words.split_first() else {
        return false;
    };
    match literal_text(name) {
        Some(name) if name == b"find" => rest.iter().any(|word| {
            // The word's expansion is unknown, or it is an action.
            literal_text(word)
                .is_none_or(|text| text == b"-delete" || text == b"-exec" || text.contains(&b'{'))
        }),
        // What nobody has does nothing.
        Some(name) => match state.registry.find(&name) {
            Some(command) => command.may_change,
            None => state.is_program(&name),
        },
        None => true,
    }
}
