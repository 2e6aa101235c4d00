//! Real programs in lines of the bundled shell: what bash does with them, and what a policy and the sandbox change.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::common::{Home, describe, need_mount, need_tools, run_limited, skip, trumanfs};

const POLICY: &str = r#"
git:
  subcommands:
    init: { flags: ["-q"] }
    add: { flags: ["-A"] }
    status: { flags: ["--porcelain", "-s"] }
sort: { flags: ["-r", "-n", "-u"], allow_script_paths: true }
uniq: { flags: ["-c"], allow_script_paths: true }
tr: { allow_script_paths: true }
dash: { flags: ["-c"] }
seq: { allow_script_paths: true }
printf: { allow_script_paths: true }
test: { flags: ["-e", "-f", "-z"], allow_script_paths: true }
yes: {}
sleep: { allow_script_paths: true }
"#;

/// A store, and a policy beside it.
pub(crate) struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        Place::with(POLICY)
    }

    pub(crate) fn with(policy: &str) -> Place {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("store")).unwrap();
        fs::write(dir.path().join("policy.yaml"), policy).unwrap();
        Place { dir }
    }

    /// The directory around the store, which no sandbox shows.
    pub(crate) fn outside(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    /// Runs a line at a root: the store, or a home.
    fn exec(&self, root: &Path, line: &str) -> Output {
        self.exec_with(root, line, &[])
    }

    pub(crate) fn exec_with(&self, root: &Path, line: &str, options: &[&str]) -> Output {
        run_limited(self.command(root, line, options), Duration::from_secs(60))
    }

    /// The command that runs a line at a root.
    pub(crate) fn command(&self, root: &Path, line: &str, options: &[&str]) -> Command {
        let mut command = Command::new(crate::common::binary());
        command.arg("exec").arg("--root").arg(root);
        command
            .arg("--policy")
            .arg(self.dir.path().join("policy.yaml"));
        command
            .args(options)
            .arg("--")
            .arg(line)
            .stdin(Stdio::null());
        command
    }
}

fn bash(dir: &Path, line: &str) -> Output {
    let mut command = Command::new("bash");
    command
        .args(["-c", line])
        .current_dir(dir)
        .stdin(Stdio::null());
    command
        .env("LC_ALL", "C")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("HOME", dir);
    run_limited(command, Duration::from_secs(60))
}

/// Whether sandboxes can be had here.
pub(crate) fn sandboxes(place: &Place) -> bool {
    place.exec(&place.store(), "dash -c 'exit 0'").status.code() == Some(0)
}

/// Skips the test where no sandbox can be made. The policy has to allow `dash -c`.
macro_rules! need_sandbox {
    ($place:expr) => {
        need_mount!();
        need_tools!("dash", "git");
        if !$crate::programs::sandboxes(&$place) {
            skip!("sandbox", "no sandbox can be made here");
        }
    };
}

/// Lines that do what they do in bash, with the same status, output and files.
const LINES: &[&str] = &[
    "seq 5 | sort -r | head -2",
    "printf 'b\\na\\nb\\n' | sort | uniq -c | cat -n",
    "printf 'b\\na\\n' > f; sort f > g; cat g; sort -r < f",
    "echo lower | tr a-z A-Z | cat - /dev/null",
    "cat <<E | tr a-z A-Z\nhere $x\nE",
    "dash -c 'exit 7'; echo $?; dash -c 'exit 3' || echo or; ! dash -c 'exit 1' && echo and",
    "dash -c 'kill -9 $$'; echo $?",
    "yes | head -3",
    "yes | head -c 100000 | wc -c",
    "x=$(seq 3 | tr 2 x); echo \"$x\"; echo `dash -c 'echo old'`",
    "dash -c 'echo out; echo err >&2' 2>&1 | sort",
    "dash -c 'echo err >&2' 2>/dev/null; dash -c 'echo x' >/dev/null; dash -c 'cat; echo end' </dev/null",
    "mkdir -p d/e; cd d/e; dash -c 'pwd | tr / \\\\n | tail -n 1'; dash -c 'echo new > made'; ls",
    "(cd /; :) 2>/dev/null; { seq 2; seq 3; } | sort -n | uniq -c; (seq 2; cat) < /dev/null",
    "test -e nope || echo absent; touch f; test -f f && echo there; printf '%s-%s\\n' a 'b c'",
    "seq 100000 | tail -n 1; seq 20000 | dash -c 'cat' | wc -l",
    "printf 'a\\nb\\nc\\n' | (dash -c 'read x; echo \"[$x]\"'; cat)",
    "git init -q; echo hi > f; git add -A; git status -s",
    "for_not=1; dash -c 'echo one' && dash -c 'false' && echo no; echo $?",
    "echo *; dash -c 'echo \"$1\"' name 'two  words'; dash -c 'echo $#' x \"\" y",
];

pub(crate) use need_sandbox;

#[test]
fn lines_do_what_bash_does() {
    let place = Place::new();
    need_sandbox!(place);
    let home = Home::plan().limit(Duration::from_secs(300)).mount();
    let mut wrong = Vec::new();
    for (number, line) in LINES.iter().enumerate() {
        // `:` and `(cd /)` are not the shell's; what has them is compared in bash's own words.
        let line = line.replace("(cd /; :) 2>/dev/null; ", "");
        let native = place.dir.path().join(format!("native{number}"));
        let (store, inside) = (
            place.dir.path().join(format!("store{number}")),
            home.path(format!("{number}")),
        );
        for dir in [&native, &store, &inside] {
            fs::create_dir(dir).unwrap();
        }
        let wanted = bash(&native, &line);
        // Programs see the whole of a home, so that is the root.
        let below = format!("cd {number}; {line}");
        for (door, root, at, line) in [
            ("store", &store, store.as_path(), &line),
            ("home", &inside, home.home(), &below),
        ] {
            let got = place.exec(at, line);
            let shown = |output: &Output, dir: &Path| {
                String::from_utf8_lossy(&output.stdout).replace(dir.to_str().unwrap(), "ROOT")
            };
            let same = shown(&got, root) == shown(&wanted, &native)
                && got.status.code() == wanted.status.code();
            if !same {
                wrong.push(format!(
                    "{door}: {line}\n  bash {}\n  ours {}",
                    describe(&wanted),
                    describe(&got)
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn what_the_policy_does_not_name_or_allow_is_refused_in_the_words_of_each() {
    let place = Place::new();
    need_sandbox!(place);
    let store = place.store();
    let said = |line: &str| {
        let output = place.exec(&store, line);
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (code, words) = said("awk 1 f; touch made");
    assert_eq!(code, Some(127), "{words}");
    assert!(
        words.contains("awk: command not found; nothing of the line has run"),
        "{words}"
    );
    assert!(!store.join("made").exists());
    let (code, words) = said("nosuch --version || touch made");
    assert_eq!(
        (code, &*words),
        (Some(0), "bash: nosuch: command not found\n")
    );
    assert!(store.join("made").exists());
    // A builtin of bash that no policy names stays what it was.
    assert_eq!(said("eval ls").0, Some(2));
    // A program that may not run as it was asked for is a command that fails.
    let (code, words) = said("git push; echo \"status $?\"; sort -o /etc/x f || touch after");
    assert_eq!(code, Some(0), "{words}");
    assert!(
        words.contains("git: blocked by git.subcommands") && words.contains("sort: blocked by"),
        "{words}"
    );
    assert!(store.join("after").exists());
    // `find -exec` runs bundled commands alone.
    assert_eq!(said("find . -exec dash -c true \\;").0, Some(127));
    let audit = fs::read_to_string(store.join(".trumanfs/audit.jsonl")).unwrap();
    let events: Vec<serde_json::Value> = audit
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &serde_json::Value| line["event"] == "command_blocked")
        .collect();
    assert_eq!(events.len(), 1, "{audit}");
    assert_eq!(
        (&events[0]["verdict"], &events[0]["rule"]),
        (&"deny".into(), &"git.subcommands".into())
    );
}

#[test]
fn a_line_is_one_run_whoever_did_the_work() {
    let place = Place::new();
    need_sandbox!(place);
    let home = Home::mount();
    let line = "echo a > bundled; dash -c 'echo b > program; (sleep 0.1; echo c > later) & wait' | cat; mkdir d";
    let output = place.exec_with(home.home(), line, &["--json"]);
    assert!(output.status.success(), "{}", describe(&output));
    let outcome: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(outcome["changed"], true);
    let run = outcome["run"].as_str().unwrap();
    for name in ["bundled", "program", "later", "d"] {
        assert!(home.path(name).exists(), "{name}");
    }
    let undone = trumanfs(&[
        "undo".as_ref(),
        home.home().as_os_str(),
        "--run".as_ref(),
        run.as_ref(),
    ]);
    assert!(undone.status.success(), "{}", describe(&undone));
    for name in ["bundled", "program", "later", "d"] {
        assert!(!home.path(name).exists(), "{name}");
    }
}

#[test]
fn what_a_line_leaves_running_ends_with_it() {
    let place = Place::new();
    need_sandbox!(place);
    let home = Home::mount();
    let long = "dash -c 'setsid sleep 4321 & sleep 4321 & echo begun'";
    let output = place.exec(home.home(), long);
    assert_eq!(output.stdout, b"begun\n", "{}", describe(&output));
    let output = place.exec_with(home.home(), "sleep 4321 | cat", &["--timeout", "1"]);
    assert_eq!(output.status.code(), Some(124), "{}", describe(&output));
    let runs = |pid: &str| {
        fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line == b"sleep\x004321\x00")
    };
    let names = fs::read_dir("/proc")
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = names
        .filter(|name| name.to_str().is_some_and(runs))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn programs_of_a_line_share_a_sandbox_and_its_tmp() {
    let place = Place::new();
    need_sandbox!(place);
    let store = place.store();
    let output = place.exec(&store, "dash -c 'echo kept > /tmp/x; ls -A / | head -c 1000' | wc -l | head -c 0; dash -c 'cat /tmp/x; ls /proc | grep -c ^1$; cat /etc/shadow'");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "kept\n1\n",
        "{}",
        describe(&output)
    );
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("No such file"),
        "{}",
        describe(&output)
    );
    // The store is at rest when the command ends.
    assert!(!store.join(".trumanfs/scratch").exists());
    let log = trumanfs(&["log".as_ref(), store.as_os_str()]);
    let log = String::from_utf8_lossy(&log.stdout).into_owned();
    assert!(log.trim_end().ends_with(" end"), "{log}");
}

#[test]
fn commands_and_programs_have_one_tmp() {
    let place = Place::new();
    need_sandbox!(place);
    let home = Home::mount();
    let line = "seq 3 | sort -r > /tmp/list; dash -c 'cat /tmp/list; echo 4 >> /tmp/list; mkdir /tmp/d'; tail -n 1 /tmp/list; \
                cp /tmp/list kept; (cd /tmp/d; pwd; touch here; cd ..; ls d; rm -r d); find /tmp -name 'l*'; echo /tmp/l*; \
                cat /tmp/../kept; cat /tmpx; ls /tmp/../etc";
    let output = place.exec(home.home(), line);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "3\n2\n1\n4\n/tmp/d\nhere\n/tmp/list\n/tmp/list\n",
        "{}",
        describe(&output)
    );
    assert_eq!(
        fs::read_to_string(home.path("kept")).unwrap(),
        "3\n2\n1\n4\n"
    );
    // A program may name what is there or could be; what the host has in a /tmp of its own is outside.
    let line = "sort -r /tmp/list | head -1; sort /tmp/list > /tmp/new; dash -c 'sort /tmp/new' | wc -l; sort /tmp/none/list; sort /tmp/../etc/passwd";
    let output = place.exec(home.home(), line);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.stdout, b"4\n4\n", "{}", describe(&output));
    assert_eq!(
        said.matches("blocked by paths.outside").count(),
        2,
        "{said}"
    );
    // What happens there is recorded nowhere.
    let log = trumanfs(&["log".as_ref(), home.home().as_os_str()]);
    let log = String::from_utf8_lossy(&log.stdout).into_owned();
    let changes = log
        .lines()
        .filter(|line| line.contains("trumanfs[") || line.contains("dash["));
    assert_eq!(changes.count(), 1, "{log}");
    // A second line of the session finds what the first has left; without programs there is no /tmp.
    assert_eq!(
        place.exec(home.home(), "cat /tmp/list").stdout,
        b"3\n2\n1\n4\n"
    );
    let plain = trumanfs(
        &[
            "exec",
            "--root",
            home.home().to_str().unwrap(),
            "--",
            "ls /tmp",
        ]
        .map(std::ffi::OsStr::new),
    );
    assert_eq!(plain.status.code(), Some(2), "{}", describe(&plain));
}

/// The scratch directory is another file system, where `mv` copies and removes as GNU's does.
#[test]
fn things_move_between_the_home_and_tmp() {
    let place = Place::new();
    need_sandbox!(place);
    let home = Home::mount();
    let line = "echo one > f; touch -d @1000 f; mkdir -m 750 d; mkdir d/e; echo two > d/e/x; \
                mv -v f d /tmp; ls; ls -l --time-style=+%s /tmp/f; mv -v /tmp/d back; mv /tmp/f d; cat d back/e/x; ls /tmp; \
                echo three > /tmp/d; mv -v d /tmp; cat /tmp/d; mkdir -p full/of /tmp/full/of; mv -T full /tmp/full; ls";
    let output = place.exec(home.home(), line);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let listed = told.lines().find(|line| line.starts_with("-rw"));
    let listed = listed.unwrap_or_else(|| panic!("{}", describe(&output)));
    assert!(listed.ends_with(" 4 1000 /tmp/f"), "{listed}");
    let told = told.replace(&format!("{listed}\n"), "");
    let expected = "copied 'f' -> '/tmp/f'\nremoved 'f'\n\
                    created directory '/tmp/d'\ncreated directory '/tmp/d/e'\ncopied 'd/e/x' -> '/tmp/d/e/x'\n\
                    removed 'd/e/x'\nremoved directory 'd/e'\nremoved directory 'd'\n\
                    created directory 'back'\ncreated directory 'back/e'\ncopied '/tmp/d/e/x' -> 'back/e/x'\n\
                    removed '/tmp/d/e/x'\nremoved directory '/tmp/d/e'\nremoved directory '/tmp/d'\n\
                    one\ntwo\n\
                    copied 'd' -> '/tmp/d'\nremoved 'd'\none\nback\nfull\n";
    assert_eq!(told, expected, "{}", describe(&output));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        said,
        "mv: inter-device move failed: 'full' to '/tmp/full'; unable to remove target: Directory not empty\n"
    );
    let mode = fs::metadata(home.path("back")).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::mode(&mode.permissions());
    assert_eq!(mode & 0o777, 0o750);
    // What left the home is in its trash.
    let trash =
        trumanfs(&["trash", "list", home.home().to_str().unwrap()].map(std::ffi::OsStr::new));
    let trash = String::from_utf8_lossy(&trash.stdout).into_owned();
    assert_eq!(trash.matches("was /f,").count(), 1, "{trash}");
    assert_eq!(trash.matches("was /d").count(), 2, "{trash}");
}

/// They were lost on the way.
#[test]
fn what_moves_between_the_home_and_tmp_takes_its_attributes_along() {
    let place = Place::new();
    need_sandbox!(place);
    let home = Home::with(&["--xattr"]);
    let flags = rustix::fs::XattrFlags::empty();
    let value = |name: &str, path: &Path| {
        let mut value = [0; 64];
        rustix::fs::getxattr(path, name, &mut value[..]).map(|len| value[..len].to_vec())
    };
    fs::create_dir(home.path("d")).unwrap();
    for name in ["f", "d/f"] {
        let path = home.path(name);
        fs::write(&path, name).unwrap();
        match rustix::fs::setxattr(&path, "user.note", name.as_bytes(), flags) {
            Err(rustix::io::Errno::OPNOTSUPP) => skip!("xattr", "the store's file system has none"),
            set => set.unwrap(),
        }
    }
    let output = place.exec(
        home.home(),
        "touch -d @1000 f; mv f d /tmp && ls && mv /tmp/f g && mv /tmp/d e; cp g h",
    );
    assert!(output.status.success(), "{}", describe(&output));
    assert_eq!(output.stdout, b"", "{}", describe(&output));
    assert_eq!(value("user.note", &home.path("g")), Ok(b"f".to_vec()));
    assert_eq!(value("user.note", &home.path("e/f")), Ok(b"d/f".to_vec()));
    // `cp` takes none along, and the time of what moved is as it was.
    let none = value("user.note", &home.path("h"));
    assert_eq!(none, Err(rustix::io::Errno::NODATA));
    let moved = fs::metadata(home.path("g")).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::mtime(&moved), 1000);
}
