//! The shell in a race: while a directory of the store is swapped for a symlink that leads out, and back, no line
//! reads, lists or changes anything outside. Through both doors.
//!
//! Owns the shell's canaries: a text and a name that exist only outside, and the lines that would reveal them.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink as plant_link};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::calls::{RENAME_EXCHANGE, renameat2};
use crate::common::{Home, need_mount};
use trumanfs::exec;
use trumanfs::exec::Limits;
use trumanfs::exec::mounted_home::MountedHome;
use trumanfs::exec::offline_home::OfflineHome;
use trumanfs::exec::shell::Shell;

/// What every file outside holds. No line has it.
const CANARY: &str = "nobody inside may ever read this";
/// A name that is only outside. No line has it.
const NAME: &str = "the-name-outside";
/// How long each storm lasts.
const LONG: Duration = Duration::from_secs(2);

/// Something outside, as far as anybody could change it.
type Seen = (PathBuf, u32, u64, (i64, i64), Vec<u8>);

/// Returns all that is in a directory, in order.
fn look(dir: &Path) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut pending = vec![dir.to_owned()];
    while let Some(at) = pending.pop() {
        let meta = fs::symlink_metadata(&at).unwrap();
        let mut content = Vec::new();
        if meta.is_dir() {
            pending.extend(fs::read_dir(&at).unwrap().map(|e| e.unwrap().path()));
        } else if meta.is_file() {
            content = fs::read(&at).unwrap();
        }
        let changed = (meta.ctime(), meta.ctime_nsec());
        seen.push((at, meta.mode(), meta.nlink(), changed, content));
    }
    seen.sort();
    seen
}

/// Makes `store/top/dir`, a directory, and `store/top/way`, a link to `outside`, with the same names in both.
fn prepare(store: &Path) {
    let outside = store.parent().unwrap().join("outside");
    for (dir, text) in [(&outside, CANARY), (&store.join("top/dir"), "inside")] {
        fs::create_dir_all(dir.join("sub/deeper")).unwrap();
        for name in ["file", "victim", "sub/file", "sub/deeper/file"] {
            fs::write(dir.join(name), format!("{text}: {name}\n")).unwrap();
        }
    }
    for name in [NAME, "sub/the-name-outside", "sub/deeper/the-name-outside"] {
        fs::write(outside.join(name), CANARY).unwrap();
    }
    for n in 0..40 {
        fs::write(store.join(format!("top/dir/sub/many{n}")), "inside\n").unwrap();
    }
    fs::write(store.join("mine"), "mine\n").unwrap();
    plant_link("../../outside", store.join("top/way")).unwrap();
    let led = fs::read_to_string(store.join("top/way/file")).unwrap();
    assert!(led.contains(CANARY), "the link of this test must lead out");
}

/// Runs lines in two shells, over and over, while the directory and the link change places.
fn storm(door: &str, store: &Path, root: &Path, home: Arc<dyn exec::Home>, lines: &[&str]) {
    let outside = store.parent().unwrap().join("outside");
    let before = look(&outside);
    let (dir, way) = (store.join("top/dir"), store.join("top/way"));
    let stop = AtomicBool::new(false);
    let (swaps, well, ill) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        let limits = Limits {
            time: Some(Duration::from_secs(20)),
            memory: 256 << 20,
            lines: 0,
            bytes: 0,
            tail: false,
        };
        let mut shell = Shell::new(home.clone(), root.as_os_str().as_bytes(), limits);
        while !stop.load(Ordering::Relaxed) {
            for line in lines {
                shell.run(b"cd");
                let outcome = shell.run(line.as_bytes());
                for said in [&outcome.stdout, &outcome.stderr] {
                    let said = String::from_utf8_lossy(said);
                    assert!(
                        !said.contains(CANARY) && !said.contains(NAME),
                        "{door}: {line}: {said}"
                    );
                }
                let count = if outcome.return_code == 0 {
                    &well
                } else {
                    &ill
                };
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        let swapper = scope.spawn(|| {
            let until = Instant::now() + LONG;
            let mut n = 0u64;
            while Instant::now() < until {
                renameat2(&dir, &way, RENAME_EXCHANGE).unwrap();
                n += 1;
                // Now without a pause, now with one that lets a whole operation in.
                if n.is_multiple_of(8) {
                    std::thread::sleep(Duration::from_micros(n % 2000));
                }
            }
            // At the end the directory is the directory.
            if n % 2 == 1 {
                renameat2(&dir, &way, RENAME_EXCHANGE).unwrap();
            }
            swaps.store(n, Ordering::Relaxed);
        });
        let workers = [scope.spawn(work), scope.spawn(work)];
        let swapped = swapper.join();
        stop.store(true, Ordering::Relaxed);
        for worker in workers {
            worker.join().unwrap();
        }
        swapped.unwrap();
    });
    assert_eq!(look(&outside), before, "{door}: something outside changed");
    // What was removed is gathered once somebody looks into the trash through the home; until then it moves about there.
    let _ = fs::read_dir(root.join(".trash")).map(Iterator::count);
    for (path, .., content) in look(store) {
        let content = String::from_utf8_lossy(&content);
        assert!(
            !content.contains(CANARY),
            "{door}: came in: {}",
            path.display()
        );
        assert!(!path.ends_with(NAME), "{door}: came in: {}", path.display());
    }
    let counts = [&swaps, &well, &ill].map(|count| count.load(Ordering::Relaxed));
    eprintln!("{door}: swaps, lines that went well and ill: {counts:?}");
    // Else nothing was tried.
    assert!(swaps.into_inner() > 0 && well.into_inner() > 0, "{door}");
}

fn through_both_doors(lines: &[&str]) {
    let base = tempfile::tempdir().unwrap();
    let store = base.path().join("store");
    fs::create_dir(&store).unwrap();
    prepare(&store);
    let home = OfflineHome::open(&store).unwrap();
    storm("in process", &store, &store, Arc::new(home), lines);

    need_mount!();
    let mount = Home::prepared(prepare, &[]);
    let home = MountedHome::open(mount.home()).unwrap();
    storm(
        "mounted",
        mount.store(),
        mount.home(),
        Arc::new(home),
        lines,
    );
    // The same where the home itself shows links that stay inside.
    drop(mount);
    let mount = Home::prepared(prepare, &["--symlinks", "inside"]);
    let home = MountedHome::open(mount.home()).unwrap();
    storm(
        "mounted with links",
        mount.store(),
        mount.home(),
        Arc::new(home),
        lines,
    );
}

#[test]
fn reading_a_directory_that_becomes_a_way_out() {
    through_both_doors(&[
        "cat top/dir/file",
        "cat top/dir/file top/way/file",
        "cat < top/dir/sub/file && cat < top/way/sub/file",
        "head -n 5 top/dir/sub/deeper/file; tail -n 5 top/way/victim",
        "wc -l top/dir/file top/way/sub/file",
        "cd top/dir && cat file sub/file ../way/file",
        "cd top/way/sub && cat file ../victim && pwd",
        "ls -lR top; ls top/dir top/way",
        "cat top/dir/sub/../file | grep -v inside",
    ]);
}

#[test]
fn writing_into_a_directory_that_becomes_a_way_out() {
    through_both_doors(&[
        "echo mine > top/dir/victim; echo mine >> top/way/victim",
        "echo mine > top/dir/sub/deeper/new && echo more >> top/dir/sub/deeper/new",
        "mkdir -p top/dir/made/a/b top/way/made/a/b",
        "touch top/dir/victim top/way/victim top/dir/sub/file",
        "cp mine top/dir/victim; cp mine top/way/sub/file; cp -p mine top/dir/sub/deeper/copy",
        "mv top/dir/victim top/way/moved; mv top/way/moved top/dir/victim; mv top/dir/moved top/dir/victim",
        "cp mine stolen && mv stolen top/dir/sub/; mv top/way/sub/stolen .",
        "rm -r top/dir/made; rm -rf top/way/made top/way/sub/deeper/new; rm -rv top/dir/made",
        "cd top/dir && echo mine > victim && touch -d @1 victim",
    ]);
}

#[test]
fn globs_over_a_directory_that_becomes_a_way_out() {
    through_both_doors(&[
        "echo top/*/*",
        "echo top/*/sub/* top/dir/**/f*",
        "echo **/*",
        "cat top/*/file top/*/sub/deeper/*",
        "cd top; echo */sub */*/*/*",
    ]);
}

#[test]
fn copying_a_tree_with_a_directory_that_becomes_a_way_out() {
    through_both_doors(&[
        "mkdir -p copies/a && cp -r top copies/a && rm -r copies/a/top",
        "cp -r top/dir copies/b; cp -a top/way copies/c; cat copies/*/file",
        "mkdir -p copies/d/dir/sub && cp -r copies/d/dir top; cp -rT copies/d/dir top/way",
        "cp -rv top/dir/. copies/e; rm -rf copies",
    ]);
}

#[test]
fn finding_in_a_tree_with_a_directory_that_becomes_a_way_out() {
    through_both_doors(&[
        "find top",
        "find top/dir/sub -name file",
        "find . -type f -name '*file*'",
        "find top/dir top/way -newer mine -print0",
        "find top -type f -exec cat {} ;",
        "find top -type f -exec grep -n . {} +",
        "mkdir -p top/dir/gone/a top/way/gone/a; find top/dir/gone top/way/gone -delete",
        "find top -name gone -delete; find top -empty",
    ]);
}

#[test]
fn searching_a_tree_with_a_directory_that_becomes_a_way_out() {
    through_both_doors(&[
        "grep -r . top",
        "grep -rn inside .",
        "grep -rL inside top; grep -rc mine top",
        "grep -rv inside top/dir top/way",
        "grep . top/dir/* top/way/sub/*",
    ]);
}
