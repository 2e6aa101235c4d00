//! Actors in records: a change is attributed to the program that made it, however recently another program ran in the
//! same process.
//!
//! Many processes at once try each way of executing another program, with a change just before it and one just after.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{Home, copy_program, describe, need_mount, skip};

/// How many processes do the same at once.
const AT_ONCE: usize = 12;

/// A way of running another program in the same process.
struct Way {
    name: &'static str,
    /// In bash: `$N` is a number of its own, `$PROGRAMS` the directory of [`programs`].
    script: &'static str,
    /// What is done to which file, by a program of which name, from a file that ends so.
    expected: &'static [(&'static str, &'static str, &'static str, &'static str)],
}

const WAYS: &[Way] = &[
    Way {
        name: "exec",
        script: r#"echo z > "a-$N"; exec perl -e 'open(F, ">", $ARGV[0]); close F; unlink $ARGV[1]' "b-$N" "a-$N""#,
        expected: &[
            ("create", "a", "bash", "/bash"),
            ("create", "b", "perl", "/perl"),
            ("unlink", "a", "perl", "/perl"),
        ],
    },
    Way {
        name: "bash's own exec of what it runs last",
        script: r#"echo z > "a-$N"; rm "a-$N""#,
        expected: &[
            ("create", "a", "bash", "/bash"),
            ("unlink", "a", "rm", "/rm"),
        ],
    },
    Way {
        name: "a chain",
        script: r#": > "a-$N"; exec sh -c ': > "b-$N"; exec perl -e "mkdir qq(c-\$ENV{N}); exec qw(rm -r), map { qq(\$_-\$ENV{N}) } qw(a b c)"'"#,
        expected: &[
            ("create", "a", "bash", "/bash"),
            ("create", "b", "sh", "sh"),
            ("mkdir", "c", "perl", "/perl"),
            ("unlink", "a", "rm", "/rm"),
            ("unlink", "b", "rm", "/rm"),
            ("rmdir", "c", "rm", "/rm"),
        ],
    },
    Way {
        name: "a program of the same name",
        script: r#"exec "$PROGRAMS/one/tool" -c ': > "a-$N"; exec "$PROGRAMS/two/tool" -c ": > b-$N"'"#,
        expected: &[
            ("create", "a", "tool", "/one/tool"),
            ("create", "b", "tool", "/two/tool"),
        ],
    },
    Way {
        name: "the same program by another name",
        script: r#": > "a-$N"; exec -a other "$PROGRAMS/two/tool" -c ': > "b-$N"'"#,
        expected: &[
            ("create", "a", "bash", "/bash"),
            ("create", "b", "tool", "/two/tool"),
        ],
    },
    Way {
        name: "a script of its own",
        script: r#": > "a-$N"; exec "$PROGRAMS/script" "b-$N""#,
        expected: &[
            ("create", "a", "bash", "/bash"),
            ("create", "b", "script", "/two/tool"),
        ],
    },
    Way {
        name: "from one of several threads",
        script: r#"exec python3 -c '
import os, threading
n = os.environ["N"]
def work():
    os.mkdir("a-" + n)
    os.execlp("rmdir", "rmdir", "a-" + n)
os.mkdir("b-" + n)
threading.Thread(target=work).start()
threading.Event().wait()'"#,
        expected: &[
            ("mkdir", "a", "python3", "python3"),
            ("mkdir", "b", "python3", "python3"),
            ("rmdir", "a", "rmdir", "/rmdir"),
        ],
    },
    Way {
        name: "a child that shares its parent's memory until it runs something",
        script: r#"exec python3 -c '
import os
n, programs = os.environ["N"], os.environ["PROGRAMS"]
out = [(os.POSIX_SPAWN_OPEN, 1, "a-" + n, os.O_CREAT | os.O_WRONLY, 0o644)]
os.waitpid(os.posix_spawn(programs + "/two/python3", ["x", "-c", ": > b-" + n], os.environ, file_actions=out), 0)
os.mkdir("c-" + n)'"#,
        expected: &[
            ("create", "a", "python3", "python3"),
            ("create", "b", "python3", "/two/python3"),
            ("mkdir", "c", "python3", "python3"),
        ],
    },
];

/// Programs that are told apart by their files only.
fn programs(dir: &Path) {
    for place in ["one", "two"] {
        fs::create_dir(dir.join(place)).unwrap();
        copy_program("/bin/bash", dir.join(place).join("tool"));
    }
    copy_program("/bin/bash", dir.join("two/python3"));
    let script = dir.join("script");
    let text = format!("#!{}\n: > \"$1\"\n", dir.join("two/tool").display());
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
}

fn missing() -> Option<&'static str> {
    ["perl", "python3"]
        .into_iter()
        .find(|program| Command::new(program).arg("-V").output().is_err())
}

/// Runs a way many times at once, and compares each record with what was done.
fn check(home: &Home, programs: &Path, way: &Way) {
    let before = home.journal().len();
    let children: Vec<_> = (0..AT_ONCE)
        .map(|n| {
            Command::new("bash")
                .args(["-c", way.script])
                .current_dir(home.home())
                .env("N", n.to_string())
                .env("PROGRAMS", programs)
                .stdin(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success(), "{}", way.name);
    }
    let mut done = BTreeMap::new();
    for record in &home.journal()[before..] {
        let (op, path) = (
            record["op"].as_str().unwrap(),
            record["path"].as_str().unwrap_or_default(),
        );
        let actor = &record["actor"];
        let who = (actor["comm"].to_string(), actor["exe"].to_string());
        done.insert((op.to_owned(), path.to_owned()), who);
    }
    let mut known = 0;
    for n in 0..AT_ONCE {
        for (op, file, comm, exe) in way.expected {
            let key = ((*op).to_owned(), format!("/{file}-{n}"));
            let who = done
                .get(&key)
                .unwrap_or_else(|| panic!("{}: no {key:?}", way.name));
            let (is, file) = (who.0.trim_matches('"'), who.1.trim_matches('"'));
            // On a machine with much to do, the daemon does not wait for the file's name (SECURITY.md); never is it another's.
            if file == "null" {
                assert_eq!(is, *comm, "{}: {key:?}", way.name);
                continue;
            }
            known += 1;
            // The name of a python is that of its version here and there.
            let fits = file.ends_with(exe) || exe == &"python3" && file.contains("/python3");
            assert!(is == *comm && fits, "{}: {key:?} by {who:?}", way.name);
            if exe == &"python3" {
                assert!(
                    !file.starts_with(programs.to_str().unwrap()),
                    "{}: {key:?} by {who:?}",
                    way.name
                );
            }
        }
    }
    assert!(known > 0, "{}: no program's file is known", way.name);
    home.sh("rm -rf ./*");
}

fn every_way(options: &[&str]) {
    if let Some(program) = missing() {
        skip!("tools", "needs {program}");
    }
    let dir = tempfile::TempDir::with_prefix("trumanfs-programs-").unwrap();
    programs(dir.path());
    let home = Home::with(options);
    for way in WAYS {
        check(&home, dir.path(), way);
    }
}

#[test]
fn a_change_is_recorded_as_that_of_the_program_that_made_it() {
    need_mount!();
    every_way(&[]);
}

#[test]
fn the_same_without_passthrough() {
    need_mount!();
    every_way(&["--no-passthrough"]);
}

#[test]
fn a_program_that_ran_in_anothers_process_is_undone_alone() {
    need_mount!();
    if let Some(program) = missing() {
        skip!("tools", "needs {program}");
    }
    let mut home = Home::prepared(
        |store| fs::write(store.join("kept"), "before").unwrap(),
        &[],
    );
    home.sh(r#"bash -c 'echo by bash > one; exec perl -e "open(F, q(>), q(kept)); print F q(by perl); close F; mkdir q(two)"'"#);
    home.umount();
    let undone = home.trumanfs(&[
        "undo".as_ref(),
        home.store().as_os_str(),
        "--session".as_ref(),
        "last".as_ref(),
        "--program".as_ref(),
        "perl".as_ref(),
    ]);
    assert!(undone.status.success(), "{}", describe(&undone));
    assert_eq!(fs::read(home.store().join("kept")).unwrap(), b"before");
    assert!(!home.store().join("two").exists());
    assert_eq!(fs::read(home.store().join("one")).unwrap(), b"by bash\n");
}
