//! A killed daemon loses nothing that was acknowledged. Owns the storm of operations from several processes and the
//! count of every byte afterwards; and handmade journals as a crash leaves them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufReader, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::common::calls::*;
use crate::common::random::Random;
use crate::common::{
    Home, child, copy_program, describe, need_mount, need_root, run_limited, trumanfs, watch,
};
use trumanfs::journal::{DirTime, Journal, JournalReader, Op, Record, ReplacedFile};
use trumanfs::name::{EscapedBytes, WorldPath};
use trumanfs::world::store::layout::JOURNAL;

/// The bytes of one piece of content: no two pieces are alike, and any of them can be made again from its name.
fn piece(name: &str) -> Vec<u8> {
    // Of a fast storm, names are long enough for their product to overflow.
    let product = name
        .bytes()
        .fold(1, |product: usize, byte| product.wrapping_mul(byte.into()));
    let length = 20 + product % 6000;
    let line = format!("<{name}>");
    line.bytes().cycle().take(length.max(line.len())).collect()
}

fn pieces(names: &[String]) -> Vec<u8> {
    names.iter().flat_map(|name| piece(name)).collect()
}

// ── The storm ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────

/// What one process knows of its part of the home. A file's content is written down as the names of its pieces.
#[derive(Default, serde::Serialize, serde::Deserialize)]
struct Ledger {
    /// What is there.
    files: BTreeMap<String, Vec<String>>,
    /// Contents of what was removed or replaced.
    gone: Vec<Vec<String>>,
    /// What the process was doing when the daemon died: may have happened or not.
    doing: Doing,
    /// How many operations were acknowledged.
    done: usize,
}

#[derive(Default, serde::Serialize, serde::Deserialize, Clone, Debug)]
enum Doing {
    #[default]
    Nothing,
    Create(String),
    Append(String, Vec<String>, String),
    /// `from` onto `to`, replacing.
    Replace {
        from: (String, Vec<String>),
        to: (String, Vec<String>),
    },
    Move(String, String, Vec<String>),
    Unlink(String, Vec<String>),
    /// Contents below a directory that is being removed with all that is in it.
    RemoveTree(Vec<Vec<String>>),
}

/// One process of the storm.
struct Worker {
    home: PathBuf,
    id: String,
    random: Random,
    sync: bool,
    next: usize,
    ledger: Ledger,
}

impl Worker {
    fn fresh(&mut self, kind: &str) -> String {
        self.next += 1;
        format!("{kind}-{}-{}", self.id, self.next)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.home.join(&self.id).join(name)
    }

    fn some_file(&mut self) -> Option<String> {
        let count = self.ledger.files.len();
        (count > 0)
            .then(|| self.random.index(count))
            .and_then(|n| self.ledger.files.keys().nth(n).cloned())
    }

    fn put(&self, path: &Path, flags: i32, content: &str) -> Sys<()> {
        let fd = open(path, flags | O_WRONLY, 0o644)?;
        let bytes = piece(content);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            rest = &rest[write(&fd, rest)?..];
        }
        // Without passthrough, what is written lies in the kernel's cache of the home until it is synced or closed.
        if self.sync { fsync(&fd) } else { Ok(()) }
    }

    fn create(&mut self, name: &str) -> Sys<()> {
        let content = self.fresh("c");
        self.ledger.doing = Doing::Create(name.to_owned());
        self.put(&self.at(name), O_CREAT | O_EXCL, &content)?;
        self.ledger.files.insert(name.to_owned(), vec![content]);
        Ok(())
    }

    fn step(&mut self) -> Sys<()> {
        match (self.random.index(10), self.some_file()) {
            (0..=2, _) | (_, None) => {
                let name = self.fresh("f");
                self.create(&name)?;
            }
            (3..=4, Some(name)) => {
                let content = self.fresh("a");
                let before = self.ledger.files[&name].clone();
                self.ledger.doing = Doing::Append(name.clone(), before, content.clone());
                self.put(&self.at(&name), O_APPEND, &content)?;
                self.ledger.files.get_mut(&name).unwrap().push(content);
            }
            (5..=6, Some(name)) => {
                // As editors and git do: a new file beside it, then a rename over it.
                let new = self.fresh("tmp");
                self.create(&new)?;
                let from = (new.clone(), self.ledger.files[&new].clone());
                let to = (name.clone(), self.ledger.files[&name].clone());
                self.ledger.doing = Doing::Replace {
                    from: from.clone(),
                    to: to.clone(),
                };
                rename(self.at(&new), self.at(&name))?;
                self.ledger.files.remove(&new);
                self.ledger.files.insert(name, from.1);
                self.ledger.gone.push(to.1);
            }
            (7, Some(name)) => {
                let to = self.fresh("m");
                let content = self.ledger.files[&name].clone();
                self.ledger.doing = Doing::Move(name.clone(), to.clone(), content.clone());
                rename(self.at(&name), self.at(&to))?;
                self.ledger.files.remove(&name);
                self.ledger.files.insert(to, content);
            }
            (8, Some(name)) => {
                let content = self.ledger.files[&name].clone();
                self.ledger.doing = Doing::Unlink(name.clone(), content.clone());
                unlink(self.at(&name))?;
                self.ledger.files.remove(&name);
                self.ledger.gone.push(content);
            }
            _ => {
                let dir = self.fresh("d");
                self.ledger.doing = Doing::Nothing;
                mkdir(self.at(&dir), 0o755)?;
                mkdir(self.at(&dir).join("sub"), 0o755)?;
                let names: Vec<_> = ["x", "y", "sub/z"].map(|f| format!("{dir}/{f}")).into();
                for name in &names {
                    self.create(name)?;
                }
                let contents = names
                    .iter()
                    .map(|n| self.ledger.files.remove(n).unwrap())
                    .collect();
                self.ledger.doing = Doing::RemoveTree(contents);
                for name in &names {
                    unlink(self.at(name))?;
                }
                rmdir(self.at(&dir).join("sub"))?;
                rmdir(self.at(&dir))?;
                if let Doing::RemoveTree(contents) = std::mem::take(&mut self.ledger.doing) {
                    self.ledger.gone.extend(contents);
                }
            }
        }
        self.ledger.doing = Doing::Nothing;
        self.ledger.done += 1;
        Ok(())
    }

    /// Returns whether the daemon dies within a few seconds. A request that it was just reading when it was killed ends with EIO
    /// (fuse_dev_do_read of fs/fuse/dev.c: the copy into a buffer of a dying process fails).
    fn daemon_has_died(&self) -> bool {
        (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            matches!(
                stat(self.at("nothing")),
                Err(Errno::NOTCONN | Errno::CONNABORTED)
            )
        })
    }

    /// Works until the daemon is dead, and says what it knows.
    fn run(mut self) -> Result<String, String> {
        loop {
            match self.step() {
                Ok(()) => {}
                Err(Errno::NOTCONN | Errno::CONNABORTED) => break,
                Err(Errno::IO) if self.daemon_has_died() => break,
                Err(errno) => return Err(format!("{:?}: {errno}", self.ledger.doing)),
            }
        }
        serde_json::to_string(&self.ledger).map_err(|e| e.to_string())
    }
}

/// All contents below a directory of the store, by path.
fn contents_below(top: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut pending = vec![top.to_owned()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else {
                found.insert(path.clone(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

fn check(home: &Home, id: &str, ledger: &Ledger) {
    let dir = home.store().join(id);
    let trash: BTreeSet<Vec<u8>> = contents_below(&home.store().join(".trash"))
        .into_values()
        .collect();
    let at = |name: &str| fs::read(dir.join(name)).ok();
    let is = |name: &str, content: &[String]| at(name).is_some_and(|b| b == pieces(content));
    let trashed = |content: &[String]| trash.contains(&pieces(content));
    let unsettled: &[&String] = match &ledger.doing {
        Doing::Nothing | Doing::Create(_) | Doing::RemoveTree(_) => &[],
        Doing::Append(name, ..) | Doing::Unlink(name, _) => &[name],
        Doing::Move(from, to, _) => &[from, to],
        Doing::Replace { from, to } => &[&from.0, &to.0],
    };
    for (name, content) in &ledger.files {
        if !unsettled.contains(&name) {
            assert!(
                is(name, content),
                "{id}/{name} is not what was acknowledged"
            );
            // Through the home as well.
            let seen = fs::read(home.path(id).join(name)).unwrap();
            assert_eq!(seen, pieces(content), "{id}/{name} in the home");
        }
    }
    for content in &ledger.gone {
        assert!(trashed(content), "{id}: {content:?} is not in the trash");
    }
    match &ledger.doing {
        Doing::Nothing | Doing::Create(_) => {}
        Doing::Append(name, before, added) => {
            let now = at(name).unwrap_or_default();
            let (before, added) = (pieces(before), piece(added));
            let rest = now.strip_prefix(&before[..]);
            assert!(
                rest.is_some_and(|rest| added.starts_with(rest)),
                "{id}/{name}: lost what was there before an append"
            );
        }
        Doing::Unlink(name, content) => {
            assert!(
                is(name, content) ^ trashed(content),
                "{id}/{name}: neither there nor in the trash, or both"
            );
        }
        Doing::Move(from, to, content) => {
            assert!(
                is(from, content) ^ is(to, content),
                "{id}: {from} → {to} at neither name, or both"
            );
        }
        Doing::Replace { from, to } => {
            let before = is(&from.0, &from.1) && is(&to.0, &to.1);
            let after = at(&from.0).is_none() && is(&to.0, &from.1) && trashed(&to.1);
            assert!(before || after, "{id}: half replaced: {:?}", ledger.doing);
        }
        Doing::RemoveTree(contents) => {
            let here: BTreeSet<Vec<u8>> = contents_below(&dir).into_values().collect();
            for content in contents {
                assert!(
                    here.contains(&pieces(content)) ^ trashed(content),
                    "{id}: {content:?} of a tree that was being removed"
                );
            }
        }
    }
}

/// Reads every journal of a store, its chain verified.
fn records(store: &Path) -> Vec<(String, Vec<Record>)> {
    let mut sessions: Vec<_> = fs::read_dir(store.join(".trumanfs/sessions"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    sessions.sort();
    let read = |dir: &PathBuf| {
        let file = BufReader::new(File::open(dir.join(JOURNAL)).unwrap());
        let records: Result<Vec<Record>, _> = JournalReader::new(file).collect();
        let records = records.unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
        (
            dir.file_name().unwrap().to_str().unwrap().to_owned(),
            records,
        )
    };
    sessions.iter().map(read).collect()
}

/// What the journals say went into the trash is there, by itself or gathered under a directory.
fn check_journals(home: &Home) {
    let listed = |name: &str| home.store().join(".trash").join(name).exists();
    let mut gathered = BTreeSet::new();
    let mut promised = Vec::new();
    for (session, records) in records(home.store()) {
        assert!(
            records.iter().zip(1..).all(|(r, n)| r.seq == n),
            "{session}: numbers are missing"
        );
        let aborted: BTreeSet<u64> = records
            .iter()
            .filter_map(|r| match r.op {
                Op::Abort { of, .. } => Some(of),
                _ => None,
            })
            .collect();
        for record in records.iter().filter(|r| !aborted.contains(&r.seq)) {
            match &record.op {
                Op::Unlink { trash, .. } | Op::Rmdir { trash, .. } => {
                    promised.push((session.clone(), record.seq, trash.clone()));
                }
                Op::Rename {
                    replaced: Some(ReplacedFile { trash, .. }),
                    ..
                } => promised.push((session.clone(), record.seq, trash.clone())),
                Op::Gather { entries, .. } => gathered.extend(entries.iter().map(|e| e.0.clone())),
                _ => {}
            }
        }
    }
    for (session, seq, entry) in promised {
        let name = String::from_utf8(entry.0.clone()).unwrap();
        assert!(
            listed(&name) || gathered.contains(&entry.0),
            "record {seq} of {session} promises {name}, which is not in the trash"
        );
    }
    let output = trumanfs(&["log".as_ref(), home.store().as_os_str(), "--json".as_ref()]);
    assert!(
        output.status.success(),
        "trumanfs log: {}",
        describe(&output)
    );
    let output = trumanfs(&["log".as_ref(), home.store().as_os_str()]);
    assert!(
        output.status.success(),
        "trumanfs log: {}",
        describe(&output)
    );
    let output = trumanfs(&["trash".as_ref(), "list".as_ref(), home.store().as_os_str()]);
    // 1: there is nothing in it.
    assert!(
        matches!(output.status.code(), Some(0 | 1)),
        "trash list: {}",
        describe(&output)
    );
}

fn storm(options: &[&str], sync: bool) {
    const WORKERS: usize = 4;
    let mut home = Home::plan()
        .options(options)
        .limit(Duration::from_secs(120))
        .mount();
    let mut seeds = Random(7);
    let mut ledgers: Vec<(String, Ledger)> = Vec::new();
    for round in 0..6 {
        let mut children = Vec::new();
        for worker in 0..WORKERS {
            let id = format!("r{round}w{worker}");
            fs::create_dir(home.path(&id)).unwrap();
            let worker = Worker {
                home: home.home().to_owned(),
                id: id.clone(),
                random: Random(seeds.index(1 << 30) as u64),
                sync,
                next: 0,
                ledger: Ledger::default(),
            };
            children.push((id, child::spawn(|| worker.run())));
        }
        // How long the storm lasts is random on purpose, so that the daemon dies in a different place each time.
        std::thread::sleep(Duration::from_millis(80 + seeds.index(400) as u64));
        home.kill_daemon_only();
        let mut done = 0;
        for (id, child) in children {
            let ledger: Ledger = serde_json::from_str(&child.join().unwrap()).unwrap();
            done += ledger.done;
            ledgers.push((id, ledger));
        }
        assert_eq!(
            stat(home.path("x")).unwrap_err(),
            Errno::NOTCONN,
            "the mount is dead"
        );
        let output = trumanfs(&["umount".as_ref(), home.home().as_os_str()]);
        assert!(output.status.success(), "umount: {}", describe(&output));
        assert!(!watch::is_mountpoint(home.home()));
        let output = home.mount_again();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        println!("round {round}: {done} operations; {}", said.trim());
        assert!(
            said.contains("after a crash"),
            "mounting says nothing of what it settled: {}",
            describe(&output)
        );
        for (id, ledger) in &ledgers {
            check(&home, id, ledger);
        }
        check_journals(&home);
    }
    // After a clean end there is nothing to settle.
    let output = home.remount();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    for (id, ledger) in &ledgers {
        check(&home, id, ledger);
    }
}

#[test]
fn a_storm_survives_the_daemon() {
    need_mount!();
    storm(&[], false);
}

#[test]
fn a_storm_survives_the_daemon_without_passthrough() {
    need_mount!();
    storm(&["--no-passthrough", "--allow-other"], true);
}

// ── What a crash leaves, made by hand ───────────────────────────────────────────────────────────────────────────────────────────

/// The journal of the newest session.
fn last_journal(store: &Path) -> PathBuf {
    let session = records(store).pop().unwrap().0;
    store.join(".trumanfs/sessions").join(session).join(JOURNAL)
}

#[test]
fn a_torn_last_line_is_cut_off() {
    need_mount!();
    let mut home = Home::mount();
    fs::write(home.path("f"), "f").unwrap();
    home.kill_daemon();
    let journal = last_journal(home.store());
    let whole = fs::read(&journal).unwrap();
    let line = whole.split_inclusive(|b| *b == b'\n').next_back().unwrap();
    // Cut at every length of a line, from one byte to all but its newline.
    for cut in [1, 2, line.len() / 2, line.len() - 2, line.len() - 1] {
        let mut file = File::options().append(true).open(&journal).unwrap();
        file.write_all(&line[..cut]).unwrap();
        drop(file);
        let output = trumanfs(&["log".as_ref(), home.store().as_os_str(), "--json".as_ref()]);
        assert!(output.status.success(), "log: {}", describe(&output));
        let output = home.mount_again();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("half written"), "cut at {cut}: {said:?}");
        check_journals(&home);
        assert_eq!(fs::read(home.path("f")).unwrap(), b"f");
        home.umount();
        // As before, for the next cut: the newest session is the one with the torn line.
        let newest = last_journal(home.store());
        assert_ne!(newest, journal);
        fs::remove_dir_all(newest.parent().unwrap()).unwrap();
        let old = File::options().write(true).open(&journal).unwrap();
        old.write_all_at(&whole, 0).unwrap();
        old.set_len(whole.len() as u64).unwrap();
    }
}

#[test]
fn a_changed_line_is_noticed_and_nothing_is_touched() {
    need_mount!();
    let mut home = Home::mount();
    for name in ["f", "g", "h"] {
        fs::write(home.path(name), name).unwrap();
    }
    home.kill_daemon();
    let journal = last_journal(home.store());
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text.replacen("\"/f\"", "\"/x\"", 1)).unwrap();
    let output = trumanfs(&["log".as_ref(), home.store().as_os_str()]);
    assert_eq!(output.status.code(), Some(5), "log: {}", describe(&output));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("does not follow"),
        "{}",
        describe(&output)
    );
    let output = trumanfs(&[
        "mount".as_ref(),
        home.store().as_os_str(),
        home.home().as_os_str(),
    ]);
    assert!(!output.status.success(), "{}", describe(&output));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("cannot be read"), "{said}");
    assert!(!watch::is_mountpoint(home.home()));
    assert_eq!(fs::read(home.store().join("f")).unwrap(), b"f");
    fs::write(&journal, text).unwrap();
    home.mount_again();
    assert_eq!(fs::read(home.path("f")).unwrap(), b"f");
}

/// After what a replacement was cut off.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cut {
    Record,
    Exchange,
    Move,
}

fn ids(path: &Path) -> [u64; 2] {
    let meta = fs::symlink_metadata(path).unwrap();
    [meta.dev(), meta.ino()]
}

fn path(text: &str) -> WorldPath {
    WorldPath::parse(text.as_bytes()).unwrap()
}

/// Writes the journal of a session that never ended, with one record more.
fn unfinished_session(store: &Path, op: Op) {
    unfinished_session_of(store, [(op, &[])]);
}

/// Writes the journal of a session that never ended, with more records.
fn unfinished_session_of<const N: usize>(store: &Path, ops: [(Op, &[DirTime]); N]) {
    let session = store.join(".trumanfs/sessions/29990101T000000.000000Z-0000");
    fs::create_dir(&session).unwrap();
    let file = File::options()
        .create_new(true)
        .append(true)
        .open(session.join(JOURNAL))
        .unwrap();
    let device = fs::metadata(store).unwrap().dev();
    let journal = Journal::new(file.into(), None, false, device);
    let begin = Op::Begin {
        session: "29990101T000000.000000Z-0000".into(),
        version: "test".into(),
        host: "test".into(),
        boot: "test".into(),
        home: None,
        store: None,
        after: None,
        copied: None,
        mounted: None,
    };
    journal.note(begin, None).unwrap();
    for (op, dirs) in ops {
        journal.begin(op, dirs, None).unwrap().done();
    }
}

fn half_done_replacement(cut: Cut, dirs: bool) {
    let mut home = Home::mount();
    for (name, content) in [("a", "new"), ("sub/b", "old")] {
        let file = home.path(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        if dirs {
            fs::create_dir(&file).unwrap();
        } else {
            fs::write(&file, content).unwrap();
        }
    }
    if dirs {
        fs::write(home.path("a/inside"), "new").unwrap();
    }
    home.umount();
    let store = home.store().to_owned();
    let (a, b) = (store.join("a"), store.join("sub/b"));
    let (new, old) = (ids(&a), ids(&b));
    let entry = "20260101T000000.000000Z_b";
    let trashed = store.join(".trash").join(entry);
    unfinished_session(
        &store,
        Op::Rename {
            path: path("a"),
            to: path("sub/b"),
            ids: new,
            replaced: Some(ReplacedFile {
                ids: old,
                trash: EscapedBytes(entry.into()),
            }),
        },
    );
    if cut != Cut::Record {
        renameat2(&a, &b, RENAME_EXCHANGE).unwrap();
    }
    if cut == Cut::Move {
        renameat2(&a, &trashed, RENAME_NOREPLACE).unwrap();
    }
    let output = home.mount_again();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    println!("{cut:?}: {}", said.trim());
    assert!(said.contains("after a crash"), "{said}");
    if cut == Cut::Record {
        assert!(said.contains("had not been done"), "{said}");
        assert_eq!((ids(&a), ids(&b)), (new, old));
        assert!(!trashed.exists());
        assert!(stat(home.path("a")).is_ok());
    } else {
        assert_eq!(ids(&b), new, "the new one stands at the name");
        assert_eq!(ids(&trashed), old, "the old one is in the trash");
        assert_eq!(stat(home.path("a")), Err(Errno::NOENT));
        assert_eq!(
            stat(home.path("sub/b")).unwrap().ino,
            new[1],
            "and in the home"
        );
    }
    if cut == Cut::Exchange {
        assert!(said.contains("replaced"), "{said}");
    }
    let listed = trumanfs(&["trash".as_ref(), "list".as_ref(), store.as_os_str()]);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert_eq!(listed.contains(entry), cut != Cut::Record, "{listed}");
    // The session of the far future stays the newest, so take it away before the next mount looks at it.
    home.umount();
    records(&store);
}

#[test]
fn a_half_done_replacement_is_finished() {
    need_mount!();
    for cut in [Cut::Record, Cut::Exchange, Cut::Move] {
        for dirs in [false, true] {
            half_done_replacement(cut, dirs);
        }
    }
}

#[test]
fn a_record_without_its_act_is_taken_back() {
    need_mount!();
    let entry = || EscapedBytes(b"20260101T000000.000000Z_f".to_vec());
    type Case = (&'static str, fn(&Path, EscapedBytes) -> Op);
    let cases: &[Case] = &[
        ("unlink", |store, trash| Op::Unlink {
            path: path("f"),
            ids: ids(&store.join("f")),
            trash,
        }),
        ("rmdir", |store, trash| Op::Rmdir {
            path: path("d"),
            ids: ids(&store.join("d")),
            trash,
        }),
        ("rename", |store, _| Op::Rename {
            path: path("f"),
            to: path("g"),
            ids: ids(&store.join("f")),
            replaced: None,
        }),
        ("exchange", |store, _| Op::Exchange {
            path: path("f"),
            to: path("d"),
            ids: ids(&store.join("f")),
            other: ids(&store.join("d")),
        }),
        ("create", |_, _| Op::Create {
            path: path("new"),
            mode: 0o644,
            dropped: None,
        }),
        ("mkdir", |_, _| Op::Mkdir {
            path: path("new"),
            mode: 0o755,
        }),
        ("link", |store, _| Op::Link {
            path: path("new"),
            from: path("f"),
            ids: ids(&store.join("f")),
        }),
    ];
    for (word, op) in cases {
        let mut home = Home::mount();
        fs::write(home.path("f"), "f").unwrap();
        fs::create_dir(home.path("d")).unwrap();
        home.umount();
        let store = home.store().to_owned();
        unfinished_session(&store, op(&store, entry()));
        let output = home.mount_again();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            said.contains("had not been done") && said.contains(word),
            "{word}: {said:?}"
        );
        assert_eq!(fs::read(home.path("f")).unwrap(), b"f", "{word}");
        assert!(stat(home.path("d")).is_ok(), "{word}");
        assert_eq!(stat(home.path("new")), Err(Errno::NOENT), "{word}");
        assert!(home.trash().is_empty(), "{word}");
        check_journals_lightly(&home);
    }
}

/// What went and came back was done: that it stands where it stood before is no sign of the opposite.
#[test]
fn a_thing_that_came_back_was_moved() {
    need_mount!();
    let mut home = Home::mount();
    fs::write(home.path("f"), "f").unwrap();
    fs::write(home.path("g"), "g").unwrap();
    link(home.path("g"), home.path("g2")).unwrap();
    rename(home.path("f"), home.path("h")).unwrap();
    rename(home.path("h"), home.path("f")).unwrap();
    renameat2(home.path("f"), home.path("g"), RENAME_EXCHANGE).unwrap();
    renameat2(home.path("f"), home.path("g"), RENAME_EXCHANGE).unwrap();
    unlink(home.path("g")).unwrap();
    link(home.path("g2"), home.path("g")).unwrap();
    home.kill_daemon();
    let output = home.mount_again();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("after a crash"), "{said}");
    assert!(!said.contains("had not been done"), "{said}");
    check_journals(&home);
    let listed = trumanfs(&[
        "trash".as_ref(),
        "list".as_ref(),
        home.store().as_os_str(),
        "--json".as_ref(),
    ]);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("\"path\":\"/g\""), "{listed}");
}

/// A name that something replaced, or that moved with its directory, was made: that it is not there says nothing.
#[test]
fn a_name_that_was_replaced_or_moved_along_was_made() {
    need_mount!();
    let mut home = Home::mount();
    for name in ["x", "y", "z"] {
        fs::write(home.path(name), name).unwrap();
    }
    for dir in ["d", "e", "from", "into"] {
        fs::create_dir(home.path(dir)).unwrap();
    }
    link(home.path("x"), home.path("l")).unwrap();
    rename(home.path("y"), home.path("l")).unwrap();
    link(home.path("x"), home.path("m")).unwrap();
    open(home.path("z"), O_WRONLY | O_TRUNC, 0).unwrap();
    renameat2(home.path("z"), home.path("m"), RENAME_EXCHANGE).unwrap();
    // What was removed seems to be there again: another name of it moved along.
    fs::write(home.path("d/f"), "f").unwrap();
    link(home.path("d/f"), home.path("e/f")).unwrap();
    unlink(home.path("d/f")).unwrap();
    renameat2(home.path("d"), home.path("e"), RENAME_EXCHANGE).unwrap();
    link(home.path("x"), home.path("from/n")).unwrap();
    rename(home.path("from"), home.path("into")).unwrap();
    home.kill_daemon();
    let output = home.mount_again();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said.contains("had not been done"), "{said}");
    check_journals(&home);
    home.umount();
    let first = records(home.store()).remove(0).0;
    let store = home.store().to_str().unwrap();
    let output = trumanfs(&["undo", store, "--session", &first]);
    assert!(output.status.success(), "{}", describe(&output));
    let left = fs::read_dir(home.store())
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let left: BTreeSet<_> = left
        .filter(|name| !name.as_encoded_bytes().starts_with(b".t"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A record of a moved directory's entry is compared with the place to which the entry moved along.
#[test]
fn an_unlink_that_was_not_done_is_taken_back_below_a_moved_directory() {
    need_mount!();
    let mut home = Home::mount();
    fs::create_dir(home.path("e")).unwrap();
    fs::write(home.path("e/f"), "f").unwrap();
    home.umount();
    let store = home.store().to_owned();
    let unlinked = Op::Unlink {
        path: path("d/f"),
        ids: ids(&store.join("e/f")),
        trash: EscapedBytes(b"20260101T000000.000000Z_f".to_vec()),
    };
    let moved = Op::Rename {
        path: path("d"),
        to: path("e"),
        ids: ids(&store.join("e")),
        replaced: None,
    };
    unfinished_session_of(&store, [(unlinked, &[]), (moved, &[])]);
    let output = home.mount_again();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("unlink (record 2) had not been done"),
        "{said}"
    );
    assert_eq!(said.matches("had not been done").count(), 1, "{said}");
    check_journals_lightly(&home);
}

/// A directory above may move while something is made in it. The record then has the path of a moment before; the number of
/// the directory says where it was made.
#[test]
fn a_name_made_while_its_directory_moved_was_made() {
    need_mount!();
    let mut home = Home::mount();
    fs::create_dir_all(home.path("e/in/n")).unwrap();
    fs::create_dir(home.path("d")).unwrap();
    home.umount();
    let store = home.store().to_owned();
    let moved = Op::Rename {
        path: path("old"),
        to: path("e"),
        ids: ids(&store.join("e")),
        replaced: None,
    };
    let made = |path| Op::Mkdir { path, mode: 0o755 };
    let dir = [(0, 0, ids(&store.join("e/in"))[1])];
    let other = [(0, 0, ids(&store.join("d"))[1])];
    unfinished_session_of(
        &store,
        [
            (moved, &[]),
            (made(path("old/in/n")), &dir),
            (made(path("d/n")), &other),
        ],
    );
    let output = home.mount_again();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("mkdir (record 4) had not been done"),
        "{said}"
    );
    assert_eq!(said.matches("had not been done").count(), 1, "{said}");
}

/// A directory that an ordinary user closed to themselves just before the daemon died kept the store shut.
#[test]
fn a_closed_directory_does_not_keep_a_store_from_being_settled() {
    need_root!("to become an ordinary user");
    let base = tempfile::TempDir::with_prefix("trumanfs-user-").unwrap();
    let store = base.path().join("store");
    copy_program(crate::common::binary(), base.path().join("trumanfs"));
    let script = r#"
        chmod 755 "$1"; cd "$1"; chown -R 65534:65534 .
        setpriv --reuid=65534 --regid=65534 --clear-groups ./trumanfs exec --root store -- "$2"
    "#;
    let exec = |line: &str| {
        let mut command = Command::new("sh");
        command
            .args(["-c", script, "sh"])
            .arg(base.path())
            .arg(line);
        let output = run_limited(command, Duration::from_secs(60));
        assert!(output.status.success(), "{line}: {}", describe(&output));
    };
    fs::create_dir(&store).unwrap();
    exec("mkdir d; touch d/f");
    let made = Op::Create {
        path: path("d/f"),
        mode: 0o644,
        dropped: None,
    };
    let dir = [(0, 0, ids(&store.join("d"))[1])];
    unfinished_session_of(&store, [(made, &dir)]);
    chmod(store.join("d"), 0).unwrap();
    exec("touch g");
    assert!(store.join("g").exists());
}

/// As [`check_journals`], for a store whose trash is empty.
fn check_journals_lightly(home: &Home) {
    let last = records(home.store())
        .into_iter()
        .find(|(session, _)| session.starts_with("2999"))
        .unwrap();
    assert!(matches!(last.1.last().unwrap().op, Op::End { .. }));
}

#[test]
fn a_mount_that_died_is_named_and_cleaned_up() {
    need_mount!();
    let mut home = Home::mount();
    fs::write(home.path("f"), "f").unwrap();
    home.kill_daemon_only();
    let output = trumanfs(&[
        "mount".as_ref(),
        home.store().as_os_str(),
        home.home().as_os_str(),
    ]);
    assert_eq!(output.status.code(), Some(6), "{}", describe(&output));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("has died") && said.contains("trumanfs umount"),
        "{said}"
    );
    let output = trumanfs(&["umount".as_ref(), home.home().as_os_str()]);
    assert!(output.status.success(), "{}", describe(&output));
    home.mount_again();
    assert_eq!(fs::read(home.path("f")).unwrap(), b"f");
    // Lazily as well, with somebody inside.
    let held = open(home.path("f"), O_RDONLY, 0).unwrap();
    home.kill_daemon_only();
    let output = trumanfs(&[
        "umount".as_ref(),
        "--lazy".as_ref(),
        home.home().as_os_str(),
    ]);
    assert!(output.status.success(), "{}", describe(&output));
    home.mount_again();
    assert_eq!(fs::read(home.path("f")).unwrap(), b"f");
    drop(held);
}
