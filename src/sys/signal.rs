//! What a signal does to this process.

/// Returns whether a signal is ignored (`SIG_IGN`), as by nohup(1) and in the background of a shell without job control.
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: the structure consists of integers, an address and a set of bits, for which zero is valid.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: sets nothing, and the structure lives through the call.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    asked == 0 && action.sa_sigaction == libc::SIG_IGN
}
