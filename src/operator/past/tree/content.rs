//! The content of a file at a point: versions laid over later contents, down to the one on the disk now.
//!
//! Owns reading back kept contents. A [`ContentLayer`] stands for one record; [`PastContent`] is the layers of one
//! file, opened and mapped as ranges of the files that hold them. Nothing is made up: a missing version is an error
//! that names it, and of an incomplete one the surviving part is readable and the rest is [`MissingPart`].

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::operator::Store;
use crate::operator::past::tree::copy::{copy_bytes, digest_of, each_data, io_error};
use crate::operator::past::tree::layer::{
    ContentLayer, LayerKind, OpenVersion, describe_record, layer_behind, version,
};
use crate::operator::past::tree::missing_part::{MissingPart, OUTSIDE, WHY};
use crate::world::holes::{is_reserved_beyond_end, reserved_ranges};

/// A content opened for reading.
#[derive(Debug)]
pub struct PastContent {
    /// The parts in order, without overlap or gap.
    parts: Vec<ContentPart>,
    files: Vec<File>,
    size: u64,
    missing: Option<MissingPart>,
    /// True if what is unknown was changed outside the home.
    is_outside: bool,
}

/// A range of a content, and the file that holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ContentPart {
    start: u64,
    end: u64,
    /// The file that holds the part; `None` where it is lost.
    file: Option<usize>,
}

impl PastContent {
    /// Returns the content of an empty file.
    pub fn empty() -> PastContent {
        PastContent {
            parts: Vec::new(),
            files: Vec::new(),
            size: 0,
            missing: None,
            is_outside: false,
        }
    }

    /// Opens the content that layers describe; `now` opens the file on the disk where that is needed. A content
    /// assembled from a version and later ones is read in full, to verify its recorded digest.
    ///
    /// # Errors
    /// [`Error::Missing`], naming a version that is not there; [`Error::Damaged`] where nothing readable is left, or
    /// a later content was changed behind the mount; those of `now`. A partial content is returned, with
    /// [`PastContent::missing_part`].
    pub fn open(
        store: &Store,
        top: Option<&Arc<ContentLayer>>,
        now: impl FnOnce() -> Result<File>,
    ) -> Result<PastContent> {
        PastContent::assemble(store, top, now, true)
    }

    /// As [`PastContent::open`], for callers that do not need the bytes: the digest is not verified.
    ///
    /// # Errors
    /// As [`PastContent::open`], except for changes behind the mount.
    pub fn open_unverified(
        store: &Store,
        top: Option<&Arc<ContentLayer>>,
        now: impl FnOnce() -> Result<File>,
    ) -> Result<PastContent> {
        PastContent::assemble(store, top, now, false)
    }

    fn assemble(
        store: &Store,
        top: Option<&Arc<ContentLayer>>,
        now: impl FnOnce() -> Result<File>,
        check: bool,
    ) -> Result<PastContent> {
        let mut layers = Vec::new();
        let mut at = top;
        let mut past: Option<(String, u64)> = None;
        let mut starts_whole = false;
        while let Some(layer) = at {
            at = layer.below.as_ref();
            // An evicted version was folded into the one above.
            if let Some((session, n)) = &past {
                if layer
                    .kind
                    .version()
                    .is_some_and(|(s, v)| **s == **session && v == *n)
                {
                    at = layer_behind(at, session, *n);
                    past = None;
                }
                continue;
            }
            let opened = version(store, &layer.kind, &|| describe_record(layer))?;
            let list = opened.as_ref().map(|opened| opened.list.as_ref());
            past = list.flatten().and_then(|list| list.past.clone());
            starts_whole = list.is_some_and(|list| list.is_none()) || layer.needs_nothing_below();
            layers.push((layer, opened));
            if starts_whole {
                break;
            }
        }
        let mut content = PastContent::empty();
        if !starts_whole {
            content.become_file(now()?)?;
        }
        // The digest of the uppermost version covers everything below it.
        let uppermost = layers.iter().position(|(_, opened)| opened.is_some());
        let doubtful = layers.iter().any(|(layer, _)| layer.doubtful);
        let mut vouched = false;
        let altered = check && is_altered(store, &layers)?;
        for (i, (layer, opened)) in layers.into_iter().enumerate().rev() {
            let digest = match &opened {
                Some(OpenVersion {
                    list: Some(list), ..
                }) if check && Some(i) == uppermost => {
                    list.content.clone().and_then(|(_, digest)| digest)
                }
                _ => None,
            };
            content.put_layer(layer, opened)?;
            if let Some(digest) = digest
                && content.parts.iter().all(|part| part.file.is_some())
            {
                vouched =
                    digest_of(content.size, |buffer, at| content.read_at(buffer, at))? == digest;
                if vouched {
                    continue;
                }
                return Err(Error::Damaged(format!(
                    "the content before {} cannot be put together any more: what it shares with what came after was changed behind the mount, or just now",
                    describe_record(layer)
                )));
            }
        }
        let doubtful = doubtful && !vouched && content.size > 0;
        if !content.end_where_it_is_known(doubtful) {
            if content.is_outside {
                return Err(changed_outside(top));
            }
            return Err(nothing_left(top));
        }
        if altered && !vouched {
            content.note_altered();
        }
        Ok(content)
    }

    /// Ends the content with its last known byte and notes the missing part. Returns whether any byte is known.
    pub(super) fn end_where_it_is_known(&mut self, doubtful: bool) -> bool {
        let of = self.size;
        let lost = self.parts.iter().filter(|part| part.file.is_none());
        let ranges: Vec<(u64, u64)> = lost.map(|part| (part.start, part.end)).collect();
        while self.parts.pop_if(|part| part.file.is_none()).is_some() {}
        self.size = self.parts.last().map_or(0, |part| part.end);
        if doubtful || !ranges.is_empty() {
            self.missing = Some(MissingPart {
                ranges,
                of,
                doubtful,
                altered: false,
                outside: self.is_outside,
            });
        }
        self.size > 0 || of == 0
    }

    /// Notes that a version does not have its digest.
    fn note_altered(&mut self) {
        let none = MissingPart {
            ranges: Vec::new(),
            of: self.size,
            doubtful: false,
            altered: true,
            outside: false,
        };
        self.missing.get_or_insert(none).altered = true;
    }

    /// Returns the part of the content that is lost.
    pub fn missing_part(&self) -> Option<&MissingPart> {
        self.missing.as_ref()
    }

    pub(super) fn put_layer(
        &mut self,
        layer: &ContentLayer,
        opened: Option<OpenVersion>,
    ) -> Result<()> {
        match opened {
            Some(OpenVersion { file, list: None }) => self.become_file(file)?,
            Some(OpenVersion {
                file,
                list: Some(list),
            }) => {
                let size = file.metadata().map_err(|e| io_error("stat", &e))?.len();
                self.files.push(file);
                self.map_ranges(&list.ranges, self.files.len() - 1, size);
            }
            None => match &layer.kind {
                LayerKind::Merged(merged) => {
                    let file = merged.0.try_clone().map_err(|e| io_error("dup", &e))?;
                    self.become_file(file)?;
                }
                LayerKind::Outside => {
                    self.is_outside = true;
                    // Where even the size is unknown, at least one byte is.
                    self.shorten_to(layer.size.unwrap_or(1));
                }
                _ => {}
            },
        }
        if let Some(size) = layer.size {
            self.shorten_to(size);
        }
        Ok(())
    }

    fn become_file(&mut self, file: File) -> Result<()> {
        let size = file.metadata().map_err(|e| io_error("stat", &e))?.len();
        self.parts.clear();
        self.files.clear();
        self.files.push(file);
        self.parts.push(ContentPart {
            start: 0,
            end: size,
            file: Some(0),
        });
        self.size = size;
        Ok(())
    }

    /// Maps ranges to another file, up to that file's end.
    fn map_ranges(&mut self, ranges: &[(u64, u64)], file: usize, size: u64) {
        self.extend_to(ranges.last().map_or(0, |(_, end)| *end));
        let there = |(start, end): &(u64, u64)| {
            (*start < size).then(|| (*start, size.min(*end), Some(file)))
        };
        let gone =
            |(start, end): &(u64, u64)| (size < *end).then(|| (size.max(*start), *end, None));
        let ranges: Vec<_> = ranges
            .iter()
            .flat_map(|range| [there(range), gone(range)].into_iter().flatten())
            .collect();
        let mut laid = Vec::with_capacity(self.parts.len() + 2 * ranges.len());
        let mut news = ranges.iter().peekable();
        for part in &self.parts {
            let mut part = *part;
            while let Some((start, end, file)) = news.peek().copied().copied() {
                if start >= part.end {
                    break;
                }
                if part.start < start {
                    laid.push(ContentPart { end: start, ..part });
                }
                part.start = part.start.max(end).min(part.end);
                if end > part.end {
                    break; // The range goes on into the next part.
                }
                laid.push(ContentPart { start, end, file });
                news.next();
            }
            if part.start < part.end {
                laid.push(part);
            }
        }
        laid.sort_unstable_by_key(|part| part.start);
        self.parts = laid;
    }

    /// Extends the content to at least this size. Destroyed bytes were kept, and the rest is in later contents: where
    /// they are too short, those bytes are lost.
    fn extend_to(&mut self, size: u64) {
        if self.size < size {
            self.parts.push(ContentPart {
                start: self.size,
                end: size,
                file: None,
            });
            self.size = size;
        }
    }

    fn shorten_to(&mut self, size: u64) {
        self.extend_to(size);
        self.parts.retain(|part| part.start < size);
        if let Some(last) = self.parts.last_mut() {
            last.end = last.end.min(size);
        }
        self.size = size;
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Reads bytes at an offset; none at the end.
    ///
    /// # Errors
    /// Those of `pread(2)`.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let left = self.size.saturating_sub(offset);
        let want = usize::try_from(left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        if want == 0 {
            return Ok(0);
        }
        let next = self.parts.partition_point(|part| part.end <= offset);
        let Some(part) = self.parts.get(next) else {
            return Ok(0);
        };
        let room = usize::try_from(part.end - offset).unwrap_or(usize::MAX);
        let buffer = buffer.get_mut(..room.min(want)).unwrap_or_default();
        let Some(file) = part.file else {
            // A lost range reads as zeros.
            buffer.fill(0);
            return Ok(buffer.len());
        };
        let file = self.files.get(file).ok_or(Error::NotFound)?;
        let read = file.read_at(buffer, offset);
        read.map_err(|e| io_error("pread", &e))
    }

    fn known_parts(&self) -> impl Iterator<Item = (&ContentPart, &File)> {
        let file = |part: &ContentPart| self.files.get(part.file?);
        self.parts
            .iter()
            .filter_map(move |part| Some((part, file(part)?)))
    }

    /// Returns the ranges that have data rather than holes, as starts and ends.
    ///
    /// # Errors
    /// Those of `lseek(2)`.
    pub fn data_ranges(&self) -> Result<Vec<(u64, u64)>> {
        let mut data: Vec<(u64, u64)> = Vec::new();
        for (part, file) in self.known_parts() {
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

    /// Returns whether a file's current content has the same data ranges as this one and no other space allocated.
    ///
    /// # Errors
    /// Those of `lseek(2)`.
    pub fn has_holes_of(&self, now: &PastContent) -> Result<bool> {
        let is_reserved = |part: &ContentPart| {
            let file = part.file.and_then(|file| now.files.get(file));
            file.is_some_and(|file| !reserved_ranges(file.as_fd(), part.start, part.end).is_empty())
        };
        let beyond = |file: &File| is_reserved_beyond_end(file.as_fd());
        let has_more_space = now.parts.iter().any(is_reserved) || now.files.iter().any(beyond);
        Ok(!has_more_space && self.data_ranges()? == now.data_ranges()?)
    }

    /// Copies the content to an empty file. Blocks are shared where the file system supports it, and holes are kept.
    ///
    /// # Errors
    /// Those of the system calls, `ENOSPC` above all.
    pub fn copy_to(&self, to: BorrowedFd<'_>) -> Result<()> {
        if let [part] = self.parts.as_slice()
            && let Some((_, file)) = self.known_parts().next()
            && part.start == 0
            && part.end == self.size
            && file.metadata().is_ok_and(|meta| meta.len() == self.size)
            && rustix::fs::ioctl_ficlone(to, file).is_ok()
        {
            return Ok(());
        }
        // First the size: xfs reserves space behind the end of what grows, and would fill the next hole with it.
        rustix::fs::ftruncate(to, self.size).map_err(Error::os("ftruncate"))?;
        for (part, file) in self.known_parts() {
            each_data(file, part.start, part.end, |start, end| {
                copy_bytes(file, to, start, end)
            })?;
        }
        Ok(())
    }

    /// Returns a reader of the whole content.
    pub fn reader(&self) -> ContentReader<'_> {
        ContentReader {
            content: self,
            offset: 0,
        }
    }

    /// Returns whether another content has the same bytes and the same ranges missing.
    ///
    /// # Errors
    /// As [`PastContent::read_at`].
    pub fn equals(&self, other: &PastContent) -> Result<bool> {
        let ranges = |content: &PastContent| {
            content
                .missing_part()
                .map_or(&[][..], |m| &m.ranges)
                .to_vec()
        };
        Ok(ranges(self) == ranges(other) && self.has_bytes_of(other)?)
    }

    /// Returns whether another content has the same bytes, as far as they are known.
    ///
    /// # Errors
    /// As [`PastContent::read_at`].
    pub fn has_bytes_of(&self, other: &PastContent) -> Result<bool> {
        if self.size() != other.size() {
            return Ok(false);
        }
        let (mut one, mut two) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        let mut offset = 0;
        while offset < self.size() {
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
}

/// Reads a content from start to end.
#[derive(Debug)]
pub struct ContentReader<'a> {
    content: &'a PastContent,
    offset: u64,
}

impl Read for ContentReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.content.read_at(buffer, self.offset);
        let read = read.map_err(|error| std::io::Error::from(error.errno()))?;
        self.offset += read as u64;
        Ok(read)
    }
}

/// The error for a content of which no byte is left.
fn nothing_left(top: Option<&Arc<ContentLayer>>) -> Error {
    let (session, seq) = top.map_or(("", 0), |layer| (&*layer.record.0, layer.record.1));
    Error::Damaged(format!(
        "nothing is left of the content before operation {session}:{seq}: {WHY}"
    ))
}

/// The error for a content of which nothing is known, because the file was changed outside the home.
fn changed_outside(top: Option<&Arc<ContentLayer>>) -> Error {
    let before = top.map_or_else(String::new, |layer| {
        format!(" before {}", describe_record(layer))
    });
    Error::Missing {
        what: format!("the content{before} is unknown: {OUTSIDE}"),
        remedy: "`trumanfs versions` lists what was kept of the file.".to_owned(),
    }
}

/// Returns whether any of these versions does not have the bytes that were kept.
fn is_altered(store: &Store, layers: &[(&Arc<ContentLayer>, Option<OpenVersion>)]) -> Result<bool> {
    for (layer, opened) in layers {
        if let (Some((session, n)), Some(_)) = (layer.kind.version(), opened)
            && !store.is_as_kept(session, n)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}
