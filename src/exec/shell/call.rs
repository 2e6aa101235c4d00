//! One command's call: its arguments, its streams, and what it may ask of the shell. Commands see nothing else.
//!
//! Owns how errors are worded: `command: path as typed: reason`. No reason has a word for "denied": what a command may not
//! touch is absent.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use rustix::io::Errno;

use super::stream::{CHUNK, Deadline, Input, Output};
use super::thread_pool::ThreadPool;
use crate::error::Error;
use crate::exec::Home;
use crate::name::{Name, WorldPath};

/// What a shell remembers from line to line. A stage of a pipeline and a group in parentheses have a copy.
#[derive(Clone)]
pub(super) struct ShellState {
    /// Where everything happens.
    pub(super) home: Arc<dyn Home>,
    /// What can be called in it.
    pub(super) registry: Registry,
    /// What the root is called, absolute, without a slash at the end (empty for `/`).
    pub(super) root: Arc<[u8]>,
    /// The working directory.
    pub(super) cwd: WorldPath,
    /// Variables.
    pub(super) variables: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Words of the command under way in which a tilde stood for the root: as they are, and as they were typed.
    pub(super) tildes: Vec<(Vec<u8>, Vec<u8>)>,
    /// The status of the last command.
    pub(super) status: u8,
    /// When the line has to end.
    pub(super) deadline: Deadline,
    /// Threads for stages.
    pub(super) crew: ThreadPool,
}

impl ShellState {
    /// Writes a path down as the shell's user knows it.
    pub(super) fn shown(&self, path: &WorldPath) -> Vec<u8> {
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
    /// `ENOENT` for an empty path and for all that is outside; `ENOENT` or `ENOTDIR` where `..` or a slash at the end
    /// follows what is no directory.
    pub(super) fn path(&self, typed: &[u8]) -> Result<WorldPath, Error> {
        if typed.is_empty() {
            return Err(Error::NotFound);
        }
        let (mut path, rest) = match typed.first() {
            Some(b'/') => {
                let inside = below(&self.root, typed).ok_or(Error::NotFound)?;
                (WorldPath::root(), inside)
            }
            _ => (self.cwd.clone(), typed),
        };
        // Whether what `path` says so far is known to be a directory.
        let mut known = true;
        for part in rest.split(|b| *b == b'/') {
            match part {
                b"" | b"." => self.directory(&path, &mut known)?,
                b".." => {
                    self.directory(&path, &mut known)?;
                    path = path.parent().ok_or(Error::NotFound)?;
                }
                part => {
                    path.push(Name::new(part)?);
                    known = false;
                }
            }
        }
        Ok(path)
    }

    /// Resolves a path that a file is to be made at: as [`ShellState::path`], and a slash at the end is `EISDIR`, as open(2)
    /// has it with `O_CREAT`.
    ///
    /// # Errors
    /// As [`ShellState::path`].
    pub(super) fn path_to_make(&self, typed: &[u8]) -> Result<WorldPath, Error> {
        match self.path(typed) {
            Err(Error::NotFound) if typed.ends_with(b"/") => Err(Error::IsDirectory),
            path => path,
        }
    }

    /// Returns how a path was typed, where a tilde stood at its start.
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

    fn directory(&self, path: &WorldPath, known: &mut bool) -> Result<(), Error> {
        if !*known && !self.home.stat(path)?.is_dir() {
            return Err(Error::NotDirectory);
        }
        *known = true;
        Ok(())
    }
}

/// Returns what of an absolute path is below the root; nothing where it is outside.
fn below<'t>(root: &[u8], typed: &'t [u8]) -> Option<&'t [u8]> {
    let mut rest = typed;
    for part in root.split(|b| *b == b'/').filter(|part| !part.is_empty()) {
        let start = rest.iter().position(|b| *b != b'/')?;
        rest = rest.get(start..)?.strip_prefix(part)?;
        if !matches!(rest.first(), None | Some(b'/')) {
            return None;
        }
    }
    Some(rest)
}

/// Why a command ends before it is done.
#[derive(Debug)]
pub(super) enum Stop {
    /// It was typed wrongly: what to say after the command's name, and the status.
    Usage(Vec<u8>, u8),
    /// It is to run a command that is not here, with which the whole line ends.
    Rejected(Rejection),
    /// What it writes to or reads from failed: a reader that has gone, a full disk, a line whose time is up.
    Stream(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Stream(error)
    }
}

/// The status a command ends with, or why it ends early.
pub(super) type Ended = Result<u8, Stop>;

/// What a bundled command does.
pub(super) type Run = fn(&mut Call<'_>) -> Ended;

/// A bundled command.
#[derive(Debug, Clone, Copy)]
pub(super) struct Command {
    /// What it is called.
    pub(super) name: &'static str,
    /// What it does.
    pub(super) run: Run,
    /// Whether it may change files.
    pub(super) changes: bool,
    /// Whether `find -exec` runs it.
    pub(super) runs_for_find: bool,
}

/// The bundled commands, by name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Registry(pub(super) &'static [Command]);

impl Registry {
    /// Returns the command of a name.
    pub(super) fn named(self, name: &[u8]) -> Option<Command> {
        let found = self.0.iter().find(|known| known.name.as_bytes() == name);
        found.copied()
    }

    /// Returns all names, in order.
    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|known| known.name)
    }
}

/// One call of a command.
pub(super) struct Call<'a> {
    /// The command's name.
    pub(super) name: &'static str,
    /// What follows the name.
    pub(super) args: &'a [Vec<u8>],
    /// Standard input.
    pub(super) stdin: &'a mut Input,
    /// Standard output, gathered into chunks.
    pub(super) out: BufWriter<Output>,
    /// Standard error.
    pub(super) err: Output,
    /// The shell.
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

    /// Returns where files are.
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

    /// Opens an operand for reading; `/dev/null` too.
    ///
    /// # Errors
    /// As [`Home::open`].
    pub(super) fn open(&self, typed: &[u8]) -> Result<File, Error> {
        if typed == NULL {
            return empty_file();
        }
        self.state.home.open(&self.path(typed)?)
    }

    /// Returns whether a file is the one that standard output goes to and has more to read: copying it would never end.
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

    /// Says what is wrong with a path: `command: path: reason`. What was written before comes out before.
    ///
    /// # Errors
    /// Those of writing.
    pub(super) fn complain(&mut self, typed: &[u8], error: &Error) -> io::Result<()> {
        let mut message = self.state.as_typed(typed);
        message.extend_from_slice(b": ");
        message.extend_from_slice(reason(error.errno()).as_bytes());
        self.say(&message)
    }

    /// Says what is wrong: `command: message`. What was written before comes out before.
    ///
    /// # Errors
    /// Those of writing.
    pub(super) fn say(&mut self, message: &[u8]) -> io::Result<()> {
        self.out.flush()?;
        let mut line = self.name.as_bytes().to_vec();
        line.extend_from_slice(b": ");
        line.extend_from_slice(message);
        line.push(b'\n');
        self.err.write_all(&line)
    }

    /// Ends the call where the line's time is up. To be asked once for each entry and each chunk.
    ///
    /// # Errors
    /// `TimedOut`.
    pub(super) fn check(&self) -> io::Result<()> {
        self.state.deadline.check()
    }

    /// Runs another bundled command with the same streams, its standard input empty. Returns its status.
    ///
    /// # Errors
    /// Those of writing; `TimedOut`.
    pub(super) fn nested(&mut self, command: Command, args: &[Vec<u8>]) -> io::Result<u8> {
        self.out.flush()?;
        let outputs = (self.out.get_ref().clone(), self.err.clone());
        invoke(command, args, &mut Input::empty(), outputs, self.state)
    }
}

/// The status of a command whose reader has gone: 128 and `SIGPIPE`.
const READER_GONE: u8 = 141;

/// Runs a command to its end and says what stopped it. Returns its status.
///
/// # Errors
/// `TimedOut`, and nothing else: the line has to end.
pub(super) fn invoke(
    command: Command,
    args: &[Vec<u8>],
    stdin: &mut Input,
    (out, mut err): (Output, Output),
    state: &mut ShellState,
) -> io::Result<u8> {
    let mut call = Call::new(command.name, args, stdin, out, err.clone(), state);
    let ended = (command.run)(&mut call);
    // Where the command has ended early, so has what it would have written.
    let ended = ended.and_then(|status| call.out.flush().map(|()| status).map_err(Stop::Stream));
    // Taken apart, for what is left would be written when it is dropped.
    let _ = call.out.into_parts();
    let (message, status) = match ended {
        Ok(status) => return Ok(status),
        Err(Stop::Usage(message, status)) => (message, status),
        Err(Stop::Rejected(why)) => return Err(why.end_line(&mut err, state)),
        Err(Stop::Stream(error)) => match error.kind() {
            io::ErrorKind::TimedOut => return Err(error),
            io::ErrorKind::BrokenPipe => return Ok(READER_GONE),
            // Only what is read can be one.
            io::ErrorKind::IsADirectory => (b"-: Is a directory".to_vec(), 1),
            _ => (
                format!("write error: {}", reason(of_io(&error).errno())).into_bytes(),
                1,
            ),
        },
    };
    // Where nobody listens, nobody is told.
    let _ = err.write_all(&[command.name.as_bytes(), b": ", &message, b"\n"].concat());
    Ok(status)
}

/// Why a line does not run, or runs no further.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rejection {
    /// What to say.
    pub(super) message: Vec<u8>,
    /// What it ends with.
    pub(super) status: u8,
}

impl Rejection {
    /// Says it, and ends the line. Returns the error that ends whatever is under way.
    pub(super) fn end_line(self, err: &mut Output, state: &ShellState) -> io::Error {
        let _ = err.write_all(&[&self.message[..], b"\n"].concat());
        state.deadline.refuse(self.status)
    }
}

/// Says something as the shell itself. Where nobody listens, nobody is told.
pub(super) fn tell(err: &mut Output, parts: &[&[u8]]) {
    let message = [b"bash: ", &parts.concat()[..], b"\n"].concat();
    let _ = err.write_all(&message);
}

/// The one file outside that is there for everybody.
pub(super) const NULL: &[u8] = b"/dev/null";

/// Returns a file with nothing in it, without a path of the host: the end of a pipe that nobody writes into.
fn empty_file() -> Result<File, Error> {
    let (read, _) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(Error::os("pipe2"))?;
    Ok(File::from(read))
}

/// Turns what the standard library says of a file into the world's error.
pub(super) fn of_io(error: &io::Error) -> Error {
    let errno = error
        .raw_os_error()
        .map_or(Errno::IO, Errno::from_raw_os_error);
    Error::os("read")(errno)
}

/// Says why, as strerror(3) does in the C locale. What is refused is absent.
pub(super) fn reason(errno: Errno) -> String {
    let errno = match errno {
        Errno::ACCESS | Errno::PERM => Errno::NOENT,
        errno => errno,
    };
    let text = io::Error::from(errno).to_string();
    text.split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// Makes a [`Stop::Usage`] with status 1.
pub(super) fn usage(message: impl Into<Vec<u8>>) -> Stop {
    Stop::Usage(message.into(), 1)
}
