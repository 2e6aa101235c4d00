//! `which`: reports whether a name is a command here.
//!
//! Commands have no files, so they have no paths: `/usr/bin/ls` would be a lie, and the next `ls` or `cat` of it
//! would show that. The output is what zsh prints for its own commands, `ls: shell built-in command`. For an unknown
//! name, and for a path, since no file can be run, nothing is printed and the status is 1.

use std::io::Write;

use crate::call::{Call, CommandResult};
use crate::options::{OptSpec, OptionArg};

const KNOWN: OptSpec = OptSpec {
    short: "as",
    long: &[("all", OptionArg::None, 'a')],
    error_status: 2,
};

pub(super) fn which(call: &mut Call<'_>) -> CommandResult {
    let typed = KNOWN.read(call.args)?;
    let mut status = u8::from(typed.operands.is_empty());
    for name in &typed.operands {
        call.check()?;
        match call.state.registry.find(name) {
            None => status = 1,
            // With -s, only the status tells.
            Some(_) if typed.has('s') => {}
            // A name has one command at most, so -a changes nothing.
            Some(command) => writeln!(call.out, "{}: shell built-in command", command.name)?,
        }
    }
    Ok(status)
}

#[cfg(test)]
mod tests {
    use crate::commands::tests::Bench;

    #[test]
    fn which_finds_bundled_commands() {
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
