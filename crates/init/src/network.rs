//! The network of a sandbox whose launcher answers for it: every address is this namespace's own, and the sockets that
//! connections arrive at are the launcher's.

use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::{Errno, IoSlice, Result};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
    SocketType,
};

use crate::error::{Step, StepFailure};
use crate::orders::InitOrders;
use crate::sys::refused_packets;
use crate::sys::route::every_address_is_local;

/// The number of connections that wait at a listener to be accepted.
const BACKLOG: i32 = 128;

/// The port at which names are asked for.
const DNS: u16 = 53;

/// Leads every address to this namespace, and makes the sockets that the launcher gets: UDP first, and last the one
/// that receives the kernel's refusals, where there can be one.
pub(crate) fn prepare(orders: &InitOrders) -> std::result::Result<Vec<OwnedFd>, StepFailure> {
    let Some(listeners) = &orders.listeners else {
        return Ok(Vec::new());
    };
    every_address_is_local().map_err(|errno| StepFailure::new(Step::Network, "route", errno))?;
    let failed = |port: u16| {
        move |errno| StepFailure::new(Step::Network, format!("listen at port {port}"), errno)
    };
    let mut sockets =
        vec![bind_socket(SocketType::DGRAM, Ipv4Addr::UNSPECIFIED, DNS).map_err(failed(DNS))?];
    let anywhere = listeners.anywhere.iter();
    let loopback = listeners.loopback.iter();
    let all = anywhere
        .map(|port| (Ipv4Addr::UNSPECIFIED, *port))
        .chain(loopback.map(|port| (Ipv4Addr::LOCALHOST, *port)));
    for (address, port) in all {
        let socket = bind_socket(SocketType::STREAM, address, port)
            .and_then(|socket| rustix::net::listen(&socket, BACKLOG).map(|()| socket))
            .map_err(failed(port))?;
        sockets.push(socket);
    }
    // It only reports, so a kernel that has no such sockets is no reason to have no network.
    sockets.extend(refused_packets::watch());
    Ok(sockets)
}

fn new(kind: SocketType) -> Result<OwnedFd> {
    rustix::net::socket_with(AddressFamily::INET, kind, SocketFlags::CLOEXEC, None)
}

fn bind_socket(kind: SocketType, address: Ipv4Addr, port: u16) -> Result<OwnedFd> {
    let socket = new(kind)?;
    rustix::net::bind(&socket, &SocketAddrV4::new(address, port))?;
    Ok(socket)
}

/// Returns the descriptor over which the launcher asks for sockets, if it does.
pub(crate) fn socket_request_fd(orders: &InitOrders, fds: &[OwnedFd]) -> Result<Option<OwnedFd>> {
    let index = orders.listeners.as_ref().and_then(|all| all.within);
    let Some(index) = index else { return Ok(None) };
    let fd = fds.get(index as usize).ok_or(Errno::BADF)?;
    rustix::io::fcntl_dupfd_cloexec(fd, 0).map(Some)
}

/// Answers the launcher with a new socket, or with what the kernel says. Fails where nobody asks any more.
pub(crate) fn hand_out(within: &OwnedFd) -> Result<()> {
    let mut byte = [0];
    if rustix::net::recv(within, &mut byte, RecvFlags::DONTWAIT)?.0 == 0 {
        return Err(Errno::PIPE);
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let socket = match new(SocketType::STREAM) {
        Ok(socket) => socket,
        Err(errno) => {
            let number = errno.raw_os_error().to_le_bytes();
            return rustix::net::send(within, &number, flags).map(drop);
        }
    };
    let fds = [socket.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(Errno::MSGSIZE);
    }
    rustix::net::sendmsg(within, &[IoSlice::new(&[0; 4])], &mut control, flags).map(drop)
}
