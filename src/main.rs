//! The `trumanfs` program: parse, run, exit code.

fn main() -> std::process::ExitCode {
    #[cfg(all(target_feature = "crt-static", target_env = "gnu"))]
    trumanfs_sys::users::use_builtin_services();
    trumanfs::cli::run()
}
