//! `cd` and `pwd`: the shell's working directory.

use std::io::Write;

use crate::call::{Call, CommandError, CommandResult, usage_error};
use trumanfs_types::error::Error;
use trumanfs_types::name::WorldPath;

/// Changes the working directory and updates `PWD` and `OLDPWD`.
pub(super) fn cd(call: &mut Call<'_>) -> CommandResult {
    // There are no symlinks, so -L and -P are the same, and what -e asks for always holds.
    let operands = parse_operands(call.args, b"LPe@")?;
    let variable = |name: &[u8]| call.state.variables.get(name).cloned();
    let (typed, tell) = match operands {
        [] => (
            variable(b"HOME").ok_or_else(|| usage_error("HOME not set"))?,
            false,
        ),
        [back] if back == b"-" => (
            variable(b"OLDPWD").ok_or_else(|| usage_error("OLDPWD not set"))?,
            true,
        ),
        [typed] => (typed.clone(), false),
        _ => return Err(usage_error("too many arguments")),
    };
    // As in bash, `cd ''` stays.
    if !typed.is_empty() {
        match resolve_directory(call, &typed) {
            Ok(path) => call.state.cwd = path,
            Err(error) => {
                call.report_path_error(&typed, &error)?;
                return Ok(1);
            }
        }
    }
    let here = call.state.display_path(&call.state.cwd);
    if tell {
        call.out.write_all(&here)?;
        call.out.write_all(b"\n")?;
    }
    if let Some(old) = call.state.variables.insert(b"PWD".to_vec(), here) {
        call.state.variables.insert(b"OLDPWD".to_vec(), old);
    }
    Ok(0)
}

/// Prints the working directory.
pub(super) fn pwd(call: &mut Call<'_>) -> CommandResult {
    parse_operands(call.args, b"LP")?;
    let here = call.state.display_path(&call.state.cwd);
    call.out.write_all(&here)?;
    call.out.write_all(b"\n")?;
    Ok(0)
}

fn resolve_directory(call: &Call<'_>, typed: &[u8]) -> Result<WorldPath, Error> {
    let path = call.path(typed)?;
    if call.state.home.stat(&path)?.is_dir() {
        Ok(path)
    } else {
        Err(Error::NotDirectory)
    }
}

/// Reads the options of a builtin, which end at the first operand. Returns the operands.
fn parse_operands<'a>(args: &'a [Vec<u8>], known: &[u8]) -> Result<&'a [Vec<u8>], CommandError> {
    let mut rest = args;
    while let Some((arg, after)) = rest.split_first() {
        match arg.as_slice() {
            b"--" => return Ok(after),
            [b'-', letters @ ..] if !letters.is_empty() => {
                if let Some(wrong) = letters.iter().find(|letter| !known.contains(letter)) {
                    return Err(CommandError::Usage(
                        [b"-", &[*wrong][..], b": invalid option"].concat(),
                        2,
                    ));
                }
            }
            _ => break,
        }
        rest = after;
    }
    Ok(rest)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::super::tests::Bench;

    fn bench() -> (Bench, String) {
        let mut bench = Bench::new();
        let root = bench.dir.path().to_str().unwrap().to_owned();
        bench.put("a/b/file", "");
        for name in ["HOME", "PWD"] {
            let (name, value) = (name.as_bytes().to_vec(), root.clone().into_bytes());
            bench.state.variables.insert(name, value);
        }
        (bench, root)
    }

    #[test]
    fn cd_changes_directory_and_returns() {
        let (mut bench, root) = bench();
        assert_eq!(bench.run("cd a/b", "").2, 0);
        assert_eq!(bench.run("pwd", "").0, format!("{root}/a/b\n"));
        assert_eq!(bench.run("cd -", "").0, format!("{root}\n"));
        assert_eq!(bench.run("cd -", "").0, format!("{root}/a/b\n"));
        assert_eq!(bench.run("cd ..", "").0, "");
        assert_eq!(bench.run("pwd -P", "").0, format!("{root}/a\n"));
        assert_eq!(bench.run("cd -LP -- b", "").2, 0);
        assert_eq!(bench.run("cd ", "").2, 0);
        assert_eq!(bench.run("pwd -L x", "").0, format!("{root}/a/b\n"));
        assert_eq!(bench.call(&[b"cd".to_vec()], "").2, 0);
        assert_eq!(bench.run("pwd", "").0, format!("{root}\n"));
        assert_eq!(
            bench.state.variables[&b"OLDPWD"[..]],
            format!("{root}/a/b").as_bytes()
        );
        assert_eq!(bench.run(&format!("cd {root}/a/"), "").2, 0);
        assert_eq!(
            bench.state.variables[&b"PWD"[..]],
            format!("{root}/a").as_bytes()
        );
    }

    #[test]
    fn cd_refuses_unreachable_directories() {
        let (mut bench, root) = bench();
        for (line, message, status) in [
            ("cd nosuch", "nosuch: No such file or directory", 1),
            ("cd ..", "..: No such file or directory", 1),
            ("cd /", "/: No such file or directory", 1),
            (
                "cd a/../../etc",
                "a/../../etc: No such file or directory",
                1,
            ),
            ("cd a/b/file", "a/b/file: Not a directory", 1),
            ("cd a/b/file/..", "a/b/file/..: Not a directory", 1),
            ("cd a b", "too many arguments", 1),
            ("cd -", "OLDPWD not set", 1),
            ("cd -Z", "-Z: invalid option", 2),
        ] {
            let expected = (String::new(), format!("cd: {message}\n"), status);
            assert_eq!(bench.run(line, ""), expected, "{line}");
        }
        assert_eq!(bench.run("pwd -x", "").1, "pwd: -x: invalid option\n");
        assert_eq!(bench.run("pwd", "").0, format!("{root}\n"));
    }
}
