//! The `trumanfs` program: parse, run, exit code.

fn main() -> std::process::ExitCode {
    trumanfs::cli::run()
}
