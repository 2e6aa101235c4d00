//! The call of a command: its arguments, its streams, and its access to the shell. Commands see nothing else.
//!
//! Owns the wording of errors: `command: path as typed: reason`. No reason says "denied": a path that a command may not
//! touch is absent.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use rustix::io::Errno;

use super::deadline::Deadline;
use super::stream::{CHUNK, Input, Output, empty_file};
use super::thread_pool::ThreadPool;
use trumanfs_executor::Home;
pub(super) use trumanfs_executor::home::reason;
use trumanfs_executor::line_programs::{LinePrograms, ProgramProvider};
use trumanfs_executor::resolve::{PathResolver, TMP};
use trumanfs_types::error::Error;
use trumanfs_types::name::WorldPath;

/// The state that a shell keeps from line to line. Each stage of a pipeline and each group in parentheses works on a
/// copy.
#[derive(Clone)]
pub(super) struct ShellState {
    /// The home that the shell works in.
    pub(super) home: Arc<dyn Home>,
    /// The bundled commands.
    pub(super) registry: CommandRegistry,
    /// The absolute path of the root as shown, without a trailing slash (empty for `/`).
    pub(super) root: Arc<[u8]>,
    /// The working directory.
    pub(super) cwd: WorldPath,
    /// Variables.
    pub(super) variables: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Words of the current command in which a tilde stood for the root: as expanded, and as typed.
    pub(super) tildes: Vec<(Vec<u8>, Vec<u8>)>,
    /// The status of the last command.
    pub(super) status: u8,
    /// The deadline and memory limit of the line.
    pub(super) deadline: Deadline,
    /// The threads for stages of pipelines.
    pub(super) threads: ThreadPool,
    /// The real programs that lines may run besides the bundled commands.
    pub(super) programs: Option<Arc<dyn ProgramProvider>>,
    /// The real programs of the current line.
    pub(super) line_programs: Option<Arc<dyn LinePrograms>>,
}

impl ShellState {
    /// Formats a path as the shell's user sees it.
    pub(super) fn display_path(&self, path: &WorldPath) -> Vec<u8> {
        if let Some(inside) = path.in_scratch() {
            let slash: &[u8] = if inside.is_root() { b"" } else { b"/" };
            return [TMP, slash, inside.bytes()].concat();
        }
        let mut shown = self.root.to_vec();
        if shown.is_empty() || !path.is_root() {
            shown.push(b'/');
        }
        shown.extend_from_slice(path.bytes());
        shown
    }

    /// Resolves a path as typed against the working directory.
    ///
    /// # Errors
    /// `ENOENT` for an empty path and for any path outside; `ENOENT` or `ENOTDIR` where `..` or a trailing slash
    /// follows something other than a directory.
    pub(super) fn path(&self, typed: &[u8]) -> Result<WorldPath, Error> {
        self.base().resolve(typed)
    }

    /// Resolves the path of a file to be created: as [`ShellState::path`], except that a trailing slash is `EISDIR`,
    /// as with open(2) and `O_CREAT`.
    ///
    /// # Errors
    /// As [`ShellState::path`].
    pub(super) fn new_file_path(&self, typed: &[u8]) -> Result<WorldPath, Error> {
        self.base().resolve_new_file(typed)
    }

    fn base(&self) -> PathResolver<'_> {
        PathResolver {
            home: &*self.home,
            root: &self.root,
            cwd: &self.cwd,
            has_scratch: self.programs.is_some(),
        }
    }

    /// Returns a path as typed, with the tilde at its start.
    pub(super) fn as_typed(&self, path: &[u8]) -> Vec<u8> {
        for (text, typed) in &self.tildes {
            if let Some(rest) = path.strip_prefix(&text[..])
                && matches!(rest.first(), None | Some(b'/'))
            {
                return [&typed[..], rest].concat();
            }
        }
        path.to_vec()
    }
}

/// The reason for which a command ends early.
#[derive(Debug)]
pub(super) enum CommandError {
    /// Wrong usage: the message after the command's name, and the status.
    Usage(Vec<u8>, u8),
    /// A command that does not exist here, which ends the whole line.
    Rejected(LineRejection),
    /// An error of the command's input or output: a closed reader, a full disk, a line past its time limit.
    Stream(io::Error),
}

impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> CommandError {
        CommandError::Stream(error)
    }
}

/// A command's status, or why it ended early.
pub(super) type CommandResult = Result<u8, CommandError>;

/// The function of a bundled command.
pub(super) type CommandFn = fn(&mut Call<'_>) -> CommandResult;

/// The function that returns the rejection of a line for an unsupported argument. A word is `None` where an expansion
/// decides about it.
pub(super) type UnsupportedFn = fn(&[Option<Vec<u8>>]) -> Option<LineRejection>;

/// A bundled command.
#[derive(Debug, Clone, Copy)]
pub(super) struct BundledCommand {
    /// The command's name.
    pub(super) name: &'static str,
    /// The function that runs it.
    pub(super) run: CommandFn,
    /// True if the command may change files.
    pub(super) may_change: bool,
    /// True if `find -exec` may run the command.
    pub(super) runs_for_find: bool,
    /// The function that looks for an unsupported argument before the line runs.
    pub(super) find_unsupported: UnsupportedFn,
}

/// The bundled commands, by name.
#[derive(Debug, Clone, Copy)]
pub(super) struct CommandRegistry(pub(super) &'static [BundledCommand]);

impl CommandRegistry {
    /// Returns the command with a name.
    pub(super) fn find(self, name: &[u8]) -> Option<BundledCommand> {
        let found = self.0.iter().find(|known| known.name.as_bytes() == name);
        found.copied()
    }

    /// Returns all names, sorted.
    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|known| known.name)
    }
}

/// A call of a command.
pub(super) struct Call<'a> {
    /// The command's name.
    pub(super) name: &'static str,
    /// The arguments after the name.
    pub(super) args: &'a [Vec<u8>],
    /// Standard input.
    pub(super) stdin: &'a mut Input,
    /// Standard output, buffered in chunks.
    pub(super) out: BufWriter<Output>,
    /// Standard error.
    pub(super) err: Output,
    /// The shell's state.
    pub(super) state: &'a mut ShellState,
}

impl<'a> Call<'a> {
    /// Makes a call.
    pub(super) fn new(
        name: &'static str,
        args: &'a [Vec<u8>],
        stdin: &'a mut Input,
        out: Output,
        err: Output,
        state: &'a mut ShellState,
    ) -> Call<'a> {
        Call {
            name,
            args,
            stdin,
            out: BufWriter::with_capacity(CHUNK, out),
            err,
            state,
        }
    }

    /// Returns the home.
    pub(super) fn home(&self) -> Arc<dyn Home> {
        self.state.home.clone()
    }

    /// Resolves a path as typed.
    ///
    /// # Errors
    /// As [`ShellState::path`].
    pub(super) fn path(&self, typed: &[u8]) -> Result<WorldPath, Error> {
        self.state.path(typed)
    }

    /// Opens an operand for reading, which may be `/dev/null`.
    ///
    /// # Errors
    /// As [`Home::open`].
    pub(super) fn open(&self, typed: &[u8]) -> Result<File, Error> {
        if typed == DEV_NULL {
            return empty_file();
        }
        self.state.home.open(&self.path(typed)?)
    }

    /// Returns whether a file is the one that standard output goes to and has more to read: copying it would never
    /// end.
    pub(super) fn is_output(&self, file: &File) -> bool {
        let Some(out) = self.out.get_ref().as_file() else {
            return false;
        };
        let (Ok(out), Ok(meta), Ok(at)) =
            (out.metadata(), file.metadata(), (&*file).stream_position())
        else {
            return false;
        };
        (out.dev(), out.ino()) == (meta.dev(), meta.ino()) && at < meta.len()
    }

    /// Reports an error for a path: `command: path: reason`. Earlier output is flushed first.
    ///
    /// # Errors
    /// Write errors.
    pub(super) fn report_path_error(&mut self, typed: &[u8], error: &Error) -> io::Result<()> {
        let mut message = self.state.as_typed(typed);
        message.extend_from_slice(b": ");
        message.extend_from_slice(reason(error.errno()).as_bytes());
        self.report(&message)
    }

    /// Reports an error: `command: message`. Earlier output is flushed first.
    ///
    /// # Errors
    /// Write errors.
    pub(super) fn report(&mut self, message: &[u8]) -> io::Result<()> {
        self.out.flush()?;
        let mut line = self.name.as_bytes().to_vec();
        line.extend_from_slice(b": ");
        line.extend_from_slice(message);
        line.push(b'\n');
        self.err.write_all(&line)
    }

    /// Fails once the line's time limit has passed. Commands call it for each entry and each chunk.
    ///
    /// # Errors
    /// `TimedOut`.
    pub(super) fn check(&self) -> io::Result<()> {
        self.state.deadline.check()
    }

    /// Runs another bundled command with the same streams, but with empty standard input. Returns its status.
    ///
    /// # Errors
    /// Write errors; `TimedOut`.
    pub(super) fn run_nested(
        &mut self,
        command: BundledCommand,
        args: &[Vec<u8>],
    ) -> io::Result<u8> {
        self.out.flush()?;
        let outputs = (self.out.get_ref().clone(), self.err.clone());
        invoke(command, args, &mut Input::empty(), outputs, self.state)
    }
}

/// The status of a command whose output is no longer read: 128 + `SIGPIPE`.
const READER_GONE_STATUS: u8 = 141;

/// Runs a command and reports the error that stopped it. Returns its status.
///
/// # Errors
/// `TimedOut` only: the line has to end.
pub(super) fn invoke(
    command: BundledCommand,
    args: &[Vec<u8>],
    stdin: &mut Input,
    (out, mut err): (Output, Output),
    state: &mut ShellState,
) -> io::Result<u8> {
    let mut call = Call::new(command.name, args, stdin, out, err.clone(), state);
    let ended = (command.run)(&mut call);
    // Flushing may fail too, as if the command's last write had.
    let ended = ended.and_then(|status| {
        call.out
            .flush()
            .map(|()| status)
            .map_err(CommandError::Stream)
    });
    // Taken apart: dropping the writer would write what is left in its buffer.
    let _ = call.out.into_parts();
    let (message, status) = match ended {
        Ok(status) => return Ok(status),
        Err(CommandError::Usage(message, status)) => (message, status),
        Err(CommandError::Rejected(why)) => return Err(why.end_line(&mut err, state)),
        Err(CommandError::Stream(error)) => match error.kind() {
            io::ErrorKind::TimedOut => return Err(error),
            io::ErrorKind::BrokenPipe => return Ok(READER_GONE_STATUS),
            // Only a read can fail so.
            io::ErrorKind::IsADirectory => (b"-: Is a directory".to_vec(), 1),
            _ => (
                format!("write error: {}", reason(from_io_error(&error).errno())).into_bytes(),
                1,
            ),
        },
    };
    // The message is lost if standard error has no reader.
    let _ = err.write_all(&[command.name.as_bytes(), b": ", &message, b"\n"].concat());
    Ok(status)
}

/// The reason for which a line is not run, or ends early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LineRejection {
    /// The message, with `bash: ` before it.
    pub(super) message: Vec<u8>,
    /// The line's status.
    pub(super) status: u8,
}

impl LineRejection {
    /// Reports the rejection and ends the line. Returns the error that ends the command in progress.
    pub(super) fn end_line(self, err: &mut Output, state: &ShellState) -> io::Error {
        let _ = err.write_all(&[&self.message[..], b"\n"].concat());
        state
            .deadline
            .refuse_with_message(self.status, self.message)
    }
}

/// Reports an error of the shell itself. The message is lost if standard error has no reader.
pub(super) fn report_shell_error(err: &mut Output, parts: &[&[u8]]) {
    let message = [b"bash: ", &parts.concat()[..], b"\n"].concat();
    let _ = err.write_all(&message);
}

/// The one file outside the home that every command can use.
pub(super) const DEV_NULL: &[u8] = b"/dev/null";

/// Converts an I/O error of the standard library into the world's error.
pub(super) fn from_io_error(error: &io::Error) -> Error {
    let errno = error
        .raw_os_error()
        .map_or(Errno::IO, Errno::from_raw_os_error);
    Error::os("read")(errno)
}

/// Makes a [`CommandError::Usage`] with status 1.
pub(super) fn usage_error(message: impl Into<Vec<u8>>) -> CommandError {
    CommandError::Usage(message.into(), 1)
}
