//! The text that a shell reads: for each line of a session a call of `eval`, and a report of its end.
//!
//! The shell reads its standard input byte by byte, for that is a pipe, and so has read no further than it has come.
//! The line is in quotes and no text of its own, so an open quote or a `fi` too many is an error of the line and not of
//! what follows. There is no loop around it that a `break` could end, and no function in which `declare` would mean
//! something else.

use std::path::Path;

use crate::exec::quote;

/// Where a shell sees the pipes of its lines.
pub(super) const PIPES: &str = "/run/trumanfs/shell";

/// The name of the pipe among them by which the shell reports the ends of all lines.
pub(super) const REPORT: &str = "end";

/// The descriptor at which a shell has what its lines read.
pub(super) const INPUT: u8 = 9;

/// The language of a shell, as far as it is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ShellDialect {
    /// The word that has the shell's own command run and not a function of that name.
    own: &'static str,
}

impl ShellDialect {
    /// Returns that of a shell.
    pub(super) fn of(shell: &Path) -> ShellDialect {
        let is_bash = shell.file_name().is_some_and(|name| name == "bash");
        ShellDialect {
            own: if is_bash { "builtin" } else { "command" },
        }
    }
}

/// The state of a shell as it was told at the end of its last line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LineReport {
    /// The status of the line.
    pub(super) status: u8,
    /// The options that are set, as `$-` has them.
    options: Vec<u8>,
    /// The working directory.
    pub(super) cwd: Vec<u8>,
}

impl LineReport {
    /// Returns that of a shell which has just been started.
    pub(super) fn of_start(cwd: &[u8]) -> LineReport {
        LineReport {
            status: 0,
            options: Vec::new(),
            cwd: cwd.to_vec(),
        }
    }

    /// Reads the report of the line with this nonce. Nothing: it is not whole, or somebody else's.
    pub(super) fn read(bytes: &[u8], nonce: &str) -> Option<LineReport> {
        let text = bytes.strip_suffix(b"\0")?.strip_prefix(nonce.as_bytes())?;
        let mut fields = text.strip_prefix(b" ")?.splitn(3, |byte| *byte == b' ');
        let status = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
        let (options, cwd) = (fields.next()?, fields.next()?);
        let is_path = cwd.starts_with(b"/") && cwd.len() < 4096;
        is_path.then(|| LineReport {
            status,
            options: options.to_vec(),
            cwd: cwd.to_vec(),
        })
    }

    /// Returns the text that gives a line the `$?` of the line before; none where that would end the shell (`set -e`).
    fn status_again(&self, line: &[u8]) -> String {
        let is_fatal = self.options.contains(&b'e');
        match self.status {
            0 => String::new(),
            _ if is_fatal || !line.contains(&b'?') => String::new(),
            status => format!("(exit {status}); "),
        }
    }
}

/// Returns the text with which a shell begins.
pub(super) fn first_text(has_input: bool) -> Vec<u8> {
    match has_input {
        // What the lines read has come in the place of standard error.
        true => format!("exec {INPUT}<&2 2>/dev/null\n").into_bytes(),
        false => Vec::new(),
    }
}

/// Returns the text that runs a line with the pipes of this name. Its last line is read when the line has ended.
pub(super) fn text_of(
    line: &[u8],
    dialect: ShellDialect,
    (before, has_input): (&LineReport, bool),
    (pipes, nonce): (&str, &str),
) -> Vec<u8> {
    let ShellDialect { own } = dialect;
    let input = match has_input {
        true => format!("<&{INPUT}"),
        false => "</dev/null".to_owned(),
    };
    let pipes = format!("{PIPES}/{pipes}");
    [
        before.status_again(line).as_bytes(),
        format!("{own} eval ").as_bytes(),
        &quote::line(&[line.to_vec()]),
        format!(" {input} >|{pipes}.out 2>|{pipes}.err\n").as_bytes(),
        format!("{own} printf '%s %d %s %s\\0' {nonce} \"$?\" \"$-\" \"${{PWD-}}\"").as_bytes(),
        format!(" >|{PIPES}/{REPORT}\n").as_bytes(),
    ]
    .concat()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn report_of_another_line_or_a_part_of_one_is_none() {
        let report = LineReport::read(b"n1 3 hBs /a b\0", "n1").unwrap();
        assert_eq!((report.status, &*report.cwd), (3, &b"/a b"[..]));
        for other in [
            &b"n1 3 hBs /a"[..],
            b"n2 3 hBs /a\0",
            b"n1 300 hBs /a\0",
            b"n1 3 hBs a\0",
            b"n1\0",
            b"",
        ] {
            assert_eq!(LineReport::read(other, "n1"), None);
        }
    }

    #[test]
    fn status_of_the_line_before_is_given_where_it_is_asked_for_and_does_no_harm() {
        let report = |options: &str| LineReport {
            status: 3,
            options: options.into(),
            cwd: b"/".to_vec(),
        };
        assert_eq!(report("hBs").status_again(b"echo $?"), "(exit 3); ");
        assert_eq!(report("hBs").status_again(b"echo"), "");
        assert_eq!(report("ehBs").status_again(b"echo $?"), "");
    }
}
