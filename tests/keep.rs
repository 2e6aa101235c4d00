//! Nothing that a program destroys is lost: every door by which content can go, and what is kept of it.
//!
//! Each file is in the store before the home is mounted; a real program destroys its content; afterwards the content before
//! the session is put together from the records and the versions by the rules of SEMANTICS.md, by a reader of this test's own,
//! and must be the same byte for byte.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs
)]

mod common;

use std::collections::HashMap;
use std::fs;
use std::io::BufReader;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Home, need_mount};
use trumanfs::journal::{FILE, How, Ids, Kept, Op, Reader, Record};

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

fn records(store: &Path) -> (PathBuf, Vec<Record>) {
    let sessions = store.join(".trumanfs/sessions");
    let mut ids: Vec<_> = fs::read_dir(sessions)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    ids.sort();
    let session = ids.pop().unwrap();
    let file = fs::File::open(session.join(FILE)).unwrap();
    let records: Vec<Record> = Reader::new(BufReader::new(file))
        .map(Result::unwrap)
        .collect();
    let aborted: Vec<u64> = records
        .iter()
        .filter_map(|r| match &r.op {
            Op::Abort { of, .. } => Some(*of),
            _ => None,
        })
        .collect();
    let done = |r: &Record| !aborted.contains(&r.seq);
    (session, records.into_iter().filter(done).collect())
}

fn kept(op: &Op) -> Option<(Ids, u64, Option<Kept>)> {
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
    ids: Ids,
    present: &dyn Fn(Ids) -> Vec<u8>,
) -> Vec<u8> {
    let first = records
        .iter()
        .enumerate()
        .filter_map(|(at, record)| kept(&record.op).map(|kept| (at, kept)))
        .find(|(_, (of, _, kept))| *of == ids && kept.is_some());
    let Some((at, (_, size, Some(Kept { how, n })))) = first else {
        return present(ids);
    };
    let size = usize::try_from(size).unwrap();
    let version = session.join(format!("versions/{n:08}"));
    let after = || before(session, &records[at + 1..], ids, present);
    match how {
        How::Moved | How::Cloned | How::Copied => fs::read(version).unwrap(),
        How::Length => after()[..size].to_vec(),
        How::Blocks => {
            let mut whole = after();
            whole.resize(size, 0);
            let version = fs::File::open(version).unwrap();
            let map = fs::read_to_string(session.join(format!("versions/{n:08}.map"))).unwrap();
            for line in map.lines() {
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
fn all_contents(top: &Path, found: &mut HashMap<Ids, PathBuf>) {
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

fn destroy(home: &Home, file: &str, script: &str) -> std::process::Output {
    let mut command = match script.strip_prefix("#!py\n") {
        Some(python) => {
            let mut command = Command::new("python3");
            command.arg("-c").arg(format!("{PYTHON}{python}")).arg(file);
            command
        }
        None => {
            let mut command = Command::new("bash");
            command.arg("-c").arg(script).env("F", file);
            command
        }
    };
    command.current_dir(home.home()).output().unwrap()
}

/// Goes through every door with files of one size, in a home with these options.
fn all_doors(size: usize, options: &[&str]) {
    let whole = content(size);
    let mut ids = HashMap::new();
    let names: Vec<String> = (0..DOORS.len()).map(|n| format!("file-{n}")).collect();
    let mut home = Home::plan()
        .options(options)
        .limit(std::time::Duration::from_secs(240))
        .prepare(|store| {
            for name in &names {
                let path = store.join(name);
                fs::write(&path, &whole).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
                let meta = path.metadata().unwrap();
                ids.insert(name.clone(), [meta.dev(), meta.ino()]);
            }
        })
        .mount();
    let mut failed = Vec::new();
    for ((door, script), name) in DOORS.iter().zip(&names) {
        let output = destroy(&home, name, script);
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
    let present = |ids: Ids| fs::read(&inodes[&ids]).unwrap();
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
    assert!(
        failed.is_empty(),
        "size {size}, {options:?}:\n{}",
        failed.join("\n")
    );
}

#[test]
fn small_files_by_every_door() {
    need_mount!();
    all_doors(5001, &[]);
}

#[test]
fn big_files_by_every_door() {
    need_mount!();
    all_doors(3_000_077, &[]);
}

#[test]
fn small_files_by_every_door_without_passthrough() {
    need_mount!();
    all_doors(5001, &["--no-passthrough"]);
}

#[test]
fn big_files_by_every_door_without_passthrough() {
    need_mount!();
    all_doors(3_000_077, &["--no-passthrough"]);
}

#[test]
fn by_every_door_where_every_user_gets_in() {
    need_mount!();
    all_doors(3_000_077, &["--allow-other"]);
}
