//! The program of a sandbox's first process. Not for people.

fn main() -> std::process::ExitCode {
    trumanfs_init::run()
}
