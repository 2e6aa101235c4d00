//! The effect of a line, as far as it can be determined before it runs: whether it may change anything.

use super::admit::literal;
use super::call::{NULL, Registry};
use super::syntax::{AndOr, Atom, List, Stage, Target, What, Word};

/// Returns whether a line may change anything; not if it runs only commands that read.
pub(super) fn may_change(list: &List, registry: Registry) -> bool {
    let mut pipelines = list.iter().flat_map(|AndOr { first, rest }| {
        std::iter::once(first).chain(rest.iter().map(|(_, pipeline)| pipeline))
    });
    pipelines.any(|pipeline| pipeline.stages.iter().any(|each| stage(each, registry)))
}

fn stage(stage: &Stage, registry: Registry) -> bool {
    let word = |each: &Word| word(each, registry);
    let does = match &stage.what {
        What::Subshell(list) | What::Group(list) => may_change(list, registry),
        What::Simple { assignments, words } => {
            assignments.iter().any(|(_, value)| word(value))
                || words.iter().any(word)
                || command(words, registry)
        }
    };
    does || stage.redirects.iter().any(|redirect| match &redirect.to {
        Target::Write(each) | Target::Append(each) => literal(each).as_deref() != Some(NULL),
        Target::Read(each) | Target::Here(each) => word(each),
        Target::Same(_) => false,
    })
}

fn word(word: &Word, registry: Registry) -> bool {
    word.0.iter().any(|atom| match atom {
        Atom::Command(list, _) => may_change(list, registry),
        _ => false,
    })
}

fn command(words: &[Word], registry: Registry) -> bool {
    let Some((name, rest)) = words.split_first() else {
        return false;
    };
    match literal(name) {
        Some(name) if name == b"find" => rest.iter().any(|word| {
            // The word's expansion is unknown, or it is an action.
            literal(word)
                .is_none_or(|text| text == b"-delete" || text == b"-exec" || text.contains(&b'{'))
        }),
        // An unknown command ends the line.
        Some(name) => registry.named(&name).is_none_or(|command| command.changes),
        None => true,
    }
}
