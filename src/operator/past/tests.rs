//! Tests of the past: trees, contents and path filters, compared with recorded snapshots of the store.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use rustix::fs::{FileType, OFlags};

use super::*;
use crate::error::Error;
use crate::name::{Name, WorldPath};
use crate::operator::point::Operation;
use crate::random::Random;
use crate::world::{
    Caller, NoOpenState, RenameMode, SetAttrs, SetTime, Time, World, WorldOptions, new_session_id,
};

/// A store with an in-process world.
struct Lab {
    dir: tempfile::TempDir,
    world: World,
}

fn path(text: &str) -> WorldPath {
    WorldPath::parse(text.as_bytes()).unwrap()
}

impl Lab {
    fn new() -> Lab {
        let dir = tempfile::tempdir().unwrap();
        let options = WorldOptions {
            session: new_session_id(),
            ..WorldOptions::default()
        };
        let (world, _) = World::open(dir.path(), options).unwrap();
        Lab { dir, world }
    }

    fn here(&self) -> Point {
        Point::After(Operation {
            session: self.world.session().to_owned(),
            seq: self.world.records(),
        })
    }

    fn put(&self, at: &str, text: &str) {
        let at = path(at);
        let (dir, name) = self.world.parent(&at).unwrap();
        let made = self
            .world
            .create(
                &dir,
                name,
                OFlags::RDWR,
                0o644,
                &NoOpenState,
                Caller::myself(),
            )
            .unwrap();
        rustix::io::write(&made.file, text.as_bytes()).unwrap();
    }

    fn mkdir(&self, at: &str) {
        let at = path(at);
        let (dir, name) = self.world.parent(&at).unwrap();
        self.world
            .mkdir(&dir, name, 0o755, Caller::myself())
            .unwrap();
    }

    fn rm(&self, at: &str) {
        let at = path(at);
        let (dir, name) = self.world.parent(&at).unwrap();
        match self.world.unlink(&dir, name, Caller::myself()) {
            Err(Error::IsDirectory) => self
                .world
                .rmdir(&dir, name, Caller::myself())
                .map(|_| ())
                .unwrap(),
            removed => removed.map(|_| ()).unwrap(),
        }
    }

    fn is_empty(&self, at: &str) -> bool {
        let entries = std::fs::read_dir(self.dir.path().join(at));
        entries.is_ok_and(|mut entries| entries.next().is_none())
    }

    fn mv(&self, from: &str, to: &str, how: RenameMode) {
        let (from, to) = (path(from), path(to));
        let (dir, name) = self.world.parent(&from).unwrap();
        let (new_dir, new_name) = self.world.parent(&to).unwrap();
        let moved = self
            .world
            .rename(&dir, name, &new_dir, new_name, how, Caller::myself());
        moved.unwrap();
    }

    fn attr(&self, at: &str, change: SetAttrs) {
        let at = path(at);
        let (dir, name) = self.world.parent(&at).unwrap();
        let located = self.world.locate(&dir, name).unwrap();
        self.world
            .set_attr(&located, change, None, &NoOpenState, Caller::myself())
            .unwrap();
    }

    /// Returns everything in the store now, without trash and state.
    fn snapshot(&self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        look(self.dir.path(), self.dir.path(), &mut all);
        all
    }

    fn at(&self, point: &Point) -> BTreeMap<String, String> {
        let store = Store::open(self.dir.path()).unwrap();
        let mut past = Past::now(&store).unwrap();
        past.back_to(point).unwrap();
        let mut all = BTreeMap::new();
        look_back(past.tree(), ROOT, &WorldPath::root(), &mut all);
        all
    }
}

fn look(top: &Path, dir: &Path, all: &mut BTreeMap<String, String>) {
    use std::os::unix::fs::MetadataExt;
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let at = entry.path();
        let relative = at.strip_prefix(top).unwrap().to_str().unwrap().to_owned();
        if matches!(relative.as_str(), ".trash" | ".trumanfs") {
            continue;
        }
        let meta = entry.metadata().unwrap();
        let what = if meta.is_dir() {
            String::new()
        } else {
            std::fs::read_to_string(&at).unwrap()
        };
        let times = (meta.mtime(), meta.mtime_nsec());
        all.insert(relative, format!("{:o} {times:?} {what}", meta.mode()));
        if meta.is_dir() {
            look(top, &at, all);
        }
    }
}

fn look_back(tree: &PastTree<'_>, dir: NodeId, at: &WorldPath, all: &mut BTreeMap<String, String>) {
    for (name, node) in tree.children(dir).unwrap() {
        let at = at.join(Name::new(&name).unwrap());
        if at == path(".trash") {
            continue;
        }
        assert_eq!(tree.resolve(&at).unwrap(), Some(node));
        assert_eq!(tree.path(node).map(|_| ()), Some(()));
        let meta = tree.meta(node).unwrap();
        let (kind, what) = match meta.kind {
            FileType::Directory => (0o040_000, String::new()),
            _ => {
                let mut text = String::new();
                let content = tree.content(node).unwrap();
                content.reader().read_to_string(&mut text).unwrap();
                assert_eq!(meta.size, text.len() as u64);
                (0o100_000, text)
            }
        };
        let (sec, nsec) = meta.mtime;
        let line = format!("{:o} {:?} {what}", kind | meta.mode, (sec, i64::from(nsec)));
        all.insert(at.to_string().trim_start_matches('/').to_owned(), line);
        if meta.kind == FileType::Directory {
            look_back(tree, node, &at, all);
        }
    }
}

/// A request that has already looked up its file may be recorded after the file's removal.
#[test]
fn change_under_way_when_its_file_was_removed_is_reversed() {
    let lab = Lab::new();
    lab.put("/f", "first");
    let (was, here) = (lab.snapshot(), lab.here());
    let at = path("/f");
    let (dir, name) = lab.world.parent(&at).unwrap();
    let located = lab.world.locate(&dir, name).unwrap();
    lab.rm("/f");
    let cut = SetAttrs {
        size: Some(2),
        ..SetAttrs::default()
    };
    lab.world
        .set_attr(&located, cut, None, &NoOpenState, Caller::myself())
        .unwrap();
    assert_eq!(lab.at(&here), was);
}

#[test]
fn past_tree_equals_the_tree_after_each_step() {
    let lab = Lab::new();
    let mut points = Vec::new();
    let mode = |mode| SetAttrs {
        mode: Some(mode),
        ..SetAttrs::default()
    };
    let time = SetAttrs {
        mtime: SetTime::To(Time { sec: 77, nsec: 5 }),
        ..SetAttrs::default()
    };
    let steps: Vec<Box<dyn Fn()>> = vec![
        Box::new(|| lab.mkdir("d")),
        Box::new(|| lab.put("d/a", "a of d")),
        Box::new(|| lab.put("d/b", "b of d")),
        Box::new(|| lab.put("f", "f")),
        Box::new(|| lab.mv("f", "d/b", RenameMode::Replace)),
        Box::new(|| lab.attr("d/b", mode(0o600))),
        Box::new(|| lab.attr("d", time)),
        Box::new(|| lab.mkdir("d/deep")),
        Box::new(|| lab.put("d/deep/x", "x")),
        Box::new(|| lab.mv("d", "e", RenameMode::NoReplace)),
        Box::new(|| lab.mkdir("d")),
        Box::new(|| lab.put("d/a", "another a")),
        Box::new(|| lab.mv("d/a", "e/deep", RenameMode::Exchange)),
        Box::new(|| lab.rm("d/a/x")),
        Box::new(|| lab.rm("d/a")),
        Box::new(|| lab.rm("e/a")),
        Box::new(|| lab.rm("e/b")),
        Box::new(|| lab.rm("e/deep")),
        Box::new(|| lab.rm("e")),
        Box::new(|| lab.put("e", "a file now")),
    ];
    for step in &steps {
        points.push((lab.here(), lab.snapshot()));
        step();
    }
    points.push((Point::Now, lab.snapshot()));
    for (number, (point, snapshot)) in points.iter().enumerate().rev() {
        assert_eq!(&lab.at(point), snapshot, "before step {number}, {point}");
    }
}

#[test]
fn purged_content_is_lost_and_not_misread() {
    let lab = Lab::new();
    lab.put("f", "text");
    let point = lab.here();
    lab.rm("f");
    for entry in std::fs::read_dir(lab.dir.path().join(".trash")).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    let store = Store::open(lab.dir.path()).unwrap();
    let mut past = Past::now(&store).unwrap();
    let touched = past.back_to(&point).unwrap();
    assert!(touched.names.contains(&(ROOT, b"f"[..].into())));
    let node = past.tree().resolve(&path("f")).unwrap().unwrap();
    assert!(past.tree().is_lost(node));
    let error = past.tree().content(node).unwrap_err();
    assert!(
        matches!(&error, Error::Missing { what, .. } if what.contains("/f")),
        "{error}"
    );
}

#[test]
fn filtered_past_of_a_path_equals_the_whole_past() {
    use crate::operator::diff::Diff;
    let places = ["a", "b", "a/x", "a/y", "b/x", "b/z", "a/b", "a/b/x", "z"];
    for seed in 1..=12 {
        let lab = Lab::new();
        let mut dice = Random(seed);
        let mut points = vec![lab.here()];
        for step in 0..60 {
            let (one, other) = (places[dice.index(9)], places[dice.index(9)]);
            let here = lab.dir.path();
            let has_room = |at: &str| here.join(at).parent().is_some_and(Path::is_dir);
            let (there, free) = (here.join(one).exists(), !here.join(other).exists());
            let inside = path(one).contains(&path(other)) || path(other).contains(&path(one));
            match dice.index(6) {
                0 if !there && has_room(one) => lab.mkdir(one),
                1 | 2 if !there && has_room(one) => lab.put(one, &format!("{step}")),
                3 if there && free && !inside && has_room(other) => {
                    lab.mv(one, other, RenameMode::NoReplace);
                }
                4 if there && !free && !inside => lab.mv(one, other, RenameMode::Exchange),
                5 if there && (here.join(one).is_file() || lab.is_empty(one)) => lab.rm(one),
                _ => continue,
            }
            points.push(lab.here());
        }
        let store = Store::open(lab.dir.path()).unwrap();
        for _ in 0..60 {
            let (a, b) = (dice.index(points.len()), dice.index(points.len()));
            let (from, to) = (&points[a.min(b)], &points[a.max(b)]);
            let at = path(places[dice.index(9)]);
            let all = Diff::between(&store, from, to, &WorldPath::root()).unwrap();
            let below = Diff::between(&store, from, to, &at).unwrap();
            let is_below = |change: &crate::operator::diff::PathDifference| {
                at.contains(&change.path) || change.from.as_ref().is_some_and(|f| at.contains(f))
            };
            let all = all.changes().map(Result::unwrap).filter(is_below).collect();
            let below = below.changes().map(Result::unwrap).collect();
            let text = |changes: &Vec<_>| serde_json::to_string(changes).unwrap();
            assert_eq!(text(&below), text(&all), "{at}, {from} to {to}, {seed}");

            let mut past = Past::now(&store).unwrap();
            past.back_to(from).unwrap();
            let mut about = Past::about_path(&store, &at, Some(from)).unwrap();
            about.back_to(from).unwrap();
            let what = |tree: &PastTree<'_>| {
                let node = tree.resolve(&at).unwrap()?;
                let mut text = String::new();
                // A directory's modification time comes from records of its entries, which are skipped.
                if !tree.kind(node).is_file() {
                    return Some((None, text));
                }
                let content = tree.content(node).unwrap();
                content.reader().read_to_string(&mut text).unwrap();
                Some((tree.meta(node).ok(), text))
            };
            let (all, alone) = (what(past.tree()), what(about.tree()));
            assert_eq!(alone, all, "{at} at {from}, {seed}");
        }
    }
}

#[test]
fn filtered_past_refuses_a_broken_chain() {
    let lab = Lab::new();
    for name in ["f", "g", "h"] {
        lab.put(name, name);
    }
    let session = lab.world.session().to_owned();
    let (dir, world) = (lab.dir, lab.world);
    drop(world);
    let journal = dir.path().join(".trumanfs/sessions").join(session);
    let journal = journal.join("journal.jsonl");
    let text = std::fs::read_to_string(&journal).unwrap();
    std::fs::write(&journal, text.replace("\"/g\"", "\"/G\"")).unwrap();
    let store = Store::open(dir.path()).unwrap();
    let error = Past::about_path(&store, &path("h"), None).unwrap_err();
    assert!(matches!(error, Error::Damaged(_)), "{error}");
}
