//! [`SandboxSocket`]: a socket at which this process answers programs of a sandbox.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::rand::{GetRandomFlags, getrandom};

/// The name of the socket in its directory.
const SOCKET: &str = "socket";

/// A socket that is listened at, and that nobody has connected to.
#[derive(Debug)]
pub struct SandboxSocket {
    listener: UnixListener,
    dir: SocketDirectory,
    fd: OwnedFd,
}

impl SandboxSocket {
    /// Makes a socket in a directory of its own, which is removed when this is dropped: in the user's runtime directory, else
    /// among temporary files. `name`: a part of the directory's name.
    ///
    /// # Errors
    /// Errors of `mkdir(2)`, `bind(2)` and `open(2)`.
    pub fn new(name: &str) -> std::io::Result<SandboxSocket> {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let base = runtime.filter(|dir| dir.is_absolute() && dir.is_dir());
        let base = base.unwrap_or_else(std::env::temp_dir);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let base = rustix::fs::openat(CWD, &base, flags, Mode::empty())?;
        SandboxSocket::within(base, name)
    }

    /// Makes a socket, as [`SandboxSocket::new`], in a directory below `base`.
    ///
    /// # Errors
    /// As [`SandboxSocket::new`].
    pub fn within(base: OwnedFd, name: &str) -> std::io::Result<SandboxSocket> {
        let mut number = [0; 16];
        getrandom(&mut number, GetRandomFlags::empty())?;
        let number = u128::from_le_bytes(number);
        let name = format!("trumanfs-{name}-{number:032x}");
        rustix::fs::mkdirat(&base, &name, Mode::RWXU)?;
        let dir = SocketDirectory { base, name };
        let opened = dir.open()?;
        // The path of a socket can be 107 bytes long, and that of the directory may be longer.
        let path = format!("/proc/self/fd/{}/{SOCKET}", opened.as_raw_fd());
        let listener = UnixListener::bind(path)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&opened, SOCKET, flags, Mode::empty())?;
        Ok(SandboxSocket { listener, dir, fd })
    }

    /// Lets every user of a sandbox connect. On the host, nobody else gets to it.
    ///
    /// # Errors
    /// Errors of `chmod(2)`.
    pub fn open_to_all(self) -> std::io::Result<SandboxSocket> {
        let mode = Mode::from_raw_mode(0o666);
        rustix::fs::chmodat(self.dir.open()?, SOCKET, mode, AtFlags::empty())?;
        Ok(self)
    }

    /// Returns what stands for the socket.
    #[must_use]
    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Returns what to accept connections by, which does not block. On the host nothing leads to the socket from now on.
    ///
    /// # Errors
    /// Too many descriptors are open.
    pub fn take_listener(&self) -> std::io::Result<UnixListener> {
        self.dir.remove();
        let listener = self.listener.try_clone()?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }
}

/// The directory of a socket, which nobody else can write to.
#[derive(Debug)]
struct SocketDirectory {
    base: OwnedFd,
    name: String,
}

impl SocketDirectory {
    fn open(&self) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.base, &self.name, flags, Mode::empty())
    }

    /// Removes it with the socket. Twice does no harm.
    fn remove(&self) {
        if let Ok(dir) = self.open() {
            let _ = rustix::fs::unlinkat(&dir, SOCKET, AtFlags::empty());
            let _ = rustix::fs::unlinkat(&self.base, &self.name, AtFlags::REMOVEDIR);
        }
    }
}

impl Drop for SocketDirectory {
    fn drop(&mut self) {
        self.remove();
    }
}
