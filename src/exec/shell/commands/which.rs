//! `which`: says whether a name is a command here.
//!
//! No command has a file, so none has a path: `/usr/bin/ls` would be a lie that the next `cat` or `ls` of it uncovers. What is
//! printed is what zsh prints for a command of its own, `ls: shell built-in command`. Of a name that is unknown nothing is
//! printed, and of a path neither, for no file can be run; the status is 1 then.

use std::io::Write;

use crate::exec::shell::call::{Call, Ended};
use crate::exec::shell::options::{OptSpec, Takes};

const KNOWN: OptSpec = OptSpec {
    short: "as",
    long: &[("all", Takes::Nothing, 'a')],
    wrong: 2,
};

pub(super) fn which(call: &mut Call<'_>) -> Ended {
    let typed = KNOWN.read(call.args)?;
    let mut status = u8::from(typed.operands.is_empty());
    for name in &typed.operands {
        call.check()?;
        match call.state.registry.named(name) {
            None => status = 1,
            // Said by its status alone.
            Some(_) if typed.has('s') => {}
            // All that there are of a name are one, so -a changes nothing.
            Some(command) => writeln!(call.out, "{}: shell built-in command", command.name)?,
        }
    }
    Ok(status)
}

#[cfg(test)]
mod tests {
    use crate::exec::shell::commands::tests::Bench;

    #[test]
    fn commands_are_the_shells_own() {
        let mut bench = Bench::new();
        let ls = "ls: shell built-in command\n";
        for (line, out, status) in [
            ("which ls", ls, 0),
            ("which -a ls", ls, 0),
            ("which --all ls", ls, 0),
            ("which -s ls", "", 0),
            ("which xyz", "", 1),
            ("which xyz ls", ls, 1),
            ("which /bin/ls", "", 1),
            ("which", "", 1),
        ] {
            assert_eq!(
                bench.run(line, ""),
                (out.to_owned(), String::new(), status),
                "{line}"
            );
        }
        let told = bench.run("which -Z ls", "");
        assert_eq!(
            told,
            (String::new(), "which: invalid option -- 'Z'\n".into(), 2)
        );
    }
}
