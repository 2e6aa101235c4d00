//! The deletion of volatile things for good, and what is recorded of it.
//!
//! A removal is a move into the trash, of volatile things too; a thread deletes these a moment later, each on its own:
//! a directory only if it is empty. So nothing that is kept goes with its directory, and a daemon that dies has deleted
//! too little. What was checked is checked again when the entry is out of everybody's reach (`trash/purge.rs`).
//!
//! A former content that is volatile has a number and no file: the record of the change names it as kept, and the next
//! one as evicted. So every reader knows it for one that is gone.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};

use crate::error::{Error, Result};
use crate::journal::{Author, Op, VolatileLoss};
use crate::name::{EscapedBytes, Name, WorldPath};
use crate::world::root::{Dir, Node, open_beneath};
use crate::world::trash::purge::PurgeResult;
use crate::world::trash::trash_entries::{EntryName, rename_noreplace};
use crate::world::view::{VisibleEntry, in_trash};
use crate::world::volatile::files::{TrashedVolatile, Volatility};
use crate::world::{Caller, World};
use trumanfs_types::meta::{Id, Meta};

/// The number of entries that one record names, which bounds a journal line.
const MAX_ENTRIES_PER_RECORD: usize = 200;

/// The time after a removal that gathers others with it.
const QUIET_TIME: Duration = Duration::from_millis(200);

/// The time after which what was still open is looked at again.
const NEXT_LOOK: Duration = Duration::from_secs(2);

/// The home of which volatile things are deleted.
pub trait EraseListener: Send {
    /// Returns whether a file is open in the home.
    fn is_open(&self, id: Id) -> bool;
    /// Notes the entries of the trash that are gone.
    fn note_erased(&self, entries: &[EscapedBytes]);
}

/// No home, or one that has ended.
#[derive(Debug)]
pub(in crate::world) struct NoHome;

impl EraseListener for NoHome {
    fn is_open(&self, _id: Id) -> bool {
        false
    }

    fn note_erased(&self, _entries: &[EscapedBytes]) {}
}

/// An entry that is to be deleted, opened.
struct OpenedEntry {
    entry: EntryName,
    trashed: TrashedVolatile,
    node: Node,
}

impl World {
    /// Leaves the deletion of volatile things to a thread, for the rest of the session. `with_world` has the thread act
    /// on this world, and returns false when there is none any more.
    pub fn erase_behind(
        &self,
        with_world: impl Fn(&mut dyn FnMut(&World)) -> bool + Send + 'static,
        home: impl EraseListener + 'static,
    ) {
        if !self.volatile.any() {
            return;
        }
        let run = move || {
            let mut goes_on = true;
            let mut waits = false;
            while goes_on {
                match waits {
                    true => std::thread::park_timeout(NEXT_LOOK),
                    false => std::thread::park(),
                }
                std::thread::sleep(QUIET_TIME);
                goes_on = with_world(&mut |world| {
                    world.volatile.settle(&world.journal);
                    home.note_erased(&world.erase_volatile(&home));
                    waits = world.volatile.waiting_count() > 0;
                });
            }
        };
        match std::thread::Builder::new()
            .name("erase".to_owned())
            .spawn(run)
        {
            Ok(thread) => self.volatile.set_thread(thread.thread().clone()),
            Err(error) => log::warn!("no thread to delete what is volatile: {error}"),
        }
    }

    /// Returns the number of volatile things in the trash that wait for their deletion.
    pub fn volatile_waiting(&self) -> usize {
        self.volatile.waiting_count()
    }

    /// Deletes the volatile things that wait in the trash, but for files that are open. Returns the entries that are gone.
    pub fn erase_volatile(&self, home: &dyn EraseListener) -> Vec<EscapedBytes> {
        let (mut erased, mut open) = (Vec::new(), Vec::new());
        loop {
            let some = self.volatile.take(MAX_ENTRIES_PER_RECORD);
            if some.is_empty() {
                break;
            }
            if let Err(error) = self.erase_some((some, home), &mut erased, &mut open) {
                log::warn!("volatile files stay in the trash: {error}");
            }
        }
        self.volatile.put_back(open);
        self.volatile.note_done();
        erased
    }

    fn erase_some(
        &self,
        (some, home): (Vec<(EntryName, TrashedVolatile)>, &dyn EraseListener),
        erased: &mut Vec<EscapedBytes>,
        open: &mut Vec<(EntryName, TrashedVolatile)>,
    ) -> Result<()> {
        self.gather_now();
        let _counting = self.trash.lock_counting();
        let _working = self.gatherer.working.lock();
        let trash = self.trash.open_anew(&self.root)?;
        let mut volatile: Vec<OpenedEntry> = Vec::new();
        for (entry, trashed) in some {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let opened = open_beneath(trash.as_fd(), entry.bytes(), flags, Mode::empty());
            let Ok(node) = opened.and_then(Node::from_fd) else {
                continue; // It was taken back.
            };
            match self.volatility_in_trash(&trashed, &node) {
                Volatility::Kept => {}
                Volatility::Open => open.push((entry, trashed)),
                // It can still be opened through a descriptor.
                Volatility::Volatile if home.is_open(trashed.id) => open.push((entry, trashed)),
                Volatility::Volatile => volatile.push(OpenedEntry {
                    entry,
                    trashed,
                    node,
                }),
            }
        }
        let mut runs: Vec<Vec<OpenedEntry>> = Vec::new();
        for opened in self.without_names(volatile) {
            let origin = opened.trashed.author.origin;
            let same = |run: &&mut Vec<OpenedEntry>| {
                run.first()
                    .is_some_and(|first| first.trashed.author.origin == origin)
            };
            match runs.iter_mut().find(same) {
                Some(run) => run.push(opened),
                None => runs.push(vec![opened]),
            }
        }
        for run in &runs {
            self.erase_recorded(trash.as_fd(), run, erased)?;
        }
        Ok(())
    }

    /// Returns the entries without those of files that have names elsewhere: an undo gives such a name back, and it takes
    /// no space. They wait until the last one is removed.
    fn without_names(&self, entries: Vec<OpenedEntry>) -> Vec<OpenedEntry> {
        let mut of_inode: HashMap<Id, u32> = HashMap::new();
        for opened in &entries {
            *of_inode.entry(opened.trashed.id).or_default() += 1;
        }
        let has_all = |opened: &OpenedEntry| {
            let meta = opened.node.meta();
            let names = of_inode.get(&meta.id).copied().unwrap_or(0);
            meta.is_dir() || names >= meta.nlink
        };
        let (all, some): (Vec<_>, Vec<_>) = entries.into_iter().partition(has_all);
        let names = some
            .into_iter()
            .map(|opened| (opened.entry, opened.trashed));
        self.volatile.put_names(names.collect());
        all
    }

    /// Deletes entries that one run removed, recorded.
    fn erase_recorded(
        &self,
        trash: std::os::fd::BorrowedFd<'_>,
        run: &[OpenedEntry],
        erased: &mut Vec<EscapedBytes>,
    ) -> Result<()> {
        let Some(first) = run.first() else {
            return Ok(());
        };
        let purging = self.open_purging_dir()?;
        let mut volatile = Vec::new();
        for opened in run {
            let meta = opened.node.meta();
            let last = meta.is_dir() || meta.nlink == 1;
            let bytes = if last { meta.blocks * 512 } else { 0 };
            VolatileLoss::add(&mut volatile, opened.trashed.dir.clone(), bytes);
        }
        let entries = run
            .iter()
            .map(|opened| EscapedBytes(opened.entry.bytes().to_vec()));
        let op = Op::Purge {
            entries: entries.collect(),
            volatile,
            expired: None,
        };
        self.journal.note(op, Some(&first.trashed.author))?;
        let mut purged = PurgeResult::default();
        for opened in run {
            let name = opened.entry.name()?;
            let gone = self
                .move_lending_bits(trash, name, purging.as_fd(), name)
                .and_then(|()| {
                    let again = self.root_node_at(purging.as_fd(), &opened.entry)?;
                    if self.volatility_in_trash(&opened.trashed, &again) == Volatility::Volatile {
                        return self.delete(&purging, name, &mut purged, &mut |_| {});
                    }
                    // Its owner changed it at this moment.
                    rename_noreplace(&purging, name, trash, name)?;
                    Err(Error::NotFound)
                });
            match gone {
                Ok(()) => erased.push(EscapedBytes(opened.entry.bytes().to_vec())),
                Err(error) => log::debug!("a volatile file stays: {error}"),
            }
            if opened.node.stat().is_ok_and(|meta| meta.nlink == 0) {
                self.volatile.forget(opened.trashed.id);
            }
        }
        Ok(())
    }

    fn root_node_at(&self, dir: std::os::fd::BorrowedFd<'_>, entry: &EntryName) -> Result<Node> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Node::from_fd(open_beneath(dir, entry.bytes(), flags, Mode::empty())?)
    }

    /// Returns what is known of a node that was volatile when it was removed.
    fn volatility_in_trash(&self, trashed: &TrashedVolatile, node: &Node) -> Volatility {
        let meta = node.meta();
        if meta.id != trashed.id || (meta.is_dir() && !self.is_empty_dir(node)) {
            return Volatility::Kept;
        }
        self.volatile.volatility(meta, &self.journal)
    }

    /// Returns whether a directory has no entry at all, not even a hidden one.
    fn is_empty_dir(&self, node: &Node) -> bool {
        let opened = self
            .root
            .reopen(node, OFlags::RDONLY | OFlags::DIRECTORY)
            .ok()
            .and_then(|dir| rustix::fs::Dir::read_from(dir).ok());
        opened.is_some_and(|dir| {
            dir.into_iter().all(|entry| {
                entry.is_ok_and(|entry| matches!(entry.file_name().to_bytes(), b"." | b".."))
            })
        })
    }

    /// Returns what is known of a node at a path, on its removal or before its content is destroyed.
    pub(in crate::world) fn volatility_at(&self, path: &WorldPath, meta: &Meta) -> Volatility {
        let files = &self.volatile;
        if !files.any() || in_trash(path) || !files.covers(path, meta.is_dir()) {
            return Volatility::Kept;
        }
        let known = files.volatility(meta, &self.journal);
        // Git tracks no directory.
        if known != Volatility::Kept && !meta.is_dir() && files.tracked.is_tracked(&self.root, path)
        {
            files.forget(meta.id);
            return Volatility::Kept;
        }
        known
    }

    /// Has what was removed deleted for good soon, if it was volatile just before.
    pub(in crate::world) fn note_volatile_removal(
        &self,
        known: Volatility,
        (found, entry): (&VisibleEntry<'_>, &EntryName),
        author: &Author,
    ) {
        let (path, meta) = (&found.path(), &found.meta);
        // An undo brings back what is kept, and another name of what stays.
        let comes_back = known == Volatility::Kept || !meta.is_dir() && meta.nlink > 1;
        if self.volatile.any() && comes_back {
            self.volatile.forget(found.dir.id());
        }
        // What an undo removes, a redo brings back.
        if known == Volatility::Kept || author.origin.is_undo() {
            return;
        }
        let trashed = TrashedVolatile {
            id: meta.id,
            author: author.clone(),
            dir: self.volatile.top(path, meta.is_dir()),
        };
        self.volatile.put(entry, trashed);
    }

    /// Notes that a caller made a node.
    pub(in crate::world) fn note_volatile_made(
        &self,
        dir: &Dir,
        name: Name<'_>,
        meta: &Meta,
        caller: Caller,
    ) {
        if self.volatile.any() {
            self.volatile
                .note_made(&dir.path().join(name), meta, caller);
        }
    }

    /// Notes a further name of a file.
    pub(in crate::world) fn note_volatile_link(&self, to: &WorldPath, meta: &Meta) {
        if self.volatile.any() && !self.volatile.covers(to, false) {
            self.volatile.forget(meta.id);
        }
    }

    /// Notes that a node has moved: what has a name outside the patterns, or had one, is kept from now on.
    pub(in crate::world) fn note_volatile_move(
        &self,
        found: &VisibleEntry<'_>,
        (dir, name): (&Dir, Name<'_>),
    ) {
        let files = &self.volatile;
        if !files.any() {
            return;
        }
        let (from, to, meta) = (&found.path(), &dir.path().join(name), &found.meta);
        // An undo moves it back there.
        if found.dir.id() != dir.id() {
            files.forget(found.dir.id());
        }
        let is_dir = meta.is_dir();
        let was = files.covers(from, is_dir) || in_trash(from);
        let is = files.covers(to, is_dir);
        if was && is {
            return;
        }
        if was || is {
            files.forget(meta.id);
        }
        if !is_dir || !(was || is || files.depend_on_place()) {
            return;
        }
        let walked = self.walk(to, |step| {
            if is || !files.covers(step.path, step.is_dir) {
                files.forget(step.id);
            }
            Ok(true)
        });
        if let Err(error) = walked {
            log::debug!("{to}: all volatile files are kept from now on: {error}");
            files.forget_all();
        }
    }

    /// Records that a former content is gone, as volatile: the version has no file.
    pub(in crate::world) fn note_forgone_version(
        &self,
        n: u64,
        loss: VolatileLoss,
        caller: Caller,
    ) {
        let op = Op::Evict {
            versions: vec![(self.session.clone(), n)],
            volatile: vec![loss],
        };
        if let Err(error) = self.journal.note(op, Some(&self.author(caller))) {
            log::warn!("that a volatile content is gone could not be recorded: {error}");
        }
        self.finalizer.pending().note_evicted(n);
    }
}
