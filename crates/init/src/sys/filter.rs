//! Installing a filter of system calls (seccomp(2)).

use rustix::io::{Errno, Result};

/// An instruction of a classic BPF program, as `struct sock_filter` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct BpfInstruction {
    /// Operation.
    pub code: u16,
    /// Instructions to skip where the comparison is true.
    pub jt: u8,
    /// Instructions to skip where it is false.
    pub jf: u8,
    /// The operand.
    pub k: u32,
}

/// Has a filter decide on every later system call of the calling thread and of what it starts. Needs NoNewPrivs.
///
/// # Errors
/// `EINVAL` for a broken program, or where the kernel has no filters; `EACCES` without NoNewPrivs.
pub fn install(program: &[BpfInstruction]) -> Result<()> {
    let Ok(len) = u16::try_from(program.len()) else {
        return Err(Errno::INVAL);
    };
    let described = libc::sock_fprog {
        len,
        filter: program.as_ptr().cast::<libc::sock_filter>().cast_mut(),
    };
    // SAFETY: the kernel reads `len` instructions, whose layout is that of sock_filter, and copies them.
    let done = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0,
            &raw const described,
        )
    };
    if done == 0 {
        return Ok(());
    }
    // SAFETY: errno of the calling thread always has an address.
    Err(Errno::from_raw_os_error(unsafe {
        *libc::__errno_location()
    }))
}
