//! Rows: one for each file, in columns as wide as the widest entry of the files listed together.

use std::io::{self, Write};
use std::rc::Rc;

use rustix::fs::FileType;

use super::file::ListedFile;
use super::flags::{LsSettings, TypeMark};
use super::owners::OwnerNames;
use super::times::current_time;
use crate::call::Call;
use trumanfs_types::meta::{Meta, Time};

/// The printer of rows.
pub(super) struct RowPrinter<'s> {
    settings: &'s LsSettings,
    owners: OwnerNames,
    now: Time,
    widths: ColumnWidths,
}

#[derive(Debug, Default)]
struct ColumnWidths {
    inode: usize,
    blocks: usize,
    links: usize,
    user: usize,
    group: usize,
    size: usize,
}

impl<'s> RowPrinter<'s> {
    /// Makes an empty set of rows for these settings.
    pub(super) fn new(settings: &'s LsSettings) -> RowPrinter<'s> {
        RowPrinter {
            settings,
            owners: OwnerNames::default(),
            now: current_time(),
            widths: ColumnWidths::default(),
        }
    }

    /// Sets the column widths for these files.
    pub(super) fn measure(&mut self, files: &[ListedFile]) {
        let mut widths = ColumnWidths::default();
        let widen = |width: &mut usize, length: usize| *width = length.max(*width);
        for file in files {
            widen(&mut widths.inode, digits(file.ino));
            let Some(meta) = &file.meta else {
                continue;
            };
            if self.settings.blocks {
                let blocks = self.settings.scale.blocks(meta.blocks);
                widen(&mut widths.blocks, blocks.len());
            }
            if self.settings.long {
                widen(&mut widths.links, digits(meta.nlink.into()));
                widen(&mut widths.size, self.settings.scale.bytes(meta.size).len());
                let length = |name: Option<Rc<[u8]>>, number: u32| {
                    name.map_or_else(|| digits(number.into()), |name| name.len())
                };
                widen(&mut widths.user, length(self.user(meta), meta.uid));
                widen(&mut widths.group, length(self.group(meta), meta.gid));
            }
        }
        self.widths = widths;
    }

    /// Prints the total space of these files.
    pub(super) fn print_total(&self, call: &mut Call<'_>, files: &[ListedFile]) -> io::Result<()> {
        if !self.settings.long && !self.settings.blocks {
            return Ok(());
        }
        let metas = files.iter().filter_map(|file| file.meta.as_ref());
        let blocks = metas.fold(0u64, |sum, meta| sum.saturating_add(meta.blocks));
        write!(call.out, "total {}", self.settings.scale.blocks(blocks))?;
        call.out.write_all(&[self.settings.end])
    }

    /// Prints these files.
    pub(super) fn print(&mut self, call: &mut Call<'_>, files: &[ListedFile]) -> io::Result<()> {
        for file in files {
            call.check()?;
            if self.settings.inodes {
                write!(call.out, "{:1$} ", file.ino, self.widths.inode)?;
            }
            if let Some(meta) = &file.meta {
                if self.settings.blocks {
                    let blocks = self.settings.scale.blocks(meta.blocks);
                    write!(call.out, "{blocks:>0$} ", self.widths.blocks)?;
                }
                if self.settings.long {
                    self.print_attributes(meta, &mut call.out)?;
                }
            }
            call.out.write_all(&file.name)?;
            call.out.write_all(type_mark(file, self.settings.mark))?;
            call.out.write_all(&[self.settings.end])?;
        }
        Ok(())
    }

    fn print_attributes(&mut self, meta: &Meta, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&mode_letters(meta))?;
        write!(out, " {:1$} ", meta.nlink, self.widths.links)?;
        if self.settings.owners {
            print_owner(self.user(meta).as_deref(), meta.uid, self.widths.user, out)?;
        }
        if self.settings.groups {
            print_owner(
                self.group(meta).as_deref(),
                meta.gid,
                self.widths.group,
                out,
            )?;
        }
        let size = self.settings.scale.bytes(meta.size);
        let time = self.settings.stamp.of(meta);
        let time = self.settings.style.format_time(time, &mut self.now);
        write!(out, "{size:>0$} ", self.widths.size)?;
        out.write_all(&time)?;
        out.write_all(b" ")
    }

    fn user(&self, meta: &Meta) -> Option<Rc<[u8]>> {
        let named = self.settings.owners && !self.settings.numbers;
        named.then(|| self.owners.user(meta.uid))?
    }

    fn group(&self, meta: &Meta) -> Option<Rc<[u8]>> {
        let named = self.settings.groups && !self.settings.numbers;
        named.then(|| self.owners.group(meta.gid))?
    }
}

/// Writes a file's owner: names left-aligned, numbers right-aligned.
fn print_owner(
    name: Option<&[u8]>,
    number: u32,
    width: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    match name {
        Some(name) => {
            out.write_all(name)?;
            write!(out, "{:1$} ", "", width.saturating_sub(name.len()))
        }
        None => write!(out, "{number:width$} "),
    }
}

fn digits(number: u64) -> usize {
    number
        .checked_ilog10()
        .map_or(1, |log| usize::try_from(log).unwrap_or(0) + 1)
}

/// Returns the file type and mode as letters.
pub(in super::super) fn mode_letters(meta: &Meta) -> [u8; 10] {
    let bit = |bit: u32, letter: u8| if meta.mode & bit != 0 { letter } else { b'-' };
    // The special bits share a letter with the execute permission.
    let execute =
        |bit: u32, special: u32, letter: u8| match (meta.mode & bit != 0, meta.mode & special != 0)
        {
            (true, true) => letter,
            (false, true) => letter.to_ascii_uppercase(),
            (true, false) => b'x',
            (false, false) => b'-',
        };
    let kind = match meta.kind {
        FileType::RegularFile => b'-',
        FileType::Directory => b'd',
        FileType::Fifo => b'p',
        FileType::Socket => b's',
        FileType::CharacterDevice => b'c',
        FileType::BlockDevice => b'b',
        FileType::Symlink => b'l',
        FileType::Unknown => b'?',
    };
    [
        kind,
        bit(0o400, b'r'),
        bit(0o200, b'w'),
        execute(0o100, 0o4000, b's'),
        bit(0o040, b'r'),
        bit(0o020, b'w'),
        execute(0o010, 0o2000, b's'),
        bit(0o004, b'r'),
        bit(0o002, b'w'),
        execute(0o001, 0o1000, b't'),
    ]
}

/// Returns the mark after a name.
fn type_mark(file: &ListedFile, mark: TypeMark) -> &'static [u8] {
    let executable = file.meta.is_some_and(|meta| meta.mode & 0o111 != 0);
    match file.kind {
        FileType::Directory if mark >= TypeMark::Slash => b"/",
        FileType::Fifo if mark >= TypeMark::Type => b"|",
        FileType::Socket if mark >= TypeMark::Type => b"=",
        FileType::RegularFile if mark == TypeMark::Classify && executable => b"*",
        _ => b"",
    }
}
