//! Copies data between descriptors, leaving out holes.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::SeekFrom;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::world::holes::ranges_without_data;

/// Visits the data ranges in a range of a file, leaving out holes and space that is only allocated.
///
/// # Errors
/// Those of `lseek(2)` and of `visit`.
pub(super) fn each_data(
    from: &File,
    start: u64,
    end: u64,
    mut visit: impl FnMut(u64, u64) -> Result<()>,
) -> Result<()> {
    let mut at = start;
    while at < end {
        let data = match rustix::fs::seek(from, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(rustix::io::Errno::NXIO) => break, // A hole up to the end.
            Err(errno) => return Err(Error::os("lseek")(errno)),
        };
        if data >= end {
            break;
        }
        let hole = rustix::fs::seek(from, SeekFrom::Hole(data)).map_err(Error::os("lseek"))?;
        let mut data = data;
        for (start, stop) in ranges_without_data(from.as_fd(), data, hole.min(end)) {
            if data < start {
                visit(data, start)?;
            }
            data = stop;
        }
        if data < hole.min(end) {
            visit(data, hole.min(end))?;
        }
        at = hole;
    }
    Ok(())
}

/// Copies a range of a file to the same offset of another.
///
/// # Errors
/// Those of the system calls, `ENOSPC` above all.
pub(super) fn copy_bytes(from: &File, to: BorrowedFd<'_>, start: u64, end: u64) -> Result<()> {
    let (mut read, mut written) = (start, start);
    while written < end {
        let length = usize::try_from(end - written).unwrap_or(usize::MAX);
        match rustix::fs::copy_file_range(from, Some(&mut read), to, Some(&mut written), length) {
            Ok(0) => return Ok(()),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(
                rustix::io::Errno::XDEV | rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP,
            ) => return copy_by_hand(from, to, written, end),
            Err(errno) => return Err(Error::os("copy_file_range")(errno)),
        }
    }
    Ok(())
}

fn copy_by_hand(from: &File, to: BorrowedFd<'_>, mut at: u64, end: u64) -> Result<()> {
    let mut buffer = vec![0; 1 << 18];
    while at < end {
        let want = usize::try_from(end - at)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let part = buffer.get_mut(..want).unwrap_or_default();
        let read = from.read_at(part, at).map_err(|e| io_error("pread", &e))?;
        let mut rest = part.get(..read).unwrap_or_default();
        if rest.is_empty() {
            return Ok(());
        }
        while !rest.is_empty() {
            match rustix::io::pwrite(to, rest, at) {
                Ok(n) => {
                    rest = rest.get(n..).unwrap_or_default();
                    at += n as u64;
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(Error::os("pwrite")(errno)),
            }
        }
    }
    Ok(())
}

/// Adds the name of the system call to an error of the standard library.
pub(super) fn io_error(call: &'static str, error: &std::io::Error) -> Error {
    Error::io(call, error)
}

/// Returns the SHA-256 of a content, in hexadecimal.
///
/// # Errors
/// As `read_at`.
pub(super) fn digest_of(
    size: u64,
    read_at: impl Fn(&mut [u8], u64) -> Result<usize>,
) -> Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    let mut at = 0;
    while at < size {
        let read = read_at(&mut buffer, at)?;
        if read == 0 {
            break;
        }
        hash.update(buffer.get(..read).unwrap_or_default());
        at += read as u64;
    }
    let digest = hash.finalize();
    Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}
