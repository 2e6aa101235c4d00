//! Coherence: a change made in the store behind the mount is visible in the home within a second, although the kernel
//! caches answers for a day; and the home's own changes cause no further requests.
//!
//! Owns the measurement: the test waits for each change and prints how long it took.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink as plant_link};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::calls::*;
use crate::common::{Home, need_mount, need_passthrough, need_root, need_tools};

/// How long a change may take to show. The promise is one second; a loaded machine gets some grace.
const LIMIT: Duration = Duration::from_secs(30);

/// Checks that something does not hold yet, makes the change, and waits until it holds. Returns how long it took.
fn shows(what: &str, seen: impl Fn() -> bool, change: impl FnOnce()) -> Duration {
    assert!(!seen(), "{what}: seen before it was done");
    change();
    let start = Instant::now();
    while !seen() {
        assert!(start.elapsed() < LIMIT, "{what}: not seen within {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    start.elapsed()
}

fn report(mode: &str, times: &[(String, Duration)]) {
    let worst = times.iter().max_by_key(|(_, time)| *time).unwrap();
    println!(
        "{mode}: worst {:?} ({}), of {} changes",
        worst.1,
        worst.0,
        times.len()
    );
    for (what, time) in times {
        println!("    {:>6} ms  {what}", time.as_millis());
    }
}

fn fill(store: &Path) {
    for dir in ["d", "d/deep", "from", "to", "empty"] {
        fs::create_dir(store.join(dir)).unwrap();
    }
    for file in [
        "f",
        "g",
        "h",
        "d/f",
        "d/deep/f",
        "from/moving",
        "mapped",
        "over",
        "old",
    ] {
        fs::write(store.join(file), "before").unwrap();
    }
    fs::hard_link(store.join("g"), store.join("d/g2")).unwrap();
}

fn changes_behind(options: &[&str]) -> Vec<(String, Duration)> {
    let home = Home::prepared(fill, options);
    let (h, s) = (
        |name: &str| home.path(name),
        |name: &str| home.store().join(name),
    );
    // The kernel gets to know everything, also what is not there.
    home.sh("find . -ls >/dev/null; cat f g h d/f d/deep/f mapped >/dev/null");
    for missing in ["new", "d/new", "newdir", "to/moving", "d/deep/new", "late"] {
        assert!(lstat(h(missing)).is_err());
    }
    let mut times = Vec::new();
    let mut check = |what: &str, seen: &dyn Fn() -> bool, change: &dyn Fn()| {
        times.push((what.to_owned(), shows(what, seen, change)));
    };
    let lists = |dir: &str, name: &str| readdir(h(dir)).unwrap().iter().any(|n| n == name);
    let is = |name: &str, content: &str| fs::read(h(name)).is_ok_and(|b| b == content.as_bytes());

    check(
        "a file that was known not to be there",
        &|| is("new", "new"),
        &|| {
            fs::write(s("new"), "new").unwrap();
        },
    );
    check("it in the listing", &|| lists(".", "new2"), &|| {
        fs::write(s("new2"), "new").unwrap();
    });
    check("a file below", &|| lists("d/deep", "new"), &|| {
        fs::write(s("d/deep/new"), "new").unwrap();
    });
    check(
        "a directory and what is in it",
        &|| is("newdir/x", "x"),
        &|| {
            fs::create_dir(s("newdir")).unwrap();
            fs::write(s("newdir/x"), "x").unwrap();
        },
    );
    check(
        "more in the new directory",
        &|| is("newdir/y", "y"),
        &|| {
            fs::write(s("newdir/y"), "y").unwrap();
        },
    );
    check(
        "a removed file",
        &|| lstat(h("h")) == Err(Errno::NOENT),
        &|| {
            fs::remove_file(s("h")).unwrap();
        },
    );
    check("not in the listing", &|| !lists("d", "f"), &|| {
        fs::remove_file(s("d/f")).unwrap();
    });
    check(
        "a removed directory",
        &|| lstat(h("empty")).is_err(),
        &|| {
            fs::remove_dir(s("empty")).unwrap();
        },
    );
    check("new content", &|| is("f", "after, and longer"), &|| {
        fs::write(s("f"), "after, and longer").unwrap();
    });
    check("content of the same length", &|| is("g", "BEFORE"), &|| {
        fs::write(s("g"), "BEFORE").unwrap();
    });
    check("by its other name", &|| is("d/g2", "aftEr!"), &|| {
        fs::write(s("g"), "aftEr!").unwrap();
    });
    check("a size", &|| stat(h("f")).unwrap().size == 3, &|| {
        fs::File::options()
            .write(true)
            .open(s("f"))
            .unwrap()
            .set_len(3)
            .unwrap();
    });
    check("a mode", &|| stat(h("f")).unwrap().mode == 0o600, &|| {
        fs::set_permissions(s("f"), fs::Permissions::from_mode(0o600)).unwrap();
    });
    check(
        "a directory's mode",
        &|| stat(h("d")).unwrap().mode == 0o711,
        &|| {
            fs::set_permissions(s("d"), fs::Permissions::from_mode(0o711)).unwrap();
        },
    );
    check(
        "a time",
        &|| stat(h("f")).unwrap().mtime == (12345, 678),
        &|| {
            utimensat(s("f"), (1, 1), (12345, 678)).unwrap();
        },
    );
    check("a moved file, here", &|| is("to/moving", "before"), &|| {
        fs::rename(s("from/moving"), s("to/moving")).unwrap();
    });
    check(
        "and there",
        &|| lstat(h("to/moving")) == Err(Errno::NOENT),
        &|| {
            fs::rename(s("to/moving"), s("from/moving")).unwrap();
        },
    );
    check("a moved directory", &|| is("to/deep/f", "before"), &|| {
        fs::rename(s("d/deep"), s("to/deep")).unwrap();
    });
    check(
        "new in the moved directory",
        &|| is("to/deep/n2", "n2"),
        &|| {
            fs::write(s("to/deep/n2"), "n2").unwrap();
        },
    );
    check(
        "a file moved over another",
        &|| is("over", "from elsewhere"),
        &|| {
            fs::write(s("tmp"), "from elsewhere").unwrap();
            fs::rename(s("tmp"), s("over")).unwrap();
        },
    );
    check(
        "a file that became a directory",
        &|| stat(h("old")).is_ok_and(|m| m.kind == S_IFDIR),
        &|| {
            fs::remove_file(s("old")).unwrap();
            fs::create_dir(s("old")).unwrap();
        },
    );
    check(
        "a file that became a link",
        &|| lstat(h("new")) == Err(Errno::NOENT),
        &|| {
            fs::remove_file(s("new")).unwrap();
            plant_link("f", s("new")).unwrap();
        },
    );
    check(
        "a further hard link's count",
        &|| stat(h("over")).unwrap().nlink == 2,
        &|| {
            fs::hard_link(s("over"), s("over2")).unwrap();
        },
    );
    // While it is open in the home, too; but with the writeback cache the kernel takes its own word for the size.
    if home.status().unwrap()["mechanisms"]["writeback"] == false {
        let held = open(h("mapped"), O_RDONLY, 0).unwrap();
        check(
            "content, in an open file",
            &|| pread(&held, 100, 0).unwrap() == b"AFTER!",
            &|| {
                fs::write(s("mapped"), "AFTER!").unwrap();
            },
        );
        let written = open(h("late"), O_CREAT | O_RDWR, 0o644).unwrap();
        write(&written, b"mine").unwrap();
        fsync(&written).unwrap();
        check(
            "a file open for writing here",
            &|| fstat(&written).unwrap().size == 10,
            &|| {
                fs::write(s("late"), "theirs too").unwrap();
            },
        );
    }
    // Much at once.
    check(
        "a thousand files at once",
        &|| readdir(h("to")).unwrap().len() > 1000,
        &|| {
            for n in 0..1000 {
                fs::write(s(&format!("to/many{n}")), "x").unwrap();
            }
        },
    );
    check(
        "and gone again",
        &|| readdir(h("to")).unwrap().len() < 10,
        &|| {
            for n in 0..1000 {
                fs::remove_file(s(&format!("to/many{n}"))).unwrap();
            }
        },
    );
    // In the end the home shows what the store has.
    let names = |dir: &Path| {
        let mut names = readdir(dir).unwrap();
        names.retain(|n| n != ".trash" && n != ".trumanfs");
        names.sort();
        names
    };
    let mut links = names(home.store());
    links.retain(|n| !s(n.to_str().unwrap()).is_symlink());
    assert_eq!(names(home.home()), links);
    times
}

#[test]
fn changes_behind_the_mount_show() {
    need_mount!();
    report("as it comes", &changes_behind(&[]));
}

#[test]
fn changes_behind_the_mount_show_without_passthrough() {
    need_mount!();
    report(
        "no passthrough",
        &changes_behind(&["--no-passthrough", "--allow-other"]),
    );
}

#[test]
fn changes_behind_the_mount_show_with_a_short_life() {
    need_mount!();
    report("--cache-ttl 0.2", &changes_behind(&["--cache-ttl", "0.2"]));
}

/// The kernel knows a name of the node that stood there: the one that is there now is looked up, and never absent.
#[test]
fn what_was_replaced_behind_the_mount_is_never_absent() {
    need_mount!();
    for options in [&[][..], &["--no-passthrough"]] {
        let home = Home::prepared(
            |store| {
                fs::write(store.join("f"), "0").unwrap();
                fs::create_dir(store.join("d")).unwrap();
                fs::write(store.join("d/f"), "0").unwrap();
            },
            options,
        );
        let (here, there) = (home.path("f"), home.store().join("f"));
        let (dir, sub) = (home.store().join("d"), home.path("d/f"));
        for round in 1..=40 {
            fs::metadata(&here).unwrap();
            fs::metadata(&sub).unwrap();
            let text = round.to_string();
            let aside = home.store().join("f~");
            // As Vim does with `backupcopy=no`, and as a build does with its directory.
            fs::rename(&there, &aside).unwrap();
            fs::write(&there, &text).unwrap();
            fs::remove_file(&aside).unwrap();
            fs::remove_dir_all(&dir).unwrap();
            fs::create_dir(&dir).unwrap();
            fs::write(dir.join("f"), &text).unwrap();
            match round % 4 {
                0 => assert_eq!(fs::read_to_string(&here).unwrap(), text),
                1 => assert_eq!(fs::metadata(&here).unwrap().len(), text.len() as u64),
                2 => fs::set_permissions(&here, fs::Permissions::from_mode(0o640)).unwrap(),
                _ => drop(fs::OpenOptions::new().append(true).open(&here).unwrap()),
            }
            let fresh = home.path(format!("d/new{round}"));
            match round % 3 {
                0 => assert_eq!(fs::read_to_string(&sub).unwrap(), text),
                1 => fs::write(fresh, "new").unwrap(),
                _ => drop(fs::metadata(&sub).unwrap()),
            }
        }
    }
}

/// getcwd(2) fails for whoever works in a directory of which the kernel has dropped the name.
#[test]
fn who_works_in_a_directory_keeps_it_while_its_owner_does() {
    need_mount!();
    need_tools!("python3");
    for options in [&[][..], &["--no-passthrough"]] {
        let home = Home::with(options);
        let enter = "import os, sys, time\n\
                     os.chdir(sys.argv[1])\n\
                     print(flush=True)\n\
                     sys.stdin.readline()\n\
                     print(os.getcwd())";
        for round in 0..12 {
            let (there, here) = (
                home.store().join(format!("d{round}")),
                home.path(format!("d{round}")),
            );
            fs::create_dir(&there).unwrap();
            let mut python = Command::new("python3");
            python
                .args(["-c", enter])
                .arg(&here)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped());
            let mut within = python.spawn().unwrap();
            let mut entered = [0];
            within
                .stdout
                .as_mut()
                .unwrap()
                .read_exact(&mut entered)
                .unwrap();
            // What its owner does to it beside the home, and to the directory around it.
            match round % 4 {
                0 => {}
                1 => fs::set_permissions(&there, fs::Permissions::from_mode(0o700)).unwrap(),
                2 => {
                    fs::rename(&there, home.store().join("aside")).unwrap();
                    fs::rename(home.store().join("aside"), &there).unwrap();
                }
                _ => fs::write(there.join("new"), "x").unwrap(),
            }
            fs::write(home.store().join("beside"), round.to_string()).unwrap();
            // Until the home has heard of it.
            let end = Instant::now() + Duration::from_secs(10);
            while fs::read_to_string(home.path("beside")).unwrap_or_default() != round.to_string() {
                assert!(Instant::now() < end);
                std::thread::sleep(Duration::from_millis(20));
            }
            std::thread::sleep(Duration::from_millis(300));
            drop(within.stdin.take());
            let mut told = String::new();
            within
                .stdout
                .take()
                .unwrap()
                .read_to_string(&mut told)
                .unwrap();
            assert!(
                within.wait().unwrap().success(),
                "{options:?}, round {round}"
            );
            assert_eq!(
                Path::new(told.trim_end()),
                here,
                "{options:?}, round {round}"
            );
        }
    }
}

/// Nobody has asked for anything in the directory, so it has no mark of its own; and the kernel may forget it at any time.
#[test]
fn a_directory_that_was_only_looked_at_shows_its_changes() {
    need_mount!();
    let is_root = rustix::process::geteuid().is_root();
    for options in [&[][..], &["--no-passthrough"]] {
        let home = Home::prepared(fill, options);
        let (here, there) = (home.path("d/deep"), home.store().join("d/deep"));
        for round in 0..6 {
            let mode = if round % 2 == 0 { 0o711 } else { 0o755 };
            if round == 3 {
                // From here on somebody has listed it.
                assert_eq!(readdir(&here).unwrap().len(), 1);
            }
            if is_root && round > 3 {
                fs::write("/proc/sys/vm/drop_caches", "2").unwrap();
            }
            shows(
                "a mode",
                || stat(&here).unwrap().mode == mode,
                || {
                    fs::set_permissions(&there, fs::Permissions::from_mode(mode)).unwrap();
                },
            );
        }
    }
}

/// What is in the trash changes with every removal; no listing of it is believed.
#[test]
fn the_trash_is_always_as_it_is() {
    need_mount!();
    let home = Home::mount();
    for n in 0..20 {
        let name = format!("f{n}");
        fs::write(home.path(&name), &name).unwrap();
        assert_eq!(readdir(home.path(".trash")).unwrap().len(), n);
        unlink(home.path(&name)).unwrap();
        let listed = readdir(home.path(".trash")).unwrap();
        assert_eq!(listed.len(), n + 1);
        let newest = listed
            .iter()
            .find(|e| e.to_str().unwrap().ends_with(&format!("_{name}")));
        let path = home.path(".trash").join(newest.unwrap());
        assert_eq!(fs::read(&path).unwrap(), name.as_bytes());
    }
    // The operator purges.
    for entry in home.trash() {
        fs::remove_file(home.store().join(".trash").join(entry)).unwrap();
    }
    assert!(readdir(home.path(".trash")).unwrap().is_empty());
}

fn counter(home: &Home, name: &str) -> u64 {
    home.status().unwrap()["counters"][name]
        .as_u64()
        .unwrap_or(0)
}

/// What the home itself does is known to the kernel: nothing is invalidated, so nothing is looked up again.
#[test]
fn the_homes_own_work_makes_nobody_look_again() {
    need_mount!();
    let home = Home::mount();
    home.sh("mkdir d; for i in 1 2 3 4 5 6 7 8 9; do echo $i > d/f$i; done; cat d/* >/dev/null");
    let files: Vec<_> = (1..10).map(|n| home.path(format!("d/f{n}"))).collect();
    let held: Vec<_> = files
        .iter()
        .map(|f| open(f, O_RDWR | O_APPEND, 0).unwrap())
        .collect();
    for file in &files {
        stat(file).unwrap();
    }
    // Let what the preparations caused come through.
    std::thread::sleep(Duration::from_millis(700));
    for file in &files {
        stat(file).unwrap();
    }
    let (lookups, listings) = (counter(&home, "lookup"), counter(&home, "readdirplus"));
    let start = Instant::now();
    let mut rounds = 0;
    // A machine that stands still for a second would leave too few to tell anything by.
    while start.elapsed() < Duration::from_millis(1500) || rounds < 30 {
        for (file, fd) in files.iter().zip(&held) {
            write(fd, b"more").unwrap();
            stat(file).unwrap();
            fs::read(file).unwrap();
            chmod(file, 0o600 + rounds % 2 * 0o44).unwrap();
        }
        assert_eq!(lstat(home.path("d/missing")), Err(Errno::NOENT));
        rounds += 1;
        std::thread::sleep(Duration::from_millis(20));
    }
    let tenths = start.elapsed().as_millis() / 100;
    let (after, listed) = (counter(&home, "lookup"), counter(&home, "readdirplus"));
    println!(
        "{rounds} rounds: {} lookups, {} listings",
        after - lookups,
        listed - listings
    );
    // One for the name that is not there, and one more each time that somebody has the kernel drop its caches, which another
    // test does. Looking again after each change would be one or more for each round.
    assert!(
        u128::from(after - lookups) <= 1 + tenths.max(u128::from(rounds / 5)),
        "{} lookups while only the home worked",
        after - lookups
    );
    assert_eq!(listed, listings);
    // Creating and removing ask once for each new name, and for nothing else.
    let before = counter(&home, "lookup");
    for n in 0..50 {
        let name = home.path(format!("d/new{n}"));
        fs::write(&name, "x").unwrap();
        unlink(&name).unwrap();
    }
    std::thread::sleep(Duration::from_millis(700));
    for file in &files {
        stat(file).unwrap();
    }
    let new = counter(&home, "lookup") - before;
    println!("50 files made and removed: {new} lookups");
    assert!(new <= 60, "{new} lookups for fifty new names");
}

/// The kernel knows of what an occupant wrote past the daemon. What it has asked for since is not to be asked for again:
/// after a checkout or a build that would be one request for each file that was written.
#[test]
fn what_an_occupant_wrote_is_not_asked_for_again() {
    need_mount!();
    let home = Home::mount();
    need_passthrough!(home);
    let names: Vec<_> = (0..20).map(|n| format!("f{n}")).collect();
    home.sh("for n in $(seq 0 19); do echo some text >f$n; done; cat f* >/dev/null");
    let ask = || {
        for name in &names {
            stat(home.path(name)).unwrap();
        }
    };
    ask();
    let before = counter(&home, "getattr");
    std::thread::sleep(Duration::from_millis(700));
    ask();
    let asked = counter(&home, "getattr") - before;
    assert!(asked <= 2, "{asked} of 20 files are asked for again");

    // Who else writes is noticed all the same, be it at the same time.
    home.sh("echo more >>f1");
    let size = |name: &str| stat(home.path(name)).unwrap().size;
    assert_eq!(size("f1"), 15);
    shows(
        "a write of another process",
        || size("f1") == 27,
        || {
            let behind = home.store().join("f1");
            let written = std::process::Command::new("sh")
                .args(["-euc", "echo from behind >>\"$0\""])
                .arg(behind)
                .status();
            assert!(written.unwrap().success());
        },
    );
}

/// `posix::open::buffered` once saw a change time move by a quarter of a millisecond after `close`: another test had the kernel
/// drop its caches.
#[test]
fn times_are_the_stores_once_the_kernel_forgets_the_file() {
    need_mount!();
    need_root!("to have the kernel drop its caches");
    for options in [&[][..], &["--no-passthrough"]] {
        let home = Home::with(options);
        let passes = home.status().unwrap()["mechanisms"]["passthrough"] == true;
        let (path, below) = (home.path("f"), home.store().join("f"));
        fs::write(&path, "content").unwrap();
        let (here, there) = (stat(&path).unwrap(), stat(&below).unwrap());
        // By then everything has reached the store, and nothing of it moves any more.
        match passes {
            true => assert_eq!((here.mtime, here.ctime), (there.mtime, there.ctime)),
            false => assert!(
                here.mtime <= there.mtime && here.ctime <= there.ctime,
                "{here:?}, below {there:?}"
            ),
        }
        let until = Instant::now() + Duration::from_secs(60);
        let times = |stat: &Stat| (stat.mtime, stat.ctime);
        while times(&stat(&path).unwrap()) != times(&there) {
            assert!(Instant::now() < until, "{here:?}, below {there:?}");
            fs::write("/proc/sys/vm/drop_caches", "2").unwrap();
        }
        assert_eq!(stat(&below).unwrap(), there, "{options:?}");
    }
}

/// Without passthrough the kernel sends a file's times again after each change of its names. Each such message was a record
/// of its own, and the daemon set what was set.
#[test]
fn times_that_are_as_they_were_are_no_change() {
    need_mount!();
    let home = Home::with(&["--no-passthrough"]);
    fs::write(home.path("a"), "content").unwrap();
    // The first message brings the time of the write, which the kernel alone knew.
    fs::rename(home.path("a"), home.path("b")).unwrap();
    let written = home.journal().len();
    let time = fs::metadata(home.path("b")).unwrap().modified().unwrap();
    fs::hard_link(home.path("b"), home.path("c")).unwrap();
    fs::remove_file(home.path("b")).unwrap();
    fs::rename(home.path("c"), home.path("d")).unwrap();
    let records = &home.journal()[written..];
    let ops: Vec<_> = records.iter().filter_map(|r| r["op"].as_str()).collect();
    assert_eq!(ops, ["link", "unlink", "rename"]);

    // What somebody sets is set, whatever it was before.
    let changed = || {
        let meta = fs::metadata(home.store().join("d")).unwrap();
        (meta.ctime(), meta.ctime_nsec())
    };
    std::thread::sleep(Duration::from_millis(300));
    let before = changed();
    let file = fs::File::open(home.path("d")).unwrap();
    file.set_times(fs::FileTimes::new().set_modified(time))
        .unwrap();
    assert!(changed() > before);
    let stored = fs::metadata(home.store().join("d")).unwrap();
    assert_eq!(stored.modified().unwrap(), time);
}
