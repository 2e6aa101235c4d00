//! `mv`: moves files and directories. A replaced file goes to the trash. Between the home and the scratch directory,
//! which are two file systems, it copies and removes.

use std::collections::HashSet;
use std::io::{self, Write};

use rustix::io::Errno;

use super::cp::copy_to_move;
use super::rm::remove_moved;
use super::target::{
    DestinationEntry, NamedPath, is_recent, just_created_message, last_part, look_up_destination,
    look_up_source, pair_operands, report_transfer_error, same_file_message, type_conflict,
};
use crate::call::{Call, CommandResult, reason};
use crate::options::{OptSpec, OptionArg};
use crate::quote::quoted;
use trumanfs_types::error::Error;
use trumanfs_types::name::WorldPath;

const MV: OptSpec = OptSpec {
    short: "fnt:Tuv",
    long: &[
        ("force", OptionArg::None, 'f'),
        ("no-clobber", OptionArg::None, 'n'),
        ("no-target-directory", OptionArg::None, 'T'),
        ("target-directory", OptionArg::Required, 't'),
        ("update", OptionArg::None, 'u'),
        ("verbose", OptionArg::None, 'v'),
    ],
    error_status: 1,
};

/// A call of `mv`.
#[derive(Default)]
struct MoveRun {
    keep: bool,
    update: bool,
    verbose: bool,
    /// The destinations that this call has written.
    written: HashSet<WorldPath>,
}

/// Runs `mv [-fnTuv] [-t DIRECTORY] SOURCE... [DESTINATION]`.
pub(super) fn mv(call: &mut Call<'_>) -> CommandResult {
    let typed = MV.read(call.args)?;
    let Some(pairs) = pair_operands(call, &typed)? else {
        return Ok(1);
    };
    let last = typed
        .options
        .iter()
        .rev()
        .find(|(letter, _)| matches!(letter, 'f' | 'n'));
    let mut moves = MoveRun {
        keep: last.is_some_and(|(letter, _)| *letter == 'n'),
        update: typed.has('u'),
        verbose: typed.has('v'),
        ..MoveRun::default()
    };
    let mut status = 0;
    for (from, to) in pairs {
        call.check()?;
        if !moves.move_operand(call, from, &to)? {
            status = 1;
        }
    }
    Ok(status)
}

impl MoveRun {
    /// Moves one operand. Returns whether it succeeded.
    fn move_operand(&mut self, call: &mut Call<'_>, from: &[u8], to: &[u8]) -> io::Result<bool> {
        let Some((path, meta)) = look_up_source(call, from)? else {
            return Ok(false);
        };
        if matches!(last_part(from), b"." | b"..") {
            call.report_path_error(from, &Error::os("rename")(Errno::BUSY))?;
            return Ok(false);
        }
        let Some(DestinationEntry {
            path: new,
            meta: there,
        }) = look_up_destination(call, (from, &meta), to)?
        else {
            return Ok(false);
        };
        if let Some(there) = there {
            if self.keep {
                return Ok(true);
            }
            let refused = if there.id == meta.id {
                Some(same_file_message(from, to))
            } else if self.update && is_recent(&there, &meta) {
                return Ok(true);
            } else if let Some(clash) = type_conflict((from, &meta), (to, &there)) {
                Some(clash)
            } else {
                (!meta.is_dir() && self.written.contains(&new))
                    .then(|| just_created_message(from, to))
            };
            if let Some(message) = refused {
                call.report(&message)?;
                return Ok(false);
            }
        }
        match call.home().rename(&path, &new, !self.keep) {
            Ok(()) => {}
            Err(error) if error.errno() == Errno::XDEV && is_across(&path, &new) => {
                let moved = self.move_across(call, (path, from), (new.clone(), to))?;
                self.written.insert(new);
                return Ok(moved);
            }
            Err(Error::Exists) if self.keep => return Ok(true),
            Err(error) if error.errno() == Errno::INVAL && path.contains(&new) => {
                let (from, to) = (quoted(from), quoted(to));
                call.report(
                    &[
                        b"cannot move ",
                        &from[..],
                        b" to a subdirectory of itself, ",
                        &to,
                    ]
                    .concat(),
                )?;
                return Ok(false);
            }
            Err(error) => {
                report_transfer_error(call, from, to, &error)?;
                return Ok(false);
            }
        }
        self.written.insert(new);
        if self.verbose {
            let line = [b"renamed ", &quoted(from)[..], b" -> ", &quoted(to), b"\n"].concat();
            call.out.write_all(&line)?;
        }
        Ok(true)
    }
}

impl MoveRun {
    /// Moves an operand to another file system, as mv(1) does: copies it, and removes it once all of it has arrived. A
    /// file at the destination is removed first.
    fn move_across(
        &self,
        call: &mut Call<'_>,
        (path, from): (WorldPath, &[u8]),
        (new, to): (WorldPath, &[u8]),
    ) -> io::Result<bool> {
        let home = call.home();
        let cleared = match home.stat(&new) {
            Ok(there) if there.is_dir() => home.remove_dir(&new),
            Ok(_) => home.remove(&new),
            Err(Error::NotFound) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = cleared {
            let what = [
                b"inter-device move failed: ",
                &quoted(from)[..],
                b" to ",
                &quoted(to),
                b"; unable to remove target",
            ];
            call.report(&[&what.concat()[..], b": ", reason(error.errno()).as_bytes()].concat())?;
            return Ok(false);
        }
        let copied = copy_to_move(
            call,
            NamedPath {
                path,
                shown: from.to_vec(),
            },
            NamedPath {
                path: new,
                shown: to.to_vec(),
            },
            self.verbose,
        )?;
        Ok(copied && remove_moved(call, from, self.verbose)?)
    }
}

/// Returns whether one path is in the home and the other in the scratch directory, two file systems.
fn is_across(from: &WorldPath, to: &WorldPath) -> bool {
    from.in_scratch().is_some() != to.in_scratch().is_some()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::commands::tests::Bench;

    /// Files `f`, `g`, `d/f`, `e/x/y`, and an empty directory `h`.
    fn bench() -> Bench {
        let bench = Bench::new();
        for path in ["f", "g", "d/f", "e/x/y"] {
            bench.put(path, path);
        }
        std::fs::create_dir(bench.dir.path().join("h")).unwrap();
        bench
    }

    #[test]
    fn mv_moves_as_gnu_does() {
        for (line, out, there, gone) in [
            ("mv f new", "", "new", "f"),
            ("mv -v f g", "renamed 'f' -> 'g'\n", "g", "f"),
            (
                "mv -v f g d/",
                "renamed 'f' -> 'd/f'\nrenamed 'g' -> 'd/g'\n",
                "d/g",
                "g",
            ),
            (
                "mv -v -t h f d/",
                "renamed 'f' -> 'h/f'\nrenamed 'd/' -> 'h/d'\n",
                "h/d/f",
                "d",
            ),
            ("mv -T d h", "", "h/f", "d"),
            ("mv d new/", "", "new/f", "d"),
            ("mv -n f g", "", "f", "nothing"),
            ("mv -nf f g", "", "g", "f"),
            ("mv -n f new", "", "new", "f"),
            ("mv -u f new", "", "new", "f"),
            ("mv -- f new", "", "new", "f"),
        ] {
            let mut bench = bench();
            let given = bench.run(line, "");
            assert_eq!(given, (out.to_owned(), String::new(), 0), "{line}");
            assert!(bench.dir.path().join(there).exists(), "{line}");
            assert!(!bench.dir.path().join(gone).exists(), "{line}");
        }
    }

    #[test]
    fn mv_reports_each_failure() {
        for (line, err) in [
            ("mv", "missing file operand"),
            ("mv f", "missing destination file operand"),
            ("mv -t h", "missing file operand"),
            ("mv missing new", "missing: No such file or directory"),
            ("mv f missing/new", "f: No such file or directory"),
            ("mv f missing/", "f: No such file or directory"),
            ("mv f ../out", "f: No such file or directory"),
            ("mv f /etc/out", "f: No such file or directory"),
            ("mv f g missing", "missing: No such file or directory"),
            ("mv f d g", "g: Not a directory"),
            ("mv -t missing f", "missing: No such file or directory"),
            ("mv -t g f", "g: Not a directory"),
            ("mv f g/x", "g/x: Not a directory"),
            ("mv f g/", "g/: Not a directory"),
            ("mv f/ new", "f/: Not a directory"),
            ("mv f f", "'f' and 'f' are the same file"),
            (
                "mv d d",
                "cannot move 'd' to a subdirectory of itself, 'd/d'",
            ),
            (
                "mv d d/new",
                "cannot move 'd' to a subdirectory of itself, 'd/new'",
            ),
            (
                "mv d f",
                "cannot overwrite non-directory 'f' with directory 'd'",
            ),
            (
                "mv -T f d",
                "cannot overwrite directory 'd' with non-directory",
            ),
            ("mv -T d e", "e: Directory not empty"),
            ("mv . new", ".: Device or resource busy"),
            ("mv d/.. new", "d/..: Device or resource busy"),
            ("mv -T f g d", "extra operand 'd'"),
            (
                "mv -T -t d f",
                "cannot combine --target-directory (-t) and --no-target-directory (-T)",
            ),
            ("mv -t d -t e f", "multiple target directories specified"),
            (
                "mv f d/f h",
                "will not overwrite just-created 'h/f' with 'd/f'",
            ),
            ("mv -Z f g", "invalid option -- 'Z'"),
        ] {
            let (_, told, status) = bench().run(line, "");
            assert_eq!((told, status), (format!("mv: {err}\n"), 1), "{line}");
        }
    }

    #[test]
    fn update_keeps_newer_files() {
        let mut bench = bench();
        bench.run("touch -d @1000 f", "");
        assert_eq!(bench.run("mv -u f g", "").2, 0);
        assert!(bench.dir.path().join("f").exists());
        assert_eq!(bench.run("mv -u g f", "").2, 0);
        assert!(!bench.dir.path().join("g").exists());
    }
}
