//! Nothing that a program destroys is lost: every way in which content can be destroyed, and what is kept of it.
//!
//! Each file is in the store before the home is mounted; a real program destroys its content; then the test's own
//! reader reassembles the original content from records and versions by the rules of `docs/semantics/trash.md`, and it
//! must be the same byte for byte.

use std::collections::HashMap;
use std::fs;
use std::io::BufReader;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::random::Random;
use crate::common::{Home, need_mount, need_root, need_tools};
use trumanfs::journal::{InodeNumbers, JournalReader, KeepMethod, Op, Record, VersionRef};
use trumanfs::world::store::layout::JOURNAL;

/// Doors by which the content of `$F` goes, in bash or (after `#!py`) in Python with `F` and helpers.
const DOORS: &[(&str, &str)] = &[
    ("unlink", r#"rm "$F""#),
    ("shell truncation", r#"> "$F""#),
    ("shell rewriting", r#"echo other > "$F""#),
    ("truncate to nothing", r#"truncate -s 0 "$F""#),
    ("truncate to some", r#"truncate -s 37 "$F""#),
    ("truncate to more", r#"truncate -s 8M "$F""#),
    (
        "rename over",
        r#"echo other > "$F.new"; mv -f "$F.new" "$F""#,
    ),
    (
        "cp over",
        r#"head -c 3000000 /dev/zero > "$F.new"; cp -f "$F.new" "$F""#,
    ),
    ("sed -i", r#"LC_ALL=C sed -i 's/a/b/g' "$F""#),
    (
        "dd conv=notrunc",
        r#"echo hello | dd of="$F" conv=notrunc bs=5 seek=3 status=none"#,
    ),
    (
        "dd oflag=direct",
        r#"head -c 4096 /dev/zero | dd of="$F" conv=notrunc oflag=direct bs=4096 iflag=fullblock status=none"#,
    ),
    ("append", r#"echo more >> "$F""#),
    (
        "append, then truncate through it",
        "#!py\nfd=os.open(F,os.O_WRONLY|os.O_APPEND); os.write(fd,b'more'); os.ftruncate(fd,7); os.close(fd)",
    ),
    (
        "append without O_APPEND after all",
        "#!py\nimport fcntl\nfd=os.open(F,os.O_WRONLY|os.O_APPEND); fcntl.fcntl(fd,fcntl.F_SETFL,0); os.pwrite(fd,b'over',1); os.close(fd)",
    ),
    (
        "append by map",
        "#!py\nfd=os.open(F,os.O_RDWR|os.O_APPEND); m=mmap.mmap(fd,100); m[5:9]=b'over'; m.flush(); m.close(); os.close(fd)",
    ),
    (
        "pwrite",
        "#!py\nfd=os.open(F,os.O_WRONLY); os.pwrite(fd,b'over',70); os.pwrite(fd,b'over',min(9000,S-4)); os.close(fd)",
    ),
    (
        "pwrite, read and write",
        "#!py\nfd=os.open(F,os.O_RDWR); os.pwrite(fd,b'over',70); os.pwrite(fd,b'again',71); os.pread(fd,10,0); os.close(fd)",
    ),
    (
        "pwrite beside a reader",
        "#!py\nr=os.open(F,os.O_RDONLY); os.read(r,10)\nfd=os.open(F,os.O_WRONLY); os.pwrite(fd,b'over',70); os.close(fd)\nassert os.pread(r,4,70)==b'over'; os.close(r)",
    ),
    (
        "pwrite, read and write, beside a reader",
        "#!py\nr=os.open(F,os.O_RDONLY)\nfd=os.open(F,os.O_RDWR); os.pwrite(fd,b'over',70); os.close(fd)\nassert os.pread(r,4,70)==b'over'; os.close(r)",
    ),
    (
        "two writers",
        "#!py\na=os.open(F,os.O_RDWR); os.pwrite(a,b'one',10)\nb=os.open(F,os.O_WRONLY); os.pwrite(b,b'two',20); os.pwrite(a,b'three',30); os.close(b); os.close(a)",
    ),
    (
        "two writers, other way round",
        "#!py\na=os.open(F,os.O_WRONLY); os.pwrite(a,b'one',10)\nb=os.open(F,os.O_RDWR); os.pwrite(b,b'two',20); os.pwrite(a,b'three',S-5); os.close(b); os.close(a)",
    ),
    (
        "shared map",
        "#!py\nfd=os.open(F,os.O_RDWR); m=mmap.mmap(fd,S); m[S-6:S-2]=b'over'; m[0:1]=b'!'; m.flush(); m.close(); os.close(fd)",
    ),
    (
        "shared map after close",
        "#!py\nfd=os.open(F,os.O_RDWR); m=mmap.mmap(fd,S); os.close(fd); m[10:14]=b'over'; m.close()",
    ),
    (
        "ftruncate through a writer",
        "#!py\nfd=os.open(F,os.O_RDWR); os.ftruncate(fd,50); os.pwrite(fd,b'over',60); os.close(fd)",
    ),
    (
        "truncate by name beside a writer",
        "#!py\nfd=os.open(F,os.O_RDWR); os.pwrite(fd,b'x',S-1); os.truncate(F,50); os.pwrite(fd,b'over',60); os.close(fd)",
    ),
    (
        "O_TRUNC beside a reader",
        "#!py\nr=os.open(F,os.O_RDONLY); os.pread(r,5,0)\nfd=os.open(F,os.O_WRONLY|os.O_TRUNC); os.write(fd,b'new'); os.close(fd)\nassert os.pread(r,9,0)==b'new'",
    ),
    (
        "O_TRUNC for reading",
        "#!py\nfd=os.open(F,os.O_RDONLY|os.O_TRUNC); os.close(fd)",
    ),
    ("punch a hole", r#"fallocate -p -o 10 -l 5000 "$F""#),
    (
        "zero a range",
        r#"fallocate -z -o 10 -l 5000 "$F" 2>&- || fallocate -p -o 10 -l 5000 "$F""#,
    ),
    (
        "collapse a range",
        r#"fallocate -c -o 0 -l 4096 "$F" 2>&- || > "$F""#,
    ),
    (
        "insert a range",
        r#"fallocate -i -o 0 -l 4096 "$F" 2>&- || > "$F""#,
    ),
    (
        "punch a hole by ioctl",
        "#!py\nimport fcntl,struct\nfd=os.open(F,os.O_RDWR); fcntl.ioctl(fd,0x4030582b,struct.pack('hhqqiI16x',0,0,10,5000,0,0)); os.close(fd)",
    ),
    (
        "copy_file_range",
        "#!py\ns=os.open('/proc/self/exe',os.O_RDONLY)\nx=os.open(F+'.src',os.O_RDWR|os.O_CREAT); os.write(x,os.pread(s,8192,0))\nfd=os.open(F,os.O_WRONLY); os.copy_file_range(x,fd,5000,0,17); os.close(fd)",
    ),
    (
        "sendfile",
        "#!py\ns=os.open('/proc/self/exe',os.O_RDONLY)\nfd=os.open(F,os.O_WRONLY); os.sendfile(fd,s,0,6000); os.close(fd)",
    ),
    (
        "by another hard link",
        r#"ln "$F" "$F.link"; echo other > "$F.link""#,
    ),
    (
        "by another hard link, after removal",
        r#"ln "$F" "$F.link"; rm "$F"; echo over | dd of="$F.link" conv=notrunc status=none"#,
    ),
    (
        "write after removal",
        "#!py\nfd=os.open(F,os.O_RDWR); os.unlink(F); os.pwrite(fd,b'over',3); os.ftruncate(fd,9); os.close(fd)",
    ),
    (
        "truncate twice",
        r#"echo one > "$F"; echo two > "$F"; > "$F"; echo three > "$F""#,
    ),
    (
        "truncate, then overwrite",
        r#"echo one > "$F"; echo two | dd of="$F" conv=notrunc status=none; echo four >> "$F""#,
    ),
    (
        "a file nobody can read",
        r#"chmod 200 "$F"; echo over | dd of="$F" conv=notrunc status=none"#,
    ),
    (
        "tar over",
        r#"mkdir t; echo other > "t/${F##*/}"; tar cf t.tar -C t "${F##*/}"; tar xf t.tar; rm -r t t.tar"#,
    ),
    (
        "tar --overwrite",
        r#"mkdir t; echo other > "t/${F##*/}"; tar cf t.tar -C t "${F##*/}"; tar xf t.tar --overwrite; rm -r t t.tar"#,
    ),
    (
        "a program killed while it writes",
        "#!py\nimport signal\nif os.fork()==0:\n fd=os.open(F,os.O_RDWR); os.pwrite(fd,b'over',9); os.kill(os.getpid(),signal.SIGKILL)\nos.wait()",
    ),
];

const PYTHON: &str = "import os,sys,mmap\nF=sys.argv[1]; S=os.path.getsize(F)\n";

/// Content that says where it is from, so that a mixture is noticed.
fn content(size: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(size + 16);
    while text.len() < size {
        text.extend_from_slice(format!("a line at {}\n", text.len()).as_bytes());
    }
    text.truncate(size);
    text
}

fn sessions(store: &Path) -> Vec<PathBuf> {
    let sessions = store.join(".trumanfs/sessions");
    let mut ids: Vec<_> = fs::read_dir(sessions)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    ids.sort();
    ids
}

/// Returns the newest session and its records.
fn records(store: &Path) -> (PathBuf, Vec<Record>) {
    let session = sessions(store).pop().unwrap();
    let records = records_of(&session);
    (session, records)
}

fn records_of(session: &Path) -> Vec<Record> {
    let file = fs::File::open(session.join(JOURNAL)).unwrap();
    let device = session.metadata().unwrap().dev();
    let records: Vec<Record> = JournalReader::new(BufReader::new(file))
        .map(|record| record.unwrap().with_device(device))
        .collect();
    let aborted: Vec<u64> = records
        .iter()
        .filter_map(|r| match &r.op {
            Op::Abort { of, .. } => Some(*of),
            _ => None,
        })
        .collect();
    let done = |r: &Record| !aborted.contains(&r.seq);
    records.into_iter().filter(done).collect()
}

/// The inode that took the place of the one that a record is about.
fn became(op: &Op) -> Option<InodeNumbers> {
    match op {
        Op::Truncate { new, .. } | Op::Content { new, .. } => *new,
        _ => None,
    }
}

fn kept(op: &Op) -> Option<(InodeNumbers, u64, Option<VersionRef>)> {
    match op {
        Op::Write {
            ids, size, kept, ..
        }
        | Op::Truncate {
            ids, size, kept, ..
        }
        | Op::Allocate {
            ids, size, kept, ..
        }
        | Op::Content {
            ids, size, kept, ..
        } => Some((*ids, *size, *kept)),
        _ => None,
    }
}

/// Puts together what an inode held before the session. `present` finds what it holds now.
fn before(
    session: &Path,
    records: &[Record],
    ids: InodeNumbers,
    present: &dyn Fn(InodeNumbers) -> Vec<u8>,
) -> Vec<u8> {
    let first = records
        .iter()
        .enumerate()
        .filter_map(|(at, record)| kept(&record.op).map(|kept| (at, kept)))
        .find(|(_, (of, _, kept))| *of == ids && kept.is_some());
    let Some((at, (_, size, Some(VersionRef { how, n })))) = first else {
        return present(ids);
    };
    let size = usize::try_from(size).unwrap();
    let version = session.join(format!("versions/{n:08}"));
    let then = became(&records[at].op).unwrap_or(ids);
    let after = || before(session, &records[at + 1..], then, present);
    let map = fs::read_to_string(session.join(format!("versions/{n:08}.map")));
    match how {
        KeepMethod::Moved | KeepMethod::Cloned | KeepMethod::Copied if map.is_err() => {
            fs::read(version).unwrap()
        }
        KeepMethod::Length => after()[..size].to_vec(),
        _ => {
            let mut whole = after();
            whole.resize(size, 0);
            let version = fs::File::open(version).unwrap();
            for line in map.unwrap().lines() {
                if line.starts_with("content ") {
                    continue;
                }
                let (from, length) = line.split_once(' ').unwrap();
                let (from, length): (usize, usize) =
                    (from.parse().unwrap(), length.parse().unwrap());
                version
                    .read_exact_at(&mut whole[from..from + length], from as u64)
                    .unwrap();
            }
            whole
        }
    }
}

/// Returns the content of every inode of a store, `.trash` and the versions too.
fn all_contents(top: &Path, found: &mut HashMap<InodeNumbers, PathBuf>) {
    for entry in fs::read_dir(top).unwrap() {
        let entry = entry.unwrap();
        let meta = entry.path().symlink_metadata().unwrap();
        if meta.is_dir() {
            all_contents(&entry.path(), found);
        } else if meta.is_file() {
            found.insert([meta.dev(), meta.ino()], entry.path());
        }
    }
}

pub(crate) fn destroy(
    home: &Home,
    file: &str,
    script: &str,
    user: Option<u32>,
) -> std::process::Output {
    let mut words: Vec<String> = match user {
        Some(user) => ["setpriv", "--reuid", "U", "--regid", "U", "--clear-groups"]
            .map(|word| match word {
                "U" => user.to_string(),
                word => word.to_owned(),
            })
            .to_vec(),
        None => vec!["env".to_owned()],
    };
    match script.strip_prefix("#!py\n") {
        Some(python) => words.extend([
            "python3".to_owned(),
            "-c".to_owned(),
            format!("{PYTHON}{python}"),
            file.to_owned(),
        ]),
        None => words.extend(["bash".to_owned(), "-c".to_owned(), script.to_owned()]),
    }
    // The user whose home it is gets in, and root does not: so the shell goes there.
    let go = format!("cd '{}' && exec \"$@\"", home.home().display());
    let (program, rest) = words.split_first().unwrap();
    let mut command = Command::new(program);
    if user.is_some() {
        command.args(&rest[..5]).args(["bash", "-c", &go, "bash"]);
        command.args(&rest[5..]);
    } else {
        command.args(rest).current_dir(home.home());
    }
    command.env("F", file).output().unwrap()
}

/// Goes through every door with files of one size, in a home with these options.
fn all_doors(size: usize, options: &[&str], user: Option<u32>) {
    let whole = content(size);
    let mut ids = HashMap::new();
    let names: Vec<String> = (0..DOORS.len()).map(|n| format!("file-{n}")).collect();
    let mut home = Home::plan()
        .options(options)
        .limit(std::time::Duration::from_secs(240))
        .prepare(|store| {
            std::os::unix::fs::chown(store, user, user).unwrap();
            for name in &names {
                let path = store.join(name);
                fs::write(&path, &whole).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
                std::os::unix::fs::chown(&path, user, user).unwrap();
                let meta = path.metadata().unwrap();
                ids.insert(name.clone(), [meta.dev(), meta.ino()]);
            }
        })
        .mount();
    let mut failed = Vec::new();
    for ((door, script), name) in DOORS.iter().zip(&names) {
        let output = destroy(&home, name, script, user);
        if !output.status.success() {
            failed.push(format!(
                "{door}: {}",
                String::from_utf8_lossy(&output.stderr)
            ));
        }
    }
    home.umount();
    let (session, records) = records(home.store());
    let mut inodes = HashMap::new();
    all_contents(home.store(), &mut inodes);
    let present = |ids: InodeNumbers| fs::read(&inodes[&ids]).unwrap();
    for ((door, _), name) in DOORS.iter().zip(&names) {
        let now = before(&session, &records, ids[name], &present);
        if now != whole {
            let differs = now.iter().zip(&whole).position(|(a, b)| a != b);
            failed.push(format!(
                "{door} ({name}): not as it was: {} bytes of {}, first difference at {differs:?}",
                now.len(),
                whole.len()
            ));
        }
    }
    // And by the one command.
    let undone = crate::common::trumanfs(&[
        "undo".as_ref(),
        home.store().as_os_str(),
        "--session".as_ref(),
        "last".as_ref(),
    ]);
    if !undone.status.success() {
        failed.push(String::from_utf8_lossy(&undone.stderr).into_owned());
    }
    for ((door, _), name) in DOORS.iter().zip(&names) {
        if fs::read(home.store().join(name)).ok().as_ref() != Some(&whole) {
            failed.push(format!("{door} ({name}): not undone"));
        }
    }
    let left = fs::read_dir(home.store()).unwrap().count();
    if left != names.len() + 2 {
        failed.push(format!("{left} entries after the undo"));
    }
    assert!(
        failed.is_empty(),
        "size {size}, {options:?}:\n{}",
        failed.join("\n")
    );
}

#[test]
fn small_files_by_every_door() {
    need_mount!();
    all_doors(5001, &[], None);
}

#[test]
fn big_files_by_every_door() {
    need_mount!();
    need_root!("to read what is closed to its owner");
    all_doors(3_000_077, &[], None);
}

#[test]
fn small_files_by_every_door_without_passthrough() {
    need_mount!();
    all_doors(5001, &["--no-passthrough"], None);
}

#[test]
fn big_files_by_every_door_without_passthrough() {
    need_mount!();
    need_root!("to read what is closed to its owner");
    all_doors(3_000_077, &["--no-passthrough"], None);
}

#[test]
fn by_every_door_where_every_user_gets_in() {
    need_mount!();
    need_root!("to read what is closed to its owner");
    all_doors(3_000_077, &["--allow-other"], None);
}

#[test]
fn by_every_door_for_an_owner() {
    need_mount!();
    need_root!("to mount for another user");
    need_tools!("setpriv");
    all_doors(5001, &["--owner", "12345"], Some(12345));
    all_doors(
        3_000_077,
        &["--owner", "12345", "--no-passthrough"],
        Some(12345),
    );
}

/// Also shows that the tests above can fail.
#[test]
fn with_keep_trash_only_removals_are_kept() {
    need_mount!();
    let mut home = Home::prepared(
        |store| fs::write(store.join("f"), content(500)).unwrap(),
        &["--keep", "trash"],
    );
    fs::write(home.path("f"), "other").unwrap();
    fs::remove_file(home.path("f")).unwrap();
    home.umount();
    let (session, records) = records(home.store());
    assert!(
        records
            .iter()
            .all(|r| kept(&r.op).is_none_or(|k| k.2.is_none()))
    );
    assert_eq!(fs::read_dir(session.join("versions")).unwrap().count(), 0);
    assert_eq!(home.trash().len(), 1);
}

#[test]
fn at_the_limit_a_write_fails_and_loses_nothing() {
    need_mount!();
    need_root!("for passthrough: without it the kernel writes whole pages, and tells of it later");
    let home = Home::with(&["--keep-max", "100K"]);
    let path = home.path("f");
    fs::write(&path, content(20_000)).unwrap();
    let mut written = 0;
    // Nothing in common with each other, or it would be given back.
    let other = |n: u8| -> Vec<u8> { content(20_000).iter().map(|b| b ^ n).collect() };
    let error = loop {
        match fs::write(&path, other(written + 1)) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 100);
    };
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    assert!((2..=5).contains(&written), "{written}");
    assert_eq!(
        fs::read(&path).unwrap(),
        other(written),
        "the old content is whole"
    );
    // Nothing is destroyed by these.
    fs::write(home.path("new"), content(50_000)).unwrap();
    let mut appended = fs::OpenOptions::new().append(true).open(&path).unwrap();
    std::io::Write::write_all(&mut appended, b"more").unwrap();
    fs::remove_file(&path).unwrap();
    let status = home.status().unwrap();
    assert!(status["refused"].as_u64().unwrap() >= 1, "{status}");
    assert!(status["kept_bytes"].as_u64().unwrap() <= 100 * 1024);
}

/// The limit is one of space on disk, not of contents. Without passthrough, what a version has in common with a later one
/// is read through that one and takes no space of its own, so more contents may fit into the same space.
#[test]
fn with_keep_evict_the_oldest_contents_go() {
    need_mount!();
    for options in [&[][..], &["--no-passthrough"]] {
        the_oldest_contents_go(options);
    }
}

fn the_oldest_contents_go(options: &[&str]) {
    let mut home = Home::with(&[options, &["--keep-max", "200K", "--keep-evict"]].concat());
    let path = home.path("f");
    for n in 0..40 {
        let other: Vec<u8> = content(20_000).iter().map(|b| b ^ n).collect();
        fs::write(&path, &other).unwrap();
    }
    home.umount();
    let (session, records) = records(home.store());
    let gone: Vec<u64> = records
        .iter()
        .filter_map(|record| match &record.op {
            Op::Evict { versions, .. } => Some(versions),
            _ => None,
        })
        .flatten()
        .map(|(_, n)| *n)
        .collect();
    assert!(!gone.is_empty() && gone.is_sorted(), "{gone:?}");
    let mut left = 0;
    for record in &records {
        if let Some((_, _, Some(VersionRef { n, .. }))) = kept(&record.op) {
            let there = session.join(format!("versions/{n:08}")).exists();
            assert_eq!(there, !gone.contains(&n), "{n}");
            left += usize::from(there);
        }
    }
    let versions = fs::read_dir(session.join("versions")).unwrap();
    let on_disk = versions.map(|version| version.unwrap().metadata().unwrap().blocks() * 512);
    let on_disk: u64 = on_disk.sum();
    assert!(
        left > 0 && on_disk <= 200 << 10,
        "{options:?}: {left} in {on_disk}"
    );
}

/// The inode in a file's place changes with every O_TRUNC; nobody who uses the file meanwhile may notice.
#[test]
fn a_storm_on_one_file_fails_nobody() {
    need_mount!();
    for options in [&[][..], &["--no-passthrough"], &["--cache-ttl", "0"]] {
        let home = Home::prepared(
            |store| fs::write(store.join("f"), content(3000)).unwrap(),
            options,
        );
        let path = home.path("f");
        let end = std::time::Instant::now() + std::time::Duration::from_secs(2);
        let until = |act: &dyn Fn() -> std::io::Result<()>| {
            let mut count = 0;
            while std::time::Instant::now() < end {
                act().unwrap();
                count += 1;
            }
            count
        };
        let counts = std::thread::scope(|scope| {
            let threads = [
                scope.spawn(|| until(&|| fs::write(&path, content(3000)))),
                scope.spawn(|| until(&|| fs::write(&path, content(2000)))),
                scope.spawn(|| until(&|| fs::read(&path).map(drop))),
                scope.spawn(|| {
                    until(&|| {
                        let mut file = fs::OpenOptions::new().append(true).open(&path)?;
                        std::io::Write::write_all(&mut file, b"more")
                    })
                }),
                scope.spawn(|| until(&|| fs::metadata(&path).map(drop))),
                scope.spawn(|| {
                    until(&|| {
                        let mode = fs::Permissions::from_mode(0o600);
                        fs::set_permissions(&path, mode)
                    })
                }),
            ];
            threads.map(|thread| thread.join().unwrap())
        });
        assert!(counts.iter().all(|count| *count > 10), "{counts:?}");
        let number = fs::metadata(&path).unwrap().ino();
        fs::write(&path, "last").unwrap();
        assert_eq!(number, fs::metadata(&path).unwrap().ino());
        assert_eq!(fs::read(home.store().join("f")).unwrap(), b"last");
    }
}

#[test]
fn what_takes_a_files_place_looks_the_same() {
    need_mount!();
    need_root!("to give files away");
    let home = Home::prepared(
        |store| {
            let dir = store.join("d");
            fs::create_dir(&dir).unwrap();
            let path = dir.join("f");
            fs::write(&path, content(3000)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o641)).unwrap();
            std::os::unix::fs::chown(&path, Some(12), Some(34)).unwrap();
            // A file system in memory may have none of these; then there is nothing to keep.
            let _ = crate::common::calls::setxattr(&path, "user.mark", b"value", 0);
        },
        &["--xattr"],
    );
    let path = home.path("d/f");
    let before = fs::metadata(&path).unwrap();
    let of_dir = fs::metadata(home.path("d")).unwrap();
    let mark = crate::common::calls::getxattr(&path, "user.mark");
    fs::write(&path, "other").unwrap();
    let after = fs::metadata(&path).unwrap();
    assert_eq!(
        (before.ino(), before.mode(), before.uid(), before.gid()),
        (after.ino(), after.mode(), after.uid(), after.gid())
    );
    assert_eq!(mark, crate::common::calls::getxattr(&path, "user.mark"));
    let stored = fs::metadata(home.store().join("d/f")).unwrap();
    assert_eq!((stored.mode(), stored.uid()), (before.mode(), 12));
    let of_dir_after = fs::metadata(home.store().join("d")).unwrap();
    assert_eq!(
        (of_dir.mtime(), of_dir.mtime_nsec()),
        (of_dir_after.mtime(), of_dir_after.mtime_nsec())
    );
}

/// The time to give back was read before the lock: it could be that of another file's exchange.
#[test]
fn a_directory_keeps_its_time_while_several_empty_files_in_it() {
    need_mount!();
    const WRITERS: usize = 4;
    let was = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let fill = |store: &Path| {
        fs::create_dir(store.join("d")).unwrap();
        for n in 0..WRITERS * 100 {
            fs::write(store.join(format!("d/{n}")), "was\n").unwrap();
        }
        let dir = fs::File::open(store.join("d")).unwrap();
        dir.set_modified(was).unwrap();
    };
    let home = Home::prepared(fill, &[]);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let dir = home.path("d");
            scope.spawn(move || {
                for n in 0..100 {
                    let file = dir.join((n * WRITERS + writer).to_string());
                    drop(fs::File::create(file).unwrap());
                }
            });
        }
    });
    let dir = fs::metadata(home.store().join("d")).unwrap();
    assert_eq!(dir.modified().unwrap(), was);
}

/// A file too big to copy costs what is overwritten, not what it holds.
#[test]
fn overwriting_the_middle_of_a_big_file_does_not_copy_it() {
    need_mount!();
    let size = 64 << 20;
    let home = Home::prepared(
        |store| {
            let file = fs::File::create(store.join("f")).unwrap();
            for at in 0..64 {
                file.write_all_at(&vec![at; 1 << 20], u64::from(at) << 20)
                    .unwrap();
            }
        },
        &[],
    );
    for flags in [libc::O_WRONLY, libc::O_RDWR] {
        let fd = crate::common::calls::open(home.path("f"), flags, 0).unwrap();
        for at in 0..10 {
            crate::common::calls::pwrite(&fd, b"middle", size / 2 + at).unwrap();
        }
        drop(fd);
        // The daemon learns of a close a moment later. Beside an open that only writes, one that also reads has the file copied.
        let until = Instant::now() + Duration::from_secs(30);
        while home.status().unwrap()["open"] != 0 {
            assert!(Instant::now() < until, "the file is open");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    let kept = home.status().unwrap()["kept_bytes"].as_u64().unwrap();
    assert!((1..=64 * 1024).contains(&kept), "{kept}");
}

/// Two write to a big file at random places, from start to end and backwards, and open it again in between.
#[test]
fn what_two_wrote_at_random_is_undone() {
    need_mount!();
    let original = content(5_000_077);
    for (seed, options) in [
        (1, &[][..]),
        (2, &["--no-passthrough"]),
        (3, &["--durable"]),
    ] {
        let mut home = Home::prepared(
            |store| fs::write(store.join("f"), &original).unwrap(),
            options,
        );
        let path = home.path("f");
        std::thread::scope(|scope| {
            for (who, flags) in [(1, libc::O_RDWR), (2, libc::O_WRONLY)] {
                let path = &path;
                scope.spawn(move || {
                    let mut random = Random(10 * seed + who);
                    for _ in 0..6 {
                        let fd = crate::common::calls::open(path, flags, 0).unwrap();
                        let mut at = 0;
                        let step = [6000, 18_000].map(|most| random.below(most));
                        for n in 0..60_u8 {
                            at = match n % 20 {
                                0..12 => at + step[0],
                                12..16 => at.saturating_sub(step[1]),
                                _ => random.below(4_990_000),
                            };
                            let text = vec![b'0' + n; 1 + random.index(9000)];
                            crate::common::calls::pwrite(&fd, &text, at).unwrap();
                        }
                    }
                });
            }
        });
        assert!(fs::read(&path).unwrap() != original);
        home.umount();
        let store = home.store().as_os_str();
        for words in [
            vec!["fsck".as_ref(), store],
            vec![
                "undo".as_ref(),
                store,
                "--session".as_ref(),
                "last".as_ref(),
            ],
        ] {
            let done = crate::common::trumanfs(&words);
            assert!(done.status.success(), "{options:?}: {done:?}");
        }
        assert!(
            fs::read(home.store().join("f")).unwrap() == original,
            "{options:?}"
        );
    }
}

/// Without passthrough an open that empties is an open for writing, then a cut: of a small file one copy does for both, and of a big one
/// nothing is copied, though others have it open.
#[test]
fn emptying_an_open_file_is_kept_once() {
    need_mount!();
    for size in [70_000, 6_000_000] {
        let original = content(size);
        let mut home = Home::prepared(
            |store| fs::write(store.join("f"), &original).unwrap(),
            &["--no-passthrough"],
        );
        let path = home.path("f");
        let reader = crate::common::calls::open(&path, libc::O_RDONLY, 0).unwrap();
        assert_eq!(
            crate::common::calls::pread(&reader, 9, 0).unwrap(),
            original[..9],
            "before"
        );
        let writer = crate::common::calls::open(&path, libc::O_RDWR, 0).unwrap();
        let emptier = crate::common::calls::open(&path, libc::O_WRONLY | libc::O_TRUNC, 0).unwrap();
        crate::common::calls::pwrite(&emptier, b"one", 0).unwrap();
        crate::common::calls::pwrite(&writer, b"two", 3).unwrap();
        assert_eq!(
            crate::common::calls::pread(&reader, 9, 0).unwrap(),
            b"onetwo"
        );
        drop(emptier);
        crate::common::calls::ftruncate(&writer, 4).unwrap();
        crate::common::calls::fsync(&writer).unwrap();
        drop((writer, reader));
        assert_eq!(fs::read(&path).unwrap(), b"onet");
        assert_eq!(fs::read(home.store().join("f")).unwrap(), b"onet");
        home.umount();
        let (session, records) = records(home.store());
        let cut = records
            .iter()
            .find_map(|record| match record.op {
                Op::Truncate { to: 0, kept, .. } => kept,
                _ => None,
            })
            .expect("a record of the cut");
        let how = if size > 4 << 20 {
            KeepMethod::Moved
        } else {
            KeepMethod::Copied
        };
        assert_eq!(cut.how, how);
        let versions = session.join("versions");
        let version = versions.join(format!("{:08}", cut.n));
        assert!(fs::read(version).unwrap() == original, "another content");
        // Two opened it for writing: each copied it, or began to save what is overwritten. Of two that are the same, the
        // older one has been given back.
        let whole = fs::read_dir(versions).unwrap().filter(|entry| {
            let meta = entry.as_ref().unwrap().metadata().unwrap();
            meta.blocks() * 512 >= size as u64
        });
        assert_eq!(whole.count(), 1);
    }
}

/// The daemon is killed in the middle of writing; what had been answered for is there, and what it held before too.
#[test]
fn a_killed_daemon_loses_no_content() {
    need_mount!();
    need_root!(
        "for passthrough: without it a killed daemon loses what the kernel has not written back"
    );
    let original = content(400_000);
    for round in 0..4_u64 {
        let mut ids = [0, 0];
        let mut home = Home::plan()
            .options(&["--copy-up-to", "8K"])
            .prepare(|store| {
                fs::write(store.join("big"), &original).unwrap();
                let meta = store.join("big").metadata().unwrap();
                ids = [meta.dev(), meta.ino()];
            })
            .mount();
        let (small, big) = (home.path("small"), home.path("big"));
        let texts = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut done = Vec::new();
                for n in 0.. {
                    let text = format!("content {n}\n").repeat(100);
                    if fs::write(&small, &text).is_err() {
                        break;
                    }
                    done.push(text);
                }
                done
            });
            let overwriter = scope.spawn(|| {
                for n in 0_u64.. {
                    let flags = if n % 2 == 0 {
                        libc::O_RDWR
                    } else {
                        libc::O_WRONLY
                    };
                    let Ok(fd) = crate::common::calls::open(&big, flags, 0) else {
                        break;
                    };
                    // Here and there, then on and on.
                    let at = n * 7919 % 300_000;
                    let each = [0, 9000, 30_000, 60_000, 64_000, 68_000, 72_000];
                    let written = each.iter().try_for_each(|more| {
                        let text = format!("over {n}");
                        crate::common::calls::pwrite(&fd, text.as_bytes(), at + more).map(drop)
                    });
                    if written.is_err() {
                        break;
                    }
                }
            });
            std::thread::sleep(std::time::Duration::from_millis(300 + round * 37));
            home.kill_daemon_only();
            overwriter.join().unwrap();
            writer.join().unwrap()
        });
        assert!(!texts.is_empty());
        crate::common::watch::detach(home.home());
        home.mount_again();
        home.umount();
        let session = sessions(home.store()).remove(0);
        let records = records_of(&session);
        let mut inodes = HashMap::new();
        all_contents(home.store(), &mut inodes);
        for record in &records {
            if let Some((_, _, Some(VersionRef { how, n }))) = kept(&record.op) {
                let version = session.join(format!("versions/{n:08}"));
                assert!(how == KeepMethod::Length || version.exists(), "{record:?}");
            }
        }
        let all: std::collections::HashSet<String> = inodes
            .values()
            .filter_map(|path| fs::read_to_string(path).ok())
            .collect();
        let lost = texts.iter().filter(|text| !all.contains(*text)).count();
        assert_eq!(lost, 0, "of {}", texts.len());
        let present = |ids: InodeNumbers| fs::read(&inodes[&ids]).unwrap();
        assert!(before(&session, &records, ids, &present) == original);

        // A version may be left that no record names, nothing else; and all that had been answered for can be undone.
        let id = session.file_name().unwrap();
        let store = home.store().as_os_str();
        for words in [
            vec!["fsck".as_ref(), store, "--repair".as_ref()],
            vec!["fsck".as_ref(), store],
            vec!["undo".as_ref(), store, "--session".as_ref(), id],
        ] {
            let done = crate::common::trumanfs(&words);
            let repairs = words.len() == 3 && words[0] == "fsck" && done.status.code() == Some(1);
            assert!(
                done.status.success() || repairs,
                "{words:?}: {:?} {}{}",
                done.status,
                String::from_utf8_lossy(&done.stdout),
                String::from_utf8_lossy(&done.stderr)
            );
        }
        assert!(fs::read(home.store().join("big")).unwrap() == original);
        assert!(!home.store().join("small").exists());
    }
}
