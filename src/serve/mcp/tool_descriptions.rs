//! The descriptions of tools that depend on the home: of the shell that runs lines, and of a program of the policy.

use super::server_home::{ProgramInfo, ServerHome};

/// The largest number of bytes of programs' names in a description.
const NAMES: usize = 600;
/// The largest number of bytes of what a policy says of a program.
const POLICY_WORDS: usize = 600;

/// Describes the tool that runs lines.
pub(super) fn describe_lines(home: &ServerHome) -> String {
    if let Some(settings) = home.system_shell() {
        let network = match home.reaches_out() {
            true => "only some hosts",
            false => "no network",
        };
        return format!(
            "Runs a line in {}, in a sandbox: programs of this machine, {network}; only the project and /tmp can be \
             written. The directory, variables and functions last in a session. No standard input, no terminal. After 50 s a \
             line goes on as a job.",
            settings.shell.display()
        );
    }
    let programs: Vec<String> = home.programs().into_iter().map(|it| it.name).collect();
    let programs = match programs.is_empty() {
        true => "no other programs (no python3, git, sed)".to_owned(),
        false => format!("and, as the policy allows them, {}", names(&programs)),
    };
    format!(
        "Runs a line of a small shell: pipes, redirects, && || ;, $(…), variables, globs, here-documents. Not: loops, if, \
         functions, arithmetic, background. Commands: cd pwd cat head tail grep find wc mkdir touch rm mv cp echo ls which \
         date true false; {programs}. The directory and variables last in a session. After 50 s a line goes on as a job."
    )
}

/// Describes a program of the policy.
pub(super) fn describe_program(program: &ProgramInfo) -> String {
    let said = first_bytes(&program.said, POLICY_WORDS);
    format!("Runs {} as the policy allows it. {said}", program.name)
}

/// Lists names, as far as there is room.
fn names(all: &[String]) -> String {
    let mut text = String::new();
    for (number, name) in all.iter().enumerate() {
        if text.len() + name.len() > NAMES {
            text.push_str(&format!(" and {} more", all.len() - number));
            break;
        }
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(name);
    }
    text
}

fn first_bytes(text: &str, most: usize) -> String {
    match text.len() > most {
        true => format!(
            "{}…",
            text.get(..text.floor_char_boundary(most))
                .unwrap_or_default()
        ),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_many_programs_there_are_a_description_is_short() {
        let many: Vec<String> = (0..1000).map(|n| format!("program-{n}")).collect();
        let listed = names(&many);
        assert!(listed.len() < NAMES + 20, "{listed}");
        assert!(listed.starts_with("program-0 program-1 ") && listed.ends_with(" more"));
        assert_eq!(names(&["a".to_owned(), "b".to_owned()]), "a b");
    }
}
