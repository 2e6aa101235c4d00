//! [`FileRequest`]: one operation as the pipeline runs it.

use std::sync::Arc;

use super::edit::{self, EditResult, FileEdit};
use super::list::{self, ListedEntry};
use super::read::{self, LineWindow};
use super::work::{FileContext, FileError};
use super::write;
use crate::error::Error;
use crate::exec::cancel::{CancelReason, CancelToken};
use crate::exec::home::Home;
use crate::exec::home_context::HomeContext;
use crate::exec::pipeline::{self, AdmittedRequest, Executor, RequestEnd, RequestStreams};
use crate::exec::quote;
use crate::exec::request::{Limits, Outcome, Refusal, Request, Status};
use crate::exec::resolve::PathResolver;
use crate::name::WorldPath;
use crate::world::OriginKind;

/// The status of an operation whose time was up, as timeout(1) has it.
const TIMED_OUT: u8 = 124;

/// An operation on files. Paths are as somebody typed them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileCall {
    /// Lines of a file that is text.
    Read(Vec<u8>, LineWindow),
    /// Writes a file, which may be made; what it held before is kept. Directories above it are made.
    Write(Vec<u8>, Vec<u8>),
    /// Replaces texts in a file; where the last is true, only says what would be different.
    Edit(Vec<u8>, Vec<FileEdit>, bool),
    /// The entries of a directory.
    List(Vec<u8>),
    /// Moves a file or a directory to a path where nothing is.
    Move(Vec<u8>, Vec<u8>),
    /// Copies a regular file to a path where nothing is.
    Copy(Vec<u8>, Vec<u8>),
    /// Moves a file or a directory, with what is in it, into the trash.
    Remove(Vec<u8>),
}

impl FileCall {
    /// Returns its name and its paths: what records say of it.
    fn words(&self) -> Vec<Vec<u8>> {
        let (name, paths): (&str, Vec<&Vec<u8>>) = match self {
            FileCall::Read(path, _) => ("read_text_file", vec![path]),
            FileCall::Write(path, _) => ("write_file", vec![path]),
            FileCall::Edit(path, ..) => ("edit_file", vec![path]),
            FileCall::List(path) => ("list_directory", vec![path]),
            FileCall::Move(from, to) => ("move_file", vec![from, to]),
            FileCall::Copy(from, to) => ("copy_file", vec![from, to]),
            FileCall::Remove(path) => ("remove", vec![path]),
        };
        let name = std::iter::once(name.as_bytes().to_vec());
        name.chain(paths.into_iter().cloned()).collect()
    }

    fn changes(&self) -> bool {
        match self {
            FileCall::Read(..) | FileCall::List(_) | FileCall::Edit(_, _, true) => false,
            FileCall::Write(..)
            | FileCall::Edit(..)
            | FileCall::Move(..)
            | FileCall::Copy(..)
            | FileCall::Remove(_) => true,
        }
    }
}

/// The result of an operation besides its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileResult {
    /// The lines that were asked for, of how many bytes in all.
    Lines {
        /// The number of the first one, from 1; where the end was asked for, nobody has counted.
        first: Option<u64>,
        /// The size of the file in bytes.
        size: u64,
    },
    /// The entries of a directory, in the order of their names.
    Entries(Vec<ListedEntry>),
    /// A file before and after.
    Edited(EditResult),
    /// A file was written: whether it was made.
    Written(bool),
}

/// A request for one operation on files.
pub struct FileRequest<'p> {
    place: &'p HomeContext,
    has_scratch: bool,
    cwd: WorldPath,
    /// The working directory as `pwd` prints it.
    shown: Vec<u8>,
    call: FileCall,
}

impl<'p> FileRequest<'p> {
    /// Makes one. `cwd` is absolute; where it is gone, relative paths are absent. `has_scratch`: whether `/tmp` is the
    /// session's scratch directory.
    pub fn new(
        place: &'p HomeContext,
        has_scratch: bool,
        cwd: &[u8],
        call: FileCall,
    ) -> FileRequest<'p> {
        let base = PathResolver {
            home: &**place.home(),
            root: place.root(),
            cwd: &WorldPath::root(),
            has_scratch,
        };
        FileRequest {
            cwd: base.resolve(cwd).unwrap_or_default(),
            shown: cwd.to_vec(),
            place,
            has_scratch,
            call,
        }
    }

    /// Carries it out. Returns what came of it.
    pub fn run(mut self, limits: Limits, cancel: CancelToken) -> (Outcome, Option<FileResult>) {
        let request = Request {
            command: quote::line(&self.call.words()),
            limits,
            cancel: Some(cancel),
            run: None,
        };
        let (outcome, found) = pipeline::execute_gathering(&mut self, &request, None);
        (outcome, found.flatten())
    }

    fn perform(
        &self,
        work: &FileContext<'_>,
        streams: &mut RequestStreams,
    ) -> Result<Option<FileResult>, FileError> {
        let out = &mut *streams.stdout;
        match &self.call {
            FileCall::Read(path, window) => {
                let (first, size) = read::read(work, path, window, out)?;
                Ok(Some(FileResult::Lines { first, size }))
            }
            FileCall::Write(path, content) => {
                let made = write::write(work, path, content)?;
                Ok(Some(FileResult::Written(made)))
            }
            FileCall::Edit(path, edits, dry) => {
                let edited = edit::edit(work, path, edits, *dry)?;
                Ok(Some(FileResult::Edited(edited)))
            }
            FileCall::List(path) => {
                let entries = list::list(work, path, out)?;
                Ok(Some(FileResult::Entries(entries)))
            }
            FileCall::Move(from, to) => write::rename(work, from, to).map(|()| None),
            FileCall::Copy(from, to) => write::copy(work, from, to).map(|()| None),
            FileCall::Remove(path) => write::remove(work, path).map(|()| None),
        }
    }
}

impl Executor for FileRequest<'_> {
    type Plan = ();
    type Output = Option<FileResult>;
    const KIND: OriginKind = OriginKind::Tool;

    fn context(&self) -> &HomeContext {
        self.place
    }

    fn cwd(&self) -> Vec<u8> {
        self.shown.clone()
    }

    fn directory(&self) -> &WorldPath {
        &self.cwd
    }

    fn plan(&self, _: &Request) -> Result<(), Refusal> {
        Ok(())
    }

    fn may_change(&self, (): &()) -> bool {
        self.call.changes()
    }

    fn noun(&self, (): &()) -> &'static str {
        match self.call {
            FileCall::List(_) => "entries",
            _ => "lines",
        }
    }

    fn unavailable(&self, error: &Error) -> Refusal {
        Refusal {
            message: format!("the home cannot be changed: {error}").into_bytes(),
            return_code: 1,
        }
    }

    fn interrupted(&self, cancel: &CancelToken) -> RequestEnd {
        RequestEnd::cancelled(cancel, "cancelled")
    }

    fn store_return_code(&mut self, _: u8) {}

    fn carry_out(
        &mut self,
        admitted: AdmittedRequest<()>,
        home: Arc<dyn Home>,
        mut streams: RequestStreams,
    ) -> (RequestEnd, Option<FileResult>) {
        let cancel = admitted.cancel().cloned().unwrap_or_default();
        let work = FileContext {
            home: &*home,
            base: PathResolver {
                home: &*home,
                root: self.place.root(),
                cwd: &self.cwd,
                has_scratch: self.has_scratch,
            },
            cancel: &cancel,
        };
        let mut done = Ok(None);
        home.run_part(&mut || done = self.perform(&work, &mut streams));
        let end = match done {
            Ok(found) => return (RequestEnd::finished(0), found),
            Err(_) if cancel.ended() == Some(CancelReason::Cancelled) => {
                RequestEnd::cancelled(&cancel, "cancelled")
            }
            Err(_) if cancel.ended().is_some() => {
                RequestEnd::ended_early(Status::Timeout, TIMED_OUT, "the time is up")
            }
            Err(message) => RequestEnd::ended_early(Status::Failed, 1, message),
        };
        (end, None)
    }
}
