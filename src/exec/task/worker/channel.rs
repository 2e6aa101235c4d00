//! The socket between a worker and its supervisor: packets, the first of them with descriptors.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::worker_order::MAX_MESSAGE_BYTES;

/// The largest number of descriptors of an order: two places with four each, and a lock.
const MAX_DESCRIPTORS: usize = 9;

/// Makes both ends.
///
/// # Errors
/// Errors of `socketpair(2)`.
pub(in super::super) fn pair() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
}

/// Sends one message, with descriptors.
///
/// # Errors
/// Errors of `sendmsg(2)`: `EPIPE` where the other end is gone.
pub(in super::super) fn send(
    socket: impl AsFd,
    message: &impl Serialize,
    descriptors: &[BorrowedFd<'_>],
) -> rustix::io::Result<()> {
    let text = serde_json::to_vec(message).map_err(|_| Errno::INVAL)?;
    send_bytes(socket, &text, descriptors)
}

/// Sends bytes as one message.
///
/// # Errors
/// As [`send`].
pub(in super::super) fn send_bytes(
    socket: impl AsFd,
    text: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> rustix::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::INVAL);
    }
    let data = [IoSlice::new(text)];
    loop {
        match rustix::net::sendmsg(&socket, &data, &mut ancillary, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            sent => return sent.map(drop),
        }
    }
}

/// Receives one message; nothing where the other end is gone.
///
/// # Errors
/// Errors of `recvmsg(2)`; `EBADMSG` for a message that is too long.
pub(in super::super) fn receive_bytes(
    socket: impl AsFd,
) -> rustix::io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
    let mut text = vec![0; MAX_MESSAGE_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut data = [IoSliceMut::new(&mut text)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        match rustix::net::recvmsg(&socket, &mut data, &mut ancillary, flags) {
            Err(Errno::INTR) => {}
            Err(Errno::CONNRESET) => return Ok(None),
            received => break received?,
        }
    };
    if received.bytes == 0 {
        return Ok(None);
    }
    if received.bytes >= MAX_MESSAGE_BYTES {
        return Err(Errno::BADMSG);
    }
    let descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(rights) => Some(rights),
        _ => None,
    });
    let descriptors = descriptors.flatten().collect();
    text.truncate(received.bytes);
    Ok(Some((text, descriptors)))
}

/// Receives one message of a type; nothing where the other end is gone.
///
/// # Errors
/// As [`receive_bytes`]; `EBADMSG` for another type.
pub(in super::super) fn receive<T: DeserializeOwned>(
    socket: impl AsFd,
) -> rustix::io::Result<Option<(T, Vec<OwnedFd>)>> {
    let Some((text, descriptors)) = receive_bytes(socket)? else {
        return Ok(None);
    };
    let message = serde_json::from_slice(&text).map_err(|_| Errno::BADMSG)?;
    Ok(Some((message, descriptors)))
}
