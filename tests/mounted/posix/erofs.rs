//! Read-only files: every call that would change them fails with EROFS, and the file system stays as it was.
//!
//! There are three places: a native directory bound read-only, a home mounted with `--read-only`, and read-only paths
//! in a writable home.

use std::path::Path;

use super::trial::*;
use crate::common::calls::*;
use crate::common::{Home, child, need_mount, need_root};

/// Fills a directory with what [`everything_fails`] tries to change.
fn prepare(dir: &Path) {
    let make = || -> Sys<()> {
        mkdir(dir.join("d"), 0o755)?;
        mkdir(dir.join("empty"), 0o755)?;
        write(open(dir.join("f"), O_CREAT | O_WRONLY, 0o644)?, b"content")?;
        write(open(dir.join("g"), O_CREAT | O_WRONLY, 0o644)?, b"other")?;
        write(
            open(dir.join("d/inner"), O_CREAT | O_WRONLY, 0o644)?,
            b"inner",
        )?;
        mkfifo(dir.join("p"), 0o644)?;
        utimensat(dir.join("f"), OLD, OLD)
    };
    make().expect("prepare");
}

/// Tries every change of a directory that was prepared and is read-only now.
fn everything_fails(t: &Trial<'_>) {
    let now = (0, UTIME_NOW);
    let before = [ok!(t, stat(t.p("f"))), ok!(t, stat(t.dir))];
    err!(t, EROFS, open(t.p("new"), O_CREAT | O_WRONLY, 0o644));
    err!(t, EROFS, open(t.p("new"), O_CREAT | O_RDONLY, 0o644));
    err!(t, EROFS, creat(t.p("f"), 0o644));
    for flags in [
        O_WRONLY,
        O_RDWR,
        O_RDONLY | O_TRUNC,
        O_WRONLY | O_APPEND,
        O_RDWR | O_CREAT,
    ] {
        err!(t, EROFS, open(t.p("f"), flags, 0o644));
    }
    err!(t, EROFS, mkdir(t.p("new"), 0o755));
    err!(t, EROFS, mkdir(t.p("d/new"), 0o755));
    err!(t, EROFS, mkfifo(t.p("new"), 0o644));
    err!(t, EROFS, mknod(t.p("new"), S_IFREG | 0o644, 0));
    err!(t, EROFS, rmdir(t.p("empty")));
    err!(t, EROFS, unlink(t.p("f")));
    err!(t, EROFS, unlink(t.p("d/inner")));
    err!(t, EROFS, rename(t.p("f"), t.p("new")));
    err!(t, EROFS, rename(t.p("f"), t.p("g")));
    err!(t, EROFS, rename(t.p("d"), t.p("new")));
    err!(t, EROFS, renameat2(t.p("f"), t.p("g"), RENAME_EXCHANGE));
    err!(t, EROFS, renameat2(t.p("f"), t.p("new"), RENAME_NOREPLACE));
    err!(t, EROFS, link(t.p("f"), t.p("new")));
    err!(t, EROFS, chmod(t.p("f"), 0o600));
    err!(t, EROFS, chmod(t.p("d"), 0o700));
    err!(t, EROFS, chown(t.p("f"), Some(ANN), Some(ANN)));
    err!(t, EROFS, truncate(t.p("f"), 0));
    err!(t, EROFS, utimensat(t.p("f"), (1, 2), (3, 4)));
    err!(t, EROFS, utimensat(t.p("f"), now, now));
    err!(t, EROFS, access(t.p("f"), W_OK));
    err!(t, EROFS, access(t.p("d"), W_OK));
    if t.has(XATTR) {
        err!(t, EROFS, setxattr(t.p("f"), "user.x", b"1", 0));
    }
    // Reading is as ever.
    ok!(t, access(t.p("f"), R_OK));
    eq!(t, t.content(&t.p("f")), b"content");
    eq!(t, t.names(t.dir), ["d", "empty", "f", "g", "p"]);
    let fd = ok!(t, open(t.p("f"), O_RDONLY, 0));
    err!(t, EBADF, write(&fd, b"x"));
    err!(t, EROFS, fchmod(&fd, 0o600));
    err!(t, EROFS, futimens(&fd, OLD, OLD));
    ok!(t, fsync(&fd));
    err!(t, EACCES, Map::new(&fd, 7, 0, true, true));
    // What is wrong besides may be told first.
    err!(t, EEXIST | EROFS, mkdir(t.p("d"), 0o755));
    err!(t, EEXIST | EROFS, link(t.p("f"), t.p("g")));
    err!(t, ENOENT | EROFS, unlink(t.p("missing")));
    err!(t, ENOENT, open(t.p("missing"), O_RDONLY, 0));
    err!(t, ENOENT, stat(t.p("missing")));
    // A FIFO's content is not the file system's.
    ok!(t, open(t.p("p"), O_RDWR | O_NONBLOCK, 0));
    let after = [ok!(t, stat(t.p("f"))), ok!(t, stat(t.dir))];
    eq!(
        t,
        after.map(|stat| (stat.mtime, stat.ctime, stat.mode, stat.size)),
        before.map(|stat| (stat.mtime, stat.ctime, stat.mode, stat.size))
    );
}

/// Runs the checks on a directory and says what failed.
fn check(place: &str, root: &Path, dir: &Path, has: Needs) -> Result<String, String> {
    let (checks, problems) =
        Trial::new(root, dir, has).run(&case("every change", everything_fails));
    if problems.is_empty() {
        Ok(format!("{place}: {checks} assertions"))
    } else {
        Err(format!(
            "{} of {checks} assertions fail in {place}:\n    {}",
            problems.len(),
            problems.join("\n    ")
        ))
    }
}

/// A native directory bound read-only, in a mount namespace that ends with the child.
#[test]
fn native() {
    use rustix::mount::MountFlags;
    need_root!("to mount a tmpfs");
    let dir = tempfile::TempDir::with_prefix("trumanfs-native-").expect("a temporary directory");
    prepare(dir.path());
    told(child::in_child(|| {
        let bound = || -> Sys<()> {
            unshare_mounts()?;
            rustix::mount::mount_bind(dir.path(), dir.path())?;
            rustix::mount::mount_remount(dir.path(), MountFlags::BIND | MountFlags::RDONLY, "")
        };
        bound().map_err(|error| format!("a read-only bind mount: {}", name_of(error)))?;
        check(
            "a native directory",
            dir.path(),
            dir.path(),
            NATIVE | ROOT | USERS | XATTR,
        )
    }));
}

/// Homes that are read-only as a whole, in several ways.
#[test]
fn whole_home() {
    need_mount!();
    for options in [
        &["--read-only"][..],
        &["--read-only", "--allow-other", "--xattr"],
        &["--read-only", "--no-passthrough", "--xattr"],
    ] {
        let home = Home::plan().options(options).prepare(prepare).mount();
        // Without --xattr a home has none to be read-only.
        let has = HOME
            | ROOT
            | if options.contains(&"--xattr") {
                XATTR
            } else {
                0
            };
        told(check(
            &format!("a home with {}", options.join(" ")),
            home.home(),
            home.home(),
            has,
        ));
    }
}

fn told(result: Result<String, String>) {
    match result {
        Ok(good) => println!("{good}"),
        Err(problem) => panic!("{problem}"),
    }
}

/// A home whose `frozen/` alone is read-only: the same inside, and nothing passes its border.
#[test]
fn read_only_paths() {
    need_mount!();
    let prepare = |store: &Path| {
        mkdir(store.join("frozen"), 0o755).expect("mkdir");
        prepare(&store.join("frozen"));
        mkdir(store.join("free"), 0o755).expect("mkdir");
        write(
            open(store.join("free/f"), O_CREAT | O_WRONLY, 0o644).expect("creat"),
            b"free",
        )
        .expect("write");
    };
    let home = Home::plan()
        .options(&["--read-only=/frozen", "--xattr"])
        .prepare(prepare)
        .mount();
    let frozen = home.path("frozen");
    let inside = check(
        "a home with --read-only=/frozen",
        &home.path("free"),
        &frozen,
        HOME | ROOT | XATTR,
    );
    told(inside);
    let border = case("the border", |t| {
        err!(t, EROFS, rename(t.p("frozen/f"), t.p("free/new")));
        err!(t, EROFS, rename(t.p("free/f"), t.p("frozen/new")));
        err!(t, EROFS, rename(t.p("free/f"), t.p("frozen/f")));
        err!(
            t,
            EROFS,
            renameat2(t.p("free/f"), t.p("frozen/f"), RENAME_EXCHANGE)
        );
        err!(
            t,
            EROFS,
            renameat2(t.p("frozen/f"), t.p("free/f"), RENAME_EXCHANGE)
        );
        err!(t, EROFS, link(t.p("free/f"), t.p("frozen/new")));
        err!(t, EROFS, rename(t.p("frozen"), t.p("thawed")));
        err!(t, EROFS | ENOTEMPTY, rmdir(t.p("frozen")));
        err!(t, EROFS, chmod(t.p("frozen"), 0o700));
        err!(t, EROFS, symlink("x", t.p("frozen/l")));
        // A second name outside would be a way to write to what is frozen.
        err!(t, EROFS, link(t.p("frozen/f"), t.p("free/link")));
        // Outside, all is as ever.
        ok!(
            t,
            write(
                ok!(t, open(t.p("free/f"), O_WRONLY | O_TRUNC, 0)),
                b"changed"
            )
        );
        ok!(t, rename(t.p("free/f"), t.p("free/g")));
        ok!(t, unlink(t.p("free/g")));
        eq!(t, t.names(&t.p("frozen")), ["d", "empty", "f", "g", "p"]);
    });
    let (checks, problems) = Trial::new(home.home(), home.home(), HOME | ROOT).run(&border);
    assert!(
        problems.is_empty(),
        "of {checks} assertions fail at the border of a read-only path:\n    {}",
        problems.join("\n    ")
    );
}
