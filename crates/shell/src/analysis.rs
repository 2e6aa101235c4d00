//! Analysis of a line's text before it runs: its programs and its effects, for callers that decide about a line which
//! another process will run.

use super::admit::{literal_text, look_up_unknown};
use super::call::ShellState;
use super::effect;
use super::line::ParsedLine;
use super::syntax::{AndOr, CommandList, RedirectTarget, Stage, StageBody, Word, WordAtom};
use trumanfs_executor::line_programs::EnvVariable;

/// The facts about a line that its text shows.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LineAnalysis {
    /// True if the line may change anything.
    pub changes: bool,
    /// True if a command may be a real program, or its name is known only when it runs.
    pub runs_programs: bool,
    /// The error of the first name that is neither a bundled command's nor a program's, as the line would print it.
    pub unknown: Option<Vec<u8>>,
    /// True if the whole line runs in the working directory in which it begins.
    pub stays_in_directory: bool,
    /// True if the line is a single command.
    pub is_lone: bool,
    /// The programs whose words do not depend on any earlier command.
    pub programs: Vec<PlannedProgram>,
}

/// A program of a line that has not been started.
#[derive(Debug, PartialEq, Eq)]
pub struct PlannedProgram {
    /// The words; the first is the program's name.
    pub words: Vec<Vec<u8>>,
    /// The variables that the line gives it.
    pub env: Vec<EnvVariable>,
}

/// Analyzes an admitted line.
pub(super) fn analyze(line: &ParsedLine, state: &ShellState) -> LineAnalysis {
    let list = &line.0;
    let is_lone =
        matches!(&list[..], [AndOr { first, rest }] if rest.is_empty() && first.stages.len() == 1);
    let mut found = LineAnalysis {
        changes: effect::may_change(list, state),
        stays_in_directory: true,
        is_lone,
        ..LineAnalysis::default()
    };
    analyze_list(list, state, &mut found);
    found
}

fn analyze_list(list: &CommandList, state: &ShellState, found: &mut LineAnalysis) {
    for AndOr { first, rest } in list {
        let rest = rest.iter().map(|(_, pipeline)| pipeline);
        let stages = std::iter::once(first)
            .chain(rest)
            .flat_map(|pipeline| &pipeline.stages);
        for each in stages {
            analyze_stage(each, state, found);
        }
    }
}

fn analyze_stage(stage: &Stage, state: &ShellState, found: &mut LineAnalysis) {
    match &stage.body {
        StageBody::Subshell(list) | StageBody::Group(list) => analyze_list(list, state, found),
        StageBody::Simple { assignments, words } => {
            let values = assignments.iter().map(|(_, value)| value);
            for each in values.chain(words) {
                analyze_word(each, state, found);
            }
            analyze_command(assignments, words, state, found);
        }
    }
    for redirect in &stage.redirects {
        match &redirect.target {
            RedirectTarget::Read(each)
            | RedirectTarget::Write(each)
            | RedirectTarget::Append(each)
            | RedirectTarget::Here(each) => analyze_word(each, state, found),
            RedirectTarget::Same(_) => {}
        }
    }
}

fn analyze_word(word: &Word, state: &ShellState, found: &mut LineAnalysis) {
    for atom in &word.0 {
        if let WordAtom::Command(list, _) = atom {
            analyze_list(list, state, found);
        }
    }
}

fn analyze_command(
    assignments: &[(Vec<u8>, Word)],
    words: &[Word],
    state: &ShellState,
    found: &mut LineAnalysis,
) {
    let Some(name) = words.first() else {
        return;
    };
    match literal_text(name) {
        Some(name) if name == b"cd" => found.stays_in_directory = false,
        Some(name) if state.registry.find(&name).is_some() => {}
        Some(name) if !state.is_program(&name) => {
            let error = || look_up_unknown(&name, state).into_rejection().message;
            found.unknown.get_or_insert_with(error);
        }
        Some(_) => {
            found.runs_programs = true;
            let value =
                |(name, value): &(Vec<u8>, Word)| Some((name.clone(), literal_text(value)?));
            let words = words.iter().map(literal_text).collect::<Option<_>>();
            let env = assignments.iter().map(value).collect::<Option<_>>();
            if let (Some(words), Some(env)) = (words, env) {
                found.programs.push(PlannedProgram { words, env });
            }
        }
        // It may be `cd` as well.
        None => (found.runs_programs, found.stays_in_directory) = (true, false),
    }
}
