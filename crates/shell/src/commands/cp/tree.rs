//! Copies a tree: one operand of `cp`, and everything below it.

use std::collections::HashSet;
use std::io::{self, Write};

use rustix::fs::FileType;

use super::super::target::{
    NamedPath, into_itself_message, is_recent, join_path, report_transfer_error, same_file_message,
    type_conflict,
};
use super::content::{CopyError, copy_content};
use super::preserve::PreservedAttrs;
use super::xattr::copy_user_xattrs;
use crate::call::Call;
use crate::quote::quoted;
use trumanfs_executor::home::WriteMode;
use trumanfs_types::error::Error;
use trumanfs_types::meta::Meta;
use trumanfs_types::name::{Name, WorldPath};

/// A pending copy: source and destination.
#[derive(Debug)]
pub(super) struct CopyPair {
    pub(super) from: NamedPath,
    pub(super) to: NamedPath,
}

/// A step of copying a tree.
#[derive(Debug)]
enum CopyTask {
    Copy(CopyPair),
    /// A directory whose content has been copied, and the mode that it was created with, if it was created.
    Close(CopyPair, Meta, Option<u32>),
}

/// The copies still to be made for one operand.
#[derive(Debug)]
struct TreeCopy {
    pending: Vec<CopyTask>,
    /// The directories created so far, where the destination lies within the source.
    within: Option<HashSet<WorldPath>>,
    /// True if the copy into itself has been reported.
    reported: bool,
}

/// The options of copying a tree.
#[derive(Default)]
pub(super) struct CopyOptions {
    pub(super) keep: PreservedAttrs,
    pub(super) force: bool,
    pub(super) no_clobber: bool,
    pub(super) update: bool,
    pub(super) verbose: bool,
    /// True if `mv` copies, whose messages differ.
    pub(super) moves: bool,
}

impl CopyOptions {
    /// Copies a tree. Returns whether all of it was copied.
    pub(super) fn copy_tree(&self, call: &mut Call<'_>, top: CopyPair) -> io::Result<bool> {
        let inside = into_itself_message(&top.from.shown, &top.to.shown);
        let mut tree = TreeCopy {
            reported: false,
            within: top.from.path.contains(&top.to.path).then(HashSet::new),
            pending: vec![CopyTask::Copy(top)],
        };
        let mut done = true;
        while let Some(step) = tree.pending.pop() {
            call.check()?;
            let copy = match step {
                CopyTask::Close(copy, meta, made) => {
                    done &= self.apply_attributes(call, &copy, &meta, made)?;
                    continue;
                }
                CopyTask::Copy(copy) => copy,
            };
            // Copying the copy would never end. The rest of the source is still copied.
            let of_copy = |made: &HashSet<WorldPath>| made.contains(&copy.from.path);
            if tree.within.as_ref().is_some_and(of_copy) {
                if !std::mem::replace(&mut tree.reported, true) {
                    call.report(&inside)?;
                }
                done = false;
                continue;
            }
            let meta = match call.home().stat(&copy.from.path) {
                Ok(meta) => meta,
                Err(error) => {
                    call.report_path_error(&copy.from.shown, &error)?;
                    done = false;
                    continue;
                }
            };
            done &= match meta.kind {
                FileType::Directory => self.copy_directory(call, copy, meta, &mut tree)?,
                FileType::RegularFile => self.copy_file(call, &copy, &meta)?,
                _ => {
                    let shown = call.state.as_typed(&copy.from.shown);
                    call.report(
                        &[&shown[..], b": not copied, for it is no regular file"].concat(),
                    )?;
                    false
                }
            };
        }
        Ok(done)
    }

    /// Creates a directory and queues the copies of its source's entries.
    fn copy_directory(
        &self,
        call: &mut Call<'_>,
        copy: CopyPair,
        meta: Meta,
        tree: &mut TreeCopy,
    ) -> io::Result<bool> {
        let home = call.home();
        let mut made = None;
        match home.stat(&copy.to.path) {
            Ok(there) => {
                let refused = if there.id == meta.id {
                    Some(same_file_message(&copy.from.shown, &copy.to.shown))
                } else {
                    type_conflict((&copy.from.shown, &meta), (&copy.to.shown, &there))
                };
                if let Some(message) = refused {
                    call.report(&message)?;
                    return Ok(false);
                }
            }
            Err(_) => {
                let mode = self.keep.directory_mode(&meta);
                if let Err(error) = home.mkdir(&copy.to.path, mode) {
                    report_transfer_error(call, &copy.from.shown, &copy.to.shown, &error)?;
                    return Ok(false);
                }
                made = Some(mode);
                if let Some(within) = &mut tree.within {
                    within.insert(copy.to.path.clone());
                }
                self.report_copy(call, &copy, true)?;
            }
        }
        let mut entries = match home.list(&copy.from.path) {
            Ok(entries) => entries,
            Err(error) => {
                call.report_path_error(&copy.from.shown, &error)?;
                return Ok(false);
            }
        };
        // GNU cp goes through a directory in the order of inode numbers; entries are popped from the end.
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.ino));
        let below = |dir: &NamedPath, name: &[u8]| {
            let joined = join_path(&dir.shown, name);
            Name::new(name).map(|name| NamedPath {
                path: dir.path.join(name),
                shown: joined,
            })
        };
        let inner = entries.iter().filter_map(|entry| {
            Some(CopyTask::Copy(CopyPair {
                from: below(&copy.from, &entry.name).ok()?,
                to: below(&copy.to, &entry.name).ok()?,
            }))
        });
        let inner: Vec<CopyTask> = inner.collect();
        tree.pending.push(CopyTask::Close(copy, meta, made));
        tree.pending.extend(inner);
        Ok(true)
    }

    fn copy_file(&self, call: &mut Call<'_>, copy: &CopyPair, meta: &Meta) -> io::Result<bool> {
        let there = match call.home().stat(&copy.to.path) {
            Ok(there) => Some(there),
            Err(Error::NotFound) => None,
            Err(error) => {
                call.report_path_error(&copy.to.shown, &error)?;
                return Ok(false);
            }
        };
        if let Some(there) = &there {
            if self.no_clobber {
                return Ok(true);
            }
            let refused = if there.id == meta.id {
                Some(same_file_message(&copy.from.shown, &copy.to.shown))
            } else if self.update && is_recent(there, meta) {
                return Ok(true);
            } else {
                type_conflict((&copy.from.shown, meta), (&copy.to.shown, there))
            };
            if let Some(message) = refused {
                call.report(&message)?;
                return Ok(false);
            }
        }
        self.report_copy(call, copy, false)?;
        let from = match call.home().open(&copy.from.path) {
            Ok(from) => from,
            Err(error) => {
                call.report_path_error(&copy.from.shown, &error)?;
                return Ok(false);
            }
        };
        let mode = self.keep.file_mode(meta);
        let to = match self.open_destination(call, copy, there.is_some(), mode)? {
            Ok(to) => to,
            Err(Error::Exists) if self.no_clobber => return Ok(true),
            Err(error) => {
                report_transfer_error(call, &copy.from.shown, &copy.to.shown, &error)?;
                return Ok(false);
            }
        };
        match copy_content(call, &from, &to) {
            Ok(()) => {}
            Err(CopyError::TimedOut(error)) => return Err(error),
            Err(CopyError::Read(error)) => {
                call.report_path_error(&copy.from.shown, &error)?;
                return Ok(false);
            }
            Err(CopyError::Write(error)) => {
                call.report_path_error(&copy.to.shown, &error)?;
                return Ok(false);
            }
        }
        if self.moves
            && let Err(error) = copy_user_xattrs(&from, &to)
        {
            // The move goes on, as GNU's does.
            call.report_path_error(&copy.to.shown, &error)?;
        }
        // Closed first, so that no later write changes the time that is set.
        drop(to);
        self.apply_attributes(call, copy, meta, there.is_none().then_some(mode))
    }

    /// Opens a destination for writing. With `-f`, a destination that cannot be opened is moved to the trash.
    fn open_destination(
        &self,
        call: &mut Call<'_>,
        copy: &CopyPair,
        there: bool,
        mode: u32,
    ) -> io::Result<Result<std::fs::File, Error>> {
        let (home, path) = (call.home(), &copy.to.path);
        if !there {
            return Ok(home.open_write(path, WriteMode::New, mode));
        }
        match home.open_write(path, WriteMode::Truncate, mode) {
            Err(_) if self.force => {
                if let Err(error) = home.remove(path) {
                    return Ok(Err(error));
                }
                if self.verbose {
                    call.out
                        .write_all(&[b"removed ", &quoted(&copy.to.shown)[..], b"\n"].concat())?;
                }
                Ok(home.open_write(path, WriteMode::New, mode))
            }
            opened => Ok(opened),
        }
    }

    /// Sets the preserved attributes on a copy. `made` is the mode that it was created with, if this call created it.
    fn apply_attributes(
        &self,
        call: &mut Call<'_>,
        copy: &CopyPair,
        meta: &Meta,
        made: Option<u32>,
    ) -> io::Result<bool> {
        match self.keep.apply(&*call.home(), &copy.to.path, meta, made) {
            Ok(()) => Ok(true),
            Err(error) => call
                .report_path_error(&copy.to.shown, &error)
                .map(|()| false),
        }
    }

    fn report_copy(&self, call: &mut Call<'_>, copy: &CopyPair, directory: bool) -> io::Result<()> {
        if !self.verbose {
            return Ok(());
        }
        let (from, to) = (quoted(&copy.from.shown), quoted(&copy.to.shown));
        let line: &[&[u8]] = match (self.moves, directory) {
            (true, true) => &[b"created directory ", &to, b"\n"],
            (true, false) => &[b"copied ", &from, b" -> ", &to, b"\n"],
            (false, _) => &[&from, b" -> ", &to, b"\n"],
        };
        call.out.write_all(&line.concat())
    }
}
