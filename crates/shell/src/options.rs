//! Options as parsed by GNU's getopt_long(3): clusters, attached or separate values, long names shortened as long as
//! they are unique, options after operands, `--`. An unknown option is an error in GNU's words, never ignored.

use super::call::{CommandError, usage_error};

/// The rule for the value of a long option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OptionArg {
    /// The option takes no value.
    None,
    /// The option requires a value: `--name=VALUE` or `--name VALUE`.
    Required,
    /// The option accepts a value, after `=`.
    Optional,
}

/// The options of a command.
#[derive(Debug, Clone, Copy)]
pub(super) struct OptSpec {
    /// The short options as in getopt(3): a letter, followed by `:` if it requires a value, `::` if it accepts an
    /// attached one.
    pub(super) short: &'static str,
    /// The long options, each with the letter that stands for it.
    pub(super) long: &'static [(&'static str, OptionArg, char)],
    /// The status for a wrong option.
    pub(super) error_status: u8,
}

/// The parsed arguments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ParsedArgs<'a> {
    /// The options in order, with their values.
    pub(super) options: Vec<(char, Option<&'a [u8]>)>,
    /// The operands.
    pub(super) operands: Vec<&'a [u8]>,
}

impl ParsedArgs<'_> {
    /// Returns whether an option was given.
    pub(super) fn has(&self, letter: char) -> bool {
        self.options.iter().any(|(given, _)| *given == letter)
    }
}

impl OptSpec {
    /// Parses arguments.
    ///
    /// # Errors
    /// [`CommandError::Usage`] in GNU's words.
    pub(super) fn read<'a>(&self, args: &'a [Vec<u8>]) -> Result<ParsedArgs<'a>, CommandError> {
        let mut typed = ParsedArgs::default();
        let mut args = args.iter().map(Vec::as_slice);
        while let Some(arg) = args.next() {
            match arg {
                b"--" => {
                    typed.operands.extend(args.by_ref());
                }
                [b'-', b'-', long @ ..] => {
                    let option = self
                        .long(long, &mut args)
                        .map_err(|stop| self.with_error_status(stop))?;
                    typed.options.push(option);
                }
                [b'-', cluster @ ..] if !cluster.is_empty() => {
                    self.cluster(cluster, &mut args, &mut typed)
                        .map_err(|stop| self.with_error_status(stop))?;
                }
                operand => typed.operands.push(operand),
            }
        }
        Ok(typed)
    }

    fn cluster<'a>(
        &self,
        cluster: &'a [u8],
        args: &mut dyn Iterator<Item = &'a [u8]>,
        typed: &mut ParsedArgs<'a>,
    ) -> Result<(), CommandError> {
        let mut rest = cluster;
        while let [letter, after @ ..] = rest {
            rest = after;
            let known = self.short.bytes().position(|known| known == *letter);
            let Some(at) = known.filter(|_| *letter != b':') else {
                return Err(wrong(b"invalid option -- '", &[*letter], b"'"));
            };
            let mut value = None;
            let takes = self.short.as_bytes().get(at + 1..).unwrap_or_default();
            if takes.starts_with(b"::") {
                value = Some(rest).filter(|value| !value.is_empty());
                rest = b"";
            } else if takes.starts_with(b":") {
                value = match rest {
                    b"" => args.next(),
                    attached => Some(attached),
                };
                rest = b"";
                if value.is_none() {
                    return Err(wrong(b"option requires an argument -- '", &[*letter], b"'"));
                }
            }
            typed.options.push((char::from(*letter), value));
        }
        Ok(())
    }

    fn long<'a>(
        &self,
        typed: &'a [u8],
        args: &mut dyn Iterator<Item = &'a [u8]>,
    ) -> Result<(char, Option<&'a [u8]>), CommandError> {
        let cut = typed.iter().position(|b| *b == b'=');
        let name = typed.get(..cut.unwrap_or(typed.len())).unwrap_or_default();
        let value = cut.and_then(|cut| typed.get(cut + 1..));
        let exact = self.long.iter().find(|(long, ..)| long.as_bytes() == name);
        let mut begun = self
            .long
            .iter()
            .filter(|(long, ..)| long.as_bytes().starts_with(name));
        let found = match (exact, begun.next()) {
            (Some(exact), _) => exact,
            (None, Some(one)) => {
                // Several names of one option are not ambiguous.
                if begun.any(|other| other.2 != one.2) {
                    return Err(wrong(b"option '--", name, b"' is ambiguous"));
                }
                one
            }
            (None, None) => return Err(wrong(b"unrecognized option '--", typed, b"'")),
        };
        let (long, takes, letter) = *found;
        let value = match (takes, value) {
            (OptionArg::None, Some(_)) => {
                return Err(wrong(
                    b"option '--",
                    long.as_bytes(),
                    b"' doesn't allow an argument",
                ));
            }
            (OptionArg::Required, None) => match args.next() {
                None => {
                    return Err(wrong(
                        b"option '--",
                        long.as_bytes(),
                        b"' requires an argument",
                    ));
                }
                value => value,
            },
            (_, value) => value,
        };
        Ok((letter, value))
    }

    fn with_error_status(&self, stop: CommandError) -> CommandError {
        match stop {
            CommandError::Usage(message, _) => CommandError::Usage(message, self.error_status),
            stop => stop,
        }
    }
}

fn wrong(before: &[u8], what: &[u8], after: &[u8]) -> CommandError {
    usage_error([before, what, after].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: OptSpec = OptSpec {
        short: "abn:",
        long: &[
            ("all", OptionArg::None, 'a'),
            ("almost", OptionArg::None, 'A'),
            ("number", OptionArg::Required, 'n'),
        ],
        error_status: 2,
    };

    fn read(args: &[&str]) -> Result<(String, Vec<String>), String> {
        let args: Vec<Vec<u8>> = args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match KNOWN.read(&args) {
            Ok(typed) => {
                let options = typed.options.iter().map(|(letter, value)| match value {
                    Some(value) => format!("{letter}={}", text(value)),
                    None => letter.to_string(),
                });
                let operands = typed.operands.iter().map(|operand| text(operand)).collect();
                Ok((options.collect::<Vec<_>>().join(" "), operands))
            }
            Err(CommandError::Usage(message, status)) => {
                Err(format!("{} [{status}]", text(&message)))
            }
            Err(stop) => Err(format!("{stop:?}")),
        }
    }

    #[test]
    fn options_parse_as_in_getopt() {
        let given = read(&[
            "-ab",
            "x",
            "-n5",
            "-n",
            "6",
            "--number=7",
            "--nu",
            "8",
            "-",
            "--",
            "-a",
        ]);
        let operands = ["x", "-", "-a"].map(str::to_owned).to_vec();
        assert_eq!(given, Ok(("a b n=5 n=6 n=7 n=8".to_owned(), operands)));
    }

    #[test]
    fn option_errors_are_worded_as_in_gnu() {
        for (args, message) in [
            (&["-Z"][..], "invalid option -- 'Z' [2]"),
            (&["-n"], "option requires an argument -- 'n' [2]"),
            (&["--zzz=1"], "unrecognized option '--zzz=1' [2]"),
            (&["--al"], "option '--al' is ambiguous [2]"),
            (&["--number"], "option '--number' requires an argument [2]"),
            (&["--all=1"], "option '--all' doesn't allow an argument [2]"),
            (&["-:"], "invalid option -- ':' [2]"),
        ] {
            assert_eq!(read(args), Err(message.to_owned()), "{args:?}");
        }
    }
}
