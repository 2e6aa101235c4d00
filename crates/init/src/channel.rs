//! The socket between a launcher and the first process of its sandbox: descriptors and orders in, words out.
//!
//! The channel is also the tie between the two: when one end is closed, the other one hears of it.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use crate::background::BackgroundProcesses;
use crate::error::{Step, StepFailure};
use crate::limit::LimitKind;
use crate::proc::ProcOwner;
use crate::sys::program::ResourceUsage;

/// The most descriptors that the kernel takes in one message.
pub const MAX_DESCRIPTORS: usize = 250;

/// A message of the first process to the launcher.
#[derive(Debug)]
pub enum InitMessage {
    /// Everything is set up, and the program is being started. The sockets that the launcher gets, and whose `/proc` the
    /// sandbox has.
    SetUp(Vec<OwnedFd>, ProcOwner),
    /// Something failed, and nothing runs.
    Failed(StepFailure),
    /// The program has ended with this wait status. What was used, if nothing else is left in the sandbox; and the
    /// processes that still ran.
    Ended(i32, Option<ResourceUsage>, BackgroundProcesses),
    /// A program of a service has ended: its number, and the wait status.
    ProgramEnded(u32, i32),
    /// A program of a service was not started: its number, and the failure.
    ProgramFailed(u32, StepFailure),
    /// A limit that the first process looks after is passed; everything ends. The processor time that it has counted,
    /// in microseconds.
    Over(LimitKind, u64),
    /// The program is stopped, as by ^Z at its terminal, until the launcher has it [go on](go_on).
    Stopped,
}

/// Makes the two ends.
pub fn pair() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
}

/// Sends the orders, in a sealed file in memory, and descriptors after it.
pub fn send_orders(
    channel: impl AsFd,
    orders: &[u8],
    others: &[BorrowedFd<'_>],
) -> rustix::io::Result<()> {
    let file = rustix::fs::memfd_create("orders", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut rest = orders;
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest)?;
        rest = rest.get(written..).unwrap_or_default();
    }
    rustix::fs::fcntl_add_seals(
        &file,
        SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE,
    )?;
    let fds: Vec<BorrowedFd<'_>> = [file.as_fd()]
        .into_iter()
        .chain(others.iter().copied())
        .collect();
    let mut space = vec![MaybeUninit::uninit(); SendAncillaryMessage::ScmRights(&fds).size()];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(Errno::MSGSIZE);
    }
    rustix::net::sendmsg(
        channel,
        &[IoSlice::new(&[0])],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

/// Receives what [`send_orders`] sent; nothing if the other end was closed.
pub fn receive_orders(channel: impl AsFd) -> rustix::io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS + 1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    rustix::net::recvmsg(
        channel,
        &mut [IoSliceMut::new(&mut byte)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let mut fds: Vec<OwnedFd> = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(some) = message {
            fds.extend(some);
        }
    }
    if fds.is_empty() {
        return Ok(None);
    }
    let file = fds.remove(0);
    let len = usize::try_from(rustix::fs::fstat(&file)?.st_size).unwrap_or(0);
    let mut orders = vec![0; len];
    let mut filled = 0;
    while let Some(rest) = orders.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match rustix::io::pread(&file, rest, filled as u64)? {
            0 => return Err(Errno::IO),
            some => filled += some,
        }
    }
    Ok(Some((orders, fds)))
}

/// Says that everything is set up, with the sockets that the launcher gets.
pub fn send_set_up(
    channel: impl AsFd,
    sockets: &[OwnedFd],
    proc: ProcOwner,
) -> rustix::io::Result<()> {
    let fds: Vec<BorrowedFd<'_>> = sockets.iter().map(AsFd::as_fd).collect();
    let mut space = vec![MaybeUninit::uninit(); SendAncillaryMessage::ScmRights(&fds).size()];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(Errno::MSGSIZE);
    }
    let bytes = InitMessage::SetUp(Vec::new(), proc).to_bytes();
    let text = [IoSlice::new(&bytes)];
    rustix::net::sendmsg(channel, &text, &mut control, SendFlags::NOSIGNAL).map(drop)
}

/// Says something to the launcher.
pub fn send(channel: impl AsFd, message: &InitMessage) -> rustix::io::Result<()> {
    let bytes = message.to_bytes();
    rustix::net::send(channel, &bytes, SendFlags::NOSIGNAL).map(drop)
}

/// Has a program that is stopped go on.
pub fn go_on(channel: impl AsFd) -> rustix::io::Result<()> {
    rustix::net::send(channel, &[0], SendFlags::NOSIGNAL).map(drop)
}

/// Returns whether the launcher has the program [go on](go_on); it has closed its end if not.
pub fn is_to_go_on(channel: impl AsFd) -> bool {
    let mut byte = [0];
    matches!(
        rustix::net::recv(channel, &mut byte, RecvFlags::empty()),
        Ok((_, 1..))
    )
}

/// Hears what the first process says; nothing if it has closed its end or said something strange.
pub fn receive(channel: impl AsFd) -> rustix::io::Result<Option<InitMessage>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; 8192];
    let mut receive = || {
        let mut text = [IoSliceMut::new(&mut bytes)];
        rustix::net::recvmsg(&channel, &mut text, &mut control, RecvFlags::CMSG_CLOEXEC)
    };
    let len = match receive() {
        // It has ended with orders unread. That is reported first and once; what it said before is still there.
        Err(Errno::CONNRESET) => receive()?,
        received => received?,
    }
    .bytes;
    let message = bytes.get(..len).and_then(InitMessage::from_bytes);
    if let Some(InitMessage::SetUp(mut sockets, proc)) = message {
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(some) = message {
                sockets.extend(some);
            }
        }
        return Ok(Some(InitMessage::SetUp(sockets, proc)));
    }
    Ok(message)
}

impl InitMessage {
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::SetUp(_, proc) => out.extend([0, *proc as u8]),
            Self::Failed(error) => {
                out.push(1);
                put(error, &mut out);
            }
            Self::ProgramEnded(number, status) => {
                out.push(3);
                out.extend(number.to_le_bytes());
                out.extend(status.to_le_bytes());
            }
            Self::ProgramFailed(number, error) => {
                out.push(4);
                out.extend(number.to_le_bytes());
                put(error, &mut out);
            }
            Self::Ended(status, used, background) => {
                out.push(2);
                out.extend(status.to_le_bytes());
                out.push(u8::from(used.is_some()));
                if let Some(used) = used {
                    out.extend(used.cpu_us.to_le_bytes());
                    out.extend(used.memory.to_le_bytes());
                }
                background.put(&mut out);
            }
            Self::Over(limit, cpu_us) => {
                out.extend([5, *limit as u8]);
                out.extend(cpu_us.to_le_bytes());
            }
            Self::Stopped => out.push(6),
        }
        out
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0, proc] => Some(Self::SetUp(Vec::new(), ProcOwner::from_number(*proc)?)),
            [1, error @ ..] => Some(Self::Failed(get(error)?)),
            [2, rest @ ..] => {
                let (status, rest) = rest.split_at_checked(4)?;
                let (has_used, mut rest) = rest.split_first()?;
                let mut used = None;
                if *has_used != 0 {
                    let (cpu, after) = rest.split_at_checked(8)?;
                    let (memory, after) = after.split_at_checked(8)?;
                    used = Some(ResourceUsage {
                        cpu_us: u64::from_le_bytes(cpu.try_into().ok()?),
                        memory: u64::from_le_bytes(memory.try_into().ok()?),
                    });
                    rest = after;
                }
                let background = BackgroundProcesses::get(rest)?;
                Some(Self::Ended(number(status)?, used, background))
            }
            [3, rest @ ..] => {
                let (which, status) = rest.split_at_checked(4)?;
                Some(Self::ProgramEnded(
                    number(which)?.cast_unsigned(),
                    number(status)?,
                ))
            }
            [4, rest @ ..] => {
                let (which, error) = rest.split_at_checked(4)?;
                Some(Self::ProgramFailed(
                    number(which)?.cast_unsigned(),
                    get(error)?,
                ))
            }
            [6] => Some(Self::Stopped),
            [5, limit, cpu @ ..] => Some(Self::Over(
                LimitKind::from_number(*limit)?,
                u64::from_le_bytes(cpu.try_into().ok()?),
            )),
            _ => None,
        }
    }
}

fn put(error: &StepFailure, out: &mut Vec<u8>) {
    out.push(error.step as u8);
    let errno = error.errno.map_or(0, Errno::raw_os_error);
    out.extend(errno.to_le_bytes());
    out.extend(error.about.bytes().take(4096));
}

fn get(bytes: &[u8]) -> Option<StepFailure> {
    let (step, rest) = bytes.split_first()?;
    let (errno, about) = rest.split_at_checked(4)?;
    let errno = number(errno)?;
    Some(StepFailure {
        step: Step::from_number(*step)?,
        about: String::from_utf8_lossy(about).into_owned(),
        errno: (errno != 0).then(|| Errno::from_raw_os_error(errno)),
    })
}

fn number(bytes: &[u8]) -> Option<i32> {
    Some(i32::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
mod tests {
    use super::*;
    use crate::background::{MAX_LINE_BYTES, MAX_LINES};

    #[test]
    fn what_was_said_is_heard_though_orders_were_left_unread() {
        let (ours, theirs) = pair().unwrap();
        send_orders(&ours, &[7], &[]).unwrap();
        let message = InitMessage::Failed(StepFailure::new(Step::UserMap, "", Errno::PERM));
        send(&theirs, &message).unwrap();
        drop(theirs);
        let received = receive(&ours).unwrap().unwrap();
        assert_eq!(format!("{received:?}"), format!("{message:?}"));
        assert!(receive(&ours).unwrap().is_none());
    }

    #[test]
    fn orders_and_words_come_through() {
        let (ours, theirs) = pair().unwrap();
        let null = rustix::fs::openat(
            rustix::fs::CWD,
            "/dev/null",
            rustix::fs::OFlags::RDONLY,
            rustix::fs::Mode::empty(),
        )
        .unwrap();
        let orders = vec![7; 1 << 20];
        send_orders(&ours, &orders, &[null.as_fd(), null.as_fd()]).unwrap();
        let (received, fds) = receive_orders(&theirs).unwrap().unwrap();
        assert_eq!((received, fds.len()), (orders, 2));
        for message in [
            InitMessage::SetUp(Vec::new(), ProcOwner::Container),
            InitMessage::Ended(
                256,
                None,
                BackgroundProcesses {
                    lines: vec![(vec![7; MAX_LINE_BYTES], u32::MAX); MAX_LINES],
                    others: 1,
                },
            ),
            InitMessage::Ended(
                9,
                Some(ResourceUsage {
                    cpu_us: u64::MAX,
                    memory: 1 << 40,
                }),
                BackgroundProcesses::default(),
            ),
            InitMessage::Over(LimitKind::Memory, 1 << 40),
            InitMessage::Stopped,
            InitMessage::Failed(StepFailure::new(Step::Mount, "/x", Errno::PERM)),
            InitMessage::Failed(StepFailure::refused(Step::Plan, "no")),
        ] {
            send(&theirs, &message).unwrap();
            let received = receive(&ours).unwrap().unwrap();
            assert_eq!(format!("{received:?}"), format!("{message:?}"));
        }
        send_set_up(&theirs, &fds, ProcOwner::Sandbox).unwrap();
        match receive(&ours).unwrap() {
            Some(InitMessage::SetUp(sockets, ProcOwner::Sandbox)) => assert_eq!(sockets.len(), 2),
            other => panic!("{other:?}"),
        }
        drop(theirs);
        assert!(receive(&ours).unwrap().is_none());
        drop(ours);
    }
}
