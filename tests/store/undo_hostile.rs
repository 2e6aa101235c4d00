//! Undo against an occupant who wants it to fail: nothing done in a home prevents an operator from undoing it, and
//! what cannot be undone is named without affecting the rest. The random part, with more rounds, is in
//! `benches/trials/undo/storms.py`.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use crate::common::{
    Home, copy_program, describe, need_mount, need_root, need_tools, run_limited, skip, trumanfs,
};

fn undo(store: &Path, more: &[&str]) -> Output {
    let mut args: Vec<PathBuf> = vec!["undo".into(), store.into()];
    args.extend(["--session", "last"].iter().chain(more).map(PathBuf::from));
    trumanfs(&args)
}

fn code(output: &Output, wanted: i32) -> String {
    assert_eq!(output.status.code(), Some(wanted), "{}", describe(output));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn with_links(store: &Path) {
    fs::create_dir_all(store.join("a")).unwrap();
    fs::create_dir_all(store.join("p/q")).unwrap();
    symlink("../../f", store.join("a/up")).unwrap();
    symlink("/etc/passwd", store.join("out")).unwrap();
    fs::write(store.join("f1"), "good\n").unwrap();
    fs::write(store.join("f"), "f\n").unwrap();
}

/// An occupant moved a link to where it leads to something, and changed it there: in its old place it leads out of the home, so
/// it does not exist there for the occupant. `undo` stopped half-way at it, for ever, and `f1` was never restored.
#[test]
fn a_link_that_leads_out_of_where_it_was_goes_back_there() {
    need_mount!();
    let ways = [
        "rm p/q/a/up",
        "touch -h p/q/a/up",
        "chown -h 12345 p/q/a/up",
        "mv p/q/a/up p/q/a/other",
        "mv p/q/a/up p/q/here; ln -sf f p/q/a/up",
        "rm -r p/q/a; echo x > a",
    ];
    for way in ways {
        for mounted in [true, false] {
            let mut home = Home::prepared(with_links, &["--symlinks", "inside"]);
            let up = home.store().join("a/up");
            let was = fs::symlink_metadata(&up).unwrap();
            home.sh(&format!("mv a p/q/a; {way}; echo evil > f1"));
            if !mounted {
                home.umount();
            }
            code(&undo(home.store(), &[]), 0);
            let is = fs::symlink_metadata(&up).unwrap();
            let seen =
                |meta: &fs::Metadata| (meta.ino(), meta.uid(), meta.mtime(), meta.mtime_nsec());
            assert_eq!(seen(&is), seen(&was), "{way}");
            assert_eq!(fs::read_link(&up).unwrap(), Path::new("../../f"));
            assert_eq!(
                fs::read(home.store().join("f1")).unwrap(),
                b"good\n",
                "{way}"
            );
            // The occupant sees no more of it than before.
            assert!(!mounted || !home.path("a/up").exists());
            let again = undo(home.store(), &[]);
            assert!(
                matches!(again.status.code(), Some(0 | 1)),
                "{}",
                describe(&again)
            );
        }
    }
}

/// Patterns and hidden links bind the occupant. An operator who takes back what an earlier session did is not kept from it by
/// those of a later one.
#[test]
fn what_a_later_mount_hides_or_protects_is_put_back() {
    need_mount!();
    for options in [
        &["--hide", "/d/"][..],
        &["--hide", "x"],
        &["--read-only=/d/"],
        &["--read-only=x"],
        &["--symlinks", "hidden"],
    ] {
        let mut home = Home::prepared(
            |store| {
                fs::create_dir(store.join("d")).unwrap();
                fs::write(store.join("d/x"), "one\n").unwrap();
                fs::write(store.join("d/y"), "two\n").unwrap();
                symlink("x", store.join("d/l")).unwrap();
            },
            &["--symlinks", "inside"],
        );
        home.sh(
            "echo evil > d/x; rm d/y; chmod 600 d/x; mkdir d/new; mv d/l d/new/l; mv d/x d/new/x",
        );
        home.remount_with(options);
        let sessions = fs::read_dir(home.store().join(".trumanfs/sessions")).unwrap();
        let first = sessions
            .map(|entry| entry.unwrap().file_name())
            .min()
            .unwrap();
        let args = [
            "undo".as_ref(),
            home.store().as_os_str(),
            "--session".as_ref(),
            &first,
        ];
        code(&trumanfs(&args), 0);
        let there = |name: &str| fs::read_to_string(home.store().join("d").join(name)).unwrap();
        assert_eq!(
            (there("x").as_str(), there("y").as_str()),
            ("one\n", "two\n"),
            "{options:?}"
        );
        assert_eq!(
            fs::read_link(home.store().join("d/l")).unwrap(),
            Path::new("x")
        );
        assert!(!home.store().join("d/new").exists(), "{options:?}");
        let mode = fs::metadata(home.store().join("d/x"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o644, "{options:?}");
    }
}

/// What cannot be taken back is named with its path and the reason, all else is done, and the exit code says partly.
#[test]
fn one_thing_that_cannot_be_taken_back_keeps_nothing_else() {
    need_mount!();
    let mut home = Home::prepared(
        |store| {
            for name in ["a", "d/held", "f", "z"] {
                fs::create_dir_all(store.join("d")).unwrap();
                fs::write(store.join(name), "good\n").unwrap();
            }
        },
        &[],
    );
    home.sh("echo evil > a; mv d/held moved; echo evil > moved; chmod 600 f; rm z; echo new > new");
    for mounted in [true, false] {
        let moved = home.store().join("moved");
        let chattr = |how: &str| Command::new("chattr").arg(how).arg(&moved).output();
        if !chattr("+i").is_ok_and(|output| output.status.success()) {
            skip!("immutable", "no immutable files here");
        }
        let done = undo(home.store(), &[]);
        let again = undo(home.store(), &[]);
        chattr("-i").unwrap();
        let listed = Command::new("lsattr")
            .arg("-aR")
            .arg(home.store().join(".trumanfs"))
            .output();
        let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
        let fixed = |line: &&str| {
            line.split(' ')
                .next()
                .is_some_and(|flags| flags.contains('i'))
        };
        let left: Vec<_> = listed
            .lines()
            .filter(|line| !line.starts_with('/'))
            .filter(fixed)
            .collect();
        assert_eq!(
            left, [""; 0],
            "what was made for an immutable file can never be deleted"
        );
        let told = code(&done, 5);
        assert!(told.contains("/d/held stays as it is: "), "{told}");
        assert!(told.contains("not permitted"), "{told}");
        assert!(!told.contains("half-way"), "{told}");
        assert!(code(&again, 5).contains("/d/held stays as it is: "));
        let there = |name: &str| fs::read_to_string(home.store().join(name)).unwrap();
        assert_eq!(
            (there("a").as_str(), there("z").as_str()),
            ("good\n", "good\n")
        );
        let mode = fs::metadata(home.store().join("f"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o644);
        assert!(!home.store().join("new").exists());
        assert_eq!(there("moved"), "evil\n");
        if mounted {
            home.umount();
        }
    }
    // Once it can be, it is taken back with the same words.
    code(&undo_mounted_last(&home), 0);
    assert_eq!(fs::read(home.store().join("d/held")).unwrap(), b"good\n");
}

fn undo_mounted_last(home: &Home) -> Output {
    undo(home.store(), &[])
}

/// Whoever goes on working in the home while it is undone can spoil what they touch, and nothing else; and the undo ends.
#[test]
fn a_program_that_keeps_changing_the_home_does_not_stop_an_undo() {
    need_mount!();
    let home = Home::prepared(
        |store| {
            for n in 0..300 {
                fs::write(store.join(format!("f{n}")), "good\n").unwrap();
            }
            fs::create_dir(store.join("busy")).unwrap();
        },
        &[],
    );
    home.sh("for n in $(seq 0 299); do echo evil > f$n; done; mkdir busy/x");
    let going = "while [ ! -e stop ]; do mv busy/x busy/y; mv busy/y busy/x; echo $$ > busy/z; rm busy/z; done";
    let mut going = Command::new("sh")
        .args(["-c", going])
        .current_dir(home.home())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut told = Vec::new();
    for _ in 0..5 {
        told.push(describe(&undo(home.store(), &["--force"])));
    }
    fs::write(home.path("stop"), "").unwrap();
    going.wait().unwrap();
    for n in 0..300 {
        let text = fs::read_to_string(home.store().join(format!("f{n}"))).unwrap();
        assert_eq!(text, "good\n", "f{n}: {told:#?}");
    }
}

/// Storms on a tmpfs, one for each way of mounting, of one occupant and without kills. What several at once can still do is
/// for the trial itself.
#[test]
fn storms_are_taken_back_whole() {
    need_mount!();
    need_tools!("python3");
    need_root!("the storms need namespaces and users of their own");
    let seeds = std::env::var("TRUMANFS_SEEDS").unwrap_or_else(|_| "0..16".to_owned());
    let storms = crate::common::repository().join("benches/trials/undo/storms.py");
    let mut command = Command::new("python3");
    command
        .arg(storms)
        .args(["--seeds", &seeds, "--only", "tmpfs", "--label", "test"])
        .args(["--occupants", "1", "--count", "40"])
        .args(["--leave-out", "kills,unreadable,append-cleared"])
        .args(["--binary", crate::common::binary()]);
    let output = run_limited(command, Duration::from_secs(300));
    assert!(output.status.success(), "{}", describe(&output));
}

/// Whoever mounts without being root is the occupant's own user, and is kept out of what that closes with `chmod 000`: an undo
/// ended before it began, with "Permission denied", and what was in a closed directory could not be moved.
#[test]
fn what_an_ordinary_user_closed_is_taken_back() {
    need_mount!();
    // A device file that everybody may open, where only this test sees it.
    let script = r#"
        mkdir -p "$1/dev" && mount -t tmpfs none "$1/dev" && mknod -m 666 "$1/dev/fuse" c 10 229 &&
        mount --bind "$1/dev/fuse" /dev/fuse || exit 77
        cd "$1"; export HOME="$1" TMPDIR="$1"
        run() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
        run ./trumanfs mount store home || exit 77
        run sh -c 'cd home && echo evil > d/f && rm d/g && chmod 000 d/f d/e d && echo evil > h && chmod 000 h kept && mkdir t && echo x > t/x && chmod 000 t/x t && mv t u && rmdir u 2>&-; mkdir w; echo w > w/x; chmod 000 w/x w; :'
        [ "$2" = mounted ] || run ./trumanfs umount home
        run ./trumanfs undo store --session last; code=$?
        run ./trumanfs fsck store || code=9
        [ "$2" = unmounted ] || run ./trumanfs umount home
        exit "$code"
    "#;
    for how in ["mounted", "unmounted"] {
        let base = tempfile::TempDir::with_prefix("trumanfs-user-").unwrap();
        let at = |name: &str| base.path().join(name);
        copy_program(crate::common::binary(), at("trumanfs"));
        for dir in ["store/d/e", "home"] {
            fs::create_dir_all(at(dir)).unwrap();
        }
        for file in ["d/f", "d/g", "d/e/x", "h"] {
            fs::write(at("store").join(file), "good\n").unwrap();
        }
        fs::create_dir(at("store/kept")).unwrap();
        let mut command = Command::new("sh");
        let owned = command.args(["-c", "chmod 755 \"$1\"; chown -R 65534:65534 \"$1\"", "sh"]);
        assert!(owned.arg(base.path()).status().unwrap().success());
        let mode = |name: &str| {
            fs::metadata(at("store").join(name))
                .unwrap()
                .permissions()
                .mode()
                & 0o777
        };
        let before = ["d", "d/e", "d/f", "h", "kept"].map(mode);
        let mut command = Command::new("unshare");
        command.args(["-m", "--propagation", "private", "sh", "-c", script, "sh"]);
        command.arg(base.path()).arg(how);
        let output = run_limited(command, Duration::from_secs(60));
        if output.status.code() == Some(77) {
            skip!(
                "user-mounts",
                "an ordinary user cannot mount here: {}",
                describe(&output)
            );
        }
        assert!(output.status.success(), "{how}: {}", describe(&output));
        assert_eq!(["d", "d/e", "d/f", "h", "kept"].map(mode), before, "{how}");
        for file in ["d/f", "d/g", "d/e/x", "h"] {
            assert_eq!(
                fs::read(at("store").join(file)).unwrap(),
                b"good\n",
                "{how}: {file}"
            );
        }
    }
}
