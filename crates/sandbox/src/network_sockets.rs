//! The sockets of a sandbox's network that its launcher holds: connections of the program arrive there.
//!
//! A socket stays in the network namespace that it was made in, whoever holds it. So the launcher accepts outside what
//! the program connects to inside, and nothing of the launcher has to be reachable in the sandbox.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::{Errno, IoSliceMut};
use rustix::net::{AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags};

/// The sockets of a sandbox's network.
#[derive(Debug)]
pub struct NetworkSockets {
    /// UDP, port 53 of every address.
    pub udp: OwnedFd,
    /// TCP listeners. The own address of what they accept is where the program wanted to connect to.
    pub tcp: Vec<OwnedFd>,
    /// Receives the head of each packet by which the kernel refuses a connection to an address that is not loopback,
    /// because nobody listens at the port. Nothing where the kernel has no such sockets.
    pub refused: Option<OwnedFd>,
    /// Gives out sockets with which to connect to what the program serves.
    pub within: Option<SandboxSocketSource>,
}

impl NetworkSockets {
    /// Sorts what the first process has handed over: that of UDP comes first, that of refusals last.
    pub(super) fn new(
        mut sockets: Vec<OwnedFd>,
        within: Option<OwnedFd>,
    ) -> Option<NetworkSockets> {
        let is_packet = |socket: &mut OwnedFd| {
            let domain = rustix::net::sockopt::socket_domain(socket);
            domain == Ok(AddressFamily::PACKET)
        };
        let refused = sockets.pop_if(is_packet);
        if sockets.len() < 2 {
            return None;
        }
        let tcp = sockets.split_off(1);
        Some(NetworkSockets {
            udp: sockets.pop()?,
            tcp,
            refused,
            within: within.map(SandboxSocketSource),
        })
    }
}

/// Gives out unconnected TCP sockets that are in the sandbox's network.
#[derive(Debug)]
pub struct SandboxSocketSource(OwnedFd);

impl SandboxSocketSource {
    /// Returns a new one.
    ///
    /// # Errors
    /// `EPIPE` if the sandbox has ended; `EMFILE` and the like of socket(2).
    pub fn socket(&mut self) -> rustix::io::Result<OwnedFd> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut errno = [0; 4];
        rustix::net::send(self.0.as_fd(), &[1], SendFlags::NOSIGNAL)?;
        let len = rustix::net::recvmsg(
            self.0.as_fd(),
            &mut [IoSliceMut::new(&mut errno)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        )?
        .bytes;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(mut sockets) = message
                && let Some(socket) = sockets.next()
            {
                return Ok(socket);
            }
        }
        match (len, i32::from_le_bytes(errno)) {
            (4, number) if number > 0 => Err(Errno::from_raw_os_error(number)),
            _ => Err(Errno::PIPE),
        }
    }
}
