//! The programs of a line, as far as its text names them before it runs: for callers that ask about a line and have
//! somebody else run it.

use super::admit::literal;
use super::call::Registry;
use super::effect;
use super::line::Line;
use super::syntax::{AndOr, Atom, List, Stage, Target, What, Word};
use trumanfs_executor::line_programs::Variable;

/// What the text of a line says of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Foresight {
    /// Whether it may change anything.
    pub changes: bool,
    /// Whether a command may be a real program: it is no bundled one, or its name is only known when it runs.
    pub runs_programs: bool,
    /// Whether all of it runs in the working directory in which it begins.
    pub stays: bool,
    /// Whether it is a single command.
    pub is_lone: bool,
    /// The programs whose words do not depend on anything that happens before.
    pub programs: Vec<ForeseenProgram>,
}

/// A program of a line that has not been started.
#[derive(Debug, PartialEq, Eq)]
pub struct ForeseenProgram {
    /// Its words; the first is its name.
    pub words: Vec<Vec<u8>>,
    /// The variables that the line gives it.
    pub env: Vec<Variable>,
}

/// Reads a line that was admitted.
pub(super) fn foresee(line: &Line, registry: Registry) -> Foresight {
    let list = &line.0;
    let is_lone =
        matches!(&list[..], [AndOr { first, rest }] if rest.is_empty() && first.stages.len() == 1);
    let mut found = Foresight {
        changes: effect::may_change(list, registry),
        stays: true,
        is_lone,
        ..Foresight::default()
    };
    commands(list, registry, &mut found);
    found
}

fn commands(list: &List, registry: Registry, found: &mut Foresight) {
    for AndOr { first, rest } in list {
        let rest = rest.iter().map(|(_, pipeline)| pipeline);
        let stages = std::iter::once(first)
            .chain(rest)
            .flat_map(|pipeline| &pipeline.stages);
        for each in stages {
            stage(each, registry, found);
        }
    }
}

fn stage(stage: &Stage, registry: Registry, found: &mut Foresight) {
    match &stage.what {
        What::Subshell(list) | What::Group(list) => commands(list, registry, found),
        What::Simple { assignments, words } => {
            let values = assignments.iter().map(|(_, value)| value);
            for each in values.chain(words) {
                word(each, registry, found);
            }
            command(assignments, words, registry, found);
        }
    }
    for redirect in &stage.redirects {
        match &redirect.to {
            Target::Read(each)
            | Target::Write(each)
            | Target::Append(each)
            | Target::Here(each) => word(each, registry, found),
            Target::Same(_) => {}
        }
    }
}

fn word(word: &Word, registry: Registry, found: &mut Foresight) {
    for atom in &word.0 {
        if let Atom::Command(list, _) = atom {
            commands(list, registry, found);
        }
    }
}

fn command(
    assignments: &[(Vec<u8>, Word)],
    words: &[Word],
    registry: Registry,
    found: &mut Foresight,
) {
    let Some(name) = words.first() else {
        return;
    };
    match literal(name) {
        Some(name) if name == b"cd" => found.stays = false,
        Some(name) if registry.named(&name).is_some() => {}
        Some(_) => {
            found.runs_programs = true;
            let value = |(name, value): &(Vec<u8>, Word)| Some((name.clone(), literal(value)?));
            let words = words.iter().map(literal).collect::<Option<_>>();
            let env = assignments.iter().map(value).collect::<Option<_>>();
            if let (Some(words), Some(env)) = (words, env) {
                found.programs.push(ForeseenProgram { words, env });
            }
        }
        // It may be `cd` as well.
        None => (found.runs_programs, found.stays) = (true, false),
    }
}
