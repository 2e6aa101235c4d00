//! The bundled shell: the scenarios of its specification, and a comparison with bash and GNU's tools.
//!
//! Each line of `tests/shell/*.lines` runs three times in a copy of the tree made by `tests/shell/fixture.sh`: in
//! real bash, in an unmounted store, and in a mounted home. Standard output, status and the resulting tree must be
//! the same; under `## differs: reason`, they must differ; under `## in any order`, the order of output lines does
//! not count.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use trumanfs::exec::mounted_home::MountedHome;
use trumanfs::exec::offline_home::OfflineHome;
use trumanfs::exec::shell::Shell;
use trumanfs::exec::{Limits, Outcome, Status};

use crate::common::{Home, need_mount};

const UNLIMITED: Limits = Limits {
    time: Some(Duration::from_secs(20)),
    memory: 256 << 20,
    lines: 0,
    bytes: 0,
    tail: false,
};

/// A line to compare.
#[derive(Debug, Clone)]
struct Line {
    place: String,
    text: Vec<u8>,
    differs: bool,
    any_order: bool,
}

fn lines() -> Vec<Line> {
    let dir = crate::common::repository().join("tests/shell");
    let mut files: Vec<PathBuf> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "lines"))
        .collect();
    files.sort();
    let mut found = Vec::new();
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let (mut differs, mut any_order) = (false, false);
        for (number, text) in fs::read(&file).unwrap().split(|b| *b == b'\n').enumerate() {
            if text.starts_with(b"#") || text.is_empty() {
                differs = text.starts_with(b"## differs: ");
                any_order = text.starts_with(b"## in any order");
                continue;
            }
            found.push(Line {
                place: format!("{name}:{}", number + 1),
                text: text.to_vec(),
                differs,
                any_order,
            });
        }
    }
    found
}

/// What can be seen of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    stdout: String,
    status: i32,
    tree: BTreeMap<String, String>,
}

impl Seen {
    /// Sorts what was written by lines.
    fn sort(&mut self) {
        let mut lines: Vec<&str> = self.stdout.split_inclusive('\n').collect();
        lines.sort_unstable();
        self.stdout = lines.concat();
    }
}

/// Describes each thing below a directory but for what is the store's own.
fn tree(top: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut pending = vec![top.to_owned()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path
                .strip_prefix(top)
                .unwrap()
                .as_os_str()
                .as_bytes()
                .escape_ascii()
                .to_string();
            if matches!(&name[..], ".trash" | ".trumanfs") {
                continue;
            }
            let meta = fs::symlink_metadata(&path).unwrap();
            let mut what = format!("{:o}", meta.permissions().mode());
            // What the line made has the time at which it did.
            if meta.mtime() < 1_790_000_000 {
                let _ = write!(what, " {}", meta.mtime());
            }
            if meta.is_dir() {
                pending.push(path);
            } else {
                let content = fs::read(&path).unwrap();
                let _ = write!(what, " {} {}", content.len(), content.escape_ascii());
            }
            found.insert(name, what);
        }
    }
    found
}

/// Replaces the root's path, which differs from run to run.
fn shown(output: &[u8], root: &Path) -> String {
    let text = output.escape_ascii().to_string();
    text.replace(root.to_str().unwrap(), "ROOT")
        .replace("\\n", "\n")
}

fn through_bash(line: &[u8], root: &Path) -> Seen {
    let output = Command::new("timeout")
        .args(["20", "bash", "-O", "globstar", "-c"])
        .arg(std::ffi::OsStr::from_bytes(line))
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("LC_ALL", "C")
        // As in this process, where the shell runs.
        .envs(std::env::var_os("TZ").map(|zone| ("TZ", zone)))
        .env("HOME", root)
        .current_dir(root)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Seen {
        stdout: shown(&output.stdout, root),
        status: output.status.code().unwrap_or(-1),
        tree: tree(root),
    }
}

fn seen(outcome: &Outcome, root: &Path) -> Seen {
    Seen {
        stdout: shown(&outcome.stdout, root),
        status: outcome.return_code.into(),
        tree: tree(root),
    }
}

/// Runs a line, and says whether it was refused.
fn run(mut shell: Shell, line: &[u8]) -> (Outcome, bool) {
    let outcome = shell.run(line);
    let is_refused = outcome.status == Status::Blocked;
    (outcome, is_refused)
}

fn in_store(line: &[u8], root: &Path) -> (Seen, String) {
    let home = OfflineHome::open(root).unwrap();
    let mut shell = Shell::new(Arc::new(home), root.as_os_str().as_bytes(), UNLIMITED);
    let outcome = shell.run(line);
    drop(shell);
    (seen(&outcome, root), shown(&outcome.stderr, root))
}

fn in_home(line: &[u8], root: &Path) -> (Seen, String) {
    let home = MountedHome::open(root).unwrap();
    let mut shell = Shell::new(Arc::new(home), root.as_os_str().as_bytes(), UNLIMITED);
    let outcome = shell.run(line);
    (seen(&outcome, root), shown(&outcome.stderr, root))
}

/// Where one worker runs its lines: a tree for bash, one for the store, one for the home.
struct Trees<'t> {
    template: &'t Path,
    /// What the template holds.
    start: &'t BTreeMap<String, String>,
    roots: [PathBuf; 3],
    /// Which of them are as the template, as far as is known.
    renewed: [Cell<bool>; 3],
}

impl Trees<'_> {
    /// Makes the trees that a line has changed anew.
    fn renew(&self) {
        for (root, renewed) in self.roots.iter().zip(&self.renewed) {
            if renewed.replace(false) {
                continue;
            }
            if root.exists() {
                fs::remove_dir_all(root).unwrap();
            }
            let mut cp = Command::new("cp");
            cp.arg("-a").arg("-T").arg(self.template).arg(root);
            assert!(cp.status().unwrap().success());
        }
    }

    /// Takes note of what a line has left in one of the trees.
    fn left(&self, root: usize, seen: &Seen) {
        self.renewed[root].set(seen.tree == *self.start);
    }

    /// Compares one line. Returns what is wrong.
    fn compare(&self, line: &Line) -> Option<String> {
        self.renew();
        let [native, store, home] = &self.roots;
        let mut wanted = through_bash(&line.text, native);
        if line.any_order {
            wanted.sort();
        }
        let doors = [
            ("store", in_store(&line.text, store)),
            ("home", in_home(&line.text, home)),
        ];
        let mut wrong = String::new();
        self.left(0, &wanted);
        for (i, (door, (mut got, stderr))) in (1..).zip(doors) {
            self.left(i, &got);
            if line.any_order {
                got.sort();
            }
            for word in ["ermission", "denied", "not permitted"] {
                if stderr.contains(word) {
                    let _ = writeln!(wrong, "  {door} says {word:?}: {stderr}");
                }
            }
            let same = got == wanted;
            if same == line.differs {
                let what = if same { "does not differ" } else { "differs" };
                let _ = writeln!(wrong, "  {door}: {what}");
                if !same {
                    describe(&mut wrong, &wanted, &got, &stderr);
                }
            }
        }
        let text = line.text.escape_ascii();
        (!wrong.is_empty()).then(|| format!("{}: {text}\n{wrong}", line.place))
    }
}

fn describe(wrong: &mut String, wanted: &Seen, got: &Seen, stderr: &str) {
    if got.stdout != wanted.stdout {
        let _ = writeln!(
            wrong,
            "    bash wrote {:?}\n    ours wrote {:?}",
            wanted.stdout, got.stdout
        );
    }
    if got.status != wanted.status {
        let _ = writeln!(
            wrong,
            "    status {} instead of {}",
            got.status, wanted.status
        );
    }
    for (path, what) in &wanted.tree {
        if got.tree.get(path) != Some(what) {
            let _ = writeln!(
                wrong,
                "    {path}: bash left {what:.200}, ours {:.200?}",
                got.tree.get(path)
            );
        }
    }
    for path in got
        .tree
        .keys()
        .filter(|path| !wanted.tree.contains_key(*path))
    {
        let _ = writeln!(wrong, "    {path}: only ours");
    }
    let _ = writeln!(wrong, "    ours said {stderr:?}");
}

#[test]
fn lines_do_what_bash_does() {
    need_mount!();
    let home = Home::plan().limit(Duration::from_secs(500)).mount();
    let base = tempfile::tempdir().unwrap();
    let template = base.path().join("template");
    fs::create_dir(&template).unwrap();
    let script = crate::common::repository().join("tests/shell/fixture.sh");
    let made = Command::new("bash")
        .arg("-e")
        .arg(script)
        .current_dir(&template)
        .status();
    assert!(made.unwrap().success());
    // A line's place or a part of its file's name, to try one.
    let only = std::env::var("TRUMANFS_LINES").unwrap_or_default();
    let lines: Vec<Line> = lines()
        .into_iter()
        .filter(|line| line.place.contains(&only))
        .collect();
    let start = tree(&template);
    let next = AtomicUsize::new(0);
    let wrong = parking_lot::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for worker in 0..2 {
            let trees = Trees {
                template: &template,
                start: &start,
                roots: [
                    base.path().join(format!("bash{worker}")),
                    base.path().join(format!("store{worker}")),
                    home.home().join(format!("home{worker}")),
                ],
                renewed: Default::default(),
            };
            let (lines, next, wrong) = (&lines, &next, &wrong);
            scope.spawn(move || {
                while let Some(line) = lines.get(next.fetch_add(1, Ordering::Relaxed)) {
                    wrong.lock().extend(trees.compare(line));
                }
            });
        }
    });
    let mut wrong = wrong.into_inner();
    wrong.sort();
    assert!(
        wrong.is_empty(),
        "{} of {} lines:\n{}",
        wrong.len(),
        lines.len(),
        wrong.join("\n")
    );
    if only.is_empty() {
        assert!(lines.len() >= 400, "{} lines", lines.len());
    }
}

impl Trees<'_> {
    /// Compares a generated line. It does in both doors what it does in bash; or it is refused with a status that is not 0:
    /// before anything of it has run, or, where the name of a command came out of an expansion, in the middle.
    fn compare_generated(&self, line: &str, refused: &AtomicUsize) -> Option<String> {
        self.renew();
        let [native, store, home] = &self.roots;
        let wanted = through_bash(line.as_bytes(), native);
        self.left(0, &wanted);
        let mut wrong = String::new();
        for (i, door, root) in [(1, "store", store), (2, "home", home)] {
            let opened: Arc<dyn trumanfs::exec::Home> = match door {
                "store" => Arc::new(OfflineHome::open(root).unwrap()),
                _ => Arc::new(MountedHome::open(root).unwrap()),
            };
            let shell = Shell::new(opened, root.as_os_str().as_bytes(), UNLIMITED);
            let (outcome, is_refused) = run(shell, line.as_bytes());
            let got = seen(&outcome, root);
            self.left(i, &got);
            let stderr = shown(&outcome.stderr, root);
            if is_refused {
                refused.fetch_add(1, Ordering::Relaxed);
                let midway = line.contains("$x") || line.contains("{") || line.contains("*");
                if got.status == 0 || (!midway && got.tree != *self.start) {
                    let _ = writeln!(wrong, "  {door}: refused and yet done: {stderr}");
                }
            } else if got != wanted {
                let _ = writeln!(wrong, "  {door}: differs");
                describe(&mut wrong, &wanted, &got, &stderr);
            }
        }
        (!wrong.is_empty()).then(|| format!("{line}\n{wrong}"))
    }
}

/// Lines made from seeds. `TRUMANFS_GENERATED=FIRST-LAST` says which (`benches/trials/shell/run`).
#[test]
fn generated_lines_do_what_bash_does_or_are_refused() {
    need_mount!();
    let seeds = std::env::var("TRUMANFS_GENERATED").unwrap_or_else(|_| "1-150".to_owned());
    let (first, last) = seeds.split_once('-').unwrap();
    let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
    let home = Home::plan().limit(Duration::from_secs(590)).mount();
    let base = tempfile::tempdir().unwrap();
    let template = base.path().join("template");
    fs::create_dir(&template).unwrap();
    let script = crate::common::repository().join("tests/shell/fixture.sh");
    let mut made = Command::new("bash");
    made.arg("-e").arg(script).current_dir(&template);
    assert!(made.status().unwrap().success());
    let start = tree(&template);
    let (next, refused) = (AtomicUsize::new(first), AtomicUsize::new(0));
    let wrong = parking_lot::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for worker in 0..2 {
            let trees = Trees {
                template: &template,
                start: &start,
                roots: [
                    base.path().join(format!("bash{worker}")),
                    base.path().join(format!("store{worker}")),
                    home.home().join(format!("home{worker}")),
                ],
                renewed: Default::default(),
            };
            let (next, refused, wrong) = (&next, &refused, &wrong);
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > last {
                        return;
                    }
                    let line = crate::generate::Lines::new(seed as u64).line();
                    let found = trees.compare_generated(&line, refused);
                    wrong
                        .lock()
                        .extend(found.map(|found| format!("seed {seed}: {found}")));
                }
            });
        }
    });
    let mut wrong = wrong.into_inner();
    wrong.sort();
    let (count, refused) = (last - first + 1, refused.into_inner() / 2);
    assert!(
        wrong.is_empty(),
        "{} of {count}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    // Else it would be compared with nothing.
    assert!(refused * 2 < count, "{refused} of {count} were refused");
}

/// Does the same in a store that nobody has mounted and in a mounted home, each with a few files; `act` gets the root and the
/// trash.
fn through_both_doors(act: impl Fn(&Path, &Path)) {
    let prepare = |store: &Path| {
        fs::create_dir_all(store.join("subdir")).unwrap();
        let lines: String = (1..=20).map(|n| format!("line {n}\n")).collect();
        fs::write(store.join("file.txt"), lines).unwrap();
    };
    let store = tempfile::tempdir().unwrap();
    prepare(store.path());
    act(store.path(), &store.path().join(".trash"));
    if let Some(reason) = crate::common::why_not_mountable() {
        crate::need::skip!("fuse", "only the unmounted store: {reason}");
    }
    let home = Home::plan().prepare(prepare).mount();
    act(home.home(), &home.store().join(".trash"));
}

/// Runs a line with the real binary. Returns standard output, standard error and the status.
#[track_caller]
fn exec(root: &Path, line: &str) -> (String, String, i32) {
    let mut args: Vec<&std::ffi::OsStr> = vec![
        "exec".as_ref(),
        "--root".as_ref(),
        root.as_os_str(),
        "--".as_ref(),
    ];
    args.push(line.as_ref());
    let output = crate::common::trumanfs(&args);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        text(&output.stdout),
        text(&output.stderr),
        output.status.code().unwrap_or(-1),
    )
}

fn ok(stdout: impl Into<String>) -> (String, String, i32) {
    (stdout.into(), String::new(), 0)
}

fn failed(stderr: &str, status: i32) -> (String, String, i32) {
    (String::new(), format!("{stderr}\n"), status)
}

// The scenarios of the specification, each under its name.

#[test]
fn execute_valid_command() {
    through_both_doors(|root, _| assert_eq!(exec(root, "ls"), ok("file.txt\nsubdir\n")));
}

#[test]
fn execute_unknown_command() {
    through_both_doors(|root, _| {
        assert_eq!(
            exec(root, "xyz"),
            failed("bash: xyz: command not found", 127)
        );
    });
}

#[test]
fn access_path_outside_sandbox() {
    through_both_doors(|root, _| {
        assert_eq!(
            exec(root, "ls /etc"),
            failed("ls: /etc: No such file or directory", 2)
        );
    });
}

#[test]
fn traversal_attack_blocked() {
    through_both_doors(|root, _| {
        let expected = failed("cd: ~/../../etc: No such file or directory", 1);
        assert_eq!(exec(root, "cd ~/../../etc"), expected);
    });
}

#[test]
fn command_within_depth_limit() {
    through_both_doors(|root, _| {
        assert_eq!(
            exec(root, "cat file.txt | head -9 | tail -2 | grep 9"),
            ok("line 9\n")
        );
    });
}

#[test]
fn command_exceeds_depth_limit() {
    through_both_doors(|root, _| {
        let line = format!("echo x > made; cat file.txt{}", " | cat".repeat(15));
        assert_eq!(exec(root, &line), failed("pipe depth exceeded (max 10)", 2));
        assert!(!root.join("made").exists());
        let line = format!("cat file.txt{} | head -1", " | cat".repeat(8));
        assert_eq!(exec(root, &line), ok("line 1\n"));
    });
}

#[test]
fn two_stage_pipe() {
    through_both_doors(|root, _| {
        let five: String = (1..=5).map(|n| format!("line {n}\n")).collect();
        assert_eq!(exec(root, "cat file.txt | head -5"), ok(five));
    });
}

#[test]
fn commands_supporting_stdin() {
    through_both_doors(|root, _| {
        for (command, expected) in [
            ("head -1", "line 1\n"),
            ("tail -1", "line 20\n"),
            ("grep 12", "line 12\n"),
            ("wc -l", "20\n"),
        ] {
            assert_eq!(
                exec(root, &format!("cat file.txt | {command}")),
                ok(expected)
            );
        }
    });
}

#[test]
fn write_redirect() {
    through_both_doors(|root, _| {
        assert_eq!(exec(root, "echo hello > new.txt"), ok(""));
        assert_eq!(fs::read_to_string(root.join("new.txt")).unwrap(), "hello\n");
    });
}

#[test]
fn append_redirect() {
    through_both_doors(|root, _| {
        assert_eq!(
            exec(root, "echo hello > new.txt; echo more >> new.txt"),
            ok("")
        );
        assert_eq!(
            fs::read_to_string(root.join("new.txt")).unwrap(),
            "hello\nmore\n"
        );
    });
}

#[test]
fn redirect_outside_sandbox_blocked() {
    let before = fs::read("/etc/passwd").unwrap();
    through_both_doors(|root, _| {
        let expected = failed("bash: /etc/passwd: No such file or directory", 1);
        assert_eq!(exec(root, "echo pwned > /etc/passwd"), expected);
    });
    assert_eq!(fs::read("/etc/passwd").unwrap(), before);
}

/// The entries of a trash; `.gitignore` is the store's own.
fn removed(trash: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(trash).unwrap();
    let entries = entries.map(|entry| entry.unwrap().path());
    entries
        .filter(|path| !path.ends_with(".gitignore"))
        .collect()
}

#[test]
fn remove_file() {
    through_both_doors(|root, trash| {
        let content = fs::read(root.join("file.txt")).unwrap();
        assert_eq!(exec(root, "rm file.txt"), ok(""));
        assert!(!root.join("file.txt").exists());
        let entries = removed(trash);
        let [entry] = &entries[..] else {
            panic!("{entries:?}")
        };
        let name = entry.file_name().unwrap().to_str().unwrap();
        let (timestamp, name) = name.split_once('_').unwrap();
        assert_eq!(
            (timestamp.len(), name),
            ("20260116T101530.123456Z".len(), "file.txt")
        );
        assert_eq!(fs::read(entry).unwrap(), content);
    });
}

#[test]
fn cd_with_tilde() {
    through_both_doors(|root, _| {
        let shown = root.display();
        assert_eq!(
            exec(root, "cd ~/subdir && pwd && cd ~ && pwd"),
            ok(format!("{shown}/subdir\n{shown}\n"))
        );
        assert_eq!(exec(root, "cd subdir; cd; pwd"), ok(format!("{shown}\n")));
    });
}

#[test]
fn invalid_tilde_syntax() {
    through_both_doors(|root, _| {
        assert_eq!(
            exec(root, "cd ~user"),
            failed("cd: ~user: No such file or directory", 1)
        );
    });
}

// What the specification leaves open and the project has settled.

#[test]
fn a_removed_directory_is_one_entry() {
    through_both_doors(|root, trash| {
        assert_eq!(
            exec(root, "mkdir -p a/b/c; touch a/x a/b/y a/b/c/z; rm -r a"),
            ok("")
        );
        let entries = removed(trash);
        let [entry] = &entries[..] else {
            panic!("{entries:?}")
        };
        for path in ["x", "b/y", "b/c/z"] {
            assert!(entry.join(path).exists(), "{path}");
        }
    });
}

#[test]
fn a_big_stream_takes_little_memory_and_ends_early() {
    through_both_doors(|root, _| {
        let big = fs::File::create(root.join("big")).unwrap();
        let block: Vec<u8> = b"a line that is neither long nor short x\n".repeat(25_000);
        for _ in 0..80 {
            (&big).write_all(&block).unwrap();
        }
        // 80 MB through a shell that may have 32 MB for itself.
        let run = |line: &str| {
            let mut command = Command::new("bash");
            command.args([
                "-c",
                "ulimit -d 32768 && exec \"$@\"",
                "bash",
                crate::common::binary(),
            ]);
            command
                .args(["exec", "--root"])
                .arg(root)
                .arg("--")
                .arg(line);
            let output = command.output().unwrap();
            assert!(
                output.stderr.is_empty(),
                "{}",
                crate::common::describe(&output)
            );
            String::from_utf8(output.stdout).unwrap()
        };
        assert_eq!(run("cat big | grep x | wc -l"), "2000000\n");
        assert_eq!(run("cat big | head -5 | wc -l"), "5\n");
    });
}

#[test]
fn what_is_hidden_or_protected_in_an_unmounted_store_is_said_with_the_line() {
    let store = tempfile::tempdir().unwrap();
    fs::create_dir(store.path().join("secrets")).unwrap();
    fs::write(store.path().join("secrets/key"), "the key").unwrap();
    fs::write(store.path().join("kept.txt"), "as it is\n").unwrap();
    let root = store.path().to_str().unwrap();
    let exec = |line: &str| {
        let options = ["--hide", "secrets/", "--read-only", "kept.txt"];
        let args = [&["exec", "--root", root][..], &options, &["--", line]].concat();
        let output = crate::common::trumanfs(&args);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            text(&output.stdout),
            text(&output.stderr),
            output.status.code().unwrap_or(-1),
        )
    };
    assert_eq!(exec("ls -A; cat **/key; find . -name key"), {
        let (stdout, stderr) = ("kept.txt\n", "cat: **/key: No such file or directory\n");
        (stdout.to_owned(), stderr.to_owned(), 0)
    });
    assert_eq!(
        exec("cat secrets/key"),
        failed("cat: secrets/key: No such file or directory", 1)
    );
    assert_eq!(
        exec("echo x > kept.txt"),
        failed("bash: kept.txt: Read-only file system", 1)
    );
    assert_eq!(exec("rm kept.txt").2, 1);
    assert_eq!(
        fs::read_to_string(store.path().join("kept.txt")).unwrap(),
        "as it is\n"
    );
}
