//! Attacks: everything that an occupant, or someone working behind the mount at the same time, could try in order to
//! reach files that do not exist for the occupant. Owns the canaries: outside files that must never be read, listed
//! or changed.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink as plant_link};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::calls::*;
use crate::common::{Home, as_user, describe, in_child, need_mount, need_root, trumanfs};
use rustix::mount::{MountFlags, UnmountFlags};

const CANARY: &[u8] = b"canary: nobody inside may ever read this";

/// A directory beside the store, with things in it whose every attribute is remembered.
struct Outside {
    dir: PathBuf,
    before: Vec<(PathBuf, Stat, Vec<u8>)>,
}

impl Outside {
    fn new(dir: PathBuf) -> Outside {
        fs::create_dir(&dir).unwrap();
        for name in ["canary", "inside", "victim"] {
            fs::write(dir.join(name), CANARY).unwrap();
        }
        fs::create_dir(dir.join("sub")).unwrap();
        fs::write(dir.join("sub/deep"), CANARY).unwrap();
        let before = Outside::look(&dir);
        Outside { dir, before }
    }

    fn look(dir: &Path) -> Vec<(PathBuf, Stat, Vec<u8>)> {
        let mut seen = Vec::new();
        let mut pending = vec![dir.to_owned()];
        while let Some(at) = pending.pop() {
            let mut stat = lstat(&at).unwrap();
            stat.atime = (0, 0);
            let content = fs::read(&at).unwrap_or_default();
            if stat.kind == S_IFDIR {
                pending.extend(fs::read_dir(&at).unwrap().map(|e| e.unwrap().path()));
            }
            seen.push((at, stat, content));
        }
        seen.sort_by(|a, b| a.0.cmp(&b.0));
        seen
    }

    fn assert_untouched(&self) {
        assert_eq!(
            Outside::look(&self.dir),
            self.before,
            "something outside changed"
        );
    }
}

/// Something mounted by the test, taken down when dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn tmpfs(at: &Path) -> Mounted {
        rustix::mount::mount("tmpfs", at, "tmpfs", MountFlags::empty(), c"size=1m").unwrap();
        Mounted(at.to_owned())
    }

    fn bind(what: &Path, at: &Path) -> Mounted {
        rustix::mount::mount_bind(what, at).unwrap();
        Mounted(at.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, UnmountFlags::DETACH);
    }
}

fn assert_err<T: std::fmt::Debug>(what: &str, wanted: Errno, got: Sys<T>) {
    match got {
        Err(errno) if errno == wanted => {}
        other => panic!("{what}: expected {wanted:?}, got {other:?}"),
    }
}

/// Waits for something to become true; for what needs a moment to come through.
fn eventually(what: &str, test: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !test() {
        assert!(
            Instant::now() < until,
            "{what}: still not so after five seconds"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

// ── A directory that is now a directory, now a way out ──────────────────────────────────────────────────────────────────────────

fn swap_storm(options: &[&str], length: Duration) {
    let mut outside = None;
    let home = Home::prepared(
        |store| {
            outside = Some(Outside::new(store.parent().unwrap().join("outside")));
            fs::create_dir_all(store.join("top/dir/sub")).unwrap();
            fs::write(store.join("top/dir/inside"), "in").unwrap();
            plant_link("../../outside", store.join("top/swap")).unwrap();
        },
        options,
    );
    let outside = outside.unwrap();
    let (dir, way_out) = (home.store().join("top/dir"), home.store().join("top/swap"));
    assert!(
        fs::metadata(way_out.join("canary")).is_ok(),
        "the link of this test must lead out"
    );
    let stop = AtomicBool::new(false);
    let (swaps, successes, tries) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let count = |ok: bool| {
        tries.fetch_add(1, Ordering::Relaxed);
        successes.fetch_add(u64::from(ok), Ordering::Relaxed);
    };
    let (p, stop, count) = (|name: &str| home.path(name), &stop, &count);
    let until_stopped = |work: &dyn Fn(u64)| {
        let mut n = 0;
        while !stop.load(Ordering::Relaxed) {
            work(n);
            n += 1;
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let until = Instant::now() + length;
            let mut n = 0u64;
            while Instant::now() < until {
                renameat2(&dir, &way_out, RENAME_EXCHANGE).unwrap();
                n += 1;
                // Now without a pause, now with one that lets a whole operation in.
                if n.is_multiple_of(8) {
                    std::thread::sleep(Duration::from_micros(n % 2000));
                }
            }
            // At the end the directory is the directory.
            if n % 2 == 1 {
                renameat2(&dir, &way_out, RENAME_EXCHANGE).unwrap();
            }
            swaps.store(n, Ordering::Relaxed);
            stop.store(true, Ordering::Relaxed);
        });
        scope.spawn(|| {
            until_stopped(&|n| {
                for way in ["top/dir", "top/swap"] {
                    let new = p(&format!("{way}/new{n}"));
                    let made = open(&new, O_CREAT | O_EXCL | O_WRONLY, 0o644);
                    count(made.is_ok());
                    if let Ok(fd) = made {
                        let _ = write(&fd, b"from inside");
                    }
                }
            });
        });
        scope.spawn(|| {
            until_stopped(&|_| {
                for name in ["canary", "inside", "victim", "sub/deep"] {
                    for way in ["top/dir", "top/swap"] {
                        let read = fs::read(p(&format!("{way}/{name}")));
                        count(read.is_ok());
                        if let Ok(bytes) = read {
                            assert_ne!(bytes, CANARY, "{way}/{name} was read from outside");
                        }
                    }
                }
            });
        });
        scope.spawn(|| {
            until_stopped(&|n| {
                for way in ["top/dir", "top/swap"] {
                    let at = |name: &str| p(&format!("{way}/{name}"));
                    let _ = unlink(at("canary"));
                    let _ = unlink(at("victim"));
                    let _ = rename(at("victim"), p("stolen"));
                    let _ = rename(at("sub"), p("stolen-dir"));
                    let _ = rename(p("stolen-dir"), at("sub"));
                    let _ = mkdir(at("made"), 0o755);
                    let _ = rmdir(at("made"));
                    let _ = chmod(at("canary"), 0o777);
                    let _ = truncate(at("canary"), 0);
                    let _ = link(at("canary"), p(&format!("linked{n}")));
                    let _ = utimensat(at("victim"), (1, 0), (1, 0));
                    if let Ok(fd) = open(at("victim"), O_WRONLY | O_APPEND, 0) {
                        let _ = write(&fd, b"overwritten from inside");
                    }
                    // Onto what stands at the outward name, too.
                    let _ = fs::write(p("mine"), "mine");
                    let _ = rename(p("mine"), at("victim"));
                }
            });
        });
        scope.spawn(|| {
            until_stopped(&|_| {
                for way in ["top", "top/dir", "top/swap"] {
                    if let Ok(names) = readdir(p(way)) {
                        count(true);
                        assert!(
                            !names.iter().any(|name| name == "canary"),
                            "{way} lists what is outside"
                        );
                    }
                }
            });
        });
    });
    let (swaps, successes, tries) = (
        swaps.into_inner(),
        successes.load(Ordering::Relaxed),
        tries.load(Ordering::Relaxed),
    );
    println!("{swaps} swaps; of {tries} attempts {successes} met the directory");
    assert!(
        swaps > 100 && successes > 100,
        "too little happened for the test to prove anything"
    );
    outside.assert_untouched();
    for entry in home.trash() {
        let content = fs::read(home.store().join(".trash").join(&entry));
        assert_ne!(
            content.unwrap_or_default(),
            CANARY,
            "{entry:?} in the trash came from outside"
        );
    }
    assert!(fs::symlink_metadata(&way_out).unwrap().is_symlink());
    // Whatever the kernel came to believe meanwhile, it comes to know better.
    eventually("the directory is back", || {
        readdir(p("top/dir")).is_ok() && fs::write(p("top/dir/after"), "x").is_ok()
    });
}

#[test]
fn a_directory_swapped_for_an_outward_link_leads_nowhere() {
    need_mount!();
    swap_storm(&[], Duration::from_secs(2));
}

#[test]
fn a_directory_swapped_for_an_outward_link_leads_nowhere_with_links_allowed() {
    need_mount!();
    swap_storm(
        &["--symlinks", "inside", "--no-passthrough"],
        Duration::from_secs(2),
    );
}

#[test]
fn a_file_swapped_for_an_outward_link_is_never_followed() {
    need_mount!();
    let mut outside = None;
    let home = Home::prepared(
        |store| {
            outside = Some(Outside::new(store.parent().unwrap().join("outside")));
            fs::write(store.join("f"), "in").unwrap();
            plant_link("../outside/canary", store.join("l")).unwrap();
        },
        &[],
    );
    let stop = AtomicBool::new(false);
    let read = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let until = Instant::now() + Duration::from_secs(1);
            while Instant::now() < until {
                renameat2(
                    home.store().join("f"),
                    home.store().join("l"),
                    RENAME_EXCHANGE,
                )
                .unwrap();
            }
            stop.store(true, Ordering::Relaxed);
        });
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for name in ["f", "l"] {
                    if let Ok(bytes) = fs::read(home.path(name)) {
                        assert_ne!(bytes, CANARY);
                        read.fetch_add(1, Ordering::Relaxed);
                    }
                    if let Ok(fd) = open(home.path(name), O_WRONLY, 0) {
                        let _ = write(&fd, b"IN");
                    }
                    let _ = open(home.path(name), O_WRONLY | O_TRUNC, 0);
                    let _ = open(home.path(name), O_WRONLY | O_CREAT, 0o600);
                    let _ = chmod(home.path(name), 0o600);
                    let _ = truncate(home.path(name), 2);
                    let _ = chown(home.path(name), Some(1), Some(1));
                    let _ = utimensat(home.path(name), (1, 1), (1, 1));
                }
            }
        });
    });
    assert!(read.into_inner() > 0);
    outside.unwrap().assert_untouched();
}

// ── Moved out, moved about ──────────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn a_working_directory_that_left_the_store_is_absent() {
    need_mount!();
    let home = Home::prepared(
        |store| {
            fs::create_dir_all(store.join("d/e")).unwrap();
            fs::write(store.join("d/e/f"), "f").unwrap();
            fs::write(store.join("d/g"), "g").unwrap();
        },
        &[],
    );
    let away = home.base().join("away");
    let cwd = home.path("d/e");
    let held = open(home.path("d/e/f"), O_RDONLY, 0).unwrap();
    in_child(|| {
        std::env::set_current_dir(&cwd).unwrap();
        assert_eq!(fs::read("f").unwrap(), b"f");
        fs::rename(home.store().join("d"), &away).unwrap();
        // Mostly the kernel tells at once; a directory that was used lately is found anew after a second in any case.
        std::thread::sleep(Duration::from_millis(1100));
        let before = Outside::look(&away);
        let made = open("new", O_CREAT | O_WRONLY, 0o644);
        assert_err("create", Errno::NOENT, made);
        assert_err(
            "create in the parent",
            Errno::NOENT,
            open("../new", O_CREAT | O_WRONLY, 0o644),
        );
        assert_err("mkdir", Errno::NOENT, mkdir("made", 0o755));
        assert_err("open", Errno::NOENT, open("f", O_RDONLY, 0));
        assert_err("open for writing", Errno::NOENT, open("f", O_WRONLY, 0));
        assert_err("unlink", Errno::NOENT, unlink("f"));
        assert_err("chmod", Errno::NOENT, chmod("f", 0o777));
        assert_err("truncate", Errno::NOENT, truncate("f", 0));
        assert_err("rename", Errno::NOENT, rename("f", home.path("stolen")));
        assert_err("link", Errno::NOENT, link("f", home.path("stolen")));
        let mine = home.path("mine");
        fs::write(&mine, "mine").unwrap();
        assert_err("rename into it", Errno::NOENT, rename(&mine, "mine"));
        assert_err("link into it", Errno::NOENT, link(&mine, "mine"));
        assert_err("mkfifo", Errno::NOENT, mkfifo("pipe", 0o644));
        assert_eq!(Outside::look(&away), before, "what left the store changed");
        eventually("the directory is gone from the home", || {
            lstat(home.path("d")) == Err(Errno::NOENT)
        });
        Ok(String::new())
    })
    .unwrap();
    // An open file is an open file (POSIX): reading it goes on.
    assert_eq!(pread(&held, 10, 0).unwrap(), b"f");
    // And back in again.
    fs::rename(&away, home.store().join("d")).unwrap();
    eventually("the directory is back", || {
        fs::read(home.path("d/e/f")).is_ok_and(|b| b == b"f")
    });
}

#[test]
fn the_parent_of_a_moved_directory_is_its_new_one() {
    need_mount!();
    let home = Home::mount();
    fs::create_dir_all(home.path("a/b/c")).unwrap();
    fs::create_dir_all(home.path("x/y")).unwrap();
    let c = open(home.path("a/b/c"), O_RDONLY | O_DIRECTORY, 0).unwrap();
    rename(home.path("a/b"), home.path("x/y/z")).unwrap();
    let ino = |path: &str| stat(home.path(path)).unwrap().ino;
    for (up, place) in [("..", "x/y/z"), ("../..", "x/y"), ("../../../..", ".")] {
        assert_eq!(fstatat(&c, up, 0).unwrap().ino, ino(place), "{up}");
    }
    close(openat(&c, "../new", O_CREAT | O_WRONLY, 0o644).unwrap());
    assert!(home.store().join("x/y/z/new").exists());
    // Moved behind the mount as well.
    fs::rename(home.store().join("x/y/z"), home.store().join("w")).unwrap();
    eventually("it is at the new place", || {
        lstat(home.path("w/c")).is_ok() && lstat(home.path("x/y/z")) == Err(Errno::NOENT)
    });
    eventually("it can be worked in", || {
        openat(&c, "new", O_CREAT | O_WRONLY, 0o644).is_ok()
    });
    assert!(home.store().join("w/c/new").exists());
    // Removed: there is no way up from it into the trash's neighbours.
    home.sh("rm -r w");
    assert_err(
        "create in what was removed",
        Errno::NOENT,
        openat(&c, "late", O_CREAT | O_WRONLY, 0o644),
    );
}

// ── What does not exist, as the target of everything ────────────────────────────────────────────────────────────────────────────

/// Every call on a path that must not exist for the occupant.
fn assert_absent(home: &Home, name: &str) {
    let p = home.path(name);
    let no = Errno::NOENT;
    let spare = home.path("spare");
    fs::write(&spare, "spare").unwrap();
    fs::create_dir_all(home.path("sparedir")).unwrap();
    let say = |call: &str| format!("{call} {name}");
    assert_err(&say("stat"), no, stat(&p));
    assert_err(&say("lstat"), no, lstat(&p));
    assert_err(&say("access"), no, access(&p, F_OK));
    assert_err(&say("open"), no, open(&p, O_RDONLY, 0));
    assert_err(
        &say("open O_NONBLOCK"),
        no,
        open(&p, O_RDONLY | O_NONBLOCK, 0),
    );
    assert_err(&say("open O_PATH"), no, open(&p, O_PATH, 0));
    assert_err(
        &say("open O_PATH O_NOFOLLOW"),
        no,
        open(&p, O_PATH | O_NOFOLLOW, 0),
    );
    assert_err(
        &say("open O_DIRECTORY"),
        no,
        open(&p, O_RDONLY | O_DIRECTORY, 0),
    );
    assert_err(&say("open O_WRONLY"), no, open(&p, O_WRONLY, 0));
    assert_err(
        &say("open O_TMPFILE"),
        no,
        open(&p, O_TMPFILE | O_WRONLY, 0o600),
    );
    for flags in [
        0,
        O_EXCL,
        O_TRUNC,
        O_NOFOLLOW,
        O_APPEND | O_NONBLOCK,
        O_SYNC,
    ] {
        assert_err(
            &say("open O_CREAT"),
            no,
            open(&p, O_CREAT | O_WRONLY | flags, 0o666),
        );
    }
    assert_err(&say("creat"), no, creat(&p, 0o666));
    assert_err(&say("mkdir"), no, mkdir(&p, 0o777));
    assert_err(&say("mkfifo"), no, mkfifo(&p, 0o666));
    assert_err(&say("mknod of a file"), no, mknod(&p, S_IFREG | 0o666, 0));
    assert_err(
        &say("mknod of a socket"),
        no,
        mknod(&p, S_IFSOCK | 0o666, 0),
    );
    // Where there are no links at all, EPERM may come first: it says nothing of the name.
    let linked = symlink("x", &p);
    if home.has_option("--symlinks") || linked != Err(Errno::PERM) {
        assert_err(&say("symlink"), no, linked);
    }
    assert_err(&say("link from"), no, link(&p, home.path("got")));
    assert_err(&say("link to"), no, link(&spare, &p));
    for flags in [0, RENAME_NOREPLACE] {
        assert_err(&say("rename onto"), no, renameat2(&spare, &p, flags));
        assert_err(
            &say("rename a directory onto"),
            no,
            renameat2(home.path("sparedir"), &p, flags),
        );
        assert_err(
            &say("rename from"),
            no,
            renameat2(&p, home.path("got"), flags),
        );
    }
    assert_err(&say("exchange"), no, renameat2(&spare, &p, RENAME_EXCHANGE));
    assert_err(
        &say("exchange with"),
        no,
        renameat2(&p, &spare, RENAME_EXCHANGE),
    );
    assert_err(&say("unlink"), no, unlink(&p));
    assert_err(&say("rmdir"), no, rmdir(&p));
    assert_err(&say("chmod"), no, chmod(&p, 0o777));
    assert_err(&say("chown"), no, chown(&p, Some(1), Some(1)));
    assert_err(&say("lchown"), no, lchown(&p, Some(1), Some(1)));
    assert_err(&say("utimensat"), no, utimensat(&p, (0, 0), (0, 0)));
    assert_err(&say("lutimens"), no, lutimens(&p, (0, 0), (0, 0)));
    assert_err(&say("truncate"), no, truncate(&p, 0));
    assert_err(&say("readlink"), no, readlink(&p));
    assert_err(&say("statvfs"), no, statvfs(&p).map(|_| ()));
    assert_err(&say("getxattr"), no, getxattr(&p, "user.x"));
    assert_err(&say("setxattr"), no, setxattr(&p, "user.x", b"1", 0));
    assert_err(
        &say("name_to_handle_at"),
        no,
        name_to_handle(&p, 0).map(drop),
    );
    assert_err(&say("stat below"), no, stat(p.join("x")));
    assert_err(
        &say("create below"),
        no,
        open(p.join("x"), O_CREAT | O_WRONLY, 0o666),
    );
    assert_err(&say("stat above"), no, stat(p.join("..")));
    assert_err(&say("stat it/."), no, stat(p.join(".")));
    let file = p.file_name().unwrap();
    let listing = readdir(p.parent().unwrap()).unwrap_or_default();
    assert!(!listing.contains(&file.to_owned()), "{name} is listed");
    assert_eq!(
        fs::read(&spare).unwrap(),
        b"spare",
        "the thing that was to replace {name}"
    );
    assert_err(&say("got"), no, lstat(home.path("got")));
}

#[test]
fn a_hidden_link_or_device_is_absent_for_every_call_and_stays() {
    need_mount!();
    need_root!("to make devices");
    let mut outside = None;
    let home = Home::prepared(
        |store| {
            let out = Outside::new(store.parent().unwrap().join("outside"));
            fs::create_dir(store.join("sub")).unwrap();
            for dir in [store.to_owned(), store.join("sub")] {
                plant_link(out.dir.join("canary"), dir.join("link")).unwrap();
                plant_link(&out.dir, dir.join("dirlink")).unwrap();
                plant_link("/nonexistent/at/all", dir.join("dangling")).unwrap();
                plant_link("/etc/passwd", dir.join("passwd")).unwrap();
                mknod(dir.join("null"), S_IFCHR | 0o666, 0x0103).unwrap();
                mknod(dir.join("disk"), S_IFBLK | 0o666, 0x0700).unwrap();
            }
            outside = Some(out);
        },
        &[],
    );
    let names = ["link", "dirlink", "dangling", "passwd", "null", "disk"];
    let look = |dir: &str| -> Vec<Stat> {
        names
            .iter()
            .map(|n| lstat(home.store().join(dir).join(n)).unwrap())
            .collect()
    };
    let before = (look("."), look("sub"));
    for name in names {
        assert_absent(&home, name);
        assert_absent(&home, &format!("sub/{name}"));
    }
    assert_eq!((look("."), look("sub")), before, "a hidden thing changed");
    outside.unwrap().assert_untouched();
    // And a second time from a fresh start, with nothing remembered, the creating calls first.
    let mut home = home;
    home.remount();
    for name in names {
        assert_err(
            "creat",
            Errno::NOENT,
            open(home.path(name), O_CREAT | O_WRONLY, 0o666),
        );
        assert_absent(&home, name);
    }
    assert!(home.trash().is_empty(), "{:?}", home.trash());
}

#[test]
fn the_state_directory_is_absent_for_every_call() {
    need_mount!();
    for options in [
        &["--trash", "listed"][..],
        &["--allow-other", "--xattr"],
        &["--symlinks", "inside"],
    ] {
        let home = Home::with(options);
        let before = fs::read_dir(home.store().join(".trumanfs"))
            .unwrap()
            .count();
        for name in [
            ".trumanfs",
            "./.trumanfs",
            ".trash/../.trumanfs",
            "sparedir/../.trumanfs",
            ".trumanfs/",
        ] {
            fs::create_dir_all(home.path("sparedir")).unwrap();
            if name.ends_with('/') {
                let p = format!("{}/{name}", home.home().display());
                assert_err(name, Errno::NOENT, stat(p.as_str()));
                assert_err(name, Errno::NOENT, mkdir(p.as_str(), 0o755));
                assert_err(name, Errno::NOENT, rmdir(p.as_str()));
                assert_err(name, Errno::NOENT, open(p.as_str(), O_RDONLY, 0));
                continue;
            }
            assert_absent(&home, name);
        }
        assert_absent(&home, ".trumanfs/lock");
        assert_absent(&home, ".trumanfs/sessions");
        assert_absent(&home, ".trumanfs/control.sock");
        assert_eq!(
            fs::read_dir(home.store().join(".trumanfs"))
                .unwrap()
                .count(),
            before
        );
        // Only this one name in this one place.
        for name in [
            ".Trumanfs",
            ".trumanfs2",
            ".trumanfs ",
            "sparedir/.trumanfs",
        ] {
            fs::create_dir(home.path(name)).unwrap();
            fs::write(home.path(name).join("x"), "x").unwrap();
            assert!(home.store().join(name).join("x").exists());
        }
        // Nor can one be carried there under another name.
        rename(
            home.path("sparedir/.trumanfs"),
            home.path("sparedir/.trash"),
        )
        .unwrap();
        assert_err(
            "carried to the top",
            Errno::NOENT,
            rename(home.path("sparedir/.trash"), home.path(".trumanfs")),
        );
    }
}

#[test]
fn names_that_look_like_the_trash() {
    need_mount!();
    let home = Home::mount();
    fs::write(home.path("f"), "old").unwrap();
    // The kernel reports a close after it has returned, and a file that is removed while it is open stays writable.
    eventually("the file is closed", || {
        home.status().is_ok_and(|s| s["open"].as_u64() == Some(0))
    });
    unlink(home.path("f")).unwrap();
    let entry = home.trash().pop().unwrap();
    let entry = entry.to_str().unwrap();
    let root = stat(home.home()).unwrap().ino;
    let trash = stat(home.path(".trash")).unwrap().ino;
    let at = |name: &str| format!("{}/{name}", home.home().display());
    for way in [
        ".trash/",
        "./.trash",
        ".trash/.",
        ".//.trash",
        ".trash/../.trash",
    ] {
        assert_eq!(stat(at(way).as_str()).unwrap().ino, trash, "{way}");
        let new = at(&format!("{way}/new"));
        let old = at(&format!("{way}/{entry}"));
        assert_err(
            way,
            Errno::ROFS,
            open(new.as_str(), O_CREAT | O_WRONLY, 0o644),
        );
        assert_err(way, Errno::ROFS, mkdir(new.as_str(), 0o755));
        assert_err(way, Errno::ROFS, mkfifo(new.as_str(), 0o644));
        assert_err(way, Errno::ROFS, unlink(old.as_str()));
        assert_err(way, Errno::ROFS, open(old.as_str(), O_WRONLY, 0));
        assert_err(way, Errno::ROFS, open(old.as_str(), O_RDWR, 0));
        assert_err(way, Errno::ROFS, open(old.as_str(), O_WRONLY | O_TRUNC, 0));
        assert_err(way, Errno::ROFS, truncate(old.as_str(), 0));
        assert_err(way, Errno::ROFS, chmod(old.as_str(), 0));
        assert_err(way, Errno::ROFS, utimensat(old.as_str(), (0, 0), (0, 0)));
        assert_err(way, Errno::ROFS, rename(old.as_str(), new.as_str()));
        assert_err(way, Errno::ROFS, link(old.as_str(), at("linked").as_str()));
        fs::write(home.path("g"), "g").unwrap();
        assert_err(way, Errno::ROFS, rename(at("g").as_str(), new.as_str()));
        assert_err(way, Errno::ROFS, rename(at("g").as_str(), old.as_str()));
        assert_err(way, Errno::ROFS, link(at("g").as_str(), new.as_str()));
        assert_err(
            way,
            Errno::ROFS,
            renameat2(at("g").as_str(), old.as_str(), RENAME_EXCHANGE),
        );
        assert_err(
            way,
            Errno::ROFS,
            renameat2(old.as_str(), at("g").as_str(), RENAME_EXCHANGE),
        );
        assert_eq!(fs::read(old.as_str()).unwrap(), b"old");
    }
    assert_eq!(stat(at(".trash/..").as_str()).unwrap().ino, root);
    assert_err("rmdir", Errno::ROFS, rmdir(home.path(".trash")));
    assert_err("chmod", Errno::ROFS, chmod(home.path(".trash"), 0o777));
    assert_err(
        "rename",
        Errno::ROFS,
        rename(home.path(".trash"), home.path("t")),
    );
    fs::create_dir(home.path("d")).unwrap();
    assert_err(
        "rename onto it",
        Errno::ROFS,
        rename(home.path("d"), home.path(".trash")),
    );
    assert_err(
        "exchange",
        Errno::ROFS,
        renameat2(home.path("d"), home.path(".trash"), RENAME_EXCHANGE),
    );
    assert_err("mkdir", Errno::EXIST, mkdir(home.path(".trash"), 0o755));
    assert!(!readdir(home.home()).unwrap().iter().any(|n| n == ".trash"));
    // These are ordinary.
    fs::create_dir(home.path("a")).unwrap();
    for name in [".Trash", ".trash2", ".trash ", ".trash\n", "a/.trash"] {
        fs::create_dir(home.path(name)).unwrap();
        fs::write(home.path(name).join("x"), name).unwrap();
        let parent = home.path(name);
        let listed = readdir(parent.parent().unwrap()).unwrap();
        assert!(
            listed.contains(&parent.file_name().unwrap().to_owned()),
            "{name:?} is not listed"
        );
        unlink(home.path(name).join("x")).unwrap();
        rmdir(home.path(name)).unwrap();
    }
    // Something that is open stays readable when its directory goes to the trash, and is the occupant's to write.
    fs::write(home.path("a/open"), "open").unwrap();
    let fd = open(home.path("a/open"), O_RDWR, 0).unwrap();
    home.sh("rm -r a");
    assert_eq!(pread(&fd, 10, 0).unwrap(), b"open");
    // Taking it back is the one way out.
    rename(home.path(".trash").join(entry), home.path("f")).unwrap();
    assert_eq!(fs::read(home.path("f")).unwrap(), b"old");
}

// ── Pipes, devices, other file systems ──────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn a_pipe_in_the_store_hangs_nobody() {
    need_mount!();
    need_root!("to make devices");
    let home = Home::plan()
        .prepare(|store| {
            fs::create_dir(store.join("d")).unwrap();
            mkfifo(store.join("d/pipe"), 0o644).unwrap();
            mknod(store.join("d/sock"), S_IFSOCK | 0o644, 0).unwrap();
            mknod(store.join("d/null"), S_IFCHR | 0o644, 0x0103).unwrap();
            fs::write(store.join("f"), "f").unwrap();
        })
        .limit(Duration::from_secs(120))
        .mount();
    let start = Instant::now();
    for _ in 0..2 {
        let mut names = readdir(home.path("d")).unwrap();
        names.sort();
        assert_eq!(names, ["pipe", "sock"]);
    }
    let pipe = home.path("d/pipe");
    assert_eq!(stat(&pipe).unwrap().kind, S_IFIFO);
    assert_eq!(stat(home.path("d/sock")).unwrap().kind, S_IFSOCK);
    assert_err(
        "no reader",
        Errno::NXIO,
        open(&pipe, O_WRONLY | O_NONBLOCK, 0),
    );
    let reader = open(&pipe, O_RDONLY | O_NONBLOCK, 0).unwrap();
    let writer = open(&pipe, O_WRONLY | O_NONBLOCK, 0).unwrap();
    write(&writer, b"through").unwrap();
    assert_eq!(read(&reader, 100).unwrap(), b"through");
    // The daemon holds neither end of it: from outside there is no reader.
    assert_err(
        "a reader in the store",
        Errno::NXIO,
        open(home.store().join("d/pipe"), O_WRONLY | O_NONBLOCK, 0),
    );
    chmod(&pipe, 0o600).unwrap();
    utimensat(&pipe, (1, 2), (3, 4)).unwrap();
    assert_eq!(lstat(home.store().join("d/pipe")).unwrap().mtime, (3, 4));
    // A file that turns into a pipe behind the kernel's back.
    stat(home.path("f")).unwrap();
    fs::remove_file(home.store().join("f")).unwrap();
    mkfifo(home.store().join("f"), 0o644).unwrap();
    for flags in [O_RDONLY, O_RDWR, O_WRONLY | O_TRUNC] {
        let _ = open(home.path("f"), flags | O_NONBLOCK, 0);
    }
    link(&pipe, home.path("pipe2")).unwrap();
    rename(&pipe, home.path("d/moved")).unwrap();
    unlink(home.path("d/moved")).unwrap();
    home.sh("rm -r d");
    assert!(
        start.elapsed() < Duration::from_secs(60),
        "it took {:?}",
        start.elapsed()
    );
    // Devices that come behind the mount do not come into being either.
    mknod(home.store().join("late"), S_IFCHR | 0o666, 0x0103).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    assert_err(
        "a late device",
        Errno::NOENT,
        open(home.path("late"), O_RDONLY, 0),
    );
}

#[test]
fn what_is_mounted_in_the_store_is_absent() {
    need_mount!();
    need_root!("to mount in the store");
    let home = Home::prepared(
        |store| {
            for dir in ["mnt", "bind", "p/mnt", "late"] {
                fs::create_dir_all(store.join(dir)).unwrap();
            }
            fs::write(store.join("file"), "under").unwrap();
            fs::write(store.join("plain"), "plain").unwrap();
        },
        &[],
    );
    let outside = Outside::new(home.base().join("outside"));
    let store = home.store();
    fs::write(home.path("late/x"), "x").unwrap();
    let held = open(home.path("late"), O_RDONLY | O_DIRECTORY, 0).unwrap();
    let _mounts = [
        Mounted::tmpfs(&store.join("mnt")),
        Mounted::bind(&outside.dir, &store.join("bind")),
        Mounted::tmpfs(&store.join("p/mnt")),
        Mounted::bind(&outside.dir.join("canary"), &store.join("file")),
        Mounted::tmpfs(&store.join("late")),
    ];
    fs::write(store.join("mnt/secret"), CANARY).unwrap();
    fs::write(store.join("late/secret"), CANARY).unwrap();
    for name in ["mnt", "bind", "p/mnt", "file"] {
        assert_absent(&home, name);
    }
    // Also where the kernel knew the directory from before.
    assert_err(
        "late",
        Errno::NOENT,
        open(home.path("late/secret"), O_RDONLY, 0),
    );
    assert_err(
        "late, held",
        Errno::NOENT,
        openat(&held, "secret", O_RDONLY, 0),
    );
    assert_err(
        "late, held",
        Errno::NOENT,
        openat(&held, "new", O_CREAT | O_WRONLY, 0o644),
    );
    assert!(!store.join("late/new").exists());
    // Again and again: a listing may come with attributes or without.
    for round in 0..4 {
        for (dir, gone) in [(".", &["mnt", "bind", "file"][..]), ("p", &["mnt"])] {
            let names = readdir(home.path(dir)).unwrap();
            for name in gone {
                assert!(
                    !names.iter().any(|n| n == name),
                    "round {round}: {dir} lists {name}"
                );
            }
        }
    }
    // Moved with its directory, it stays absent.
    rename(home.path("p"), home.path("q")).unwrap();
    let _moved = Mounted(store.join("q/mnt"));
    assert_absent(&home, "q/mnt");
    outside.assert_untouched();
}

// ── --hide and --read-only ──────────────────────────────────────────────────────────────────────────────────────────────────────

fn fill_hidden(store: &Path) {
    for dir in [
        "secrets",
        "a/private",
        "b",
        "d",
        "e/private",
        "e2/private",
        "empty",
    ] {
        fs::create_dir_all(store.join(dir)).unwrap();
    }
    for file in [
        "secrets/x",
        "a/private/data",
        "a/open",
        "k.key",
        "d/only.key",
        "e/private/data",
        "e2/private/data",
    ] {
        fs::write(store.join(file), CANARY).unwrap();
    }
}

const HIDE: &[&str] = &[
    "--hide",
    "*.key",
    "--hide",
    "/secrets/",
    "--hide",
    "a/private",
    "--hide",
    "e/private",
    "--hide",
    "e2/private",
    "--xattr",
];

#[test]
fn what_a_pattern_hides_is_absent_and_stays() {
    need_mount!();
    let home = Home::prepared(fill_hidden, HIDE);
    for name in ["k.key", "secrets", "a/private", "d/only.key"] {
        if name == "secrets" {
            // The pattern is for a directory of this name; a file may have it, were it not taken.
            assert_err("stat", Errno::NOENT, stat(home.path(name)));
            assert_err("mkdir", Errno::NOENT, mkdir(home.path(name), 0o755));
            assert_err(
                "creat",
                Errno::NOENT,
                open(home.path(name), O_CREAT | O_WRONLY, 0o644),
            );
            continue;
        }
        assert_absent(&home, name);
    }
    // Also where nothing is.
    assert_absent(&home, "new.key");
    assert_absent(&home, "b/new.key");
    for file in ["k.key", "secrets/x", "a/private/data", "d/only.key"] {
        assert_eq!(fs::read(home.store().join(file)).unwrap(), CANARY, "{file}");
    }
}

#[test]
fn what_is_hidden_comes_along_and_stays_hidden() {
    need_mount!();
    let mut home = Home::prepared(fill_hidden, HIDE);
    rename(home.path("a"), home.path("moved")).unwrap();
    assert_eq!(
        fs::read(home.store().join("moved/private/data")).unwrap(),
        CANARY
    );
    assert_eq!(fs::read(home.path("moved/open")).unwrap(), CANARY);
    assert_absent(&home, "moved/private");
    home.remount();
    assert_absent(&home, "moved/private");
    rename(home.path("moved"), home.path("b/again")).unwrap();
    assert_absent(&home, "b/again/private");
    renameat2(home.path("b"), home.path("empty"), RENAME_EXCHANGE).unwrap();
    assert_absent(&home, "empty/again/private");
    assert_eq!(
        fs::read(home.store().join("empty/again/private/data")).unwrap(),
        CANARY
    );
}

#[test]
fn a_directory_of_hidden_things_is_removed_whole_and_they_stay_hidden() {
    need_mount!();
    let mut home = Home::prepared(fill_hidden, HIDE);
    // By name, by place, and by being replaced.
    rmdir(home.path("d")).unwrap();
    rmdir(home.path("e")).unwrap();
    rename(home.path("empty"), home.path("e2")).unwrap();
    let mut kept = Vec::new();
    for (name, hidden) in [("d", "only.key"), ("e", "private"), ("e2", "private")] {
        let entry = home.trashed(name).pop().expect(name);
        let entry = entry.file_name().unwrap().to_str().unwrap().to_owned();
        kept.push(format!(".trash/{entry}/{hidden}"));
    }
    for file in [
        &kept[0],
        &format!("{}/data", kept[1]),
        &format!("{}/data", kept[2]),
    ] {
        assert_eq!(
            fs::read(home.store().join(file)).unwrap(),
            CANARY,
            "{file} went along"
        );
    }
    let check = |home: &Home| {
        for hidden in &kept {
            assert_err(
                &format!("in the trash: {hidden}"),
                Errno::NOENT,
                stat(home.path(hidden)),
            );
        }
    };
    check(&home);
    home.remount();
    check(&home);
    // Taken back to another name.
    let entry = Path::new(&kept[1]).parent().unwrap().to_owned();
    rename(home.path(entry), home.path("back")).unwrap();
    assert_absent(&home, "back/private");
}

#[test]
fn what_a_pattern_protects_cannot_be_changed() {
    need_mount!();
    let home = Home::prepared(
        |store| {
            for dir in ["etc/sub", "p/keep", "w", "x"] {
                fs::create_dir_all(store.join(dir)).unwrap();
            }
            for file in ["etc/conf", "etc/sub/x", "a.lock", "p/keep/y", "w/z"] {
                fs::write(store.join(file), "content").unwrap();
            }
        },
        &[
            "--read-only=/etc/",
            "--read-only=*.lock",
            "--read-only=p/keep",
            "--xattr",
        ],
    );
    let p = |name: &str| home.path(name);
    let ro = Errno::ROFS;
    for file in ["etc/conf", "etc/sub/x", "a.lock", "p/keep/y"] {
        assert_eq!(fs::read(p(file)).unwrap(), b"content");
        for flags in [O_WRONLY, O_RDWR, O_RDONLY | O_TRUNC, O_WRONLY | O_APPEND] {
            assert_err(file, ro, open(p(file), flags, 0));
        }
        assert_err(file, ro, unlink(p(file)));
        assert_err(file, ro, truncate(p(file), 0));
        assert_err(file, ro, chmod(p(file), 0o777));
        assert_err(file, ro, chown(p(file), Some(1), None));
        assert_err(file, ro, utimensat(p(file), (0, 0), (0, 0)));
        assert_err(file, ro, setxattr(p(file), "user.x", b"1", 0));
        assert_err(file, ro, rename(p(file), p("w/taken")));
        assert_err(file, ro, rename(p("w/z"), p(file)));
        assert_err(file, ro, renameat2(p("w/z"), p(file), RENAME_EXCHANGE));
        assert_err(file, ro, renameat2(p(file), p("w/z"), RENAME_EXCHANGE));
        assert_err(file, ro, link(p(file), p("w/linked")));
    }
    for new in [
        "etc/new",
        "etc/sub/new",
        "new.lock",
        "w/new.lock",
        "p/keep/new",
    ] {
        assert_err(new, ro, open(p(new), O_CREAT | O_WRONLY, 0o644));
        assert_err(new, ro, mkdir(p(new), 0o755));
        assert_err(new, ro, mkfifo(p(new), 0o644));
        assert_err(new, ro, rename(p("w/z"), p(new)));
        assert_err(new, ro, link(p("w/z"), p(new)));
    }
    for dir in ["etc", "etc/sub", "p/keep", "p"] {
        assert_err(dir, ro, rename(p(dir), p("w/dir")));
        assert_err(dir, ro, renameat2(p(dir), p("x"), RENAME_EXCHANGE));
        assert_err(dir, ro, renameat2(p("x"), p(dir), RENAME_EXCHANGE));
    }
    assert_err("rmdir", ro, rmdir(p("etc/sub")));
    // Beside it everything is as usual.
    fs::write(p("w/z"), "changed").unwrap();
    fs::write(p("p/other"), "new").unwrap();
    rename(p("w"), p("w2")).unwrap();
    fs::create_dir_all(p("x/etc")).unwrap();
    fs::write(p("x/etc/conf"), "an ordinary one").unwrap();
    let output = home.run("rm", &["-rf", "etc", "a.lock", "p"]);
    assert!(!output.status.success());
    for file in ["etc/conf", "etc/sub/x", "a.lock", "p/keep/y"] {
        assert_eq!(fs::read(p(file)).unwrap(), b"content", "{file}");
    }
}

// ── What shows of the host ──────────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn nothing_shows_where_the_store_is() {
    need_mount!();
    need_root!("to let others in and to be another user");
    let home = Home::prepared(
        |store| fs::write(store.join("f"), [7; 8192]).unwrap(),
        &["--allow-other"],
    );
    let store = home.store().to_str().unwrap().to_owned();
    let assert_silent = |what: &str, text: &[u8]| {
        let text = String::from_utf8_lossy(text);
        assert!(!text.contains(&store), "{what} names the store: {text}");
    };
    for table in [
        "/proc/mounts",
        "/proc/self/mountinfo",
        "/proc/self/mountstats",
    ] {
        assert_silent(table, &fs::read(table).unwrap());
    }
    // Opened and mapped by way of the kernel's passthrough: /proc shows the home's path.
    let file = fs::File::open(home.path("f")).unwrap();
    let map = Map::new(&file, 8192, 0, true, false).unwrap();
    assert_eq!(map.get(0, 1), [7]);
    assert_silent("/proc/self/maps", &fs::read("/proc/self/maps").unwrap());
    for fd in fs::read_dir("/proc/self/fd").unwrap() {
        let to = fs::read_link(fd.unwrap().path()).unwrap_or_default();
        assert!(!to.starts_with(&store), "an open file shows as {to:?}");
    }
    let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
    assert_silent(
        "fdinfo",
        &fs::read(format!("/proc/self/fdinfo/{fd}")).unwrap(),
    );
    // Errors of a real program.
    let output = home.run("ls", &["-l", "nothing-here", ".trumanfs"]);
    assert_silent("ls", &output.stderr);
    assert!(!String::from_utf8_lossy(&output.stderr).contains("ermission"));
    // The daemon: its command line is anybody's to read, all else is nobody's.
    let pid = home.daemon_pid();
    assert_silent(
        "its command line",
        &fs::read(format!("/proc/{pid}/cmdline")).unwrap(),
    );
    let cwd = fs::read_link(format!("/proc/{pid}/cwd")).unwrap();
    assert_eq!(cwd, Path::new("/"));
    as_user(65534, 65534, &[], || {
        let readable = fs::read(format!("/proc/{pid}/cmdline")).map_err(|e| e.to_string())?;
        assert_silent("its command line", &readable);
        for file in ["environ", "maps", "mem", "auxv", "stack", "syscall", "io"] {
            let path = format!("/proc/{pid}/{file}");
            if fs::read(&path).is_ok_and(|bytes| !bytes.is_empty()) {
                return Err(format!("{path} can be read by another user"));
            }
        }
        for link in ["cwd", "root", "exe", "fd/0"] {
            let path = format!("/proc/{pid}/{link}");
            if fs::read_link(&path).is_ok() {
                return Err(format!("{path} can be read by another user"));
            }
        }
        if fs::read_dir(format!("/proc/{pid}/fd")).is_ok() {
            return Err("its descriptors can be listed by another user".into());
        }
        // The way in beside the mount.
        let state = fs::metadata(home.store().join(".trumanfs")).map_err(|e| e.to_string())?;
        assert_eq!(state.mode() & 0o7777, 0o700);
        for path in ["lock", "control.sock", "sessions", "links"] {
            let path = home.store().join(".trumanfs").join(path);
            assert_err("stat", Errno::ACCESS, stat(&path));
            assert_err("open", Errno::ACCESS, open(&path, O_RDONLY, 0));
            assert_err("create", Errno::ACCESS, creat(&path, 0o600));
            let socket = std::os::unix::net::UnixStream::connect(&path).map_err(|e| e.kind());
            assert_eq!(socket.err(), Some(std::io::ErrorKind::PermissionDenied));
        }
        let status = trumanfs(&["status", store.as_str()]);
        if status.status.success() {
            return Err(format!("anybody may ask the daemon: {}", describe(&status)));
        }
        Ok(String::new())
    })
    .unwrap();
}

#[test]
fn file_handles_are_no_way_in() {
    need_mount!();
    let home = Home::prepared(|store| fs::write(store.join("f"), "f").unwrap(), &[]);
    // Export support is off, so no handle is given out, of what is known and open either.
    stat(home.path("f")).unwrap();
    let fd = open(home.path("f"), O_RDONLY, 0).unwrap();
    let top = open(home.home(), O_RDONLY | O_DIRECTORY, 0).unwrap();
    // Who is not root may open none at all.
    let no_handle = match rustix::process::geteuid().is_root() {
        true => Errno::STALE,
        false => Errno::PERM,
    };
    for path in [home.home().to_owned(), home.path("f")] {
        let given = name_to_handle(&path, 0).map(drop);
        assert_err("name_to_handle_at", Errno::OPNOTSUPP, given);
        // A handle that only names may be given. It opens nothing.
        if let Ok(handle) = name_to_handle(&path, AT_HANDLE_FID) {
            let opened = open_by_handle(&top, handle);
            assert_err("a handle that names", no_handle, opened);
        }
    }
    // Nor does one that somebody makes up: as FUSE writes them (node and generation, with or without the parent's), for the root and
    // the nodes after it.
    for (kind, bytes) in [(0x81, 12), (0x82, 24), (1, 8), (2, 12)] {
        for node in 0..20 {
            let mut handle = [0; 128];
            handle[if kind > 2 { 4 } else { 0 }] = node;
            let made_up = Handle {
                bytes,
                kind,
                handle,
            };
            let opened = open_by_handle(&top, made_up);
            assert_err(&format!("type {kind:#x} of node {node}"), no_handle, opened);
        }
    }
    // Ioctls that a file system would answer: FS_IOC_GETFLAGS, FS_IOC_GETVERSION, FS_IOC_FSGETXATTR, and one that nobody knows.
    for request in [0x8008_6601u64, 0x8008_7601, 0x801c_581f, 0x8008_ff42] {
        for fd in [&fd, &top] {
            let mut words = [0; 64];
            let answer = ioctl_words(fd, request, &mut words);
            assert_err(&format!("ioctl {request:#x}"), Errno::NOTTY, answer);
        }
    }
    // FIEMAP is the kernel's own, which finds that FUSE has none.
    let mut words = [0; 64];
    let answer = ioctl_words(&fd, 0xc020_660b, &mut words);
    assert_err("FIEMAP", Errno::OPNOTSUPP, answer);
}

// ── Many files, few descriptors ─────────────────────────────────────────────────────────────────────────────────────────────────

/// Lets a process (0: this one) have `limit` open files; the hard limit can only be lowered without privileges.
fn limit_descriptors(pid: u32, limit: u64, hard_too: bool) {
    use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
    let maximum = if hard_too {
        Some(limit)
    } else {
        getrlimit(Resource::Nofile).maximum
    };
    let new = Rlimit {
        current: Some(limit),
        maximum,
    };
    prlimit(Pid::from_raw(pid.cast_signed()), Resource::Nofile, new).unwrap();
}

#[test]
fn sixty_thousand_files_at_a_thousand_descriptors() {
    need_mount!();
    need_root!("to look at the descriptors of the daemon and to limit them");
    const DIRS: usize = 60;
    const FILES: usize = 1000;
    // In memory: where many inodes were freed just now, ext4 takes half a minute to find as many that it may use again.
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    };
    let home = Home::plan()
        .on(&base)
        .prepare(|store| {
            for d in 0..DIRS {
                let dir = store.join(format!("d{d}"));
                fs::create_dir(&dir).unwrap();
                for f in 0..FILES {
                    fs::write(dir.join(format!("f{f}")), b"").unwrap();
                }
            }
            fs::write(store.join("d7/f7"), "seven").unwrap();
        })
        .mount();
    let pid = home.daemon_pid();
    limit_descriptors(pid, 1024, true);
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = limits
        .lines()
        .find(|l| l.starts_with("Max open files"))
        .unwrap();
    assert!(line.contains("1024"), "the daemon has other limits: {line}");
    let descriptors = || fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let at_first = descriptors();
    // Whoever drops the kernel's caches, on this machine or in another test, makes it forget files, and the daemon with it.
    let mut most = 0;
    for _ in 0..10 {
        for d in 0..DIRS {
            let dir = home.path(format!("d{d}"));
            let names = readdir(&dir).unwrap();
            assert_eq!(names.len(), FILES);
            for name in names {
                stat(dir.join(name)).unwrap();
            }
        }
        most = home.status().unwrap()["known"].as_u64().unwrap().max(most);
        if most >= (DIRS * FILES) as u64 {
            break;
        }
    }
    assert!(most >= (DIRS * FILES) as u64, "at most {most} are known");
    let now = descriptors();
    assert!(now < at_first + 50, "{at_first} descriptors, then {now}");
    assert_eq!(fs::read(home.path("d7/f7")).unwrap(), b"seven");
    // More files open at once than the daemon can have: an error for whoever asks, and the end for nobody.
    limit_descriptors(0, 4096, false);
    let mut open_files = Vec::new();
    let mut refused = None;
    for n in 0..1500 {
        let path = home.path(format!("d{}/f{}", n % DIRS, n % FILES));
        match open(path, O_RDONLY, 0) {
            Ok(fd) => open_files.push(fd),
            Err(errno) => {
                refused = Some(errno);
                break;
            }
        }
    }
    println!("{} open at once, then {refused:?}", open_files.len());
    assert!(open_files.len() > 700);
    assert!(matches!(refused, None | Some(Errno::MFILE | Errno::NFILE)));
    drop(open_files);
    eventually("they are closed", || {
        home.status().is_ok_and(|s| s["open"].as_u64() == Some(0))
    });
    assert_eq!(fs::read(home.path("d7/f7")).unwrap(), b"seven");
    fs::write(home.path("d8/new"), "new").unwrap();
    unlink(home.path("d8/f1")).unwrap();
    rename(home.path("d9"), home.path("e9")).unwrap();
    assert_eq!(stat(home.path("e9/f999")).unwrap().size, 0);
}

/// Those who get in with `--owner` act with the owner's rights on the store, not with the daemon's.
#[test]
fn an_owner_has_no_more_rights_than_they_have() {
    need_mount!();
    need_root!("to mount for another user");
    let home = Home::prepared(
        |store| {
            rustix::fs::chown(
                store,
                Some(rustix::fs::Uid::from_raw(65534)),
                Some(rustix::fs::Gid::from_raw(65534)),
            )
            .unwrap();
            fs::write(store.join("roots"), CANARY).unwrap();
            fs::set_permissions(store.join("roots"), fs::Permissions::from_mode(0o600)).unwrap();
            fs::create_dir(store.join("closed")).unwrap();
            fs::write(store.join("closed/f"), CANARY).unwrap();
            fs::set_permissions(store.join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
        },
        &["--owner", "nobody"],
    );
    as_user(65534, 65534, &[], || {
        let p = |name: &str| home.path(name);
        assert_err("read", Errno::ACCESS, open(p("roots"), O_RDONLY, 0));
        assert_err("write", Errno::ACCESS, open(p("roots"), O_WRONLY, 0));
        assert_err("below", Errno::ACCESS, open(p("closed/f"), O_RDONLY, 0));
        assert_err("list", Errno::ACCESS, readdir(p("closed")));
        assert_err("chmod", Errno::PERM, chmod(p("roots"), 0o666));
        assert_err("chown", Errno::PERM, chown(p("roots"), Some(65534), None));
        fs::write(p("mine"), "mine").map_err(|e| e.to_string())?;
        Ok(String::new())
    })
    .unwrap();
    assert_eq!(lstat(home.store().join("mine")).unwrap().uid, 65534);
    // Root does not get in: the mount is for its owner (and for nobody who merely may do everything).
    for path in [home.home().to_owned(), home.path("mine")] {
        assert_err("root", Errno::ACCESS, stat(&path));
        assert_err("root", Errno::ACCESS, open(&path, O_RDONLY, 0));
    }
}
