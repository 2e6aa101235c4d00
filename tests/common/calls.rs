//! The system calls, one function each, under their own names: no retries, no conveniences, errors as the kernel
//! returns them.
//!
//! Flags and modes are the plain numbers of the C headers, so that a test can also pass unknown ones.

#![allow(unsafe_code, reason = "some calls have no safe form")]

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use rustix::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use rustix::fs::{
    Access, AtFlags, CWD, FallocateFlags, FileType, Gid, Mode, OFlags, RenameFlags, Timespec,
    Timestamps, Uid, XattrFlags,
};
use rustix::path::Arg;

pub(crate) use libc::{
    F_GETLK, F_OFD_GETLK, F_OFD_SETLK, F_OK, F_RDLCK, F_SETLK, F_SETLKW, F_UNLCK, F_WRLCK, LOCK_EX,
    LOCK_NB, LOCK_SH, LOCK_UN, O_APPEND, O_CREAT, O_DIRECT, O_DIRECTORY, O_DSYNC, O_EXCL,
    O_NOATIME, O_NOFOLLOW, O_NONBLOCK, O_PATH, O_RDONLY, O_RDWR, O_SYNC, O_TMPFILE, O_TRUNC,
    O_WRONLY, R_OK, RENAME_EXCHANGE, RENAME_NOREPLACE, RENAME_WHITEOUT, S_IFBLK, S_IFCHR, S_IFDIR,
    S_IFIFO, S_IFLNK, S_IFMT, S_IFREG, S_IFSOCK, UTIME_NOW, UTIME_OMIT, W_OK, X_OK,
};
pub(crate) use rustix::fs::SeekFrom;
pub(crate) use rustix::io::Errno;

/// What a system call returns.
pub(crate) type Sys<T> = rustix::io::Result<T>;

/// A time as the kernel gives it: seconds and nanoseconds.
pub(crate) type Time = (i64, i64);

/// `struct stat`, in types that are the same everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) dev: u64,
    pub(crate) ino: u64,
    pub(crate) nlink: u64,
    /// Permission bits with setuid, setgid and sticky, without the type.
    pub(crate) mode: u32,
    /// The type alone (`S_IFREG`…).
    pub(crate) kind: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) rdev: u64,
    pub(crate) size: i64,
    pub(crate) blocks: i64,
    pub(crate) atime: Time,
    pub(crate) mtime: Time,
    pub(crate) ctime: Time,
}

fn convert(stat: rustix::fs::Stat) -> Stat {
    // The widths differ between machines, so a cast that is idle on this one is not on the next.
    #[allow(clippy::unnecessary_cast, clippy::cast_lossless)]
    Stat {
        dev: stat.st_dev as u64,
        ino: stat.st_ino as u64,
        nlink: stat.st_nlink as u64,
        mode: stat.st_mode as u32 & 0o7777,
        kind: stat.st_mode as u32 & S_IFMT,
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: stat.st_rdev as u64,
        size: stat.st_size as i64,
        blocks: stat.st_blocks as i64,
        atime: (stat.st_atime as i64, stat.st_atime_nsec as i64),
        mtime: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
        ctime: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
    }
}

fn bits(mode: u32) -> Mode {
    Mode::from_bits_retain(mode)
}

fn oflags(flags: i32) -> OFlags {
    OFlags::from_bits_retain(flags.cast_unsigned()) | OFlags::CLOEXEC
}

fn uid(id: Option<u32>) -> Option<Uid> {
    id.map(Uid::from_raw)
}

fn gid(id: Option<u32>) -> Option<Gid> {
    id.map(Gid::from_raw)
}

fn done(result: libc::c_int) -> Sys<i32> {
    if result < 0 { Err(last()) } else { Ok(result) }
}

fn last() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

// ── Opening ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

pub(crate) fn open(path: impl Arg, flags: i32, mode: u32) -> Sys<OwnedFd> {
    rustix::fs::open(path, oflags(flags), bits(mode))
}

pub(crate) fn openat(dir: impl AsFd, path: impl Arg, flags: i32, mode: u32) -> Sys<OwnedFd> {
    rustix::fs::openat(dir, path, oflags(flags), bits(mode))
}

/// `creat(2)`.
pub(crate) fn creat(path: impl Arg, mode: u32) -> Sys<OwnedFd> {
    open(path, O_CREAT | O_WRONLY | O_TRUNC, mode)
}

pub(crate) fn close(fd: OwnedFd) {
    drop(fd);
}

// ── Names ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

pub(crate) fn mkdir(path: impl Arg, mode: u32) -> Sys<()> {
    rustix::fs::mkdir(path, bits(mode))
}

pub(crate) fn mkdirat(dir: impl AsFd, path: impl Arg, mode: u32) -> Sys<()> {
    rustix::fs::mkdirat(dir, path, bits(mode))
}

pub(crate) fn rmdir(path: impl Arg) -> Sys<()> {
    rustix::fs::rmdir(path)
}

pub(crate) fn unlink(path: impl Arg) -> Sys<()> {
    rustix::fs::unlink(path)
}

pub(crate) fn unlinkat(dir: impl AsFd, path: impl Arg, flags: i32) -> Sys<()> {
    rustix::fs::unlinkat(dir, path, AtFlags::from_bits_retain(flags.cast_unsigned()))
}

pub(crate) fn rename(from: impl Arg, to: impl Arg) -> Sys<()> {
    rustix::fs::rename(from, to)
}

pub(crate) fn renameat(
    from_dir: impl AsFd,
    from: impl Arg,
    to_dir: impl AsFd,
    to: impl Arg,
) -> Sys<()> {
    rustix::fs::renameat(from_dir, from, to_dir, to)
}

pub(crate) fn renameat2(from: impl Arg, to: impl Arg, flags: u32) -> Sys<()> {
    rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::from_bits_retain(flags))
}

pub(crate) fn link(from: impl Arg, to: impl Arg) -> Sys<()> {
    rustix::fs::link(from, to)
}

pub(crate) fn linkat(
    from_dir: impl AsFd,
    from: impl Arg,
    to_dir: impl AsFd,
    to: impl Arg,
    flags: i32,
) -> Sys<()> {
    rustix::fs::linkat(
        from_dir,
        from,
        to_dir,
        to,
        AtFlags::from_bits_retain(flags.cast_unsigned()),
    )
}

pub(crate) fn symlink(target: impl Arg, path: impl Arg) -> Sys<()> {
    rustix::fs::symlink(target, path)
}

pub(crate) fn readlink(path: impl Arg) -> Sys<PathBuf> {
    rustix::fs::readlink(path, Vec::new())
        .map(|target| OsString::from_vec(target.into_bytes()).into())
}

/// `mknod(2)` with a type of `S_IFMT` in the mode.
pub(crate) fn mknod(path: impl Arg, mode: u32, dev: u64) -> Sys<()> {
    rustix::fs::mknodat(
        CWD,
        path,
        FileType::from_raw_mode(mode),
        bits(mode & 0o7777),
        dev,
    )
}

pub(crate) fn mkfifo(path: impl Arg, mode: u32) -> Sys<()> {
    mknod(path, S_IFIFO | mode, 0)
}

/// The names in a directory, without `.` and `..`, in the order of readdir.
pub(crate) fn readdir(path: impl Arg) -> Sys<Vec<OsString>> {
    let dir = rustix::fs::Dir::new(open(path, O_RDONLY | O_DIRECTORY, 0)?)?;
    let names = dir
        .map(|entry| entry.map(|entry| OsString::from_vec(entry.file_name().to_bytes().to_vec())));
    let names: Vec<OsString> = names.collect::<Sys<_>>()?;
    Ok(names
        .into_iter()
        .filter(|name| name != "." && name != "..")
        .collect())
}

// ── Attributes ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────

pub(crate) fn stat(path: impl Arg) -> Sys<Stat> {
    rustix::fs::stat(path).map(convert)
}

pub(crate) fn lstat(path: impl Arg) -> Sys<Stat> {
    rustix::fs::lstat(path).map(convert)
}

pub(crate) fn fstat(fd: impl AsFd) -> Sys<Stat> {
    rustix::fs::fstat(fd).map(convert)
}

pub(crate) fn fstatat(dir: impl AsFd, path: impl Arg, flags: i32) -> Sys<Stat> {
    rustix::fs::statat(dir, path, AtFlags::from_bits_retain(flags.cast_unsigned())).map(convert)
}

pub(crate) fn chmod(path: impl Arg, mode: u32) -> Sys<()> {
    rustix::fs::chmod(path, bits(mode))
}

pub(crate) fn fchmod(fd: impl AsFd, mode: u32) -> Sys<()> {
    rustix::fs::fchmod(fd, bits(mode))
}

/// `chown(2)`; `None` stands for -1, "leave it".
pub(crate) fn chown(path: impl Arg, owner: Option<u32>, group: Option<u32>) -> Sys<()> {
    rustix::fs::chown(path, uid(owner), gid(group))
}

pub(crate) fn lchown(path: impl Arg, owner: Option<u32>, group: Option<u32>) -> Sys<()> {
    rustix::fs::chownat(CWD, path, uid(owner), gid(group), AtFlags::SYMLINK_NOFOLLOW)
}

pub(crate) fn fchown(fd: impl AsFd, owner: Option<u32>, group: Option<u32>) -> Sys<()> {
    rustix::fs::fchown(fd, uid(owner), gid(group))
}

fn timestamps(atime: Time, mtime: Time) -> Timestamps {
    let spec = |(tv_sec, tv_nsec): Time| Timespec { tv_sec, tv_nsec };
    Timestamps {
        last_access: spec(atime),
        last_modification: spec(mtime),
    }
}

pub(crate) fn utimensat(path: impl Arg, atime: Time, mtime: Time) -> Sys<()> {
    rustix::fs::utimensat(CWD, path, &timestamps(atime, mtime), AtFlags::empty())
}

/// `utimensat(2)` with `AT_SYMLINK_NOFOLLOW`.
pub(crate) fn lutimens(path: impl Arg, atime: Time, mtime: Time) -> Sys<()> {
    rustix::fs::utimensat(
        CWD,
        path,
        &timestamps(atime, mtime),
        AtFlags::SYMLINK_NOFOLLOW,
    )
}

pub(crate) fn futimens(fd: impl AsFd, atime: Time, mtime: Time) -> Sys<()> {
    rustix::fs::futimens(fd, &timestamps(atime, mtime))
}

/// `access(2)`: asks with the real ids.
pub(crate) fn access(path: impl Arg, mode: i32) -> Sys<()> {
    rustix::fs::access(path, Access::from_bits_retain(mode.cast_unsigned()))
}

/// `faccessat(2)` with `AT_EACCESS`: asks with the effective ids.
pub(crate) fn eaccess(path: impl Arg, mode: i32) -> Sys<()> {
    rustix::fs::accessat(
        CWD,
        path,
        Access::from_bits_retain(mode.cast_unsigned()),
        AtFlags::EACCESS,
    )
}

pub(crate) fn setxattr(path: impl Arg, name: &str, value: &[u8], flags: i32) -> Sys<()> {
    rustix::fs::setxattr(
        path,
        name,
        value,
        XattrFlags::from_bits_retain(flags.cast_unsigned()),
    )
}

pub(crate) fn getxattr(path: impl Arg, name: &str) -> Sys<Vec<u8>> {
    let mut value = vec![0; 65536];
    let length = rustix::fs::getxattr(path, name, &mut value[..])?;
    value.truncate(length);
    Ok(value)
}

/// `getxattr(2)` into a buffer of `room` bytes; 0 asks for the size.
pub(crate) fn getxattr_into(path: impl Arg, name: &str, room: usize) -> Sys<usize> {
    if room == 0 {
        return rustix::fs::getxattr_query(path, name);
    }
    rustix::fs::getxattr(path, name, &mut vec![0; room][..])
}

pub(crate) fn listxattr(path: impl Arg) -> Sys<Vec<String>> {
    let mut list = vec![0; 65536];
    let length = rustix::fs::listxattr(path, &mut list[..])?;
    let names = list[..length]
        .split(|&byte| byte == 0)
        .filter(|name| !name.is_empty());
    Ok(names
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect())
}

pub(crate) fn removexattr(path: impl Arg, name: &str) -> Sys<()> {
    rustix::fs::removexattr(path, name)
}

// ── Content ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

pub(crate) fn read(fd: impl AsFd, length: usize) -> Sys<Vec<u8>> {
    let mut bytes = vec![0; length];
    let length = rustix::io::read(fd, &mut bytes[..])?;
    bytes.truncate(length);
    Ok(bytes)
}

pub(crate) fn pread(fd: impl AsFd, length: usize, offset: u64) -> Sys<Vec<u8>> {
    let mut bytes = vec![0; length];
    let length = rustix::io::pread(fd, &mut bytes[..], offset)?;
    bytes.truncate(length);
    Ok(bytes)
}

pub(crate) fn write(fd: impl AsFd, bytes: &[u8]) -> Sys<usize> {
    rustix::io::write(fd, bytes)
}

pub(crate) fn pwrite(fd: impl AsFd, bytes: &[u8], offset: u64) -> Sys<usize> {
    rustix::io::pwrite(fd, bytes, offset)
}

pub(crate) fn lseek(fd: impl AsFd, to: SeekFrom) -> Sys<u64> {
    rustix::fs::seek(fd, to)
}

fn c_path(path: impl Arg) -> Sys<CString> {
    path.into_c_str().map(|path| path.into_owned())
}

/// `truncate(2)`, by path; the length may be negative.
pub(crate) fn truncate(path: impl Arg, length: i64) -> Sys<()> {
    let path = c_path(path)?;
    // SAFETY: the path is a NUL-terminated string that lives over the call.
    done(unsafe { libc::truncate(path.as_ptr(), length) }).map(drop)
}

/// `ftruncate(2)`; the length may be negative.
pub(crate) fn ftruncate(fd: impl AsFd, length: i64) -> Sys<()> {
    // SAFETY: the descriptor is borrowed for the call.
    done(unsafe { libc::ftruncate(fd.as_fd().as_raw_fd(), length) }).map(drop)
}

pub(crate) fn fallocate(fd: impl AsFd, mode: i32, offset: u64, length: u64) -> Sys<()> {
    rustix::fs::fallocate(
        fd,
        FallocateFlags::from_bits_retain(mode.cast_unsigned()),
        offset,
        length,
    )
}

/// `copy_file_range(2)` between explicit offsets.
pub(crate) fn copy_file_range(
    from: impl AsFd,
    at: u64,
    to: impl AsFd,
    to_at: u64,
    length: usize,
) -> Sys<usize> {
    let (mut at, mut to_at) = (at, to_at);
    rustix::fs::copy_file_range(from, Some(&mut at), to, Some(&mut to_at), length)
}

pub(crate) fn fsync(fd: impl AsFd) -> Sys<()> {
    rustix::fs::fsync(fd)
}

pub(crate) fn fdatasync(fd: impl AsFd) -> Sys<()> {
    rustix::fs::fdatasync(fd)
}

pub(crate) fn syncfs(fd: impl AsFd) -> Sys<()> {
    rustix::fs::syncfs(fd)
}

pub(crate) fn statvfs(path: impl Arg) -> Sys<rustix::fs::StatVfs> {
    rustix::fs::statvfs(path)
}

pub(crate) fn fstatvfs(fd: impl AsFd) -> Sys<rustix::fs::StatVfs> {
    rustix::fs::fstatvfs(fd)
}

/// A buffer as O_DIRECT wants it: a whole number of pages, on a page's boundary.
pub(crate) struct Aligned {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    pub(crate) fn filled(byte: u8, length: usize) -> Self {
        let bytes = vec![byte; length + 4096];
        let start = bytes.as_ptr().align_offset(4096);
        Self {
            bytes,
            start,
            length,
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.length]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }
}

/// `pread(2)` into an aligned buffer.
pub(crate) fn pread_aligned(fd: impl AsFd, length: usize, offset: u64) -> Sys<Vec<u8>> {
    let mut buffer = Aligned::filled(0, length);
    let length = rustix::io::pread(fd, buffer.bytes_mut(), offset)?;
    Ok(buffer.bytes()[..length].to_vec())
}

// ── Locks ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

pub(crate) fn flock(fd: impl AsFd, operation: i32) -> Sys<()> {
    // SAFETY: the descriptor is borrowed for the call.
    done(unsafe { libc::flock(fd.as_fd().as_raw_fd(), operation) }).map(drop)
}

/// `fcntl(2)` with a range of bytes; a length of 0 reaches to the end. Returns the range as the kernel left it.
pub(crate) fn fcntl_lock(
    fd: impl AsFd,
    command: i32,
    kind: i32,
    start: i64,
    length: i64,
) -> Sys<libc::flock> {
    // SAFETY: an all-zero flock is a valid one.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = kind as libc::c_short;
    range.l_start = start;
    range.l_len = length;
    // SAFETY: the descriptor is borrowed and the range lives over the call.
    done(unsafe { libc::fcntl(fd.as_fd().as_raw_fd(), command, &raw mut range) })?;
    Ok(range)
}

// ── Memory ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

/// A mapping of a file.
pub(crate) struct Map {
    start: *mut libc::c_void,
    length: usize,
}

impl Map {
    /// Maps `length` bytes from `offset` on, shared or private, readable and perhaps writable.
    pub(crate) fn new(
        fd: impl AsFd,
        length: usize,
        offset: i64,
        shared: bool,
        writable: bool,
    ) -> Sys<Self> {
        let protection = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
        let flags = if shared {
            libc::MAP_SHARED
        } else {
            libc::MAP_PRIVATE
        };
        // SAFETY: the kernel chooses the address, so no memory in use is mapped over.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                protection,
                flags,
                fd.as_fd().as_raw_fd(),
                offset,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(last());
        }
        // A child that another test forks at this moment would keep this test's home busy.
        // SAFETY: the mapping was made above, whole, and belongs to nobody else yet.
        done(unsafe { libc::madvise(start, length, libc::MADV_DONTFORK) })?;
        Ok(Self { start, length })
    }

    /// Reads from the mapping; what another process writes meanwhile is seen byte by byte.
    pub(crate) fn get(&self, at: usize, length: usize) -> Vec<u8> {
        assert!(at + length <= self.length);
        // SAFETY: within the mapping, which lives as long as self; volatile because others write to it too.
        (at..at + length)
            .map(|at| unsafe { self.start.cast::<u8>().add(at).read_volatile() })
            .collect()
    }

    /// Writes into the mapping.
    pub(crate) fn put(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.length);
        for (index, &byte) in bytes.iter().enumerate() {
            // SAFETY: within the mapping, which is writable where a test writes to it; volatile because others read it.
            unsafe { self.start.cast::<u8>().add(at + index).write_volatile(byte) };
        }
    }

    /// `msync(2)` with `MS_SYNC`.
    pub(crate) fn msync(&self) -> Sys<()> {
        // SAFETY: exactly our own mapping.
        done(unsafe { libc::msync(self.start, self.length, libc::MS_SYNC) }).map(drop)
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: exactly our own mapping, not used any more.
        unsafe { libc::munmap(self.start, self.length) };
    }
}

// ── The process ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────

/// `sched_setscheduler` of this process: first come, first served (`SCHED_FIFO`).
pub(crate) fn first_come_first_served() -> Sys<()> {
    // SAFETY: all zeros is a valid sched_param, which the call only reads.
    let mut asked: libc::sched_param = unsafe { std::mem::zeroed() };
    asked.sched_priority = 1;
    // SAFETY: 0 is this process; the pointer is to a live value.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const asked) } {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

/// Takes from this process (a forked child) the capability to write to a file and leave its set-user-id.
pub(crate) fn drop_capability_to_keep_setid() {
    use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
    let sets = capabilities(None).expect("capget");
    let effective = sets.effective - CapabilitySet::FSETID;
    set_capabilities(None, CapabilitySets { effective, ..sets }).expect("capset");
}

pub(crate) fn umask(mask: u32) -> u32 {
    rustix::process::umask(bits(mask)).bits()
}

/// Ignores a signal in this process (a forked child).
pub(crate) fn ignore_signal(signal: i32) {
    // SAFETY: SIG_IGN runs no code of ours.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Limits the size of files that this process (a forked child) writes: RLIMIT_FSIZE.
pub(crate) fn limit_file_size(limit: u64) {
    let limit = rustix::process::Rlimit {
        current: Some(limit),
        maximum: Some(limit),
    };
    rustix::process::setrlimit(rustix::process::Resource::Fsize, limit).expect("setrlimit");
}

/// Gives this process (a forked child) a mount namespace of its own, from which nothing spreads.
pub(crate) fn unshare_mounts() -> Sys<()> {
    // SAFETY: changes this process's namespace, no memory.
    done(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    use rustix::mount::MountPropagationFlags;
    rustix::mount::mount_change(
        "/",
        MountPropagationFlags::REC | MountPropagationFlags::PRIVATE,
    )
}

/// A `struct file_handle` with room for 128 bytes.
#[repr(C)]
#[derive(Clone)]
pub(crate) struct Handle {
    pub(crate) bytes: libc::c_uint,
    pub(crate) kind: libc::c_int,
    pub(crate) handle: [u8; 128],
}

/// `AT_HANDLE_FID`: a handle that only names, and that a file system may give which cannot open one.
pub(crate) const AT_HANDLE_FID: i32 = 0x200;

/// `name_to_handle_at(2)`.
pub(crate) fn name_to_handle(path: impl Arg, flags: i32) -> Sys<Handle> {
    let path = c_path(path)?;
    let mut handle = Handle {
        bytes: 128,
        kind: 0,
        handle: [0; 128],
    };
    let mut mount = 0;
    // SAFETY: a struct file_handle with room for 128 bytes, as its first field says; all pointers live over the call.
    done(unsafe {
        libc::name_to_handle_at(
            libc::AT_FDCWD,
            path.as_ptr(),
            (&raw mut handle).cast(),
            &raw mut mount,
            flags,
        )
    })?;
    Ok(handle)
}

/// `open_by_handle_at(2)`, for reading.
pub(crate) fn open_by_handle(mount: impl AsFd, mut handle: Handle) -> Sys<OwnedFd> {
    // SAFETY: the handle has the bytes that its first field says, at most 128, and lives over the call.
    let fd = done(unsafe {
        libc::open_by_handle_at(
            mount.as_fd().as_raw_fd(),
            (&raw mut handle).cast(),
            libc::O_RDONLY | libc::O_CLOEXEC,
        )
    })?;
    // SAFETY: the call above made the descriptor, which nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `ioctl(2)` with a pointer to 512 bytes.
pub(crate) fn ioctl_words(fd: impl AsFd, request: u64, words: &mut [u64; 64]) -> Sys<i32> {
    // SAFETY: the requests in use (FS_IOC_GETFLAGS, FS_IOC_GETFSLABEL…) read or write at most so much.
    done(unsafe {
        libc::ioctl(
            fd.as_fd().as_raw_fd(),
            request as libc::Ioctl,
            words.as_mut_ptr(),
        )
    })
}
