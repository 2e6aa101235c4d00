//! `rm`: moves files to the trash. A directory with everything in it becomes one entry.

use std::io::{self, Write};

use rustix::fs::FileType;
use rustix::io::Errno;

use super::target::last_part;
use crate::call::{Call, CommandError, CommandResult, usage_error};
use crate::options::{OptSpec, OptionArg, ParsedArgs};
use crate::quote::quoted;
use trumanfs_types::error::Error;
use trumanfs_types::name::{Name, WorldPath};

const RM: OptSpec = OptSpec {
    short: "dfiIrRv",
    long: &[
        ("dir", OptionArg::None, 'd'),
        ("force", OptionArg::None, 'f'),
        ("interactive", OptionArg::Optional, '?'),
        // The root is never removed, and there are no other file systems.
        ("one-file-system", OptionArg::None, 'x'),
        ("preserve-root", OptionArg::Optional, 'x'),
        ("recursive", OptionArg::None, 'r'),
        ("verbose", OptionArg::None, 'v'),
    ],
    error_status: 1,
};

/// The number of operands that `-I` accepts without a question.
const MAX_UNASKED: usize = 3;

/// The messages for the root, and for operands that end in `.` or `..`.
const DANGEROUS: &[u8] = b"it is dangerous to operate recursively on ";
const DOTS: &[u8] = b"refusing to remove '.' or '..' directory: skipping ";

/// The question that GNU rm would ask before it removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PromptMode {
    Never,
    Once,
    Always,
}

/// The options of a call.
#[derive(Debug, Clone, Copy)]
struct RemoveOptions {
    recursive: bool,
    empty_directories: bool,
    force: bool,
    ask: PromptMode,
    verbose: bool,
}

/// Runs `rm [-dfiIrRv] FILE...`.
pub(super) fn rm(call: &mut Call<'_>) -> CommandResult {
    let typed = RM.read(call.args)?;
    let options = read_options(&typed)?;
    if typed.operands.is_empty() {
        return if options.force {
            Ok(0)
        } else {
            Err(usage_error("missing operand"))
        };
    }
    if options.ask == PromptMode::Once && (options.recursive || typed.operands.len() > MAX_UNASKED)
    {
        call.report(b"nothing removed, for nobody can be asked (-I)")?;
        return Ok(1);
    }
    let mut status = 0;
    for operand in &typed.operands {
        call.check()?;
        if !remove(call, operand, options)? {
            status = 1;
        }
    }
    Ok(status)
}

/// Removes a source that `mv` has copied. Returns whether it succeeded.
pub(super) fn remove_moved(call: &mut Call<'_>, typed: &[u8], verbose: bool) -> io::Result<bool> {
    let options = RemoveOptions {
        recursive: true,
        empty_directories: false,
        force: false,
        ask: PromptMode::Never,
        verbose,
    };
    remove(call, typed, options)
}

fn read_options(typed: &ParsedArgs<'_>) -> Result<RemoveOptions, CommandError> {
    let (mut force, mut ask) = (false, PromptMode::Never);
    for (letter, value) in &typed.options {
        (force, ask) = match (letter, value) {
            ('f', _) => (true, PromptMode::Never),
            ('i', _) | ('?', None | Some(b"always" | b"yes")) => (false, PromptMode::Always),
            ('I', _) | ('?', Some(b"once")) => (false, PromptMode::Once),
            ('?', Some(b"never" | b"no" | b"none")) => (force, PromptMode::Never),
            ('?', Some(other)) => {
                let message = [
                    b"invalid argument ",
                    &quoted(other)[..],
                    b" for '--interactive'",
                ];
                return Err(usage_error(message.concat()));
            }
            _ => (force, ask),
        };
    }
    Ok(RemoveOptions {
        recursive: typed.has('r') || typed.has('R'),
        empty_directories: typed.has('d'),
        force,
        ask,
        verbose: typed.has('v'),
    })
}

/// Removes an operand. Returns whether it succeeded.
fn remove(call: &mut Call<'_>, typed: &[u8], options: RemoveOptions) -> io::Result<bool> {
    let home = call.home();
    let found = call
        .path(typed)
        .and_then(|path| Ok((home.stat(&path)?, path)));
    let is_dir = found.as_ref().is_ok_and(|(meta, _)| meta.is_dir());
    if is_dir && !options.recursive && !options.empty_directories {
        return refuse(call, typed, b": is a directory");
    }
    // A path outside the home is absent, but `.` and `..` are refused by name even then.
    let refused = match (last_part(typed), &found) {
        (b"." | b"..", _) => Some(DOTS),
        (b"", _) if !typed.is_empty() => Some(DANGEROUS),
        (_, Ok((_, path))) if path.is_root() => Some(DANGEROUS),
        _ => None,
    };
    if let Some(message) = refused.filter(|_| is_dir || options.recursive) {
        call.report(&[message, &quoted(typed)].concat())?;
        return Ok(false);
    }
    let (_, path) = match found {
        Ok(found) => found,
        Err(error) => return absent(call, typed, options, &error),
    };
    if options.ask == PromptMode::Always {
        return refuse(call, typed, b": not removed, for nobody can be asked (-i)");
    }
    let removed = match (is_dir, options.recursive, options.verbose) {
        (true, true, true) => return remove_each(call, typed, &path, options),
        (true, true, false) => {
            let removed = home.remove_tree(&path, &|| call.check().is_ok());
            // An interrupted removal ends the line; it is not an error of the operand.
            if removed.is_err() {
                call.check()?;
            }
            removed
        }
        (true, false, _) => home.remove_dir(&path),
        (false, ..) => home.remove(&path),
    };
    report_removal(call, typed, is_dir, options, removed)
}

/// Removes a directory and its content one by one, reporting each entry. The world gathers the content under the
/// directory's entry in the trash.
fn remove_each(
    call: &mut Call<'_>,
    typed: &[u8],
    top: &WorldPath,
    options: RemoveOptions,
) -> io::Result<bool> {
    enum RemoveStep {
        Remove(FileType),
        /// A directory whose content has been removed.
        Close,
    }
    let home = call.home();
    let mut pending = vec![(
        typed.to_vec(),
        top.clone(),
        RemoveStep::Remove(FileType::Directory),
    )];
    // The parents of an entry that stays must stay too; only the entry itself is reported.
    let mut stays: Option<WorldPath> = None;
    while let Some((shown, path, step)) = pending.pop() {
        call.check()?;
        let entered = match step {
            RemoveStep::Close if stays.as_ref().is_some_and(|stays| path.contains(stays)) => {
                continue;
            }
            RemoveStep::Close => {
                let removed = home.remove_dir(&path);
                report_removal(call, &shown, true, options, removed)?
            }
            RemoveStep::Remove(FileType::Directory) => match home.list(&path) {
                Err(error) => absent(call, &shown, options, &error)?,
                Ok(entries) => {
                    pending.push((shown.clone(), path.clone(), RemoveStep::Close));
                    for entry in entries.into_iter().rev() {
                        if let Ok(name) = Name::new(&entry.name) {
                            let shown = super::target::join_path(&shown, &entry.name);
                            pending.push((shown, path.join(name), RemoveStep::Remove(entry.kind)));
                        }
                    }
                    true
                }
            },
            RemoveStep::Remove(_) => {
                let removed = home.remove(&path);
                report_removal(call, &shown, false, options, removed)?
            }
        };
        if !entered {
            stays = Some(path);
        }
    }
    Ok(stays.is_none())
}

/// Reports the result of a removal. Returns whether it succeeded.
fn report_removal(
    call: &mut Call<'_>,
    typed: &[u8],
    directory: bool,
    options: RemoveOptions,
    removed: Result<(), Error>,
) -> io::Result<bool> {
    match removed {
        Err(error) => return absent(call, typed, options, &error),
        Ok(()) if options.verbose => {
            let what: &[u8] = if directory {
                b"removed directory "
            } else {
                b"removed "
            };
            call.out
                .write_all(&[what, &quoted(typed), b"\n"].concat())?;
        }
        Ok(()) => {}
    }
    Ok(true)
}

/// Reports a missing operand, unless `-f` accepts it. Returns whether it does.
fn absent(
    call: &mut Call<'_>,
    typed: &[u8],
    options: RemoveOptions,
    error: &Error,
) -> io::Result<bool> {
    let gone = matches!(error.errno(), Errno::NOENT | Errno::NOTDIR | Errno::INVAL);
    if options.force && gone {
        return Ok(true);
    }
    call.report_path_error(typed, error)?;
    Ok(false)
}

fn refuse(call: &mut Call<'_>, typed: &[u8], why: &[u8]) -> io::Result<bool> {
    let message = [&call.state.as_typed(typed), why].concat();
    call.report(&message)?;
    Ok(false)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::commands::tests::Bench;

    /// Makes two files, a directory with a file in it, and an empty directory.
    fn bench() -> Bench {
        let bench = Bench::new();
        bench.put("f", "");
        bench.put("a b", "");
        bench.put("d/g", "");
        std::fs::create_dir(bench.dir.path().join("e")).unwrap();
        bench
    }

    fn check(line: &str, out: &str, err: &str, status: u8) {
        let given = bench().run(line, "");
        assert_eq!(given, (out.to_owned(), err.to_owned(), status), "{line}");
    }

    #[test]
    fn rm_removes_as_gnu_does() {
        for (line, out) in [
            ("rm f", ""),
            ("rm -r d e f", ""),
            ("rm -R d/", ""),
            ("rm -rf d missing", ""),
            ("rm -f", ""),
            ("rm -f missing f/x /etc/passwd", ""),
            ("rm -v f", "removed 'f'\n"),
            ("rm -rv d", "removed 'd/g'\nremoved directory 'd'\n"),
            ("rm -rv d/", "removed 'd/g'\nremoved directory 'd/'\n"),
            ("rm -dv e", "removed directory 'e'\n"),
            ("rm -if f", ""),
            ("rm -Iv f", "removed 'f'\n"),
            ("rm --interactive=never f", ""),
            ("rm --recursive --verbose e", "removed directory 'e'\n"),
        ] {
            check(line, out, "", 0);
        }
    }

    #[test]
    fn rm_reports_each_failure() {
        for (line, err) in [
            ("rm", "missing operand"),
            ("rm missing", "missing: No such file or directory"),
            ("rm d", "d: is a directory"),
            ("rm -f d", "d: is a directory"),
            ("rm -d d", "d: Directory not empty"),
            ("rm f/", "f/: Not a directory"),
            ("rm f/x", "f/x: Not a directory"),
            ("rm .", ".: is a directory"),
            (
                "rm -r .",
                "refusing to remove '.' or '..' directory: skipping '.'",
            ),
            (
                "rm -rf d/..",
                "refusing to remove '.' or '..' directory: skipping 'd/..'",
            ),
            ("rm -rf /", "it is dangerous to operate recursively on '/'"),
            ("rm /", "/: No such file or directory"),
            (
                "rm -rf ..",
                "refusing to remove '.' or '..' directory: skipping '..'",
            ),
            ("rm ..", "..: No such file or directory"),
            ("rm -i f", "f: not removed, for nobody can be asked (-i)"),
            ("rm -fi f", "f: not removed, for nobody can be asked (-i)"),
            ("rm -Ir f", "nothing removed, for nobody can be asked (-I)"),
            ("rm -Z f", "invalid option -- 'Z'"),
            (
                "rm --interactive=x f",
                "invalid argument 'x' for '--interactive'",
            ),
        ] {
            let (_, told, status) = bench().run(line, "");
            assert_eq!((told, status), (format!("rm: {err}\n"), 1), "{line}");
        }
    }

    #[test]
    fn rm_spares_the_root_by_its_name() {
        let mut bench = bench();
        let root = bench.dir.path().to_str().unwrap().to_owned();
        let (_, told, status) = bench.run(&format!("rm -rf {root}"), "");
        let wanted = format!("rm: it is dangerous to operate recursively on '{root}'\n");
        assert_eq!((told, status), (wanted, 1));
        assert!(bench.dir.path().join("d/g").exists());
    }

    #[test]
    fn rm_goes_on_after_a_failure() {
        let mut bench = bench();
        let (_, told, status) = bench.run("rm missing f d", "");
        assert_eq!(
            (told.as_str(), status),
            (
                "rm: missing: No such file or directory\nrm: d: is a directory\n",
                1
            )
        );
        assert!(!bench.dir.path().join("f").exists());
    }
}
