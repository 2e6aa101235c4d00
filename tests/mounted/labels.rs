//! Metadata beside content and mode survives as it does natively: system attributes, access lists, flags of
//! chattr(1), the project id, times; through every way of changing a content, and through undo.
//!
//! Each way is tried on two identical files: one in an ordinary directory, one in a home. The effect on both must be
//! the same; and after an undo the second must be as it was.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use crate::common::calls::{getxattr, listxattr, setxattr};
use crate::common::{Home, describe, need_mount, need_root, skip};

/// Ways to change the content, or the owner, of `$F`.
const WAYS: &[&str] = &[
    r#": > "$F""#,
    r#"echo other > "$F""#,
    r#"truncate -s 0 "$F""#,
    r#"truncate -s 5 "$F""#,
    r#"truncate -s 100000 "$F""#,
    r#"echo more >> "$F""#,
    r#"printf over | dd of="$F" conv=notrunc seek=1 status=none"#,
    r#"fallocate -p -o 0 -l 4096 "$F""#,
    r#"exec 3<> "$F"; : > "$F"; echo x >&3"#,
    r#"cp /etc/hostname "$F""#,
    r#"exec 3<> "$F"; exec 3>&-"#,
    r#"chown 7:8 "$F""#,
    r#"chmod 600 "$F""#,
];

/// An access list with an entry for user 12 (acl(5), as the kernel takes it).
const ACCESS: &[u8] = b"\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x02\0\x04\0\x0c\0\0\0\x04\0\x04\0\xff\xff\xff\xff\x10\0\x04\0\xff\xff\xff\xff\x20\0\x04\0\xff\xff\xff\xff";
/// `cap_net_raw+ep` (capability.h).
const CAPABILITY: &[u8] = b"\x01\0\0\x02\0\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// What a file has beside its content.
#[derive(Debug, PartialEq, Eq, Clone)]
struct Beside {
    xattrs: BTreeMap<String, Vec<u8>>,
    /// What lsattr shows, with the project.
    flags: String,
    mode: u32,
    owner: (u32, u32),
    atime: (i64, i64),
}

fn beside(path: &Path) -> Beside {
    let names = listxattr(path).unwrap();
    let meta = fs::metadata(path).unwrap();
    let listed = Command::new("lsattr")
        .arg("-pd")
        .arg(path)
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let mut words: Vec<_> = listed.split_whitespace().collect();
    words.pop();
    Beside {
        xattrs: names
            .into_iter()
            .map(|name| (name.clone(), getxattr(path, &name).unwrap()))
            .collect(),
        flags: words.join(" "),
        mode: meta.mode(),
        owner: (meta.uid(), meta.gid()),
        atime: (meta.atime(), meta.atime_nsec()),
    }
}

/// Makes a file with everything that a file can have here.
fn make(path: &Path, size: usize) {
    fs::write(path, vec![b'a'; size]).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    std::os::unix::fs::chown(path, Some(12), Some(34)).unwrap();
    let long = vec![b'v'; 3000];
    for (name, value) in [
        ("user.mark", &b"value"[..]),
        ("user.long", &long),
        ("security.foo", b"label"),
        ("security.ima", b"\x01hash"),
        ("security.SMACK64EXEC", b"floor"),
        ("trusted.note", b"mine"),
        ("trusted.overlay.origin", b"origin"),
        ("system.posix_acl_access", ACCESS),
        ("security.capability", CAPABILITY),
    ] {
        // What the file system has not cannot go.
        let _ = setxattr(path, name, value, 0);
    }
    for flag in ["+d", "+A", "+S"] {
        let _ = Command::new("chattr").arg(flag).arg(path).output();
    }
    let _ = Command::new("chattr").args(["-p", "42"]).arg(path).output();
    // Older than its time of change, so that any look at it would show.
    crate::common::calls::lutimens(path, (978_307_200, 123_456_789), (1_500_000_000, 0)).unwrap();
}

fn run(dir: &Path, file: &str, way: &str) -> bool {
    let mut command = Command::new("bash");
    command.args(["-c", way]).env("F", file).current_dir(dir);
    command.output().unwrap().status.success()
}

fn every_way(options: &[&str], size: usize) {
    every_way_on(&std::env::temp_dir(), options, size);
}

fn every_way_on(base: &Path, options: &[&str], size: usize) {
    let native = tempfile::TempDir::with_prefix_in("trumanfs-labels-", base).unwrap();
    let file = |n: usize| format!("f{n}");
    let mut home = Home::plan()
        .on(base)
        .options(options)
        .prepare(|store| {
            for n in 0..WAYS.len() {
                make(&store.join(file(n)), size);
                make(&native.path().join(file(n)), size);
            }
        })
        .mount();
    let before: Vec<_> = (0..WAYS.len())
        .map(|n| beside(&home.store().join(file(n))))
        .collect();
    assert!(before[0].xattrs.contains_key("security.foo") || before[0].xattrs.is_empty());
    if before[0].xattrs.is_empty() {
        skip!("labels", "the file system has no extended attributes");
    }
    for (n, way) in WAYS.iter().enumerate() {
        let done = run(native.path(), &file(n), way);
        assert_eq!(run(home.home(), &file(n), way), done, "{way}");
        let (natively, here) = (native.path().join(file(n)), home.store().join(file(n)));
        assert_eq!(beside(&here), beside(&natively), "{way}");
        assert_eq!(
            fs::read(&here).unwrap(),
            fs::read(&natively).unwrap(),
            "{way}"
        );
    }
    home.umount();
    let undone = home.trumanfs(&[
        "undo".as_ref(),
        "--session".as_ref(),
        "last".as_ref(),
        home.store().as_os_str(),
    ]);
    assert!(undone.status.success(), "{}", describe(&undone));
    for (n, way) in WAYS.iter().enumerate() {
        let mut now = beside(&home.store().join(file(n)));
        // To undo is to read, and access times are not put back.
        now.atime = before[n].atime;
        assert_eq!(now, before[n], "after undo: {way}");
        let content = fs::read(home.store().join(file(n))).unwrap();
        assert!(content == vec![b'a'; size], "after undo: {way}");
    }
}

#[test]
fn every_way_with_passthrough() {
    need_mount!();
    need_root!("to set labels");
    every_way(&[], 9000);
}

#[test]
fn every_way_without_passthrough() {
    need_mount!();
    need_root!("to set labels");
    every_way(&["--no-passthrough"], 9000);
}

#[test]
fn every_way_for_files_too_big_to_copy() {
    need_mount!();
    need_root!("to set labels");
    every_way(&["--xattr"], 3 << 20);
    every_way(&["--no-passthrough", "--xattr"], 3 << 20);
}

/// A file system in a file, unmounted when dropped.
struct Disk(tempfile::TempDir);

impl Disk {
    fn xfs() -> Result<Disk, String> {
        let disk = Disk(tempfile::TempDir::with_prefix("trumanfs-disk-").unwrap());
        let (image, at) = (disk.0.path().join("image"), disk.at());
        fs::create_dir(&at).unwrap();
        let file = fs::File::create(&image).unwrap();
        file.set_len(400 << 20).unwrap();
        let mut mkfs = Command::new("mkfs.xfs");
        mkfs.arg("-q").arg(&image);
        let mut mount = Command::new("mount");
        mount.args(["-o", "loop"]).args([&image, &at]);
        for mut command in [mkfs, mount] {
            let output = command.output().map_err(|error| error.to_string())?;
            if !output.status.success() {
                return Err(describe(&output));
            }
        }
        Ok(disk)
    }

    fn at(&self) -> std::path::PathBuf {
        self.0.path().join("mnt")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.at()).output();
    }
}

/// There files have a project, too, and share blocks with what is kept of them.
#[test]
fn every_way_on_xfs() {
    need_mount!();
    let disk = match Disk::xfs() {
        Ok(disk) => disk,
        Err(why) => skip!("xfs", "{why}"),
    };
    every_way_on(&disk.at(), &[], 9000);
    every_way_on(&disk.at(), &["--no-passthrough"], 9000);
}

/// What cannot be given to a new inode keeps the old one in its place: a daemon that is not root may not set labels of the system.
#[test]
fn labels_that_cannot_be_set_stay_where_they_are() {
    need_mount!();
    let base = tempfile::TempDir::with_prefix("trumanfs-labels-").unwrap();
    let (store, home) = (base.path().join("store"), base.path().join("home"));
    fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let nobody = Some(65534);
    for dir in [&store, &home] {
        fs::create_dir(dir).unwrap();
        std::os::unix::fs::chown(dir, nobody, nobody).unwrap();
    }
    let file = store.join("f");
    fs::write(&file, "content").unwrap();
    std::os::unix::fs::chown(&file, nobody, nobody).unwrap();
    if setxattr(&file, "security.foo", b"label", 0).is_err() {
        skip!("labels", "the file system has no security labels");
    }
    let before = beside(&file);
    let user = |script: &str| {
        let mut command = Command::new("setpriv");
        command
            .args([
                "--reuid=65534",
                "--regid=65534",
                "--clear-groups",
                "--inh-caps=-all",
            ])
            .args(["--bounding-set=-all", "bash", "-euc", script])
            .current_dir(base.path())
            .env("XDG_RUNTIME_DIR", base.path().join("home"));
        crate::common::run_limited(command, crate::common::COMMAND_LIMIT)
    };
    let line = format!(
        "{} exec --root store -- 'true > f; echo new > f'",
        crate::common::binary()
    );
    let done = user(&line);
    assert!(done.status.success(), "{}", describe(&done));
    assert_eq!(fs::read(&file).unwrap(), b"new\n");
    let same = |now: Beside| {
        assert_eq!(
            (now.xattrs, now.flags),
            (before.xattrs.clone(), before.flags.clone())
        )
    };
    same(beside(&file));
    let line = format!("{} undo --session last store", crate::common::binary());
    let done = user(&line);
    assert!(done.status.success(), "{}", describe(&done));
    assert_eq!(fs::read(&file).unwrap(), b"content");
    same(beside(&file));
}

/// What comes back as a file of its own is like the one that it was.
#[test]
fn what_is_restored_as_a_copy_has_all_labels() {
    need_mount!();
    need_root!("to set labels");
    let mut home = Home::prepared(
        |store| {
            make(&store.join("f"), 3000);
            fs::hard_link(store.join("f"), store.join("g")).unwrap();
            make(&store.join("h"), 3000);
        },
        &[],
    );
    let before = beside(&home.store().join("f"));
    home.sh("rm f; echo more >> g; echo other > h");
    let removed = home.trashed("f").remove(0);
    let entry = removed.file_name().unwrap();
    home.umount();
    let store = home.store().as_os_str();
    for words in [
        vec!["trash".as_ref(), "restore".as_ref(), store, entry],
        vec![
            "restore".as_ref(),
            store,
            "/h".as_ref(),
            "--to".as_ref(),
            "/copy".as_ref(),
        ],
    ] {
        let done = home.trumanfs(&words);
        assert!(done.status.success(), "{}", describe(&done));
    }
    for name in ["f", "copy"] {
        let now = beside(&home.store().join(name));
        assert_eq!(fs::read(home.store().join(name)).unwrap(), vec![b'a'; 3000]);
        assert_eq!(
            (&now.xattrs, now.mode, now.owner),
            (&before.xattrs, before.mode, before.owner),
            "{name}"
        );
    }
}
