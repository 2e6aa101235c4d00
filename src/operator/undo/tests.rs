//! The laws of undo, tested in process: many random histories, each undone, redone, and undone in parts.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::*;
use crate::error::Error;
use crate::journal::Op;
use crate::name::{Name, WorldPath};
use crate::operator::Store;
use crate::operator::past::ReverseRecords;
use crate::operator::point::{Operation, Point};
use crate::random::Random;
use crate::world::keep::replace::NewContent;
use crate::world::{
    Caller, Dir, LocatedNode, Meta, NoOpenState, RemovedNode, RenameMode, RenameResult, SetAttrs,
    SetTime, SymlinkPolicy, Time, ViewOptions, World, WorldOptions, new_session_id,
};

mod gather;
mod moved_paths;
mod purged;
mod redo;
mod times;

fn one<'a, T>(random: &mut Random, of: &'a [T]) -> &'a T {
    &of[usize::try_from(random.below(of.len() as u64)).unwrap()]
}

/// Bytes, and the ranges that have data.
type Data = (Vec<u8>, Vec<(u64, u64)>);

/// A file's state, as far as an undo restores it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    mode: u32,
    owner: (u32, u32),
    mtime: (i64, i64),
    content: Option<Data>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The first path of the same inode.
    same_as: String,
}

type Snapshot = BTreeMap<String, Seen>;

fn extents(file: &std::fs::File) -> Vec<(u64, u64)> {
    use rustix::fs::{SeekFrom, seek};
    let mut all = Vec::new();
    let mut at = 0;
    while let Ok(data) = seek(file, SeekFrom::Data(at)) {
        at = seek(file, SeekFrom::Hole(data)).unwrap();
        all.push((data, at));
    }
    // An append that begins in a file's last block turns all of it into data; that part of it was a hole is not kept.
    let whole = file.metadata().unwrap().len() / 4096 * 4096;
    all.retain(|(start, _)| *start < whole);
    all.iter_mut().for_each(|(_, end)| *end = (*end).min(whole));
    all
}

fn look(top: &Path) -> Snapshot {
    let mut all = Snapshot::new();
    let mut inodes = BTreeMap::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(dir) = pending.pop() {
        let mut names: Vec<_> = std::fs::read_dir(top.join(&dir))
            .unwrap()
            .map(|entry| dir.join(entry.unwrap().file_name()))
            .filter(|path| path != Path::new(".trash") && path != Path::new(".trumanfs"))
            .collect();
        names.sort();
        for path in names {
            let at = top.join(&path);
            let meta = std::fs::symlink_metadata(&at).unwrap();
            let text = String::from_utf8_lossy(path.as_os_str().as_bytes()).into_owned();
            let content = meta.is_file().then(|| {
                let file = std::fs::File::open(&at).unwrap();
                let mut bytes = vec![0; usize::try_from(meta.len()).unwrap()];
                file.read_exact_at(&mut bytes, 0).unwrap();
                (bytes, extents(&file))
            });
            let mut xattrs = BTreeMap::new();
            if !meta.is_symlink() {
                let mut names = vec![0; 4096];
                let length = rustix::fs::listxattr(&at, &mut names).unwrap_or(0);
                for name in names[..length]
                    .split(|b| *b == 0)
                    .filter(|n| n.starts_with(b"user."))
                {
                    let mut value = vec![0; 4096];
                    let length = rustix::fs::getxattr(&at, name, &mut value).unwrap();
                    xattrs.insert(name.to_vec(), value[..length].to_vec());
                }
            }
            let first = inodes.entry(meta.ino()).or_insert(text.clone()).clone();
            let seen = Seen {
                mode: meta.mode(),
                owner: (meta.uid(), meta.gid()),
                mtime: (meta.mtime(), meta.mtime_nsec()),
                content,
                xattrs,
                same_as: if meta.is_dir() { text.clone() } else { first },
            };
            if meta.is_dir() {
                pending.push(path);
            }
            all.insert(text, seen);
        }
    }
    all
}

/// A store with an in-process world.
struct Lab {
    dir: tempfile::TempDir,
    world: World,
    pid: u32,
}

fn path(text: &str) -> WorldPath {
    WorldPath::parse(text.as_bytes()).unwrap()
}

type Sys<T> = crate::error::Result<T>;

impl Lab {
    fn new() -> Lab {
        Lab::in_dir(tempfile::tempdir().unwrap())
    }

    /// Makes a lab with files that were there before its first session.
    fn with_files() -> Lab {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("proj/sub/deep")).unwrap();
        std::fs::create_dir(dir.path().join("away")).unwrap();
        for file in ["proj/a", "proj/b", "proj/sub/c", "proj/sub/deep/d"] {
            std::fs::write(dir.path().join(file), file).unwrap();
        }
        Lab::in_dir(dir)
    }

    fn in_dir(dir: tempfile::TempDir) -> Lab {
        let options = WorldOptions {
            session: new_session_id(),
            view: ViewOptions {
                symlinks: SymlinkPolicy::Inside,
                ..ViewOptions::default()
            },
            ..WorldOptions::default()
        };
        let (world, _) = World::open(dir.path(), options).unwrap();
        Lab { dir, world, pid: 0 }
    }

    fn caller(&self) -> Caller {
        Caller {
            pid: 1_000_000_000 + self.pid,
            ..Caller::myself()
        }
    }

    fn seq(&self) -> u64 {
        self.world.records()
    }

    fn op(&self, seq: u64) -> Operation {
        Operation {
            session: self.world.session().to_owned(),
            seq,
        }
    }

    fn look(&self) -> Snapshot {
        look(self.dir.path())
    }

    fn open(&self, at: &str, flags: OFlags) -> Sys<OwnedFd> {
        let at = path(at);
        let (dir, name) = self.world.parent(&at)?;
        match self.world.locate(&dir, name) {
            Ok(located) => self
                .world
                .open_file(&located, flags, &NoOpenState, self.caller()),
            Err(Error::NotFound) => self
                .world
                .create(&dir, name, flags, 0o644, &NoOpenState, self.caller())
                .map(|made| made.file),
            Err(error) => Err(error),
        }
    }

    fn put(&self, at: &str, text: &str) {
        let file = self.open(at, OFlags::WRONLY | OFlags::TRUNC).unwrap();
        rustix::io::write(&file, text.as_bytes()).unwrap();
    }

    fn read(&self, at: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(at)).unwrap()
    }

    fn mkdir(&self, at: &str) -> Sys<()> {
        let at = path(at);
        let (dir, name) = self.world.parent(&at)?;
        self.world
            .mkdir(&dir, name, 0o755, self.caller())
            .map(|_| ())
    }

    fn rm(&self, at: &str) -> Sys<()> {
        let at = path(at);
        let (dir, name) = self.world.parent(&at)?;
        match self.world.unlink(&dir, name, self.caller()) {
            Err(Error::IsDirectory) => self.world.rmdir(&dir, name, self.caller()).map(|_| ()),
            removed => removed.map(|_| ()),
        }
    }

    fn rm_all(&self, at: &str) -> Sys<()> {
        let real = self.dir.path().join(at);
        if real.is_dir() && !real.is_symlink() {
            for entry in std::fs::read_dir(&real).unwrap() {
                let name = entry.unwrap().file_name();
                self.rm_all(&format!("{at}/{}", name.to_str().unwrap()))?;
            }
        }
        self.rm(at)
    }

    fn mv(&self, from: &str, to: &str, how: RenameMode) -> Sys<()> {
        let (from, to) = (path(from), path(to));
        let (dir, name) = self.world.parent(&from)?;
        let (new_dir, new_name) = self.world.parent(&to)?;
        self.world
            .rename(&dir, name, &new_dir, new_name, how, self.caller())
            .map(|_| ())
    }

    fn link(&self, from: &str, to: &str) -> Sys<()> {
        let (from, to) = (path(from), path(to));
        let (dir, name) = self.world.parent(&from)?;
        let located = self.world.locate(&dir, name)?;
        let (dir, name) = self.world.parent(&to)?;
        self.world
            .link(&located, &dir, name, self.caller())
            .map(|_| ())
    }

    fn symlink(&self, target: &str, at: &str) -> Sys<()> {
        let at = path(at);
        let (dir, name) = self.world.parent(&at)?;
        let target = target.as_bytes();
        self.world
            .symlink(&dir, name, target, self.caller())
            .map(|_| ())
    }

    fn attr(&self, at: &str, change: SetAttrs) -> Sys<()> {
        let at = path(at);
        let (dir, name) = self.world.parent(&at)?;
        let located = self.world.locate(&dir, name)?;
        self.world
            .set_attr(&located, change, None, &NoOpenState, self.caller())
            .map(|_| ())
    }

    fn xattr(&self, at: &str, name: &str, value: Option<&str>) -> Sys<()> {
        let at = path(at);
        let (dir, last) = self.world.parent(&at)?;
        let located = self.world.locate(&dir, last)?;
        match value {
            Some(value) => {
                let value = value.as_bytes();
                self.world
                    .set_xattr(&located, name.as_bytes(), value, 0, self.caller())
            }
            None => self
                .world
                .remove_xattr(&located, name.as_bytes(), self.caller()),
        }
    }

    fn undo_as(&self, wanted: &UndoScope, choice: OnConflict) -> (UndoOutcome, Vec<UndoConflict>) {
        let store = Store::of(&self.world).unwrap();
        let selection = select(&store, wanted).unwrap();
        let plan = plan(&store, &selection, choice).unwrap();
        if choice == OnConflict::Stop && !plan.conflicts.is_empty() {
            return (UndoOutcome::default(), plan.conflicts);
        }
        let backend = OfflineBackend(&self.world);
        let outcome = apply(&plan, &selection, ("test", &[]), &backend, Caller::myself()).unwrap();
        assert_eq!(outcome.failed, None, "{outcome:?}");
        (outcome, plan.conflicts)
    }

    fn undo(&self, wanted: &UndoScope) -> UndoOutcome {
        let (outcome, conflicts) = self.undo_as(wanted, OnConflict::Stop);
        assert!(conflicts.is_empty(), "{conflicts:#?}");
        outcome
    }

    fn redo(&self) -> UndoOutcome {
        self.redo_next(&mut Vec::new())
    }

    /// Redoes, as `trumanfs redo` does, what is not skipped; an undo of which nothing is left to take back is skipped
    /// from then on.
    fn redo_next(&self, skipped: &mut Vec<Operation>) -> UndoOutcome {
        let last = last_undo(&Store::of(&self.world).unwrap(), skipped).unwrap();
        let applied = self.undo(&UndoScope::Operations(vec![last.operation.clone()]));
        if applied.record.is_none() {
            skipped.push(last.operation);
        }
        applied
    }

    fn undo_after(&self, seq: u64) -> UndoOutcome {
        self.undo(&since(Point::After(self.op(seq))))
    }
}

fn since(from: Point) -> UndoScope {
    UndoScope::Matching {
        from,
        session: None,
        run: None,
        turns: None,
        pid: None,
        program: None,
        paths: Vec::new(),
    }
}

fn by(pid: u32) -> UndoScope {
    UndoScope::Matching {
        from: Point::After(Operation::start_of("")),
        session: None,
        run: None,
        turns: None,
        pid: Some(1_000_000_000 + pid),
        program: None,
        paths: Vec::new(),
    }
}

const NAMES: &[&str] = &["a", "b", "c", "d", "e"];

impl Lab {
    /// Returns a path, more often than not of something that exists.
    fn some(&self, random: &mut Random) -> String {
        let all: Vec<String> = self.look().into_keys().collect();
        if all.is_empty() || random.below(4) == 0 {
            return self.fresh(random);
        }
        one(random, &all).clone()
    }

    fn fresh(&self, random: &mut Random) -> String {
        let all = self.look();
        let mut dirs: Vec<&str> = all
            .iter()
            .filter(|(_, seen)| seen.mode & 0o170_000 == 0o040_000)
            .map(|(path, _)| path.as_str())
            .collect();
        dirs.push("");
        let dir = *one(random, &dirs);
        let name = *one(random, NAMES);
        if dir.is_empty() || dir.len() > 12 {
            name.to_owned()
        } else {
            format!("{dir}/{name}")
        }
    }

    /// Makes a random change; one that is impossible is skipped.
    fn step(&self, random: &mut Random) -> Option<&'static str> {
        let at = self.some(random);
        let is_file =
            self.dir.path().join(&at).is_file() && !self.dir.path().join(&at).is_symlink();
        let exists = self.dir.path().join(&at).symlink_metadata().is_ok();
        let text = format!("text {}", random.below(1_000_000));
        let text = text.repeat(usize::try_from(1 + random.below(60)).unwrap());
        let done = match random.below(16) {
            0 | 1 if !exists || is_file => {
                let flags = OFlags::WRONLY | OFlags::TRUNC;
                self.open(&at, flags).map(|file| {
                    rustix::io::write(&file, text.as_bytes()).unwrap();
                    "write"
                })
            }
            2 | 3 if is_file => self.open(&at, OFlags::RDWR).map(|file| {
                rustix::io::pwrite(&file, text.as_bytes(), random.below(3000)).unwrap();
                "overwrite"
            }),
            4 if is_file => self.open(&at, OFlags::WRONLY | OFlags::APPEND).map(|file| {
                let file = std::fs::File::from(file);
                file.write_all_at(text.as_bytes(), file.metadata().unwrap().len())
                    .unwrap();
                "append"
            }),
            5 if is_file => {
                let change = SetAttrs {
                    size: Some(random.below(4000)),
                    ..SetAttrs::default()
                };
                self.attr(&at, change).map(|()| "truncate")
            }
            6 if !exists => self.mkdir(&at).map(|()| "mkdir"),
            7 => self.rm(&at).map(|()| "rm"),
            8 => self.rm_all(&at).map(|()| "rm -r"),
            9 => self
                .mv(&at, &self.fresh(random), RenameMode::Replace)
                .map(|()| "mv"),
            10 => self
                .mv(&at, &self.some(random), RenameMode::Exchange)
                .map(|()| "exchange"),
            11 => self.link(&at, &self.fresh(random)).map(|()| "ln"),
            12 if exists => {
                // Root may enter what others may not.
                let is_dir = self.dir.path().join(&at).is_dir();
                let entered = if is_dir { 0o100 } else { 0 };
                let modes = [0o644, 0o755, 0o600, 0o777, 0o4755];
                let change = SetAttrs {
                    mode: Some(*one(random, &modes) | entered),
                    ..SetAttrs::default()
                };
                self.attr(&at, change).map(|()| "chmod")
            }
            13 if exists => {
                let sec = i64::try_from(random.below(1_000_000)).unwrap();
                let change = SetAttrs {
                    mtime: SetTime::To(Time { sec, nsec: 7 }),
                    ..SetAttrs::default()
                };
                self.attr(&at, change).map(|()| "utimens")
            }
            14 if exists => {
                let value = (random.below(3) > 0).then_some(text.as_str());
                self.xattr(
                    &at,
                    ["user.a", "user.b"][usize::from(random.below(2) == 0)],
                    value,
                )
                .map(|()| "xattr")
            }
            15 => self.symlink("../x", &self.fresh(random)).map(|()| "ln -s"),
            _ if !exists => self.open(&at, OFlags::RDWR).map(|file| {
                // A sparse file.
                rustix::io::pwrite(&file, b"far", 300_000).unwrap();
                "sparse"
            }),
            _ => return None,
        };
        done.ok()
    }
}

impl Lab {
    /// Makes a lab in which what is removed is gathered when somebody asks for it, and not before.
    fn without_gathering() -> Lab {
        let lab = Lab::with_files();
        lab.world.gather_behind(|| (), |_| true);
        lab
    }

    fn listed(&self, dir: &str) -> Vec<String> {
        let names = std::fs::read_dir(self.dir.path().join(dir)).unwrap();
        let mut names: Vec<_> = names
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != ".gitignore")
            .collect();
        names.sort();
        names
    }

    /// The entries of the trash.
    fn entries(&self) -> Vec<String> {
        self.listed(".trash")
    }

    /// The names in the trash without their times.
    fn trash(&self) -> Vec<String> {
        let names = self.entries();
        let mut names: Vec<_> = names
            .iter()
            .map(|name| name.split_once('_').unwrap().1.to_owned())
            .collect();
        names.sort();
        names
    }

    /// The names in the newest entry of the trash that has this name.
    fn entry(&self, name: &str) -> Vec<String> {
        let all = self.listed(".trash");
        let of_name = |entry: &&String| entry.split_once('_').unwrap().1 == name;
        self.listed(&format!(".trash/{}", all.iter().rfind(of_name).unwrap()))
    }

    fn gather_records(&self) -> Vec<String> {
        let store = Store::of(&self.world).unwrap();
        let mut records = ReverseRecords::open(&store).unwrap();
        let mut gathered = Vec::new();
        while let Some((_, record)) = records.next_record().unwrap() {
            if let Op::Gather { path, entries, .. } = record.op {
                gathered.push(format!("{path} {}", entries.len()));
            }
        }
        gathered.reverse();
        gathered
    }

    /// The entries of the trash that have this name, as paths, oldest first.
    fn in_trash(&self, name: &str) -> Vec<String> {
        let of_name = |entry: &String| entry.split_once('_').unwrap().1 == name;
        let all = self.listed(".trash").into_iter().filter(of_name);
        all.map(|entry| format!(".trash/{entry}")).collect()
    }

    /// Makes a file behind the journal.
    fn put_behind(&self, at: &str) {
        std::fs::write(self.dir.path().join(at), "behind").unwrap();
    }

    /// Gives a directory the time of now behind the journal.
    fn touch_behind(&self, at: &str) {
        let dir = std::fs::File::open(self.dir.path().join(at)).unwrap();
        dir.set_modified(std::time::SystemTime::now()).unwrap();
    }

    /// Removes an empty directory behind the journal.
    fn rmdir_behind(&self, at: &str) {
        std::fs::remove_dir(self.dir.path().join(at)).unwrap();
    }
}

fn assert_same(is: &Snapshot, was: &Snapshot, what: &str) {
    let names = |all: &Snapshot| {
        all.iter()
            .map(|(k, v)| format!("{k}={}", v.same_as))
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(names(is), names(was), "{what}: is / was");
    for path in is.keys().chain(was.keys()) {
        let short = |seen: Option<&Seen>| {
            seen.map(|seen| {
                let content = seen.content.as_ref();
                (
                    format!("{:o}", seen.mode),
                    seen.owner,
                    seen.mtime,
                    content.map(|(bytes, extents)| {
                        (
                            bytes.len(),
                            extents.clone(),
                            String::from_utf8_lossy(&bytes[..bytes.len().min(30)]).into_owned(),
                        )
                    }),
                    seen.xattrs
                        .iter()
                        .map(|(k, v)| (k.len(), v.len()))
                        .collect::<Vec<_>>(),
                    seen.same_as.clone(),
                )
            })
        };
        assert_eq!(
            short(is.get(path)),
            short(was.get(path)),
            "{what}: {path}: is / was"
        );
        assert_eq!(is.get(path), was.get(path), "{what}: {path}");
    }
}

fn seeds() -> Vec<u64> {
    let rounds = std::env::var("TRUMANFS_ROUNDS").map_or(12, |n| n.parse().unwrap());
    match std::env::var("TRUMANFS_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (0..rounds).collect(),
    }
}

#[test]
fn undo_of_everything_gives_the_start_and_redo_the_end() {
    for seed in seeds() {
        println!("TRUMANFS_SEED={seed}");
        let mut random = Random(seed);
        let lab = Lab::new();
        for _ in 0..30 {
            lab.step(&mut random);
        }
        let start = (lab.seq(), lab.look());
        let mut points = Vec::new();
        for _ in 0..60 {
            points.push((lab.seq(), lab.look()));
            lab.step(&mut random);
        }
        let end = (lab.seq(), lab.look());
        lab.undo_after(start.0);
        assert_same(&lab.look(), &start.1, "undone");
        lab.undo_after(end.0);
        assert_same(&lab.look(), &end.1, "undone again");
        // To points in between, forwards and backwards.
        for _ in 0..4 {
            let (seq, then) = one(&mut random, &points);
            lab.undo_after(*seq);
            assert_same(&lab.look(), then, "to a point between");
        }
    }
}

#[test]
fn process_is_undone_alone_where_another_worked_elsewhere() {
    for seed in seeds() {
        println!("TRUMANFS_SEED={seed}");
        let mut random = Random(seed);
        let mut lab = Lab::new();
        for _ in 0..20 {
            lab.step(&mut random);
        }
        let before = lab.look();
        for _ in 0..60 {
            lab.pid = 1;
            lab.step(&mut random);
            lab.pid = 2;
            lab.mkdir("other").ok();
            let name = format!("other/{}", one(&mut random, NAMES));
            if random.below(3) > 0 {
                let file = lab.open(&name, OFlags::WRONLY | OFlags::TRUNC);
                file.map(|file| rustix::io::write(&file, b"other's").unwrap())
                    .ok();
            }
        }
        let (_, conflicts) = lab.undo_as(&by(1), OnConflict::Stop);
        if !conflicts.is_empty() {
            // The processes collided; then nothing was changed.
            assert!(
                conflicts
                    .iter()
                    .any(|c| c.what.contains("other") || c.by.is_some())
            );
            continue;
        }
        let after = lab.look();
        assert_eq!(lab.undo(&by(1)).record, None, "undone again");
        assert_same(&lab.look(), &after, "undone again");
        for (path, was) in before.iter().filter(|(path, _)| !path.starts_with("other")) {
            let is = after
                .get(path)
                .unwrap_or_else(|| panic!("{path} is not back"));
            assert_eq!(
                (is.mode, &is.content, &is.xattrs),
                (was.mode, &was.content, &was.xattrs),
                "{path}"
            );
        }
        for path in after.keys() {
            assert!(
                before.contains_key(path) || path.starts_with("other"),
                "{path} is left"
            );
        }
    }
}

// ── Conflicts ───────────────────────────────────────────────────────────────────────────────────────────────────────

fn op(lab: &Lab, seq: u64) -> UndoScope {
    UndoScope::Operations(vec![lab.op(seq)])
}

#[test]
fn later_change_is_a_conflict_and_named() {
    let lab = Lab::new();
    lab.put("f", "one");
    lab.put("f", "two");
    let second = lab.seq();
    lab.put("f", "three");
    let third = lab.seq();
    let before = (lab.look(), lab.seq());
    let (outcome, conflicts) = lab.undo_as(&op(&lab, second), OnConflict::Stop);
    assert_eq!(outcome, UndoOutcome::default());
    assert_eq!(conflicts.len(), 1, "{conflicts:#?}");
    assert!(conflicts[0].what.contains("/f"), "{conflicts:#?}");
    assert_eq!(conflicts[0].by, Some(lab.op(third)));
    let words = conflicts[0].by_what.clone().unwrap();
    assert!(words.contains("truncate /f"), "{words}");
    assert_eq!(
        (lab.look(), lab.seq()),
        before,
        "a conflict changes nothing"
    );

    lab.undo_as(&op(&lab, second), OnConflict::KeepBoth);
    assert_eq!(lab.read("f"), "three");
    assert_eq!(lab.read(&format!("f.before-{second}")), "one");
    lab.redo();
    assert_eq!(lab.look(), before.0);
    lab.undo_as(&op(&lab, second), OnConflict::Force);
    assert_eq!(lab.read("f"), "one");
    lab.redo();
    assert_eq!(lab.look(), before.0, "what was forced away is not lost");
}

#[test]
fn a_name_that_was_taken_since_is_kept_or_forced() {
    let lab = Lab::new();
    lab.put("f", "old");
    lab.rm("f").unwrap();
    let removal = lab.seq();
    lab.put("f", "new");
    let before = lab.look();
    let (_, conflicts) = lab.undo_as(&op(&lab, removal), OnConflict::Stop);
    assert!(conflicts[0].what.contains("/f"), "{conflicts:#?}");
    assert!(conflicts[0].by_what.as_ref().unwrap().contains("create"));
    lab.undo_as(&op(&lab, removal), OnConflict::KeepBoth);
    assert_eq!(
        (lab.read("f"), lab.read(&format!("f.before-{removal}"))),
        ("new".into(), "old".into())
    );
    lab.redo();
    assert_eq!(lab.look(), before);
    lab.undo_as(&op(&lab, removal), OnConflict::Force);
    assert_eq!(lab.read("f"), "old");
    lab.redo();
    assert_eq!(lab.look(), before);
}

#[test]
fn a_directory_with_later_things_in_it_stays() {
    let lab = Lab::new();
    lab.mkdir("d").unwrap();
    let made = lab.seq();
    lab.put("d/later", "x");
    let (_, conflicts) = lab.undo_as(&op(&lab, made), OnConflict::Stop);
    assert!(conflicts[0].what.contains("later"), "{conflicts:#?}");
    assert!(conflicts[0].by.is_some());
    lab.undo_as(&op(&lab, made), OnConflict::KeepBoth);
    assert_eq!(lab.read("d/later"), "x");
    lab.undo_as(&op(&lab, made), OnConflict::Force);
    assert!(!lab.dir.path().join("d").exists());
    lab.redo();
    assert_eq!(lab.read("d/later"), "x");
}

#[test]
fn file_of_a_removed_directory_has_no_place() {
    let lab = Lab::new();
    lab.mkdir("d").unwrap();
    lab.put("d/f", "x");
    lab.rm("d/f").unwrap();
    let removal = lab.seq();
    lab.rm("d").unwrap();
    for choice in [OnConflict::Stop, OnConflict::Force] {
        let (outcome, conflicts) = lab.undo_as(&op(&lab, removal), choice);
        assert_eq!(outcome.moves, 0);
        assert_eq!(
            conflicts.is_empty(),
            choice == OnConflict::Force,
            "{conflicts:#?}"
        );
    }
    let both = UndoScope::Operations(vec![lab.op(removal), lab.op(removal + 1)]);
    lab.undo(&both);
    assert_eq!(lab.read("d/f"), "x");
}

#[test]
fn file_without_a_place_has_the_same_name_in_each_report() {
    let lab = Lab::new();
    lab.mkdir("d").unwrap();
    lab.put("d/a", "1");
    lab.put("d/b", "2");
    lab.mv("d/a", "d/b", RenameMode::Exchange).unwrap();
    let swap = lab.seq();
    lab.rm_all("d").unwrap();
    let told: std::collections::BTreeSet<String> = (0..16)
        .map(|_| {
            let (_, conflicts) = lab.undo_as(&op(&lab, swap), OnConflict::Stop);
            assert_eq!(conflicts.len(), 1, "{conflicts:#?}");
            conflicts[0].what.clone()
        })
        .collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told.iter().all(|what| what.contains("has no place")));
}

#[test]
fn moved_directory_receives_restored_files() {
    let lab = Lab::new();
    lab.mkdir("d").unwrap();
    lab.put("d/f", "x");
    lab.rm("d/f").unwrap();
    let removal = lab.seq();
    lab.mv("d", "e", RenameMode::NoReplace).unwrap();
    lab.undo(&op(&lab, removal));
    assert_eq!(lab.read("e/f"), "x");
}

#[test]
fn undo_reports_purged_and_evicted_and_does_the_rest() {
    let lab = Lab::new();
    lab.put("gone", "x");
    lab.put("f", "one");
    let start = lab.seq();
    lab.rm("gone").unwrap();
    lab.put("f", "two");
    lab.put("g", "g");
    let trash = lab.dir.path().join(".trash");
    for entry in std::fs::read_dir(trash).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    let all = since(Point::After(lab.op(start)));
    let (_, conflicts) = lab.undo_as(&all, OnConflict::Stop);
    assert!(
        conflicts[0].what.contains("not in the store any more"),
        "{conflicts:#?}"
    );
    assert!(!conflicts[0].can_be_forced);
    lab.undo_as(&all, OnConflict::Force);
    assert_eq!(lab.read("f"), "one");
    assert!(!lab.dir.path().join("g").exists() && !lab.dir.path().join("gone").exists());
}

#[test]
fn undo_of_an_operation_changes_only_its_paths() {
    for seed in seeds() {
        let mut random = Random(seed);
        let lab = Lab::new();
        for _ in 0..25 {
            lab.step(&mut random);
        }
        let mut undone = 0;
        for seq in (2..=lab.seq()).rev() {
            let before = lab.look();
            let store = Store::of(&lab.world).unwrap();
            let Ok(selection) = select(&store, &op(&lab, seq)) else {
                continue;
            };
            let record = ReverseRecords::open(&store)
                .unwrap()
                .map(Result::unwrap)
                .find(|(_, r)| r.seq == seq);
            let Some((_, record)) = record else { continue };
            if plan(&store, &selection, OnConflict::Stop)
                .unwrap()
                .conflicts
                .is_empty()
            {
                let outcome = lab.undo(&op(&lab, seq));
                let after = lab.look();
                // Its paths may be different by now; but only one or two inodes may change.
                let mut tops: Vec<&String> = Vec::new();
                let mut things = std::collections::BTreeSet::new();
                for path in before.keys().chain(after.keys()) {
                    let same = |was: &Seen, is: &Seen| {
                        let is_dir = was.mode & 0o170_000 == 0o040_000;
                        (was.mode, was.owner, &was.content, &was.xattrs)
                            == (is.mode, is.owner, &is.content, &is.xattrs)
                            && (is_dir || was.mtime == is.mtime)
                    };
                    let seen = (before.get(path), after.get(path));
                    let below = tops.iter().any(|top| path.starts_with(&format!("{top}/")));
                    if below || seen.0.zip(seen.1).is_some_and(|(was, is)| same(was, is)) {
                        continue;
                    }
                    tops.push(path);
                    things.insert(&seen.0.or(seen.1).unwrap().same_as);
                }
                assert!(
                    things.len() <= 2,
                    "{seed}: {seq} {record:?} changed {tops:?}"
                );
                if outcome.record.is_none() {
                    continue;
                }
                undone += 1;
                assert_eq!(lab.undo(&op(&lab, seq)).record, None, "undone again");
                assert_same(&lab.look(), &after, "undone again");
                lab.redo();
                assert_same(&lab.look(), &before, "one operation undone and redone");
            }
        }
        assert!(undone > 0, "{seed}");
    }
}

#[test]
fn a_point_is_restored_as_a_copy() {
    for seed in seeds() {
        let mut random = Random(seed);
        let lab = Lab::new();
        lab.mkdir("d").unwrap();
        let mut points = Vec::new();
        for _ in 0..40 {
            lab.step(&mut random);
            points.push((lab.seq(), lab.look()));
        }
        let (seq, then) = one(&mut random, &points).clone();
        let store = Store::of(&lab.world).unwrap();
        for top in then.keys().filter(|path| !path.contains('/')) {
            let wish = restore::RestoreRequest {
                path: path(top),
                at: Some(Point::After(lab.op(seq))),
                to: Some(path("restored")),
                dry_run: false,
            };
            let backend = OfflineBackend(&lab.world);
            let restored = restore::restore(&store, &wish, Some(&backend), Caller::myself());
            let restored = match restored {
                // A symlink that would lead out from there.
                Err(Error::NotOffered) => continue,
                restored => restored.unwrap(),
            };
            if restored.failed.is_some() {
                let at = lab.dir.path().join(top);
                assert!(
                    then[top].mode & 0o170_000 == 0o120_000 || at.is_symlink(),
                    "{restored:?}"
                );
                continue;
            }
            let now = lab.look();
            for (path, was) in then
                .iter()
                .filter(|(path, _)| path.split('/').next() == Some(top))
            {
                let copy = format!("restored{}", &path[top.len()..]);
                let Some(is) = now.get(&copy) else {
                    assert!(
                        was.mode & 0o170_000 == 0o120_000,
                        "{seed}: {path} is not in the copy"
                    );
                    continue;
                };
                assert_eq!(
                    (is.mode, is.owner, &is.content, &is.xattrs),
                    (was.mode, was.owner, &was.content, &was.xattrs),
                    "{seed}: {path}"
                );
                if was.mode & 0o170_000 != 0o120_000 {
                    assert!(
                        is.mtime == was.mtime || is.mode & 0o170_000 == 0o040_000,
                        "{seed}: {path}"
                    );
                }
            }
        }
    }
}

/// Found by the law: a hard link or an exchange put symlinks where they led out of the home and became invisible.
#[test]
fn symlink_never_moves_to_where_it_is_hidden() {
    let lab = Lab::new();
    lab.mkdir("d").unwrap();
    lab.symlink("../f", "d/link").unwrap();
    lab.put("f", "x");
    assert_eq!(lab.link("d/link", "link"), Err(Error::NotOffered));
    assert_eq!(
        lab.mv("f", "d/link", RenameMode::Exchange),
        Err(Error::NotOffered)
    );
    assert_eq!(
        lab.mv("d/link", "f", RenameMode::Exchange),
        Err(Error::NotOffered)
    );
    lab.link("d/link", "d/other").unwrap();
    // In the trash this symlink leads out; it still comes back.
    lab.mkdir("d/deep").unwrap();
    lab.symlink("../../f", "d/deep/link").unwrap();
    let there = lab.seq();
    lab.rm("d/deep/link").unwrap();
    lab.undo_after(there);
    let target = std::fs::read_link(lab.dir.path().join("d/deep/link")).unwrap();
    assert_eq!(target, Path::new("../../f"));
}

/// A backend that fails after so many changes, as on a full disk.
struct Failing<'w> {
    world: &'w World,
    left: std::cell::Cell<u64>,
}

impl Failing<'_> {
    fn next(&self) -> Sys<()> {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        match left {
            0 => Err(Error::os("renameat2")(rustix::io::Errno::NOSPC)),
            _ => Ok(()),
        }
    }
}

impl ChangeBackend for Failing<'_> {
    fn world(&self) -> &World {
        self.world
    }
    fn rename(
        &self,
        from: (&Dir, Name<'_>),
        to: (&Dir, Name<'_>),
        how: RenameMode,
        caller: Caller,
    ) -> Sys<RenameResult> {
        self.next()?;
        OfflineBackend(self.world).rename(from, to, how, caller)
    }
    fn discard(&self, dir: &Dir, name: Name<'_>, caller: Caller) -> Sys<RemovedNode> {
        self.next()?;
        OfflineBackend(self.world).discard(dir, name, caller)
    }
    fn put_content(
        &self,
        located: &LocatedNode,
        content: &dyn NewContent,
        caller: Caller,
    ) -> Sys<Meta> {
        self.next()?;
        OfflineBackend(self.world).put_content(located, content, caller)
    }
    fn set_attr(&self, located: &LocatedNode, change: SetAttrs, caller: Caller) -> Sys<Meta> {
        self.next()?;
        OfflineBackend(self.world).set_attr(located, change, caller)
    }
}

#[test]
fn an_undo_that_stopped_half_way_is_finished_or_taken_back() {
    // With 40 to 135, what the finishing undo changed goes to the trash with it, and comes back by the second redo.
    // With 308, several hard links of a file go to the trash.
    for seed in seeds().into_iter().chain([40, 42, 127, 135, 308]) {
        println!("TRUMANFS_SEED={seed}");
        for finish in [true, false] {
            let mut random = Random(seed);
            let lab = Lab::new();
            for _ in 0..25 {
                lab.step(&mut random);
            }
            let start = (lab.seq(), lab.look());
            for _ in 0..40 {
                lab.step(&mut random);
            }
            let left = random.below(12);
            let redo_left = [u64::MAX, random.below(24)][usize::from(random.below(2) == 0)];
            lab.stop_redo_too(&start, (left, finish), redo_left);
        }
    }
}

/// The killed undo put a file into the trash by itself, and the first redo puts it there along with its directory.
#[test]
fn undo_that_stopped_half_way_is_redone_with_a_directory() {
    for left in 0..10 {
        let lab = Lab::new();
        lab.mkdir("wide").unwrap();
        lab.put("wide/w", "w");
        lab.put("o", "old");
        let start = (lab.seq(), lab.look());
        lab.mv("wide/w", "o", RenameMode::Replace).unwrap();
        lab.rm("wide").unwrap();
        lab.stop_half_way(&start, left, true);
    }
}

/// A file that the killed undo took out of a directory in the trash goes back into that directory, although the first
/// redo put the directory there as another entry.
#[test]
fn undo_that_stopped_half_way_is_redone_into_a_directory() {
    for (left, is_whole) in (0..10).flat_map(|left| [(left, true), (left, false)]) {
        let lab = Lab::new();
        lab.mkdir("z").unwrap();
        lab.put("a", "x");
        let start = (lab.seq(), lab.look());
        lab.mv("a", "z/up", RenameMode::NoReplace).unwrap();
        if is_whole {
            lab.rm_all("z").unwrap();
        } else {
            lab.rm("z/up").unwrap();
            lab.rm("z").unwrap();
        }
        lab.stop_half_way(&start, left, true);
    }
}

/// A directory that the killed undo had put into the trash whole came back by the second redo without what the
/// finishing undo had put into the trash by itself, or moved on.
#[test]
fn redo_of_a_half_undo_restores_a_directory_with_its_entries() {
    for (left, moves) in (0..10).flat_map(|left| [(left, true), (left, false)]) {
        let lab = Lab::new();
        lab.mkdir("closed").unwrap();
        lab.mkdir("other").unwrap();
        lab.mkdir("other/g").unwrap();
        lab.put("wide", "x");
        let start = (lab.seq(), lab.look());
        if moves {
            lab.mv("wide", "other/g/b", RenameMode::NoReplace).unwrap();
        } else {
            lab.mkdir("other/g/b").unwrap();
            lab.put("other/g/b/many", "many");
        }
        lab.mv("other/g", "closed", RenameMode::Exchange).unwrap();
        lab.rm("other/g").unwrap();
        lab.stop_half_way(&start, left, true);
    }
}

/// The finishing undo wrote to a file that lies in the directory under two names, of which none is in a record of the
/// pair.
#[test]
fn redo_of_a_half_undo_restores_contents_of_hard_links() {
    for left in 0..10 {
        let lab = Lab::new();
        lab.mkdir("p").unwrap();
        lab.mkdir("wide").unwrap();
        lab.put("wide/w", "old");
        let start = (lab.seq(), lab.look());
        lab.mv("wide", "p", RenameMode::Replace).unwrap();
        lab.put("p/w", "newer");
        lab.mkdir("p/d").unwrap();
        lab.link("p/w", "p/d/x").unwrap();
        lab.stop_half_way(&start, left, true);
    }
}

/// The second redo stopped half-way itself: what it had brought back from the trash already got the mode that the
/// finishing undo had given it.
#[test]
fn redo_that_stopped_half_way_is_finished() {
    for (left, redo_left) in (1..6).flat_map(|left| (0..6).map(move |redo_left| (left, redo_left)))
    {
        let lab = Lab::new();
        lab.mkdir("empty").unwrap();
        lab.mkdir("sticky").unwrap();
        lab.put("f", "x");
        let start = (lab.seq(), lab.look());
        lab.mv("sticky", "empty", RenameMode::Exchange).unwrap();
        let change = SetAttrs {
            mode: Some(0o700),
            ..SetAttrs::default()
        };
        lab.attr("empty", change).unwrap();
        lab.put("empty/many", "many");
        lab.rm("sticky").unwrap();
        lab.rm("f").unwrap();
        lab.stop_redo_too(&start, (left, true), redo_left);
    }
}

impl Lab {
    /// Takes back all since the start by an undo that fails after so many steps and, if wanted, by one that finishes
    /// it; and then both again.
    fn stop_half_way(&self, start: &(u64, Snapshot), left: u64, finish: bool) {
        self.stop_redo_too(start, (left, finish), u64::MAX);
    }

    /// As [`Lab::stop_half_way`], but the last redo fails after so many steps, and is asked for once more.
    fn stop_redo_too(&self, start: &(u64, Snapshot), (left, finish): (u64, bool), redo_left: u64) {
        let end = self.look();
        let wanted = since(Point::After(self.op(start.0)));
        let store = Store::of(&self.world).unwrap();
        let selection = select(&store, &wanted).unwrap();
        let planned = plan(&store, &selection, OnConflict::Stop).unwrap();
        let backend = Failing {
            world: &self.world,
            left: std::cell::Cell::new(left),
        };
        let Ok(outcome) = apply(
            &planned,
            &selection,
            ("test", &[]),
            &backend,
            Caller::myself(),
        ) else {
            assert_same(&self.look(), &end, "stopped before its first change");
            let nothing = last_undo(&store, &[]);
            assert!(nothing.is_err(), "there is nothing to take back");
            return;
        };
        if outcome.record.is_none() {
            return;
        }
        if !finish {
            self.redo();
            assert_same(&self.look(), &end, "taken back");
            return;
        }
        // Selects the original operations rather than the point, which would include the undo.
        let operations = selection.named_ranges().into_iter();
        let operations = operations.flat_map(|(_, from, to)| from..=to);
        let skip = |seq: &u64| select(&store, &op(self, *seq)).is_ok();
        let again =
            UndoScope::Operations(operations.filter(skip).map(|seq| self.op(seq)).collect());
        let half = self.look();
        let finishing = self.undo(&again);
        assert_same(&self.look(), &start.1, "finished");
        let mut skipped = Vec::new();
        if finishing.record.is_some() {
            self.redo_next(&mut skipped);
            assert_same(&self.look(), &half, "half-way again");
        }
        match redo_left {
            u64::MAX => drop(self.redo_next(&mut skipped)),
            left => self.redo_in_two(&skipped, left),
        }
        assert_same(&self.look(), &end, "finished, and taken back");
    }

    /// Redoes what is not skipped; fails after so many steps, and is asked for by its number then.
    fn redo_in_two(&self, skipped: &[Operation], left: u64) {
        let store = Store::of(&self.world).unwrap();
        let last = last_undo(&store, skipped).unwrap();
        let wanted = UndoScope::Operations(vec![last.operation]);
        let selection = select(&store, &wanted).unwrap();
        let planned = plan(&store, &selection, OnConflict::Stop).unwrap();
        let backend = Failing {
            world: &self.world,
            left: std::cell::Cell::new(left),
        };
        _ = apply(
            &planned,
            &selection,
            ("test", &[]),
            &backend,
            Caller::myself(),
        );
        self.undo(&wanted);
    }
}
