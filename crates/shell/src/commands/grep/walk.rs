//! `grep -r`: visits all files below a directory, in the order of their names, depth first.
//!
//! A second thread lists directories and opens files ahead of the search: with many small files, opening takes as
//! long as searching. Files arrive in batches through a bounded channel, so their order is kept and few are open at a
//! time. The thread ends when the receiver is dropped. Memory is that of the listings of the directories on the
//! current path.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;

use rustix::fs::FileType;

use super::GrepRun;
use super::filter::FileFilter;
use crate::deadline::Deadline;
use trumanfs_executor::Home;
use trumanfs_executor::home::DirEntry;
use trumanfs_types::error::Result;
use trumanfs_types::name::{Name, WorldPath};

/// The number of files in a batch, chosen so that the two threads seldom wait for each other. At most three batches are
/// open at a time.
const BATCH: usize = 24;

impl GrepRun<'_, '_> {
    /// Searches everything below a directory, printed as typed; with no prefix where nothing was typed.
    pub(super) fn walk(&mut self, typed: &[u8], path: WorldPath) -> io::Result<()> {
        let mut walk = FileWalk {
            home: self.call.home(),
            filter: self.options.filter.clone(),
            deadline: self.call.state.deadline.clone(),
            shown: typed.to_vec(),
            levels: Vec::new(),
        };
        if !typed.is_empty() {
            let end = typed.iter().rposition(|b| *b != b'/').map(|at| at + 1);
            walk.shown.truncate(end.unwrap_or(0));
            walk.shown.push(b'/');
        }
        thread::scope(|scope| {
            let (sender, found) = sync_channel(1);
            thread::Builder::new().spawn_scoped(scope, move || {
                if let Err(error) = walk.enter(path) {
                    let _ = sender.send(vec![(walk.shown, Err(error))]);
                    return;
                }
                loop {
                    let batch: Vec<_> = walk.by_ref().take(BATCH).collect();
                    if batch.is_empty() || sender.send(batch).is_err() {
                        return;
                    }
                }
            })?;
            for (shown, opened) in found.into_iter().flatten() {
                self.call.check()?;
                match opened {
                    Ok(file) => self.search_file(&shown, file)?,
                    Err(error) => self.report_path_error(&shown, &error)?,
                }
                if self.is_done() {
                    break;
                }
            }
            // The walk ends early where the time limit has passed.
            self.call.check()
        })
    }
}

/// An iterator over the files below a directory.
struct FileWalk {
    home: Arc<dyn Home>,
    filter: FileFilter,
    deadline: Deadline,
    /// The name of the next file as printed.
    shown: Vec<u8>,
    levels: Vec<WalkLevel>,
}

/// A directory being walked.
struct WalkLevel {
    path: WorldPath,
    /// The length of its name as printed, with a slash after it.
    shown: usize,
    entries: std::vec::IntoIter<DirEntry>,
}

impl FileWalk {
    /// Enters the directory whose name, with a slash after it, is in `shown`.
    fn enter(&mut self, path: WorldPath) -> Result<()> {
        let mut entries = self.home.list(&path)?;
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        self.levels.push(WalkLevel {
            path,
            shown: self.shown.len(),
            entries: entries.into_iter(),
        });
        Ok(())
    }
}

impl Iterator for FileWalk {
    /// A file's name as printed, and the open file or the reason why it, or a directory, cannot be read.
    type Item = (Vec<u8>, Result<File>);

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(level) = self.levels.last_mut() {
            self.deadline.check().ok()?;
            let Some(entry) = level.entries.next() else {
                self.levels.pop();
                continue;
            };
            let Ok(name) = Name::new(&entry.name) else {
                continue;
            };
            let path = level.path.join(name);
            self.shown.truncate(level.shown);
            self.shown.extend_from_slice(&entry.name);
            match entry.kind {
                FileType::RegularFile if self.filter.accepts_found(&entry.name) => {
                    return Some((self.shown.clone(), self.home.open(&path)));
                }
                FileType::Directory if self.filter.enters_found(&entry.name) => {
                    let end = self.shown.len();
                    self.shown.push(b'/');
                    if let Err(error) = self.enter(path) {
                        self.shown.truncate(end);
                        return Some((self.shown.clone(), Err(error)));
                    }
                }
                _ => {}
            }
        }
        None
    }
}
