//! A home against a model of it: random operations through both doors, with every answer compared, and a count of
//! everything ever removed. `TRUMANFS_SEED=n` repeats a seed; a failure prints its own.
//!
//! Owns the model: a tree of maps whose leaves are indices into a list of files, so that hard links are represented.
//! Everything removed goes into one bag. Errnos come in the kernel's order (`do_renameat2`, `do_linkat`,
//! `path_openat`).

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink as plant_link;
use std::path::Path;

use crate::common::calls::{Errno, Sys};
use crate::common::random::Random;
use crate::common::{Home, calls, need_mount, need_root};
use crate::door::{Door, InProcess, Mounted, Seen};
use rustix::fs::FileType;
use trumanfs::world::{RenameMode, ViewOptions};

// ── The model ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────

type Entries = BTreeMap<String, Node>;

#[derive(Debug, Clone)]
enum Node {
    File(usize),
    Dir { mode: u32, entries: Entries },
}

#[derive(Debug, Default)]
struct Model {
    root: Entries,
    /// Content and mode of every file there ever was.
    files: Vec<(Vec<u8>, u32)>,
    /// Every name that was removed or replaced, by its file.
    trash: Vec<usize>,
    /// How many directories were removed or replaced.
    trashed_dirs: usize,
}

/// Names in the root that never exist for the occupant, whatever is there.
const HIDDEN: &[&str] = &["lnk", ".trumanfs"];

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

fn is_below(path: &str, dir: &str) -> bool {
    path.strip_prefix(dir)
        .is_some_and(|rest| rest.starts_with('/'))
}

impl Model {
    fn dir(&self, path: &str) -> Sys<&Entries> {
        let mut at = &self.root;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            match at.get(name) {
                None => return Err(Errno::NOENT),
                Some(Node::File(_)) => return Err(Errno::NOTDIR),
                Some(Node::Dir { entries, .. }) => at = entries,
            }
        }
        Ok(at)
    }

    fn dir_mut(&mut self, path: &str) -> &mut Entries {
        let mut at = &mut self.root;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let Some(Node::Dir { entries, .. }) = at.get_mut(name) else {
                panic!("{path} is no directory of the model");
            };
            at = entries;
        }
        at
    }

    fn find(&self, path: &str) -> Sys<&Node> {
        let (dir, name) = split(path);
        self.dir(dir)?.get(name).ok_or(Errno::NOENT)
    }

    fn file(&self, path: &str) -> Sys<usize> {
        match self.find(path)? {
            Node::File(file) => Ok(*file),
            Node::Dir { .. } => Err(Errno::ISDIR),
        }
    }

    /// A name that something may be made at.
    fn free(&self, path: &str) -> Sys<()> {
        match self.find(path) {
            Ok(_) => Err(Errno::EXIST),
            Err(Errno::NOENT) if !HIDDEN.contains(&path) => self.dir(split(path).0).map(drop),
            Err(errno) => Err(errno),
        }
    }

    fn put(&mut self, path: &str, node: Node) {
        let (dir, name) = split(path);
        self.dir_mut(dir).insert(name.to_owned(), node);
    }

    fn take(&mut self, path: &str) -> Node {
        let (dir, name) = split(path);
        self.dir_mut(dir).remove(name).unwrap()
    }

    fn retire(&mut self, node: Node) {
        match node {
            Node::File(file) => self.trash.push(file),
            Node::Dir { entries, .. } => {
                assert!(entries.is_empty());
                self.trashed_dirs += 1;
            }
        }
    }

    fn restore(&mut self, to: &str, node: Node) {
        let mut pending = vec![&node];
        while let Some(node) = pending.pop() {
            match node {
                Node::File(file) => {
                    let at = self.trash.iter().position(|f| f == file).unwrap();
                    self.trash.swap_remove(at);
                }
                Node::Dir { entries, .. } => {
                    self.trashed_dirs -= 1;
                    pending.extend(entries.values());
                }
            }
        }
        self.put(to, node);
    }

    fn remove(&mut self, path: &str, dir: bool) -> Sys<()> {
        match (self.find(path)?, dir) {
            (Node::File(_), true) => return Err(Errno::NOTDIR),
            (Node::Dir { .. }, false) => return Err(Errno::ISDIR),
            (Node::Dir { entries, .. }, true) if !entries.is_empty() => {
                return Err(Errno::NOTEMPTY);
            }
            _ => {}
        }
        let node = self.take(path);
        self.retire(node);
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str, how: RenameMode) -> Sys<()> {
        self.dir(split(from).0)?;
        self.dir(split(to).0)?;
        let moving = self.find(from)?;
        let target = self.find(to).ok();
        match (target, how) {
            (Some(_), RenameMode::NoReplace) => return Err(Errno::EXIST),
            (None, RenameMode::Exchange) => return Err(Errno::NOENT),
            _ => {}
        }
        if is_below(to, from) {
            return Err(Errno::INVAL);
        }
        if is_below(from, to) {
            return Err(match how {
                RenameMode::Exchange => Errno::INVAL,
                _ => Errno::NOTEMPTY,
            });
        }
        if HIDDEN.contains(&to) {
            return Err(Errno::NOENT);
        }
        match (moving, target, how) {
            _ if from == to => return Ok(()),
            (Node::File(one), Some(Node::File(other)), _) if one == other => return Ok(()),
            (_, Some(_), RenameMode::Exchange) => {
                let (one, other) = (self.take(from), self.take(to));
                self.put(to, one);
                self.put(from, other);
                return Ok(());
            }
            (Node::Dir { .. }, Some(Node::File(_)), _) => return Err(Errno::NOTDIR),
            (Node::File(_), Some(Node::Dir { .. }), _) => return Err(Errno::ISDIR),
            (_, Some(Node::Dir { entries, .. }), _) if !entries.is_empty() => {
                return Err(Errno::NOTEMPTY);
            }
            _ => {}
        }
        let replaced = target.is_some();
        if replaced {
            let replaced = self.take(to);
            self.retire(replaced);
        }
        let node = self.take(from);
        self.put(to, node);
        Ok(())
    }

    fn link(&mut self, from: &str, to: &str) -> Sys<()> {
        let node = self.find(from)?.clone();
        match (self.free(to), &node) {
            (Err(Errno::NOENT), Node::Dir { .. }) if HIDDEN.contains(&to) => Err(Errno::PERM),
            (Err(errno), _) => Err(errno),
            (Ok(()), Node::Dir { .. }) => Err(Errno::PERM),
            (Ok(()), Node::File(_)) => {
                self.put(to, node);
                Ok(())
            }
        }
    }

    /// The tree as a door should show it, with the number of names each file has.
    fn tree(&self) -> BTreeMap<String, (Seen, Vec<u8>)> {
        fn walk<'a>(at: &'a Entries, prefix: &str, visit: &mut dyn FnMut(String, &'a Node)) {
            for (name, node) in at {
                let path = format!("{prefix}{name}");
                if let Node::Dir { entries, .. } = node {
                    walk(entries, &format!("{path}/"), visit);
                }
                visit(path, node);
            }
        }
        let mut all = Vec::new();
        walk(&self.root, "", &mut |path, node| all.push((path, node)));
        let mut names = vec![0; self.files.len()];
        for (_, node) in &all {
            if let Node::File(file) = node {
                names[*file] += 1;
            }
        }
        let seen = |node: &Node| match node {
            Node::Dir { mode, .. } => (seen(FileType::Directory, *mode, 0, 0), Vec::new()),
            Node::File(file) => {
                let (content, mode) = &self.files[*file];
                let size = content.len() as u64;
                let kind = FileType::RegularFile;
                (seen(kind, *mode, names[*file], size), content.clone())
            }
        };
        all.into_iter()
            .map(|(path, node)| (path, seen(node)))
            .collect()
    }

    fn trashed_contents(&self) -> Vec<Vec<u8>> {
        let mut contents: Vec<_> = self
            .trash
            .iter()
            .map(|f| self.files[*f].0.clone())
            .collect();
        contents.sort();
        contents
    }
}

fn seen(kind: FileType, mode: u32, nlink: u64, size: u64) -> Seen {
    Seen {
        kind,
        mode,
        nlink,
        size,
    }
}

// ── The run ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

struct Run<D> {
    door: D,
    model: Model,
    seed: u64,
    state: Random,
    step: usize,
    doing: String,
}

impl<D> Drop for Run<D> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "TRUMANFS_SEED={} fails at step {}: {}",
                self.seed, self.step, self.doing
            );
        }
    }
}

impl<D: Door> Run<D> {
    fn random(&mut self, limit: usize) -> usize {
        self.state.index(limit)
    }

    /// A path: mostly one that exists, by an index that wraps; else a name in a directory (or below a file) that does.
    fn path(&mut self) -> String {
        let known: Vec<String> = self.model.tree().into_keys().collect();
        let some = |n: usize| {
            known
                .get(n % known.len().max(1))
                .cloned()
                .unwrap_or_default()
        };
        let (index, dice) = (self.random(1 << 16), self.random(20));
        let name = ["a", "b", "c", "d e", "é"][self.random(5)];
        match dice {
            0 => HIDDEN[index % HIDDEN.len()].to_owned(),
            1..=11 if !known.is_empty() => some(index),
            12..=15 if !known.is_empty() => format!("{}/{name}", some(index)),
            _ => name.to_owned(),
        }
    }

    /// A path to make something at: mostly a name in a directory.
    fn new_path(&mut self) -> String {
        let is_dir = |(_, (seen, _)): &(String, (Seen, Vec<u8>))| seen.kind == FileType::Directory;
        let dirs: Vec<_> = self.model.tree().into_iter().filter(is_dir).collect();
        let (index, old, number) = (self.random(1 << 16), self.random(4), self.random(12));
        match dirs.get(index % (dirs.len() + 1)) {
            _ if old == 0 => self.path(),
            Some((dir, _)) if dir.matches('/').count() < 4 => format!("{dir}/n{number}"),
            _ => format!("n{number}"),
        }
    }

    fn content(&mut self) -> Vec<u8> {
        let length = [0, 1, 10, 5000][self.random(4)];
        let line = format!("{}:{};", self.seed, self.step);
        line.bytes().cycle().take(length + line.len()).collect()
    }

    fn step(&mut self) {
        self.step += 1;
        let (op, content) = (self.random(24), self.content());
        let one = match op {
            0..=4 | 8..=9 => self.new_path(),
            _ => self.path(),
        };
        let two = match self.random(2) {
            0 => self.path(),
            _ => self.new_path(),
        };
        let how = [
            RenameMode::Replace,
            RenameMode::NoReplace,
            RenameMode::Exchange,
        ][[0, 0, 0, 1, 2][self.random(5)]];
        let number = self.random(0o1000);
        self.doing = format!("operation {op} on {one:?} (and {two:?}, {how:?}, {number})");
        let model = &mut self.model;
        let door = &self.door;
        let (wanted, got) = match op {
            0..=4 => {
                let wanted = model.free(&one).map(|()| {
                    model.files.push((content.clone(), 0o644));
                    let file = model.files.len() - 1;
                    model.put(&one, Node::File(file));
                });
                (wanted, door.create(&one, &content))
            }
            5 => (
                model
                    .file(&one)
                    .map(|f| model.files[f].0.clone_from(&content)),
                door.overwrite(&one, &content),
            ),
            6..=7 => (
                model.file(&one).map(|f| model.files[f].0.extend(&content)),
                door.append(&one, &content),
            ),
            8..=9 => {
                let wanted = model.free(&one).map(|()| {
                    let (mode, entries) = (0o755, Entries::new());
                    model.put(&one, Node::Dir { mode, entries });
                });
                (wanted, door.mkdir(&one))
            }
            10..=12 => (model.remove(&one, false), door.unlink(&one)),
            13..=14 => (model.remove(&one, true), door.rmdir(&one)),
            15..=18 => (model.rename(&one, &two, how), door.rename(&one, &two, how)),
            19..=20 => (model.link(&one, &two), door.link(&one, &two)),
            21 => (
                model.file(&one).map(|f| model.files[f].0.resize(number, 0)),
                door.truncate(&one, number as u64),
            ),
            22 => {
                let mode = u32::try_from(number).unwrap();
                let wanted = match model.find(&one).cloned() {
                    Ok(Node::File(file)) => {
                        model.files[file].1 = mode;
                        Ok(())
                    }
                    Ok(Node::Dir { entries, .. }) => {
                        model.put(&one, Node::Dir { mode, entries });
                        Ok(())
                    }
                    Err(errno) => Err(errno),
                };
                (wanted, door.chmod(&one, mode))
            }
            _ if model.find(&one).is_err() && !HIDDEN.contains(&one.as_str()) => {
                let parent = model.dir(split(&one).0).map(drop);
                (parent.and(Err(Errno::PERM)), door.symlink("a", &one))
            }
            _ => return self.take_back(&two),
        };
        assert_eq!(got, wanted, "{}", self.doing);
    }

    /// Moves an entry out of the trash, where the contents say which files it holds.
    fn take_back(&mut self, to: &str) {
        self.door.gather();
        let trash = self.door.store().join(".trash");
        let mut entries: Vec<_> = fs::read_dir(&trash)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != ".gitignore")
            .collect();
        entries.sort();
        if entries.is_empty() {
            return;
        }
        let entry = &entries[self.random(entries.len())];
        self.doing = format!("taking {entry} back to {to:?}");
        let Some(node) = self.recognise(&trash.join(entry)) else {
            return;
        };
        let from = format!(".trash/{entry}");
        let got = self.door.rename(&from, to, RenameMode::NoReplace);
        let wanted = self.model.free(to).map(|()| self.model.restore(to, node));
        assert_eq!(got, wanted, "{}", self.doing);
    }

    fn recognise(&self, path: &Path) -> Option<Node> {
        let mode = calls::lstat(path).unwrap().mode;
        if path.is_dir() {
            let mut entries = Entries::new();
            for entry in fs::read_dir(path).unwrap() {
                let entry = entry.unwrap();
                let name = entry.file_name().into_string().unwrap();
                entries.insert(name, self.recognise(&entry.path())?);
            }
            return Some(Node::Dir { mode, entries });
        }
        let content = fs::read(path).unwrap();
        let files = &self.model.files;
        let mut same = self.model.trash.iter().filter(|f| files[**f].0 == content);
        let file = *same.next().expect("what is in the trash was removed");
        same.all(|other| *other == file).then_some(Node::File(file))
    }

    fn check(&self) {
        let mut tree = BTreeMap::new();
        let mut pending = vec![String::new()];
        while let Some(dir) = pending.pop() {
            for name in self.door.list(&dir).unwrap() {
                let path = if dir.is_empty() {
                    name
                } else {
                    format!("{dir}/{name}")
                };
                let seen = self.door.stat(&path).unwrap();
                let content = if seen.kind == FileType::Directory {
                    pending.push(path.clone());
                    Vec::new()
                } else {
                    self.door.read(&path).unwrap()
                };
                tree.insert(path, (seen, content));
            }
        }
        let wanted = self.model.tree();
        for path in wanted.keys().chain(tree.keys()) {
            assert_eq!(tree.get(path), wanted.get(path), "{path} (left: the home)");
        }
        let (mut contents, mut dirs) = (Vec::new(), 0);
        self.door.gather();
        let mut pending = vec![self.door.store().join(".trash")];
        while let Some(dir) = pending.pop() {
            for entry in fs::read_dir(&dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    dirs += 1;
                    pending.push(path);
                } else if !path.ends_with(".trash/.gitignore") {
                    contents.push(fs::read(path).unwrap());
                }
            }
        }
        contents.sort();
        assert!(
            contents == self.model.trashed_contents(),
            "the trash has {} contents, {} were removed, and they are not the same",
            contents.len(),
            self.model.trash.len()
        );
        assert_eq!(dirs, self.model.trashed_dirs, "directories in the trash");
        for hidden in HIDDEN {
            assert_eq!(self.door.stat(hidden), Err(Errno::NOENT), "{hidden}");
        }
    }
}

fn run<D: Door>(door: D, seed: u64, steps: usize, reopen_each: usize) {
    crate::common::usual_umask();
    plant_link("/etc", door.store().join("lnk")).unwrap();
    let mut run = Run {
        door,
        model: Model::default(),
        seed,
        state: Random(seed),
        step: 0,
        doing: String::new(),
    };
    for step in 1..=steps {
        run.step();
        if step % 50 == 0 {
            run.check();
        }
        if step % reopen_each == 0 {
            run.doing = "ending the session and beginning another".to_owned();
            run.door.reopen();
            run.check();
        }
    }
    run.check();
    run.door.reopen();
    let target = fs::read_link(run.door.store().join("lnk")).unwrap();
    assert_eq!(target.to_str(), Some("/etc"), "the hidden link was touched");
    let records = crate::door::journals(run.door.store());
    let (live, trash) = (run.model.tree().len(), run.model.trash.len());
    println!(
        "seed {seed}: {live} things live, {trash} names in the trash, {} records",
        records.len()
    );
}

fn seeds(default: std::ops::Range<u64>) -> Vec<u64> {
    match std::env::var("TRUMANFS_SEED") {
        Ok(seed) => vec![seed.parse().expect("TRUMANFS_SEED is a number")],
        Err(_) => default.collect(),
    }
}

#[test]
fn the_world_is_as_the_model() {
    need_root!("because the model knows no permissions");
    for seed in seeds(1..13) {
        let store = tempfile::tempdir().unwrap();
        run(
            InProcess::open(store.path(), ViewOptions::default()),
            seed,
            600,
            110,
        );
    }
}

#[test]
fn a_mounted_home_is_as_the_model() {
    need_mount!();
    need_root!("because the model knows no permissions");
    for seed in seeds(101..104) {
        run(Mounted(Home::mount()), seed, 600, 170);
    }
}

#[test]
fn a_mounted_home_without_passthrough_is_as_the_model() {
    need_mount!();
    need_root!("because the model knows no permissions");
    for seed in seeds(201..203) {
        let home = Home::with(&["--no-passthrough", "--allow-other", "--no-follow"]);
        run(Mounted(home), seed, 600, 170);
    }
}
