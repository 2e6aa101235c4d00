//! Real programs that destroy files, and one command that undoes it all.
//!
//! Each program runs in a home over files that were in the store before; then `trumanfs undo TARGET --session last`
//! must leave the tree as it was at the start, byte for byte: contents, holes, modes, owners, times, links and names.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Command, Output};

use crate::common::{Home, need_mount, skip};

/// What a tree looks like: for each path its kind, mode, owner, time, links, and content with its holes.
fn snapshot(top: &Path) -> BTreeMap<String, String> {
    let mut seen = BTreeMap::new();
    let mut links = BTreeMap::new();
    look(top, top, &mut seen, &mut links);
    seen
}

fn look(
    top: &Path,
    dir: &Path,
    seen: &mut BTreeMap<String, String>,
    links: &mut BTreeMap<u64, usize>,
) {
    let mut entries: Vec<_> = fs::read_dir(dir).unwrap().map(Result::unwrap).collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, name) = (entry.path(), entry.file_name());
        if dir == top && (name == ".trash" || name == ".trumanfs") {
            continue;
        }
        let meta = path.symlink_metadata().unwrap();
        let next = links.len();
        let link = *links.entry(meta.ino()).or_insert(next);
        let content = match meta.is_file() {
            true => content(&path),
            false => String::new(),
        };
        let said = format!(
            "{:o} {}:{} {}.{:09} link {link} {content}",
            meta.mode(),
            meta.uid(),
            meta.gid(),
            meta.mtime(),
            meta.mtime_nsec()
        );
        let key = path.strip_prefix(top).unwrap().as_os_str().as_bytes();
        seen.insert(String::from_utf8_lossy(key).into_owned(), said);
        if meta.is_dir() {
            look(top, &path, seen, links);
        }
    }
}

/// The length and a sum of a file, and where its first data and its first hole are.
fn content(path: &Path) -> String {
    let file = fs::File::open(path).unwrap();
    let bytes = fs::read(path).unwrap();
    let sum = bytes.iter().fold(7_u64, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u64::from(*byte))
    });
    let data = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(0)).ok();
    let hole = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(0)).ok();
    format!("{} {sum:x} {data:?} {hole:?}", bytes.len())
}

fn bash(dir: &Path, script: &str) -> Output {
    Command::new("bash")
        .args(["-euc", script])
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("HOME", dir)
        .output()
        .unwrap()
}

fn fill(store: &Path) {
    let made = bash(
        store,
        r#"
        git init -q -b main repo
        cd repo
        git config user.name somebody; git config user.email somebody@example.org
        mkdir src docs
        for n in $(seq 40); do echo "line $n of a file" > src/$n.c; done
        git add -A; git commit -qm first
        echo more >> src/1.c; git commit -qam second
        echo "worth keeping" > notes.txt; mkdir out; echo built > out/o
        echo changed > src/2.c
        cd ..
        seq 1000 > numbers; cp numbers numbers.2; ln numbers numbers.link
        mkdir -p tree/a/b; echo x > tree/a/b/x; echo y > tree/y; chmod 640 tree/y
        python3 -c "import sqlite3; d=sqlite3.connect('db'); d.execute('create table t(a,b)'); d.executemany('insert into t values(?,?)',[(i,'x'*99) for i in range(3000)]); d.commit()"
        truncate -s 1M sparse; printf data | dd of=sparse bs=1 seek=500000 conv=notrunc status=none
        "#,
    );
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let big = fs::File::create(store.join("big")).unwrap();
    for at in 0..5_u64 {
        big.write_all_at(&vec![at as u8 + 65; 1 << 20], at << 20)
            .unwrap();
    }
}

const PROGRAMS: &[(&str, &str)] = &[
    ("rm -rf", "rm -rf tree repo/src"),
    ("git reset --hard", "cd repo; git reset -q --hard HEAD~1"),
    ("git clean -fdx", "cd repo; git clean -qfdx"),
    ("git checkout", "cd repo; git checkout -q -f HEAD~1 -- src"),
    ("sed -i", "sed -i s/line/row/ repo/src/*.c numbers"),
    ("cp -f over", "cp -f db numbers; cp -f numbers.2 big"),
    (
        "mv -f over",
        "mv -f numbers numbers.2; mv tree/y numbers.link",
    ),
    (
        "tar over",
        "tar cf t.tar -C repo src; echo gone > repo/src/3.c; tar xf t.tar -C repo; rm t.tar",
    ),
    (
        "dd conv=notrunc",
        "echo over | dd of=big conv=notrunc bs=1 seek=2000000 status=none; echo o | dd of=sparse conv=notrunc status=none",
    ),
    (
        "sqlite",
        r#"python3 -c "import sqlite3; d=sqlite3.connect('db'); d.execute('update t set b=1 where a%7=0'); d.execute('delete from t where a<100'); d.commit(); d.execute('vacuum')""#,
    ),
    (
        "redirections",
        "> numbers; echo one > numbers.2; echo more >> repo/notes.txt; : > big; truncate -s 10 db",
    ),
    (
        "chmod, touch, chown",
        "chmod -R go-rwx repo; touch -d 2001-01-01 numbers; chown -R 12:34 tree",
    ),
    (
        "python",
        r#"python3 -c "
import os, mmap
f = open('big', 'r+b'); m = mmap.mmap(f.fileno(), 0); m[100:110] = b'0123456789'; m.close(); f.close()
os.link('numbers', 'another'); os.remove('numbers'); open('another', 'w').write('changed')
os.rename('tree/a', 'moved'); os.makedirs('moved/new/dirs'); open('moved/new/dirs/f', 'w').write('f')
""#,
    ),
    (
        "an editor",
        "printf 'g/line/d\nw\nq\n' | ed -s repo/src/5.c; ex -sc '%s/of/OF/|x' repo/src/6.c",
    ),
    (
        "everything",
        "find . -type f -writable -exec truncate -s 3 {} +; find . -mindepth 1 -maxdepth 1 -exec rm -rf {} +; echo new > numbers; mkdir repo",
    ),
];

fn undo_all_of(options: &[&str], unmounted: bool) {
    for (program, script) in PROGRAMS {
        if let Some(missing) = ["git", "python3", "ed", "ex"].iter().find(|tool| {
            script.contains(&format!("{tool} "))
                && !Command::new("sh")
                    .args(["-c", &format!("command -v {tool}")])
                    .output()
                    .unwrap()
                    .status
                    .success()
        }) {
            skip!("tools", "{program}: {missing} is not installed");
        }
        if script.contains("chown ") && !rustix::process::geteuid().is_root() {
            crate::need::skipped("root", &format!("{program}: needs root to give files away"));
            continue;
        }
        let mut home = Home::plan().options(options).prepare(fill).mount();
        let holes_show = home.status().unwrap()["mechanisms"]["passthrough"] == true;
        let before = snapshot(home.store());
        let done = bash(home.home(), script);
        assert!(
            done.status.success(),
            "{program}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
        let changed = snapshot(home.store());
        assert_ne!(before, changed, "{program} changes nothing");
        if unmounted {
            home.umount();
        }
        let target = home.store().as_os_str().to_owned();
        let undone = crate::common::trumanfs(&[
            "undo".as_ref(),
            target.as_os_str(),
            "--session".as_ref(),
            "last".as_ref(),
        ]);
        assert!(
            undone.status.success(),
            "{program}: {}{}",
            String::from_utf8_lossy(&undone.stdout),
            String::from_utf8_lossy(&undone.stderr)
        );
        compare(program, &before, &snapshot(home.store()));
        // Without passthrough a file is data from end to end in the home.
        if !unmounted && holes_show {
            compare(program, &before, &snapshot(home.home()));
        }
        let redone = crate::common::trumanfs(&["redo".as_ref(), target.as_os_str()]);
        assert!(
            redone.status.success(),
            "{program}: redo: {}",
            String::from_utf8_lossy(&redone.stderr)
        );
        compare(
            &format!("{program}, redone"),
            &changed,
            &snapshot(home.store()),
        );
    }
}

fn compare(program: &str, expected: &BTreeMap<String, String>, got: &BTreeMap<String, String>) {
    let mut wrong = Vec::new();
    for path in expected
        .keys()
        .chain(got.keys().filter(|path| !expected.contains_key(*path)))
    {
        if expected.get(path) != got.get(path) {
            wrong.push(format!(
                "{path}:\n  was {:?}\n  is  {:?}",
                expected.get(path),
                got.get(path)
            ));
        }
    }
    assert!(wrong.is_empty(), "{program}:\n{}", wrong.join("\n"));
}

#[test]
fn what_programs_destroy_comes_back_while_the_home_is_mounted() {
    need_mount!();
    undo_all_of(&[], false);
}

#[test]
fn what_programs_destroy_comes_back_to_an_unmounted_store() {
    need_mount!();
    undo_all_of(&["--no-passthrough"], true);
}
