//! Watching for connections that the kernel refuses because nobody listens (packet(7)).

use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::io::{Errno, Result};

use super::filter::BpfInstruction;

/// The index of `lo`: the first interface of each network namespace.
const LO: i32 = 1;

/// Returns a socket that receives the head of each refusal: an IPv4 packet with TCP's answer for a port at which nobody
/// listens. Its source is where somebody wanted to connect to. Refusals by 127.0.0.0/8 are left out: what is there is
/// the program's own. Looking at a packet before it is copied costs other packets nothing that could be measured.
///
/// # Errors
/// `EPERM` without CAP_NET_RAW over the namespace; `EAFNOSUPPORT` where the kernel has no such sockets.
pub fn watch() -> Result<OwnedFd> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // Protocol 0 receives nothing, so nothing arrives before there is a filter.
    // SAFETY: no pointer is passed.
    let socket = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    check(socket)?;
    // SAFETY: the descriptor is new and nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let program = filter();
    let described = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| Errno::INVAL)?,
        filter: program.as_ptr().cast::<libc::sock_filter>().cast_mut(),
    };
    // SAFETY: the kernel reads `len` instructions, whose layout is that of sock_filter, and copies them.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const described).cast(),
            length::<libc::sock_fprog>(),
        )
    })?;
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_IP as u16).to_be(),
        sll_ifindex: LO,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: the kernel reads as many bytes of the address as it has.
    check(unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            length::<libc::sockaddr_ll>(),
        )
    })?;
    Ok(socket)
}

fn length<T>() -> libc::socklen_t {
    // Both structures have a few bytes.
    size_of::<T>() as libc::socklen_t
}

fn check(done: libc::c_int) -> Result<()> {
    match done {
        0.. => Ok(()),
        // SAFETY: errno of the calling thread always has an address.
        _ => Err(Errno::from_raw_os_error(unsafe {
            *libc::__errno_location()
        })),
    }
}

/// The number of bytes of a packet that are received: the longest head of IPv4, and TCP's ports.
const HEAD: u32 = 64;

/// Lets through what the kernel answers a first segment of TCP with at a port where nobody listens: RST and ACK with
/// the sequence number 0 (RFC 9293, 3.10.7.1). A connection that was open has another number.
fn filter() -> [BpfInstruction; 13] {
    use libc::{
        BPF_ABS, BPF_B, BPF_H, BPF_IND, BPF_JEQ, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_LDX,
        BPF_MSH, BPF_RET, BPF_W,
    };
    let op = |code: u32, jt, jf, k| BpfInstruction {
        code: code as u16,
        jt,
        jf,
        k,
    };
    [
        // TCP, and no fragment.
        op(BPF_LD | BPF_B | BPF_ABS, 0, 0, 9),
        op(BPF_JMP | BPF_JEQ | BPF_K, 0, 10, 6),
        op(BPF_LD | BPF_H | BPF_ABS, 0, 0, 6),
        op(BPF_JMP | BPF_JSET | BPF_K, 8, 0, 0x3fff),
        // Not from 127.0.0.0/8.
        op(BPF_LD | BPF_B | BPF_ABS, 0, 0, 12),
        op(BPF_JMP | BPF_JEQ | BPF_K, 6, 0, 127),
        // Behind the head of IPv4, whose length the first byte has.
        op(BPF_LDX | BPF_B | BPF_MSH, 0, 0, 0),
        op(BPF_LD | BPF_B | BPF_IND, 0, 0, 13),
        op(BPF_JMP | BPF_JEQ | BPF_K, 0, 3, 0x14),
        op(BPF_LD | BPF_W | BPF_IND, 0, 0, 4),
        op(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
        op(BPF_RET | BPF_K, 0, 0, HEAD),
        op(BPF_RET | BPF_K, 0, 0, 0),
    ]
}
