//! `mkdir`: makes directories, with `-p` those above them too.

use std::io::{self, Write};

use crate::call::{Call, CommandResult, usage_error};
use crate::mode::{ModeChange, umask};
use crate::options::{OptSpec, OptionArg};
use crate::quote::quoted;
use trumanfs_types::attrs::SetAttrs;
use trumanfs_types::error::Error;
use trumanfs_types::name::WorldPath;

const MKDIR: OptSpec = OptSpec {
    short: "m:pv",
    long: &[
        ("mode", OptionArg::Required, 'm'),
        ("parents", OptionArg::None, 'p'),
        ("verbose", OptionArg::None, 'v'),
    ],
    error_status: 1,
};

/// The mode of a new directory without `-m`, before the umask.
const DEFAULT_MODE: u32 = 0o777;
/// Set-group-id, which a new directory inherits from its parent.
const INHERITED_BIT: u32 = 0o2000;

/// Runs `mkdir [-pv] [-m MODE] DIRECTORY...`.
pub(super) fn mkdir(call: &mut Call<'_>) -> CommandResult {
    let typed = MKDIR.read(call.args)?;
    if typed.operands.is_empty() {
        return Err(usage_error("missing operand"));
    }
    let mut mode = None;
    for (_, value) in typed.options.iter().filter(|(letter, _)| *letter == 'm') {
        let text = value.unwrap_or_default();
        let change = ModeChange::parse(text);
        mode = Some(
            change.ok_or_else(|| usage_error([b"invalid mode ", &quoted(text)[..]].concat()))?,
        );
    }
    let mode = mode.map(|change| change.for_directory(DEFAULT_MODE, umask()));
    let (parents, verbose) = (typed.has('p'), typed.has('v'));
    let mut status = 0;
    for operand in &typed.operands {
        call.check()?;
        let made = if parents {
            make_with_parents(call, operand, mode, verbose)?
        } else {
            call.path(without_slashes(operand))
                .and_then(|path| make_directory(call, &path, mode))
        };
        match made {
            Ok(()) if verbose && !parents => announce(call, operand)?,
            Ok(()) => {}
            Err(error) => {
                call.report_path_error(operand, &error)?;
                status = 1;
            }
        }
    }
    Ok(status)
}

/// Makes one directory; `mode` holds the mode bits, and which of them were given.
fn make_directory(
    call: &Call<'_>,
    path: &WorldPath,
    mode: Option<(u32, u32)>,
) -> Result<(), Error> {
    let home = call.home();
    let Some((mode, given)) = mode else {
        return home.mkdir(path, DEFAULT_MODE);
    };
    home.mkdir(path, mode & DEFAULT_MODE)?;
    // The umask has been applied, and mkdir(2) does not set the special bits.
    let has = home.stat(path)?.permissions();
    let wanted = mode | has & INHERITED_BIT & !given;
    if has == wanted {
        return Ok(());
    }
    let change = SetAttrs {
        mode: Some(wanted),
        ..SetAttrs::default()
    };
    home.set_attrs(path, &change)
}

/// Makes a directory and its missing parents.
fn make_with_parents(
    call: &mut Call<'_>,
    typed: &[u8],
    mode: Option<(u32, u32)>,
    verbose: bool,
) -> io::Result<Result<(), Error>> {
    let whole = without_slashes(typed).len();
    let mut from = 0;
    while from < whole {
        let rest = typed.get(from..whole).unwrap_or_default();
        let to = rest.iter().position(|b| *b == b'/');
        let to = to.map_or(whole, |length| from + length);
        let name = typed.get(from..to).unwrap_or_default();
        from = to + 1;
        if matches!(name, b"" | b"." | b"..") {
            continue;
        }
        let last = to == whole;
        let path = match call.path(typed.get(..to).unwrap_or_default()) {
            Ok(path) => path,
            // The root's own path begins with directories outside the home.
            Err(Error::NotFound) if typed.starts_with(b"/") && !last => continue,
            Err(error) => return Ok(Err(error)),
        };
        match make_directory(call, &path, mode.filter(|_| last)) {
            Ok(()) if verbose => {
                announce(
                    call,
                    if last {
                        typed
                    } else {
                        typed.get(..to).unwrap_or_default()
                    },
                )?;
            }
            Ok(()) => {}
            Err(error) => match call.home().stat(&path) {
                Ok(meta) if meta.is_dir() => {}
                Ok(_) if !last => return Ok(Err(Error::NotDirectory)),
                _ => return Ok(Err(error)),
            },
        }
    }
    // A path of only dots and slashes either exists or does not.
    Ok(call.path(typed).map(drop))
}

fn announce(call: &mut Call<'_>, typed: &[u8]) -> io::Result<()> {
    let line = [b"mkdir: created directory ", &quoted(typed)[..], b"\n"].concat();
    call.out.write_all(&line)
}

/// Returns a path without trailing slashes, unless it consists of slashes.
fn without_slashes(typed: &[u8]) -> &[u8] {
    let end = typed.iter().rposition(|b| *b != b'/');
    end.and_then(|last| typed.get(..=last)).unwrap_or(typed)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use crate::commands::tests::Bench;

    fn mode(bench: &Bench, path: &str) -> u32 {
        let meta = std::fs::metadata(bench.dir.path().join(path)).unwrap();
        meta.permissions().mode() & 0o7777
    }

    #[test]
    fn directories_are_made() {
        let mut bench = Bench::new();
        bench.put("f", "");
        for (line, out, err) in [
            ("mkdir a b", "", ""),
            ("mkdir a c", "", "a: File exists"),
            ("mkdir a/", "", "a/: File exists"),
            ("mkdir new/ new//x//", "", ""),
            ("mkdir -v v", "mkdir: created directory 'v'\n", ""),
            (
                "mkdir -pv p//q/../r// a",
                "mkdir: created directory 'p'\nmkdir: created directory 'p//q'\nmkdir: created directory 'p//q/../r//'\n",
                "",
            ),
            ("mkdir -p a/b f", "", "f: File exists"),
            ("mkdir -p f/x", "", "f/x: Not a directory"),
            ("mkdir f/x", "", "f/x: Not a directory"),
            (
                "mkdir missing/x",
                "",
                "missing/x: No such file or directory",
            ),
            (
                "mkdir . ",
                "",
                ".: File exists\nmkdir: : No such file or directory",
            ),
            ("mkdir -p . ./k/./l", "", ""),
            ("mkdir -p /etc/x", "", "/etc/x: No such file or directory"),
            ("mkdir /etc", "", "/etc: No such file or directory"),
            ("mkdir", "", "missing operand"),
            ("mkdir -Z x", "", "invalid option -- 'Z'"),
            ("mkdir -m xyz x", "", "invalid mode 'xyz'"),
            ("mkdir -m", "", "option requires an argument -- 'm'"),
        ] {
            let (told, err) = match err {
                "" => (String::new(), 0),
                err => (format!("mkdir: {err}\n"), 1),
            };
            assert_eq!(bench.run(line, ""), (out.to_owned(), told, err), "{line}");
        }
        assert!(bench.dir.path().join("k/l").is_dir());
    }

    fn mode_of_plain() -> u32 {
        0o777 & !super::umask()
    }

    #[test]
    fn directories_have_the_requested_mode() {
        let mut bench = Bench::new();
        for (line, path, bits) in [
            ("mkdir -m 7777 a", "a", 0o7777),
            ("mkdir -m u=rwx,go= b", "b", 0o700),
            ("mkdir -p -m 711 c/d", "c/d", 0o711),
            ("mkdir -pm 700 c", "c", mode_of_plain()),
            ("mkdir --mode=+t e", "e", 0o1777),
        ] {
            assert_eq!(bench.run(line, "").2, 0, "{line}");
            assert_eq!(mode(&bench, path), bits, "{line}");
        }
    }
}
