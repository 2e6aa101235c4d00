//! The content of a file at a point: versions over what came later, down to what is on the disk now.
//!
//! Owns how a kept content is read back. A [`Layer`] stands for one record; [`Content`] is the layers of one file, opened
//! and laid out as ranges of the files that hold them, with the holes known. A version that is missing, or is not what its
//! record says, is an error that names it: nothing is made up.

use std::fs::File;
use std::io::Read;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::copy::{copy_bytes, each_data, io_error};
use super::layer::{Kind, Layer, ranges, version};
use crate::error::{Error, Result};
use crate::operator::Store;

/// A content, open for reading.
#[derive(Debug)]
pub struct Content {
    /// In order, without overlap; what lies between is a hole.
    parts: Vec<Part>,
    files: Vec<File>,
    size: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    start: u64,
    end: u64,
    file: usize,
}

impl Content {
    /// Returns the content of an empty file.
    pub fn empty() -> Content {
        Content {
            parts: Vec::new(),
            files: Vec::new(),
            size: 0,
        }
    }

    /// Opens what layers say; `now` opens what is on the disk, where that is needed.
    ///
    /// # Errors
    /// [`Error::Missing`] naming a version that is not there; [`Error::Damaged`] where one is not what its record says;
    /// those of `now`.
    pub fn open(
        store: &Store,
        top: Option<&Arc<Layer>>,
        now: impl FnOnce() -> Result<File>,
    ) -> Result<Content> {
        let mut layers = Vec::new();
        let mut at = top;
        while let Some(layer) = at {
            layers.push(layer);
            // Nothing of what is below can show.
            if layer.size == Some(0) {
                break;
            }
            at = layer.below.as_ref();
        }
        let mut content = Content::empty();
        let starts_whole = layers
            .last()
            .is_some_and(|layer| matches!(layer.kind, Kind::Whole(..)) || layer.size == Some(0));
        if !starts_whole {
            content.become_file(now()?)?;
        }
        for layer in layers.iter().rev() {
            content.put(store, layer)?;
        }
        Ok(content)
    }

    fn put(&mut self, store: &Store, layer: &Layer) -> Result<()> {
        let of = || format!("operation {}:{}", layer.record.0, layer.record.1);
        match &layer.kind {
            Kind::Whole(session, n) => {
                self.become_file(version(store, session, *n, &of)?)?;
                if layer.size.is_some_and(|size| self.size < size) {
                    return Err(Error::Damaged(format!(
                        "the content before {} (version {n}) is shorter than its record says: somebody cut it, or the power went before it was on the disk",
                        of()
                    )));
                }
            }
            Kind::Same => {}
            Kind::Ranges(session, n) => {
                let file = version(store, session, *n, &of)?;
                let ranges = ranges(store, session, *n, &of)?;
                self.files.push(file);
                self.lay(&ranges, self.files.len() - 1);
            }
        }
        if let Some(size) = layer.size {
            self.cut(size);
        }
        Ok(())
    }

    fn become_file(&mut self, file: File) -> Result<()> {
        let size = file.metadata().map_err(|e| io_error("stat", &e))?.len();
        self.parts.clear();
        self.files.clear();
        self.files.push(file);
        self.parts.push(Part {
            start: 0,
            end: size,
            file: 0,
        });
        self.size = size;
        Ok(())
    }

    /// Lets ranges come from another file.
    fn lay(&mut self, ranges: &[(u64, u64)], file: usize) {
        let mut laid = Vec::with_capacity(self.parts.len() + 2 * ranges.len());
        let mut news = ranges.iter().peekable();
        for part in &self.parts {
            let mut part = *part;
            while let Some((start, end)) = news.peek().copied().copied() {
                if start >= part.end {
                    break;
                }
                if part.start < start {
                    laid.push(Part { end: start, ..part });
                }
                part.start = part.start.max(end).min(part.end);
                if end > part.end {
                    break; // It goes on into the next part.
                }
                laid.push(Part { start, end, file });
                news.next();
            }
            if part.start < part.end {
                laid.push(part);
            }
        }
        laid.extend(news.map(|(start, end)| Part {
            start: *start,
            end: *end,
            file,
        }));
        laid.sort_unstable_by_key(|part| part.start);
        self.parts = laid;
        let end = self.parts.last().map_or(0, |part| part.end);
        self.size = self.size.max(end);
    }

    fn cut(&mut self, size: u64) {
        self.parts.retain(|part| part.start < size);
        if let Some(last) = self.parts.last_mut() {
            last.end = last.end.min(size);
        }
        self.size = size;
    }

    /// Returns its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Reads some bytes at an offset; none at the end.
    ///
    /// # Errors
    /// What `pread(2)` says.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let left = self.size.saturating_sub(offset);
        let want = usize::try_from(left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        if want == 0 {
            return Ok(0);
        }
        let next = self.parts.partition_point(|part| part.end <= offset);
        let room = |end: u64| {
            usize::try_from(end - offset)
                .unwrap_or(usize::MAX)
                .min(want)
        };
        match self.parts.get(next) {
            Some(part) if part.start <= offset => {
                let buffer = buffer.get_mut(..room(part.end)).unwrap_or_default();
                let file = self.files.get(part.file).ok_or(Error::NotFound)?;
                match file
                    .read_at(buffer, offset)
                    .map_err(|e| io_error("pread", &e))?
                {
                    // The version (or the file) ends before its range does: the rest was a hole.
                    0 => {
                        buffer.fill(0);
                        Ok(buffer.len())
                    }
                    read => Ok(read),
                }
            }
            next => {
                let end = next.map_or(self.size, |part| part.start);
                let hole = buffer.get_mut(..room(end)).unwrap_or_default();
                hole.fill(0);
                Ok(hole.len())
            }
        }
    }

    /// Returns a reader over all of it.
    pub fn reader(&self) -> Reader<'_> {
        Reader {
            content: self,
            offset: 0,
        }
    }

    /// Returns whether another content has the same bytes.
    ///
    /// # Errors
    /// As [`Content::read_at`].
    pub fn equals(&self, other: &Content) -> Result<bool> {
        if self.size != other.size {
            return Ok(false);
        }
        let (mut one, mut two) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        let mut offset = 0;
        while offset < self.size {
            let read = self.read_at(&mut one, offset)?;
            let part = two.get_mut(..read).unwrap_or_default();
            let read = other.read_at(part, offset)?;
            if read == 0 || one.get(..read) != two.get(..read) {
                return Ok(false);
            }
            offset += read as u64;
        }
        Ok(true)
    }

    /// Returns where it has data rather than holes: starts and ends.
    ///
    /// # Errors
    /// What `lseek(2)` says.
    pub fn data(&self) -> Result<Vec<(u64, u64)>> {
        let mut data: Vec<(u64, u64)> = Vec::new();
        for part in &self.parts {
            let file = self.files.get(part.file).ok_or(Error::NotFound)?;
            each_data(file, part.start, part.end, |start, end| {
                match data.last_mut() {
                    Some(last) if last.1 == start => last.1 = end,
                    _ => data.push((start, end)),
                }
                Ok(())
            })?;
        }
        Ok(data)
    }

    /// Copies all of it to an empty file. Blocks are shared where the file system can, and holes stay holes.
    ///
    /// # Errors
    /// What the system calls say, `ENOSPC` above all.
    pub fn copy_to(&self, to: BorrowedFd<'_>) -> Result<()> {
        if let [part] = self.parts.as_slice()
            && let Some(file) = self.files.get(part.file)
            && part.start == 0
            && part.end == self.size
            && file.metadata().is_ok_and(|meta| meta.len() == self.size)
            && rustix::fs::ioctl_ficlone(to, file).is_ok()
        {
            return Ok(());
        }
        for part in &self.parts {
            let file = self.files.get(part.file).ok_or(Error::NotFound)?;
            each_data(file, part.start, part.end, |start, end| {
                copy_bytes(file, to, start, end)
            })?;
        }
        rustix::fs::ftruncate(to, self.size).map_err(Error::os("ftruncate"))
    }
}

/// Reads a content from its start to its end.
#[derive(Debug)]
pub struct Reader<'a> {
    content: &'a Content,
    offset: u64,
}

impl Read for Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.content.read_at(buffer, self.offset);
        let read = read.map_err(|error| std::io::Error::from(error.errno()))?;
        self.offset += read as u64;
        Ok(read)
    }
}
