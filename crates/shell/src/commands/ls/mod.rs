//! `ls`: lists files and directories. Owns the selection of entries, their order and their headings.
//!
//! A directory takes two passes: the first gathers its entries, since columns are as wide as their widest entry; the
//! second prints. So memory grows with the largest directory, not with the tree.

mod file;
mod flags;
mod keyword;
mod order;
mod owners;
mod rows;
mod size;
mod sort;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests;
mod times;

use std::io::Write;

use rustix::fs::FileType;

use crate::call::{Call, CommandError, CommandResult};
use file::ListedFile;
use flags::{HiddenNames, LsSettings, TypeMark};
use keyword::OPERAND_ERROR_STATUS;
use order::SortOrder;
pub(super) use owners::OwnerNames;
use rows::RowPrinter;
pub(super) use rows::mode_letters;
use trumanfs_executor::home::DirEntry;
use trumanfs_types::error::Error;
use trumanfs_types::name::{Name, WorldPath};

/// The status where something below an operand cannot be listed.
const ENTRY_ERROR_STATUS: u8 = 1;

/// The number of entries whose attributes are requested at once.
const BATCH: usize = 64;

/// A directory that is still to be listed.
struct PendingDirectory {
    /// Its name as printed.
    name: Vec<u8>,
    path: WorldPath,
    /// True if the directory is an operand.
    is_operand: bool,
}

/// Lists the operands, or the working directory.
pub(crate) fn ls(call: &mut Call<'_>) -> CommandResult {
    let (settings, mut operands) = LsSettings::read(call.args)?;
    if operands.is_empty() {
        operands.push(b".");
    }
    let mut listing = Listing {
        rows: RowPrinter::new(&settings),
        settings: &settings,
        titles: settings.recursive || operands.len() > 1,
        begun: false,
        status: 0,
    };
    listing.list_operands(call, &operands)?;
    Ok(listing.status)
}

/// A call of `ls`.
struct Listing<'s> {
    settings: &'s LsSettings,
    rows: RowPrinter<'s>,
    /// True if directories have a title.
    titles: bool,
    /// True once anything has been printed, so that an empty line goes before the next title.
    begun: bool,
    status: u8,
}

impl Listing<'_> {
    /// Lists the operands: files first, then the contents of directories.
    fn list_operands(
        &mut self,
        call: &mut Call<'_>,
        operands: &[&[u8]],
    ) -> Result<(), CommandError> {
        let mut files = Vec::new();
        for typed in operands {
            call.check()?;
            let found = call.path(typed).and_then(|path| call.home().stat(&path));
            match found {
                Ok(meta) => files.push(ListedFile::new(typed, meta)),
                Err(error) => self.report_path_error(call, typed, &error, OPERAND_ERROR_STATUS)?,
            }
        }
        sort::sort(&mut files, self.settings);
        // Column widths depend on all operands.
        self.rows.measure(&files);
        let (dirs, files): (Vec<ListedFile>, Vec<ListedFile>) = files
            .into_iter()
            .partition(|file| file.is_dir() && !self.settings.directories_as_files);
        self.rows.print(call, &files)?;
        self.begun = !files.is_empty();
        let mut pending = Vec::new();
        for dir in dirs.into_iter().rev() {
            if let Ok(path) = call.path(&dir.name) {
                pending.push(PendingDirectory {
                    name: dir.name,
                    path,
                    is_operand: true,
                });
            }
        }
        while let Some(dir) = pending.pop() {
            self.list_directory(call, &dir, &mut pending)?;
        }
        Ok(())
    }

    /// Lists the content of a directory, and queues the directories below it.
    fn list_directory(
        &mut self,
        call: &mut Call<'_>,
        dir: &PendingDirectory,
        pending: &mut Vec<PendingDirectory>,
    ) -> Result<(), CommandError> {
        let mut files = match self.read_entries(call, dir)? {
            Ok(files) => files,
            Err(error) => {
                let status = if dir.is_operand {
                    OPERAND_ERROR_STATUS
                } else {
                    ENTRY_ERROR_STATUS
                };
                return self.report_path_error(call, &dir.name, &error, status);
            }
        };
        sort::sort(&mut files, self.settings);
        if self.titles {
            let blank: &[u8] = if self.begun { b"\n" } else { b"" };
            call.out.write_all(&[blank, &dir.name, b":\n"].concat())?;
        }
        self.begun = true;
        self.rows.measure(&files);
        self.rows.print_total(call, &files)?;
        self.rows.print(call, &files)?;
        if self.settings.recursive {
            for file in files.iter().rev().filter(|file| file.is_dir()) {
                // `.` and `..` are not names.
                if let Ok(name) = Name::new(&file.name) {
                    pending.push(PendingDirectory {
                        name: entry_path(&dir.name, &file.name),
                        path: dir.path.join(name),
                        is_operand: false,
                    });
                }
            }
        }
        Ok(())
    }

    fn read_entries(
        &mut self,
        call: &mut Call<'_>,
        dir: &PendingDirectory,
    ) -> Result<Result<Vec<ListedFile>, Error>, CommandError> {
        let home = call.home();
        let entries = match home.list(&dir.path) {
            Ok(entries) => entries,
            Err(error) => return Ok(Err(error)),
        };
        let mut files = Vec::new();
        if self.settings.hidden == HiddenNames::All {
            // The root's parent is the root itself.
            let above = dir.path.parent().unwrap_or_default();
            for (name, path) in [(&b"."[..], &dir.path), (b"..", &above)] {
                if self.settings.is_listed(name)
                    && let Ok(meta) = home.stat(path)
                {
                    files.push(ListedFile::new(name, meta));
                }
            }
        }
        let lists = |entry: &DirEntry| self.settings.is_listed(&entry.name);
        let entries: Vec<DirEntry> = entries.into_iter().filter(lists).collect();
        for some in entries.chunks(BATCH) {
            call.check()?;
            let needed = some.iter().filter(|entry| self.needs_meta(entry.kind));
            let names: Vec<&[u8]> = needed.map(|entry| &entry.name[..]).collect();
            let metas = if names.is_empty() {
                Vec::new()
            } else {
                // If the directory has gone meanwhile, so have its entries.
                home.stat_entries(&dir.path, &names).unwrap_or_default()
            };
            let mut metas = metas.into_iter();
            for entry in some {
                let file = if self.needs_meta(entry.kind) {
                    match metas.next().unwrap_or(Err(Error::NotFound)) {
                        Ok(meta) => ListedFile::new(&entry.name, meta),
                        Err(error) => {
                            let name = entry_path(&dir.name, &entry.name);
                            self.report_path_error(call, &name, &error, ENTRY_ERROR_STATUS)?;
                            continue;
                        }
                    }
                } else {
                    ListedFile {
                        name: entry.name.clone(),
                        kind: entry.kind,
                        ino: entry.ino,
                        meta: None,
                    }
                };
                files.push(file);
            }
        }
        Ok(Ok(files))
    }

    fn needs_meta(&self, kind: FileType) -> bool {
        let settings = self.settings;
        settings.long
            || settings.blocks
            || matches!(settings.order, SortOrder::Time | SortOrder::Size)
            || (settings.mark == TypeMark::Classify && kind == FileType::RegularFile)
    }

    fn report_path_error(
        &mut self,
        call: &mut Call<'_>,
        name: &[u8],
        error: &Error,
        status: u8,
    ) -> Result<(), CommandError> {
        self.status = self.status.max(status);
        Ok(call.report_path_error(name, error)?)
    }
}

/// Returns the printed path of a directory's entry.
fn entry_path(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if dir.ends_with(b"/") { b"" } else { b"/" };
    [dir, slash, name].concat()
}
