//! The definition of a case: where it can run, and how it states its expectations.

use std::cell::{Cell, RefCell};
use std::ffi::OsStr;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};

use crate::common::calls::*;
use crate::common::child;

/// What a place must have for a case to apply there. What a home does instead is in the table of decisions.
pub(crate) type Needs = u32;
/// The caller is root.
pub(crate) const ROOT: Needs = 1;
/// Other users get in (implies root, to become them).
pub(crate) const USERS: Needs = 2;
/// The caller is an ordinary user.
pub(crate) const PLAIN: Needs = 4;
/// Symbolic links exist.
pub(crate) const LINKS: Needs = 8;
/// Extended attributes exist.
pub(crate) const XATTR: Needs = 16;
/// Device nodes can be made.
pub(crate) const DEVICES: Needs = 32;
/// SEEK_DATA and SEEK_HOLE tell data from holes.
pub(crate) const HOLES: Needs = 256;
/// The way to what the caller has looked at before is checked at each look.
pub(crate) const CHECKED: Needs = 512;
/// The daemon is root, whoever the caller is.
pub(crate) const ROOTS: Needs = 1024;
/// What only a native file system has.
pub(crate) const NATIVE: Needs = 64;
/// What only a mounted home has.
pub(crate) const HOME: Needs = 128;

/// Three users without rights, with groups of the same numbers.
pub(crate) const ANN: u32 = 65533;
pub(crate) const BOB: u32 = 65532;
/// The ordinary user of the places that are not root's: `nobody`, because `--owner` wants a name.
pub(crate) const NOBODY: u32 = 65534;

/// A time long ago, to see whether a call changes it.
pub(crate) const OLD: Time = (978_307_200, 123_456_789);

/// One case: a name that says what must hold, and a function that takes a fresh directory.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&Trial<'_>),
    pub(crate) needs: Needs,
}

/// A case for every place.
pub(crate) const fn case(name: &'static str, run: fn(&Trial<'_>)) -> Case {
    Case {
        name,
        run,
        needs: 0,
    }
}

impl Case {
    /// Keeps the case from places that lack something.
    pub(crate) const fn needs(self, needs: Needs) -> Self {
        Self { needs, ..self }
    }
}

/// One run of one case: the directory it has for itself, and what went wrong so far.
pub(crate) struct Trial<'a> {
    /// A fresh directory of the caller's, mode 0755.
    pub(crate) dir: &'a Path,
    /// The root of the file system under test.
    pub(crate) root: &'a Path,
    has: Needs,
    checks: Cell<usize>,
    problems: RefCell<Vec<String>>,
}

/// Unwinds out of a case that cannot go on; what is wrong has been noted.
struct Stop;

impl<'a> Trial<'a> {
    pub(crate) fn new(root: &'a Path, dir: &'a Path, has: Needs) -> Self {
        Self {
            dir,
            root,
            has,
            checks: Cell::new(0),
            problems: RefCell::default(),
        }
    }

    /// Runs the case and returns how much was checked and what was wrong.
    pub(crate) fn run(self, case: &Case) -> (usize, Vec<String>) {
        self.guard(|| (case.run)(&self));
        (self.checks.get(), self.problems.into_inner())
    }

    fn guard(&self, work: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(work))
            && !panic.is::<Stop>()
        {
            self.problem(format!("panicked: {}", child::words(&*panic)));
        }
    }

    /// Tells whether the place has something.
    pub(crate) fn has(&self, needs: Needs) -> bool {
        self.has & needs == needs
    }

    /// A path in the case's directory.
    pub(crate) fn p(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.dir.join(name.as_ref())
    }

    /// Notes what is wrong.
    pub(crate) fn problem(&self, what: String) {
        self.problems.borrow_mut().push(what);
    }

    /// Notes what is wrong and ends the case.
    pub(crate) fn stop(&self, what: String) -> ! {
        self.problem(what);
        resume_unwind(Box::new(Stop))
    }

    /// Expects success and returns what came out; a case cannot go on without it.
    pub(crate) fn expect_ok<T>(&self, call: &str, line: u32, result: Sys<T>) -> T {
        self.checks.set(self.checks.get() + 1);
        result.unwrap_or_else(|error| {
            self.stop(format!(
                "line {line}: {call}: expected success, got {}",
                name_of(error)
            ))
        })
    }

    /// Expects one of some errors.
    pub(crate) fn expect_err<T>(
        &self,
        call: &str,
        line: u32,
        result: Sys<T>,
        wanted: &[i32],
        names: &str,
    ) {
        self.checks.set(self.checks.get() + 1);
        match result {
            Err(error) if wanted.contains(&error.raw_os_error()) => {}
            Err(error) => self.problem(format!(
                "line {line}: {call}: expected {names}, got {}",
                name_of(error)
            )),
            Ok(_) => self.problem(format!(
                "line {line}: {call}: expected {names}, got success"
            )),
        }
    }

    /// Expects two values to be equal.
    pub(crate) fn expect_eq<T: PartialEq<U> + Debug, U: Debug>(
        &self,
        what: &str,
        line: u32,
        got: &T,
        wanted: &U,
    ) {
        self.expect_that(
            what,
            line,
            got == wanted,
            &format!("expected {}, got {}", short(wanted), short(got)),
        );
    }

    /// Expects something to hold.
    pub(crate) fn expect_that(&self, what: &str, line: u32, holds: bool, else_say: &str) {
        self.checks.set(self.checks.get() + 1);
        if !holds {
            self.problem(format!("line {line}: {what}: {else_say}"));
        }
    }

    /// Makes a file with a content, mode 0644.
    pub(crate) fn file(&self, name: impl AsRef<OsStr>, content: &[u8]) -> PathBuf {
        let path = self.p(name);
        let fd = self.expect_ok(
            "open(O_CREAT|O_EXCL)",
            line!(),
            open(&path, O_CREAT | O_EXCL | O_WRONLY, 0o644),
        );
        let mut left = content;
        while !left.is_empty() {
            let written = self.expect_ok("write", line!(), write(&fd, left));
            left = &left[written..];
        }
        path
    }

    /// Makes a directory, mode 0755.
    pub(crate) fn mkdir(&self, name: impl AsRef<OsStr>) -> PathBuf {
        let path = self.p(name);
        self.expect_ok("mkdir", line!(), mkdir(&path, 0o755));
        path
    }

    /// Makes a directory, mode 0777.
    pub(crate) fn open_dir(&self, name: impl AsRef<OsStr>) -> PathBuf {
        let path = self.mkdir(name);
        self.expect_ok("chmod", line!(), chmod(&path, 0o777));
        path
    }

    /// Makes a file that belongs to somebody.
    pub(crate) fn file_of(&self, owner: u32, name: impl AsRef<OsStr>, mode: u32) -> PathBuf {
        let path = self.file(name, b"content");
        self.expect_ok("chown", line!(), chown(&path, Some(owner), Some(owner)));
        self.expect_ok("chmod", line!(), chmod(&path, mode));
        path
    }

    /// Makes a directory that belongs to somebody.
    pub(crate) fn dir_of(&self, owner: u32, name: impl AsRef<OsStr>, mode: u32) -> PathBuf {
        let path = self.mkdir(name);
        self.expect_ok("chown", line!(), chown(&path, Some(owner), Some(owner)));
        self.expect_ok("chmod", line!(), chmod(&path, mode));
        path
    }

    /// Runs a shell script in the case's directory. What it writes was never open in this process, whose other threads fork.
    pub(crate) fn shell(&self, script: &str) {
        let output = std::process::Command::new("sh")
            .args(["-euc", script])
            .current_dir(self.dir)
            .output();
        match output {
            Ok(output) if output.status.success() => {}
            Ok(output) => self.stop(format!(
                "sh: {script}: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            )),
            Err(error) => self.stop(format!("sh: {error}")),
        }
    }

    /// Copies a program into the case's directory, mode 0755.
    pub(crate) fn program(&self, name: &str, from: &str) -> PathBuf {
        self.shell(&format!("cp {from} {name}; chmod 755 {name}"));
        self.p(name)
    }

    /// The whole content of a file.
    pub(crate) fn content(&self, path: &Path) -> Vec<u8> {
        let fd = self.expect_ok("open", line!(), open(path, O_RDONLY, 0));
        let mut all = Vec::new();
        loop {
            let part = self.expect_ok("read", line!(), read(&fd, 1 << 20));
            if part.is_empty() {
                return all;
            }
            all.extend(part);
        }
    }

    /// The names in a directory, sorted.
    pub(crate) fn names(&self, path: &Path) -> Vec<String> {
        let names = self.expect_ok("readdir", line!(), readdir(path));
        let mut names: Vec<String> = names
            .iter()
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// Every type of object that can be made here, as a name and `S_IFMT` bits.
    pub(crate) fn kinds(&self) -> Vec<(&'static str, u32)> {
        let mut kinds = vec![
            ("file", S_IFREG),
            ("dir", S_IFDIR),
            ("fifo", S_IFIFO),
            ("socket", S_IFSOCK),
        ];
        if self.has(LINKS) {
            kinds.push(("link", S_IFLNK));
        }
        if self.has(DEVICES) {
            kinds.extend([("char", S_IFCHR), ("block", S_IFBLK)]);
        }
        kinds
    }

    /// Makes an object of a type, mode 0644 (directories 0755).
    pub(crate) fn make(&self, kind: u32, path: &Path) {
        let made = match kind {
            S_IFREG => open(path, O_CREAT | O_EXCL | O_WRONLY, 0o644).map(drop),
            S_IFDIR => mkdir(path, 0o755),
            S_IFLNK => symlink("nowhere", path),
            _ => mknod(path, kind | 0o644, 0x0101),
        };
        self.expect_ok(&format!("make an object of type {kind:o}"), line!(), made);
    }

    /// Removes an object of any type.
    pub(crate) fn remove(&self, kind: u32, path: &Path) {
        let removed = if kind == S_IFDIR {
            rmdir(path)
        } else {
            unlink(path)
        };
        self.expect_ok("remove", line!(), removed);
    }

    /// A name that is free on another file system.
    pub(crate) fn elsewhere(&self) -> PathBuf {
        let here = self.expect_ok("stat", line!(), stat(self.dir)).dev;
        let other = ["/dev/shm", "/run", "/tmp", "/"]
            .into_iter()
            .find(|dir| stat(*dir).is_ok_and(|stat| stat.dev != here));
        match other {
            Some(dir) => Path::new(dir).join(format!("trumanfs-free-name-{}", std::process::id())),
            None => self.stop("there is no other file system to try".to_owned()),
        }
    }

    /// Waits until the clock that stamps files has left `time` behind, so that a change made now shows.
    pub(crate) fn tick(&self, time: Time) {
        let probe = self.root.join(format!(
            ".tick-{}-{}",
            std::process::id(),
            self.dir.file_name().unwrap_or_default().to_string_lossy()
        ));
        loop {
            let _ = unlink(&probe);
            self.expect_ok("creat (clock probe)", line!(), creat(&probe, 0o600));
            let now = self
                .expect_ok("stat (clock probe)", line!(), stat(&probe))
                .ctime;
            if now > time {
                let _ = unlink(&probe);
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    /// Sets an object's access and modification times to [`OLD`], waits for the clock to move on, and returns its attributes.
    pub(crate) fn age(&self, path: &Path) -> Stat {
        self.expect_ok("utimensat", line!(), lutimens(path, OLD, OLD));
        let stat = self.expect_ok("lstat", line!(), lstat(path));
        self.tick(stat.ctime);
        stat
    }

    /// Returns whether data goes through the page cache to the daemon: a home without passthrough, so without its holes.
    pub(crate) fn writes_back(&self) -> bool {
        self.has(HOME) && !self.has(HOLES)
    }

    /// Expects a regular file's attributes to be as they were.
    ///
    /// Where it [writes back](Self::writes_back) the kernel keeps a change time of its own, that of the
    /// `write` or `utimensat`; the store's is that of the request, a moment later. It shows once the kernel forgets the
    /// file, which another test may cause at any time.
    pub(crate) fn expect_unchanged(&self, line: u32, path: &Path, before: &Stat) {
        let got = self.expect_ok("stat", line, stat(path));
        let mut wanted = *before;
        if self.writes_back() && (got.ctime.0 - before.ctime.0) < 10 {
            wanted.ctime = got.ctime.max(before.ctime);
        }
        self.expect_eq("stat", line, &got, &wanted);
    }

    /// Goes on in a forked child; what goes wrong there counts here.
    pub(crate) fn child(&self, work: impl FnOnce()) {
        let answer = child::in_child(|| {
            let before = self.checks.get();
            self.problems.borrow_mut().clear();
            self.guard(work);
            Ok(format!(
                "{}\u{1e}{}",
                self.checks.get() - before,
                self.problems.borrow().join("\u{1e}")
            ))
        });
        match answer {
            Ok(report) => {
                let mut parts = report.split('\u{1e}').filter(|part| !part.is_empty());
                let checks = parts
                    .next()
                    .and_then(|count| count.parse().ok())
                    .unwrap_or(0);
                self.checks.set(self.checks.get() + checks);
                self.problems.borrow_mut().extend(parts.map(str::to_owned));
            }
            Err(problem) => self.problem(format!("child: {problem}")),
        }
    }

    /// Goes on as another user without supplementary groups.
    pub(crate) fn user(&self, id: u32, work: impl FnOnce()) {
        self.user_in(id, &[], work);
    }

    /// Goes on as another user with supplementary groups.
    pub(crate) fn user_in(&self, id: u32, groups: &[u32], work: impl FnOnce()) {
        self.child(|| {
            child::become_user(id, id, groups);
            work();
        });
    }
}

/// A value on one line, cut where it gets long.
fn short(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    if text.len() <= 300 {
        text
    } else {
        format!(
            "{}… ({} characters)",
            text.chars().take(280).collect::<String>(),
            text.len()
        )
    }
}

/// An error by its name in the headers.
pub(crate) fn name_of(error: Errno) -> String {
    let number = error.raw_os_error();
    ERRNOS
        .iter()
        .find(|(value, _)| *value == number)
        .map_or_else(|| format!("errno {number}"), |(_, name)| (*name).to_owned())
}

macro_rules! errnos {
    ($($name:ident)*) => {
        $(pub(crate) use libc::$name;)*
        const ERRNOS: &[(i32, &str)] = &[$(($name, stringify!($name))),*];
    };
}

errnos! {
    EPERM ENOENT EINTR EIO ENXIO EBADF EAGAIN ENOMEM EACCES EFAULT EBUSY EEXIST EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY
    EFBIG ENOSPC ESPIPE EROFS EMLINK EPIPE ERANGE EDEADLK ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY ELOOP ENODATA EOVERFLOW EOPNOTSUPP ENOTCONN
    ECONNABORTED ECONNREFUSED ESTALE E2BIG EADDRINUSE
}

/// Expects a call to succeed and gives its value: `ok!(t, mkdir(&path, 0o755))`.
macro_rules! ok {
    ($t:expr, $call:expr) => {
        $t.expect_ok(stringify!($call), line!(), $call)
    };
}

/// Expects a call to fail with one of some errors: `err!(t, EEXIST | ENOTEMPTY, rmdir(&path))`.
macro_rules! err {
    ($t:expr, $($errno:ident)|+, $call:expr) => {
        $t.expect_err(stringify!($call), line!(), $call, &[$(crate::posix::trial::$errno),+], stringify!($($errno)|+))
    };
}

/// Expects a value: `eq!(t, ok!(t, stat(&path)).size, 5)`.
macro_rules! eq {
    ($t:expr, $got:expr, $wanted:expr) => {
        $t.expect_eq(stringify!($got), line!(), &$got, &$wanted)
    };
}

/// Expects a regular file to have the attributes that it had: `unchanged!(t, path, before)`.
macro_rules! unchanged {
    ($t:expr, $path:expr, $before:expr) => {
        $t.expect_unchanged(line!(), &$path, &$before)
    };
}

/// Expects something to hold: `is!(t, after.mtime > before.mtime)`.
macro_rules! is {
    ($t:expr, $holds:expr) => {
        $t.expect_that(stringify!($holds), line!(), $holds, "does not hold")
    };
    ($t:expr, $holds:expr, $($say:tt)+) => {
        $t.expect_that(stringify!($holds), line!(), $holds, &format!($($say)+))
    };
}

pub(crate) use {eq, err, is, ok, unchanged};
