//! The directory of the user that programs run as, which is no part of the home.

/// The directory's name in `/tmp`: what programs leave there is not in the home, and goes with the session's `/tmp`.
/// Whoever starts a program makes it.
pub const OWN_DIR: &str = ".home";

/// Returns the path of something in the directory.
pub(super) fn own_path(rest: &str) -> Vec<u8> {
    format!("/tmp/{OWN_DIR}{rest}").into_bytes()
}
