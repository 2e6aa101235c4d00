//! The bundled commands: the table of their names, and how one is run.

mod cat;
mod cd;
mod cp;
mod date;
mod echo;
mod expression;
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

use super::call::{BundledCommand, CommandFn, CommandRegistry};

/// All commands, by name: eighteen, and `false` beside `true`.
pub(super) const REGISTRY: CommandRegistry = CommandRegistry(&[
    reads("cat", cat::cat),
    BundledCommand {
        // A shell's own directory is not find's to change.
        runs_for_find: false,
        ..reads("cd", cd::cd)
    },
    changes("cp", cp::cp),
    reads("date", date::date),
    reads("echo", echo::echo),
    reads("false", |_| Ok(1)),
    BundledCommand {
        find_unsupported: find::find_unsupported,
        ..changes("find", find::find)
    },
    BundledCommand {
        find_unsupported: grep::find_unsupported,
        ..reads("grep", grep::grep)
    },
    reads("head", head_tail::head),
    reads("ls", ls::ls),
    changes("mkdir", mkdir::mkdir),
    changes("mv", mv::mv),
    reads("pwd", cd::pwd),
    changes("rm", rm::rm),
    reads("tail", head_tail::tail),
    changes("touch", touch::touch),
    reads("true", |_| Ok(0)),
    reads("wc", wc::wc),
    reads("which", which::which),
]);

const fn reads(name: &'static str, run: CommandFn) -> BundledCommand {
    BundledCommand {
        name,
        run,
        may_change: false,
        runs_for_find: true,
        find_unsupported: |_| None,
    }
}

const fn changes(name: &'static str, run: CommandFn) -> BundledCommand {
    BundledCommand {
        may_change: true,
        ..reads(name, run)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
pub(super) mod tests {
    //! Runs commands by themselves, in a directory of their own.

    use std::sync::Arc;

    use super::*;
    use crate::call::{ShellState, invoke};
    use crate::deadline::Deadline;
    use crate::stream::{Input, Output};
    use crate::substitute::CollectedOutput;
    use trumanfs::exec::mounted_home::MountedHome;
    use trumanfs_types::name::WorldPath;

    /// A directory that stands for a home. It is not a mounted one: removed files are gone.
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
                registry: REGISTRY,
                root,
                cwd: WorldPath::root(),
                variables: Default::default(),
                tildes: Vec::new(),
                status: 0,
                deadline: Deadline::default(),
                threads: Default::default(),
                programs: None,
                line_programs: None,
            };
            Bench { dir, state }
        }

        /// Writes a file, creating its parent directories.
        pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) {
            let path = self.dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }

        /// Runs a command; words are separated by spaces. Returns standard output, standard error and the status.
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
            let (out, err) = (CollectedOutput::default(), CollectedOutput::default());
            let mut stdin = Input::bytes(stdin.as_ref().to_vec());
            let outputs = (Output::writer(out.clone()), Output::writer(err.clone()));
            let command = REGISTRY.find(&words[0]).unwrap();
            let status =
                invoke(command, &words[1..], &mut stdin, outputs, &mut self.state).unwrap();
            let text = |from: CollectedOutput| String::from_utf8_lossy(&from.take()).into_owned();
            (text(out), text(err), status)
        }
    }

    #[test]
    fn registry_is_sorted() {
        assert!(REGISTRY.names().is_sorted());
    }

    #[test]
    fn wrong_options_end_the_command_with_a_message() {
        let mut bench = Bench::new();
        bench.put("f", "content\n");
        // These take no options: `true` and `false` mind nothing, `echo` writes what it does not know.
        let plain = [("true", "", 0), ("false", "", 1), ("echo", "--nope f\n", 0)];
        for name in REGISTRY.names() {
            let (out, err, status) = bench.run(&format!("{name} --nope f"), "");
            if let Some((_, said, ended)) = plain.iter().find(|(plain, ..)| *plain == name) {
                assert_eq!((&*out, &*err, status), (*said, "", *ended), "{name}");
                continue;
            }
            assert_eq!(out, "", "{name}");
            assert!(status == 1 || status == 2, "{name}: {status}");
            assert!(err.contains(&format!("{name}: ")), "{name}: {err}");
            assert!(
                err.contains("option") || err.contains("predicate"),
                "{name}: {err}"
            );
        }
        assert_eq!(bench.run("cat f", "").0, "content\n");
    }
}
