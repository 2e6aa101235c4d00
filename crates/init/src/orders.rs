//! The orders of the launcher to the first process of a sandbox, as bytes between the two.
//!
//! Everything is decided by the launcher; the first process carries out what stands here, in this order, and decides
//! nothing. Both ends are the same build, so the format has no version.

use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::backend::Backend;

/// The orders. Paths in the sandbox are relative to its root, without a slash at the front.
#[derive(Debug, PartialEq, Eq)]
pub struct InitOrders {
    /// The backend that makes the sandbox. The first process does not make again what the backend has made already.
    pub backend: Backend,
    /// The user, in the sandbox as outside.
    pub uid: u32,
    /// The group, in the sandbox as outside.
    pub gid: u32,
    /// True if programs may trace each other.
    pub ptrace: bool,
    /// True if programs get no sockets of the internet.
    pub refuses_internet: bool,
    /// True if the `/proc` of the container around may be shown where a new one is refused.
    pub shares_proc: bool,
    /// The size of a terminal of the sandbox's own that the program gets in place of the streams, in characters.
    pub terminal: Option<(u16, u16)>,
    /// The files, by descriptor, to which the first process writes `0`, and so enters its cgroup.
    pub groups: Vec<u32>,
    /// The most bytes that the root and `/dev/shm` may hold.
    pub memory_files: u64,
    /// The entries that are made in the root.
    pub entries: Vec<RootEntry>,
    /// The mounts, in this order. All up to the first that is `late` are read-only. [`Backend::Landlock`] mounts nothing:
    /// these are the paths that may be opened.
    pub binds: Vec<BindMount>,
    /// Limits by number of the resource.
    pub rlimits: Vec<(u32, u64)>,
    /// The sockets that the launcher gets, where it answers for the network.
    pub listeners: Option<ListenerPorts>,
    /// The limits that the first process sees to itself.
    pub watch: WatchLimits,
    /// The program that runs. Without one, the first process takes orders to start programs.
    pub program: Option<StartOrder>,
}

/// Sockets of the sandbox that the launcher gets.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ListenerPorts {
    /// TCP ports of every address.
    pub anywhere: Vec<u16>,
    /// TCP ports of 127.0.0.1.
    pub loopback: Vec<u16>,
    /// The descriptor over which the launcher asks for unconnected sockets.
    pub within: Option<u32>,
}

/// The limits that the first process watches itself; 0 is no limit.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct WatchLimits {
    /// Processor time of all processes, in microseconds.
    pub cpu_us: u64,
    /// Memory of all processes and of /dev/shm, in bytes.
    pub memory: u64,
    /// Processes and threads, without the first one.
    pub processes: u64,
}

/// Something that is made in the sandbox's root.
#[derive(Debug, PartialEq, Eq)]
pub enum RootEntry {
    /// A directory.
    Dir(PathBuf),
    /// A file with this content.
    File(PathBuf, Vec<u8>),
    /// A symbolic link, and what it points to.
    Link(PathBuf, PathBuf),
}

/// Something of the host that is mounted in the sandbox.
#[derive(Debug, PartialEq, Eq)]
pub struct BindMount {
    /// The source of the mount.
    pub source: BindSource,
    /// The path of the mount in the sandbox.
    pub target: PathBuf,
    /// True if the mount is a directory.
    pub is_dir: bool,
    /// `MOUNT_ATTR_*`, beside those that all have.
    pub attributes: u64,
    /// True if the mount is made after the root was made read-only.
    pub late: bool,
}

/// The source of a bind mount.
#[derive(Debug, PartialEq, Eq)]
pub enum BindSource {
    /// A path of the host.
    Path(PathBuf),
    /// A path of the host, where the thing must still be that a descriptor stands for.
    Verified(PathBuf, u32),
    /// A detached mount, by descriptor.
    Detached(u32),
    /// An empty directory.
    Empty,
}

/// Bytes that are being read; everything is `None` after the first that does not fit.
struct OrderReader<'a>(&'a [u8]);

impl<'a> OrderReader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }
    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }
    fn flag(&mut self) -> Option<bool> {
        self.byte().map(|byte| byte != 0)
    }
    fn int(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }
    fn long(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }
    fn bytes(&mut self) -> Option<Vec<u8>> {
        let len = usize::try_from(self.int()?).ok()?;
        self.take(len).map(<[u8]>::to_vec)
    }
    fn path(&mut self) -> Option<PathBuf> {
        Some(std::ffi::OsString::from_vec(self.bytes()?).into())
    }
    fn text(&mut self) -> Option<CString> {
        CString::new(self.bytes()?).ok()
    }
    fn list<T>(&mut self, one: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.int()?;
        (0..count).map(|_| one(self)).collect()
    }
    fn entry(&mut self) -> Option<RootEntry> {
        Some(match self.byte()? {
            0 => RootEntry::Dir(self.path()?),
            1 => RootEntry::File(self.path()?, self.bytes()?),
            2 => RootEntry::Link(self.path()?, self.path()?),
            _ => return None,
        })
    }
    fn ports(&mut self) -> Option<Vec<u16>> {
        self.list(|bytes| bytes.int()?.try_into().ok())
    }
    fn terminal(&mut self) -> Option<Option<(u16, u16)>> {
        if self.flag()? {
            let half = |number: u32| u16::try_from(number).ok();
            Some(Some((half(self.int()?)?, half(self.int()?)?)))
        } else {
            Some(None)
        }
    }
    fn listeners(&mut self) -> Option<Option<ListenerPorts>> {
        if !self.flag()? {
            return Some(None);
        }
        Some(Some(ListenerPorts {
            anywhere: self.ports()?,
            loopback: self.ports()?,
            within: if self.flag()? {
                Some(self.int()?)
            } else {
                None
            },
        }))
    }
    fn start(&mut self) -> Option<StartOrder> {
        Some(StartOrder {
            candidates: self.list(Self::text)?,
            arguments: self.list(Self::text)?,
            environment: self.list(Self::text)?,
            directory: self.text()?,
        })
    }
    fn bind(&mut self) -> Option<BindMount> {
        let source = match self.byte()? {
            0 => BindSource::Path(self.path()?),
            1 => BindSource::Verified(self.path()?, self.int()?),
            2 => BindSource::Detached(self.int()?),
            3 => BindSource::Empty,
            _ => return None,
        };
        Some(BindMount {
            source,
            target: self.path()?,
            is_dir: self.flag()?,
            attributes: self.long()?,
            late: self.flag()?,
        })
    }
}

struct OrderWriter(Vec<u8>);

impl OrderWriter {
    fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }
    fn int(&mut self, number: u32) {
        self.0.extend(number.to_le_bytes());
    }
    fn long(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }
    /// Nothing that is written is as long as 4 GiB: the kernel takes no such path, argument or message.
    fn count(&mut self, count: usize) {
        self.int(u32::try_from(count).unwrap_or(u32::MAX));
    }
    fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.extend(bytes);
    }
    fn path(&mut self, path: &std::path::Path) {
        self.bytes(path.as_os_str().as_encoded_bytes());
    }
    fn texts(&mut self, texts: &[CString]) {
        self.count(texts.len());
        for text in texts {
            self.bytes(text.to_bytes());
        }
    }
    fn ports(&mut self, ports: &[u16]) {
        self.count(ports.len());
        ports.iter().for_each(|port| self.int((*port).into()));
    }
    fn terminal(&mut self, size: Option<(u16, u16)>) {
        self.byte(u8::from(size.is_some()));
        if let Some((rows, columns)) = size {
            self.int(rows.into());
            self.int(columns.into());
        }
    }
    fn listeners(&mut self, listeners: Option<&ListenerPorts>) {
        self.byte(u8::from(listeners.is_some()));
        let Some(listeners) = listeners else { return };
        self.ports(&listeners.anywhere);
        self.ports(&listeners.loopback);
        self.byte(u8::from(listeners.within.is_some()));
        listeners.within.iter().for_each(|index| self.int(*index));
    }
    fn entry(&mut self, entry: &RootEntry) {
        match entry {
            RootEntry::Dir(path) => {
                self.byte(0);
                self.path(path);
            }
            RootEntry::File(path, content) => {
                self.byte(1);
                self.path(path);
                self.bytes(content);
            }
            RootEntry::Link(path, target) => {
                self.byte(2);
                self.path(path);
                self.path(target);
            }
        }
    }
    fn start(&mut self, start: &StartOrder) {
        self.texts(&start.candidates);
        self.texts(&start.arguments);
        self.texts(&start.environment);
        self.bytes(start.directory.to_bytes());
    }
    fn bind(&mut self, bind: &BindMount) {
        match &bind.source {
            BindSource::Path(path) => {
                self.byte(0);
                self.path(path);
            }
            BindSource::Verified(path, index) => {
                self.byte(1);
                self.path(path);
                self.int(*index);
            }
            BindSource::Detached(index) => {
                self.byte(2);
                self.int(*index);
            }
            BindSource::Empty => self.byte(3),
        }
        self.path(&bind.target);
        self.byte(u8::from(bind.is_dir));
        self.long(bind.attributes);
        self.byte(u8::from(bind.late));
    }
}

impl InitOrders {
    /// Writes the orders.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = OrderWriter(Vec::with_capacity(8192));
        out.byte(self.backend as u8);
        out.int(self.uid);
        out.int(self.gid);
        out.byte(u8::from(self.ptrace));
        out.byte(u8::from(self.refuses_internet));
        out.byte(u8::from(self.shares_proc));
        out.terminal(self.terminal);
        out.count(self.groups.len());
        self.groups.iter().for_each(|index| out.int(*index));
        out.long(self.memory_files);
        out.count(self.entries.len());
        self.entries.iter().for_each(|entry| out.entry(entry));
        out.count(self.binds.len());
        self.binds.iter().for_each(|bind| out.bind(bind));
        out.count(self.rlimits.len());
        for (resource, limit) in &self.rlimits {
            out.int(*resource);
            out.long(*limit);
        }
        out.listeners(self.listeners.as_ref());
        out.long(self.watch.cpu_us);
        out.long(self.watch.memory);
        out.long(self.watch.processes);
        out.byte(u8::from(self.program.is_some()));
        self.program.iter().for_each(|start| out.start(start));
        out.0
    }

    /// Reads what [`InitOrders::to_bytes`] wrote; nothing if these are other bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut bytes = OrderReader(bytes);
        let read = Self {
            backend: Backend::from_number(bytes.byte()?)?,
            uid: bytes.int()?,
            gid: bytes.int()?,
            ptrace: bytes.flag()?,
            refuses_internet: bytes.flag()?,
            shares_proc: bytes.flag()?,
            terminal: bytes.terminal()?,
            groups: bytes.list(OrderReader::int)?,
            memory_files: bytes.long()?,
            entries: bytes.list(OrderReader::entry)?,
            binds: bytes.list(OrderReader::bind)?,
            rlimits: bytes.list(|bytes| Some((bytes.int()?, bytes.long()?)))?,
            listeners: bytes.listeners()?,
            watch: WatchLimits {
                cpu_us: bytes.long()?,
                memory: bytes.long()?,
                processes: bytes.long()?,
            },
            program: if bytes.flag()? {
                Some(bytes.start()?)
            } else {
                None
            },
        };
        bytes.0.is_empty().then_some(read)
    }
}

/// A program that is to be started.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct StartOrder {
    /// Files that the program may be.
    pub candidates: Vec<CString>,
    /// Its arguments, with its name first.
    pub arguments: Vec<CString>,
    /// Its environment, `NAME=value` each.
    pub environment: Vec<CString>,
    /// Its working directory.
    pub directory: CString,
}

impl StartOrder {
    /// Writes the order.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = OrderWriter(Vec::with_capacity(4096));
        out.start(self);
        out.0
    }

    /// Reads what [`StartOrder::to_bytes`] wrote; nothing if these are other bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut bytes = OrderReader(bytes);
        let read = bytes.start()?;
        bytes.0.is_empty().then_some(read)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    fn some() -> InitOrders {
        InitOrders {
            backend: Backend::Bwrap,
            uid: 1000,
            gid: 100,
            ptrace: true,
            refuses_internet: true,
            shares_proc: true,
            terminal: Some((50, 132)),
            groups: vec![7, 8],
            memory_files: 1 << 40,
            entries: vec![
                RootEntry::Dir("a/b".into()),
                RootEntry::File("etc/hosts".into(), b"x\n".to_vec()),
                RootEntry::Link("bin".into(), "usr/bin".into()),
            ],
            binds: vec![
                BindMount {
                    source: BindSource::Path("/usr".into()),
                    target: "usr".into(),
                    is_dir: true,
                    attributes: 3,
                    late: false,
                },
                BindMount {
                    source: BindSource::Verified("/h".into(), 1),
                    target: "h".into(),
                    is_dir: true,
                    attributes: 0,
                    late: true,
                },
                BindMount {
                    source: BindSource::Empty,
                    target: "h/hidden".into(),
                    is_dir: true,
                    attributes: 1,
                    late: true,
                },
            ],
            rlimits: vec![(7, 1024)],
            listeners: Some(ListenerPorts {
                anywhere: vec![80, 65535],
                loopback: vec![3128],
                within: Some(5),
            }),
            watch: WatchLimits {
                cpu_us: 1,
                memory: 2,
                processes: 3,
            },
            program: Some(StartOrder {
                candidates: vec![c"/usr/bin/id".into()],
                arguments: vec![c"id".into(), c"".into()],
                environment: vec![c"A=b".into()],
                directory: c"/".into(),
            }),
        }
    }

    #[test]
    fn orders_survive_the_wire() {
        let none = InitOrders {
            program: None,
            terminal: None,
            ..some()
        };
        for orders in [some(), none] {
            assert_eq!(InitOrders::from_bytes(&orders.to_bytes()), Some(orders));
        }
    }

    #[test]
    fn a_part_of_orders_is_none() {
        let bytes = some().to_bytes();
        for cut in 0..bytes.len() {
            assert_eq!(InitOrders::from_bytes(&bytes[..cut]), None, "cut at {cut}");
        }
    }
}
