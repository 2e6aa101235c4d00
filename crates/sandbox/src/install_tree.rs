//! The install tree of a program that lies outside of what every sandbox shows: below somebody's home directory, say.
//!
//! A version manager's program is found through its links, and the tree that it was installed in is shown, read-only.
//! So is what the interpreter of a script was installed in. Nothing more: what looks like somebody's own directory,
//! where keys and histories lie as well, is not an install tree, and of it the program's file is shown alone. Whoever
//! needs more lists it in `bind_ro`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags};

use super::layout::is_shown;

/// A program that is not in the sandbox by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstallTree {
    /// The program's file, without links.
    pub file: PathBuf,
    /// The host paths that are shown for the program: the tree that it is installed in, or the file alone, and the same
    /// of its interpreter.
    pub shown: Vec<PathBuf>,
}

/// The most files that are followed, from a script to its interpreter and on.
const MAX_INTERPRETERS: usize = 5;

/// The most bytes of a script's first line that are read: as many as the kernel reads (BINPRM_BUF_SIZE).
const MAX_LINE_BYTES: usize = 256;

/// Finds what has to be shown for the program of these words, looked up in this PATH; nothing if it is in the sandbox
/// anyway, or nowhere. Nothing below `home` is looked at, for that may hang. `bind_ro`: what is shown in any case.
#[must_use]
pub fn tree_of(
    argv: &[OsString],
    path: &OsStr,
    home: &Path,
    bind_ro: &[PathBuf],
) -> Option<InstallTree> {
    install_tree(argv.first()?, path.as_bytes(), home, bind_ro)
}

fn install_tree(
    program: &OsStr,
    path: &[u8],
    home: &Path,
    bind_ro: &[PathBuf],
) -> Option<InstallTree> {
    let is_there = |file: &Path| {
        is_shown(file) || file.starts_with(home) || bind_ro.iter().any(|dir| file.starts_with(dir))
    };
    let mut shown: Vec<PathBuf> = Vec::new();
    let mut first = None;
    for (_, file) in needed(program, path, home) {
        if !is_there(&file) && !shown.iter().any(|dir| file.starts_with(dir)) {
            shown.push(tree(&file).to_owned());
        }
        first.get_or_insert(file);
    }
    let file = first.filter(|_| !shown.is_empty())?;
    Some(InstallTree { file, shown })
}

/// Returns the directories of a `PATH` in which a program and its interpreters are found by name.
#[must_use]
pub fn directories_of(program: &OsStr, path: &OsStr, home: &Path) -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = Vec::new();
    for (named, _) in needed(program, path.as_bytes(), home) {
        let is_by_path = |dir: &Path| {
            let mut all = path.as_bytes().split(|byte| *byte == b':');
            all.any(|one| one == dir.as_os_str().as_bytes())
        };
        dirs.extend(
            named
                .parent()
                .filter(|dir| is_by_path(dir))
                .map(Path::to_owned),
        );
    }
    dirs.dedup();
    dirs
}

/// Returns a program's file, its interpreter's, and so on: as it is named, and without links.
fn needed(program: &OsStr, path: &[u8], home: &Path) -> Vec<(PathBuf, PathBuf)> {
    let mut files = Vec::new();
    let mut next = Some(program.to_owned());
    while let Some(program) = next.take()
        && files.len() < MAX_INTERPRETERS
    {
        let Some(named) = look_up(&program, path, home) else {
            break;
        };
        let Ok(file) = std::fs::canonicalize(&named) else {
            break;
        };
        next = interpreter(&file);
        files.push((named, file));
    }
    files
}

/// Finds a program as execvp(3) does, but not below the home, which may hang.
fn look_up(program: &OsStr, path: &[u8], home: &Path) -> Option<PathBuf> {
    let candidates: Vec<PathBuf> = if program.as_bytes().contains(&b'/') {
        vec![program.into()]
    } else {
        let dirs = path.split(|byte| *byte == b':');
        dirs.map(|dir| Path::new(OsStr::from_bytes(dir)).join(program))
            .collect()
    };
    // What is not absolute is relative to the working directory, which lies in the home.
    let mut candidates = candidates
        .into_iter()
        .filter(|file| file.is_absolute() && !file.starts_with(home));
    candidates.find(|file| is_program(file))
}

/// Returns what a script names as its interpreter in its first line; of `env`, what that is to look up.
fn interpreter(file: &Path) -> Option<OsString> {
    let mut start = [0; MAX_LINE_BYTES];
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(CWD, file, flags, Mode::empty()).ok()?;
    let len = rustix::io::read(&file, &mut start).ok()?;
    let line = start.get(..len)?.strip_prefix(b"#!")?;
    let line = line.split(|byte| *byte == b'\n').next()?;
    let mut words = line
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    let first = words.next()?;
    let named = if first.ends_with(b"/env") {
        // `env -S node --flag`
        words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='))?
    } else {
        first
    };
    Some(OsStr::from_bytes(named).to_owned())
}

/// Returns what is shown for a file: the tree that it was installed in, or the file alone.
fn tree(file: &Path) -> &Path {
    packages(file).or_else(|| prefix(file)).unwrap_or(file)
}

/// Returns the tree that a directory of programs belongs to, or that directory alone.
pub(super) fn tree_of_directory(dir: &Path) -> PathBuf {
    let file = dir.join("program");
    prefix(&file).unwrap_or(dir).to_owned()
}

/// Returns the outermost directory of npm's packages that a file lies in: they need each other.
fn packages(file: &Path) -> Option<&Path> {
    let all = file.ancestors().filter(|dir| dir.ends_with("node_modules"));
    all.last()
}

fn is_program(file: &Path) -> bool {
    let Ok(stat) = rustix::fs::statat(CWD, file, AtFlags::empty()) else {
        return false;
    };
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && rustix::fs::accessat(CWD, file, Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}

/// Returns the directory that a program is installed in, if that holds nothing but what was installed: `bin` in it has
/// the program, it has libraries, it is not hidden, and it lies below another directory.
fn prefix(file: &Path) -> Option<&Path> {
    let bin = file.parent().filter(|dir| dir.ends_with("bin"))?;
    let prefix = bin.parent()?;
    let name = prefix.file_name()?.as_bytes();
    let is_own = name.starts_with(b".") || prefix.components().count() < 3;
    let has = |name: &str| {
        let stat = rustix::fs::statat(CWD, prefix.join(name), AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    };
    // Whoever has a profile or settings there lives there.
    let is_inhabited = [
        ".ssh",
        ".config",
        ".cache",
        ".bashrc",
        ".profile",
        ".bash_history",
    ]
    .iter()
    .any(|name| rustix::fs::statat(CWD, prefix.join(name), AtFlags::SYMLINK_NOFOLLOW).is_ok());
    let has_libraries = ["lib", "lib64", "libexec"].iter().any(|name| has(name));
    (!is_own && !is_inhabited && has_libraries).then_some(prefix)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Puts a program into a directory.
    fn put(dir: &Path, file: &str) -> PathBuf {
        let file = dir.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        file
    }

    fn find(program: impl AsRef<OsStr>, path: &Path) -> Option<InstallTree> {
        let path = path.as_os_str().as_bytes();
        install_tree(program.as_ref(), path, Path::new("/absent/home"), &[])
    }

    #[test]
    fn a_version_is_found_through_its_links_and_shown_whole() {
        let dir = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(dir.path()).unwrap();
        let file = put(&top, "user/.manager/versions/3.1/bin/tool-3.1");
        fs::create_dir(top.join("user/.manager/versions/3.1/lib")).unwrap();
        let link = top.join("links");
        fs::create_dir(&link).unwrap();
        std::os::unix::fs::symlink("tool-3.1", file.with_file_name("tool")).unwrap();
        std::os::unix::fs::symlink(file.with_file_name("tool"), link.join("tool")).unwrap();
        let found = find("tool", &link).unwrap();
        assert_eq!(found.file, file);
        assert_eq!(found.shown, [top.join("user/.manager/versions/3.1")]);
        // What is bound anyway needs nothing more.
        let bound = [top.join("user/.manager")];
        let path = link.as_os_str().as_bytes();
        assert_eq!(
            install_tree(OsStr::new("tool"), path, Path::new("/h"), &bound),
            None
        );
    }

    #[test]
    fn somebody_s_own_directory_is_not_shown() {
        let dir = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(dir.path()).unwrap();
        for (file, more) in [
            ("user/bin/tool", "user/lib"),
            ("user/.cargo/bin/tool", "user/.cargo/lib"),
            ("user/scripts/tool", "user/scripts/lib"),
            ("plain/bin/tool", "plain/doc"),
        ] {
            let file = put(&top, file);
            fs::create_dir_all(top.join(more)).unwrap();
            fs::create_dir_all(top.join("user/.ssh")).unwrap();
            assert_eq!(find(&file, Path::new("")).unwrap().shown, [file]);
        }
    }

    #[test]
    fn packages_of_npm_are_shown_together() {
        let dir = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(dir.path()).unwrap();
        let file = put(&top, "prefix/lib/node_modules/@x/agent/bin/agent.js");
        put(&top, "prefix/lib/node_modules/@x/agent/node_modules/y/z");
        let bin = top.join("prefix/bin");
        fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(&file, bin.join("agent")).unwrap();
        let found = find("agent", &bin).unwrap();
        assert_eq!(found.shown, [top.join("prefix/lib/node_modules")]);
    }

    #[test]
    fn an_interpreter_is_shown_with_its_tree() {
        let dir = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(dir.path()).unwrap();
        let real = put(&top, "versions/3.1/bin/python3.1");
        fs::create_dir(top.join("versions/3.1/lib")).unwrap();
        let tool = put(&top, "tools/agent/bin/agent");
        fs::create_dir(top.join("tools/agent/lib")).unwrap();
        let python = tool.with_file_name("python");
        std::os::unix::fs::symlink(&real, &python).unwrap();
        fs::write(&tool, format!("#!{}\nx\n", python.display())).unwrap();
        let wanted = [top.join("tools/agent"), top.join("versions/3.1")];
        assert_eq!(find(&tool, Path::new("")).unwrap().shown, wanted);
        // By `env`, where it is found as the script finds it.
        fs::write(&tool, "#!/usr/bin/env -S python -u\nx\n").unwrap();
        assert_eq!(find("agent", tool.parent().unwrap()).unwrap().shown, wanted);
        // A script of a home is nothing to look at, and one that interprets itself ends.
        fs::write(&tool, format!("#!{}\n", tool.display())).unwrap();
        assert_eq!(
            find(&tool, Path::new("")).unwrap().shown,
            [top.join("tools/agent")]
        );
    }

    #[test]
    fn what_every_sandbox_has_needs_nothing() {
        assert_eq!(find("sh", Path::new("/usr/bin")), None);
        assert_eq!(find("no-such-program", Path::new("/usr/bin")), None);
        assert_eq!(find("./relative", Path::new("/usr/bin")), None);
    }
}
