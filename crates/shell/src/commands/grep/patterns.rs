//! The patterns of a call, looked at before the line runs.

use super::options::{KNOWN, syntax_of};
use crate::call::LineRejection;
use crate::commands::expression::{
    LinePatternMode, MatchScope, PatternSyntax, translate_for_lines,
};

/// Returns the command's name with the option for a syntax, for messages.
pub(super) fn name_of(syntax: PatternSyntax) -> &'static str {
    match syntax {
        PatternSyntax::Perl => "grep -P",
        _ => "grep",
    }
}

/// Returns the rejection of a line with a call whose pattern is not supported. A word is `None` where an expansion decides
/// about it. Patterns behind such a word are looked at when the command runs.
pub(crate) fn find_unsupported(args: &[Option<Vec<u8>>]) -> Option<LineRejection> {
    let known = args.iter().map_while(Clone::clone);
    let known: Vec<Vec<u8>> = known.collect();
    // No real word contains a NUL.
    let all = args.iter().map(|arg| arg.clone().unwrap_or(vec![0]));
    let all: Vec<Vec<u8>> = all.collect();
    let (known, all) = (KNOWN.read(&known).ok()?, KNOWN.read(&all).ok()?);
    let mut mode = LinePatternMode {
        syntax: PatternSyntax::Basic,
        ignore_case: false,
        whole: MatchScope::Part,
        needs_ends: all.has('o'),
    };
    for (letter, _) in &all.options {
        match letter {
            'E' | 'F' | 'G' | 'P' => mode.syntax = syntax_of(*letter),
            'x' => mode.whole = MatchScope::Line,
            'w' if mode.whole == MatchScope::Part => mode.whole = MatchScope::Word,
            _ => {}
        }
    }
    let given = known.options.iter().filter(|(letter, _)| *letter == 'e');
    let mut patterns: Vec<&[u8]> = given.filter_map(|(_, value)| *value).collect();
    if !all.has('e') && !all.has('f') {
        patterns.extend(known.operands.first());
    }
    let lines = patterns
        .iter()
        .flat_map(|pattern| pattern.split(|byte| *byte == b'\n'));
    let wrong = translate_for_lines(lines, mode).err()?;
    wrong.into_rejection(name_of(mode.syntax))
}
