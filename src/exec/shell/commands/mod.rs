//! The bundled commands: which there are, and how one is called.

mod cat;
mod cd;
mod cp;
mod date;
mod echo;
mod find;
mod grep;
mod head_tail;
mod ls;
mod mkdir;
mod mv;
mod reading;
mod rm;
mod target;
mod touch;
mod wc;
mod which;

use std::io::{self, Write};

use super::admit;
use super::call::ShellState;
use super::call::{Call, Command, Stop, of_io, reason};
use super::stream::{Input, Output};

/// All commands, by name. Eighteen, and `false` beside `true`.
const COMMANDS: &[(&str, Command)] = &[
    ("cat", cat::cat),
    ("cd", cd::cd),
    ("cp", cp::cp),
    ("date", date::date),
    ("echo", echo::echo),
    ("false", |_| Ok(1)),
    ("find", find::find),
    ("grep", grep::grep),
    ("head", head_tail::head),
    ("ls", ls::ls),
    ("mkdir", mkdir::mkdir),
    ("mv", mv::mv),
    ("pwd", cd::pwd),
    ("rm", rm::rm),
    ("tail", head_tail::tail),
    ("touch", touch::touch),
    ("true", |_| Ok(0)),
    ("wc", wc::wc),
    ("which", which::which),
];

/// The status of a command whose reader has gone: 128 and `SIGPIPE`.
const READER_GONE: u8 = 141;

/// Returns the command of a name.
pub(super) fn named(name: &[u8]) -> Option<(&'static str, Command)> {
    let found = COMMANDS.iter().find(|(known, _)| known.as_bytes() == name);
    found.copied()
}

/// Returns whether a command changes files, or is none.
pub(super) fn changes(name: &[u8]) -> bool {
    const READ: &[&str] = &[
        "cat", "cd", "date", "echo", "false", "grep", "head", "ls", "pwd", "tail", "true", "wc",
        "which",
    ];
    !READ.iter().any(|reads| reads.as_bytes() == name)
}

/// Returns whether `find -exec` can run a name: all commands but `cd`, for a shell's own directory is not find's to change.
pub(super) fn runs_for_find(name: &[u8]) -> bool {
    named(name).is_some_and(|(name, _)| name != "cd")
}

/// Returns all names, in order.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|(name, _)| *name)
}

/// Runs a command to its end and says what stopped it. Returns its status.
///
/// # Errors
/// `TimedOut`, and nothing else: the line's time is up.
pub(super) fn invoke(
    (name, command): (&'static str, Command),
    args: &[Vec<u8>],
    stdin: &mut Input,
    (out, mut err): (Output, Output),
    state: &mut ShellState,
) -> io::Result<u8> {
    let mut call = Call::new(name, args, stdin, out, err.clone(), state);
    let ended = command(&mut call);
    // Where the command has ended early, so has what it would have written.
    let ended = ended.and_then(|status| call.out.flush().map(|()| status).map_err(Stop::Stream));
    // Taken apart, for what is left would be written when it is dropped.
    let _ = call.out.into_parts();
    let (message, status) = match ended {
        Ok(status) => return Ok(status),
        Err(Stop::Usage(message, status)) => (message, status),
        Err(Stop::Absent(name)) => {
            let why = admit::absent(&name, state);
            let _ = err.write_all(&[&why.message[..], b"\n"].concat());
            return Err(state.deadline.refuse(why.status));
        }
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
    let _ = err.write_all(&[name.as_bytes(), b": ", &message, b"\n"].concat());
    Ok(status)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
pub(super) mod tests {
    //! A command by itself, in a directory of its own.

    use std::sync::Arc;

    use super::*;
    use crate::exec::mounted_home::MountedHome;
    use crate::exec::shell::stream::Deadline;
    use crate::exec::shell::substitute::Collected;
    use crate::name::WorldPath;

    /// A directory that stands for a home. Not a mounted one: what is removed here is gone.
    pub(crate) struct Bench {
        pub(crate) dir: tempfile::TempDir,
        pub(crate) state: ShellState,
    }

    impl Bench {
        pub(crate) fn new() -> Bench {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().to_str().unwrap().as_bytes().into();
            let home = Arc::new(MountedHome::open(dir.path()).unwrap());
            let state = ShellState {
                home,
                root,
                cwd: WorldPath::root(),
                variables: Default::default(),
                tildes: Vec::new(),
                status: 0,
                deadline: Deadline::default(),
                crew: Default::default(),
            };
            Bench { dir, state }
        }

        /// Writes a file, and the directories above it.
        pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) {
            let path = self.dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }

        /// Runs a command; words are split at spaces. Returns standard output, standard error and the status.
        pub(crate) fn run(&mut self, line: &str, stdin: impl AsRef<[u8]>) -> (String, String, u8) {
            let words: Vec<Vec<u8>> = line
                .split(' ')
                .map(|word| word.as_bytes().to_vec())
                .collect();
            self.call(&words, stdin)
        }

        /// Runs a command.
        pub(crate) fn call(
            &mut self,
            words: &[Vec<u8>],
            stdin: impl AsRef<[u8]>,
        ) -> (String, String, u8) {
            let (out, err) = (Collected::default(), Collected::default());
            let mut stdin = Input::bytes(stdin.as_ref().to_vec());
            let outputs = (Output::writer(out.clone()), Output::writer(err.clone()));
            let command = named(&words[0]).unwrap();
            let status =
                invoke(command, &words[1..], &mut stdin, outputs, &mut self.state).unwrap();
            let text = |from: Collected| String::from_utf8_lossy(&from.take()).into_owned();
            (text(out), text(err), status)
        }
    }

    #[test]
    fn names_are_in_order() {
        assert!(COMMANDS.is_sorted_by_key(|(name, _)| *name));
    }

    #[test]
    fn wrong_options_are_told_and_end_the_command() {
        let mut bench = Bench::new();
        let told = bench.run("true -Z", "");
        assert_eq!(told, (String::new(), String::new(), 0));
    }
}
