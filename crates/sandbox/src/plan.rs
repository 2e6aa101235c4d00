//! The plan that a caller decides before anything is done: what runs, what it sees, as whom and within which limits.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A program and everything that it can see and use. [`launch`](super::launch()) carries it out or fails; there is no
/// running with less.
#[derive(Debug)]
pub struct SandboxPlan {
    /// The root of the mounted home, `O_PATH` will do.
    pub home: OwnedFd,
    /// True if that is a mount that is nowhere yet, which only this sandbox takes; no path leads there.
    pub home_is_detached: bool,
    /// The path of the home in the sandbox: absolute, as outside.
    pub home_path: PathBuf,
    /// Further homes, which the program may change as well.
    pub further_homes: Vec<FurtherHome>,
    /// The working directory in the sandbox.
    pub cwd: PathBuf,
    /// True if the home is bound read-only.
    pub read_only: bool,
    /// The directory that is `/tmp` in the sandbox; the user must be able to write to it.
    pub scratch: OwnedFd,
    /// Further directories that the program may write to. The first is that of the user in `/etc/passwd`, which is the
    /// home else.
    pub writable: Vec<WritableDir>,
    /// Single things of the host at paths of their own.
    pub placed: Vec<PlacedMount>,
    /// Further files of `/etc`, by their paths from there.
    pub etc_files: Vec<(PathBuf, Vec<u8>)>,
    /// The program and its arguments. A name without a slash is looked up in `search_path`, in the sandbox.
    pub argv: Vec<OsString>,
    /// The directories in which the program is looked up, in the form of PATH; those of `PATH` in `env` where this is
    /// not given.
    pub search_path: Option<OsString>,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// The further paths of the host that can be read, at the same paths.
    pub bind_ro: Vec<PathBuf>,
    /// The paths that are shown in no case, nor anything that contains them: the state of stores, where daemons are
    /// asked to undo and to purge.
    pub private: Vec<PathBuf>,
    /// The name of the directory with the state of a store. Programs see one empty, and nothing below one is shown.
    pub state_name: &'static [u8],
    /// True if processes of the sandbox may trace each other.
    pub ptrace: bool,
    /// The user, who is the home's owner. Who is not root can only run programs as themselves.
    pub uid: u32,
    /// The user's group.
    pub gid: u32,
    /// The resources that all processes may use together.
    pub limits: ResourceLimits,
    /// Standard input.
    pub stdin: OwnedFd,
    /// Standard output.
    pub stdout: OwnedFd,
    /// Standard error.
    pub stderr: OwnedFd,
    /// The size, in rows and columns, of a terminal of the sandbox's own that the program gets in place of these
    /// streams: [`RunningProgram::take_terminal`](super::RunningProgram::take_terminal).
    pub terminal: Option<(u16, u16)>,
    /// The network that the program can connect to.
    pub network: NetworkAccess,
}

/// The directories in which a program is looked up if nothing else says where.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

impl SandboxPlan {
    /// Returns where the program is looked up.
    pub(super) fn search_path(&self) -> &OsStr {
        let in_env = || self.env.iter().find(|(name, _)| name == "PATH");
        let path = self.search_path.as_ref();
        let path = path.or_else(|| in_env().map(|(_, value)| value));
        path.map_or(OsStr::new(DEFAULT_PATH), OsString::as_os_str)
    }

    /// Returns whether a path of the sandbox lies in a home.
    pub(super) fn is_in_home(&self, path: &Path) -> bool {
        let further = self.further_homes.iter().map(|further| &further.path);
        let mut homes = std::iter::once(&self.home_path).chain(further);
        homes.any(|home| path.starts_with(home))
    }
}

/// Something of the host that the program sees at a path that need not be its own.
#[derive(Debug)]
pub struct PlacedMount {
    /// The thing itself; `O_PATH` will do.
    pub source: OwnedFd,
    /// The path in the sandbox.
    pub path: PathBuf,
    /// The way in which it is shown.
    pub kind: PlacedKind,
}

impl PlacedMount {
    /// Duplicates it, for one more sandbox.
    ///
    /// # Errors
    /// Too many descriptors are open.
    pub fn duplicate(&self) -> rustix::io::Result<PlacedMount> {
        Ok(PlacedMount {
            source: rustix::io::fcntl_dupfd_cloexec(&self.source, 0)?,
            path: self.path.clone(),
            kind: self.kind,
        })
    }
}

/// The way in which something of the host is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlacedKind {
    /// A file, a directory or a socket, which cannot be changed.
    ReadOnly,
    /// A device below `/dev`, which works as for its user outside.
    Device,
}

/// A home beside the one that the program is started in.
#[derive(Debug)]
pub struct FurtherHome {
    /// Its root, as [`SandboxPlan::home`].
    pub home: OwnedFd,
    /// As [`SandboxPlan::home_is_detached`].
    pub is_detached: bool,
    /// Its path in the sandbox.
    pub path: PathBuf,
}

/// A directory beside the home that a program may write to.
#[derive(Debug)]
pub struct WritableDir {
    /// The path of the directory in the sandbox.
    pub path: PathBuf,
    /// The directory.
    pub dir: OwnedFd,
}

/// Limits; `None` is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceLimits {
    /// Processor time of all processes together.
    pub cpu: Option<Duration>,
    /// Memory of all processes together, in bytes. Files in `/dev/shm` count.
    pub memory: Option<u64>,
    /// Processes and threads at one time.
    pub processes: Option<u64>,
    /// Descriptors of each process.
    pub open_files: Option<u64>,
    /// The size of a file that is written, in bytes.
    pub file_size: Option<u64>,
}

impl ResourceLimits {
    /// The limits of whom nobody has given others: a thousand processes, and three quarters of the machine's memory.
    /// Enough for a compiler on each processor, and not for a fork bomb.
    #[must_use]
    pub fn usual() -> Self {
        let machine = rustix::system::sysinfo();
        let memory = machine.totalram.saturating_mul(u64::from(machine.mem_unit));
        Self {
            memory: Some(memory / 4 * 3),
            processes: Some(1024),
            ..Self::default()
        }
    }
}

/// The network that a program can connect to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum NetworkAccess {
    /// A loopback interface of its own, and nothing else.
    #[default]
    None,
    /// A loopback interface that has every address, so that connections arrive at sockets of the launcher's: it gets
    /// them by [`RunningProgram::take_sockets`](super::RunningProgram::take_sockets), and decides what becomes of each
    /// connection.
    Captured(CapturedPorts),
    /// The launcher's own network. Only for a backend without namespaces.
    Host,
}

/// The TCP ports of a sandbox at which the launcher listens. It also answers at UDP port 53 of every address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CapturedPorts {
    /// Ports of every address.
    pub anywhere: Vec<u16>,
    /// Ports of 127.0.0.1 alone.
    pub loopback: Vec<u16>,
    /// True if the launcher gets [`NetworkSockets::within`](super::NetworkSockets::within), to connect to what the
    /// program serves.
    pub within: bool,
}
