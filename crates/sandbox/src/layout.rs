//! The file tree that a program sees, decided from a plan and from what the host has: nothing is mounted or made here.

use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::error::{LaunchError, Step};
use super::plan::{NetworkAccess, PlacedKind, PlacedMount, SandboxPlan, WritableDir};
use trumanfs_init::orders::{BindMount, BindSource, RootEntry};
use trumanfs_init::sys::mount::attr;

/// The names on the host's root that are system software, read-only: a link there is the same link in the sandbox.
pub(super) const SYSTEM_DIRS: [&str; 7] = ["usr", "bin", "sbin", "lib", "lib64", "lib32", "libx32"];

/// The entries of `/etc` that programs need and that can be shown: no accounts, no keys, no configuration of services.
/// Each directory is a mount more; files are copied.
pub(super) const ETC_ENTRIES: [&str; 19] = [
    "alternatives",
    "crypto-policies",
    "dotnet",
    "fonts",
    "ld.so.cache",
    "localtime",
    "magic",
    "mime.types",
    "os-release",
    "pki/ca-trust/extracted",
    "pki/tls/cert.pem",
    "pki/tls/certs",
    "pki/tls/openssl.cnf",
    "protocols",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
];

/// The directory in `/etc` from which Debian's script for Chromium reads its settings.
const CHROMIUM_SETTINGS: &str = "chromium.d";

/// A setting of the sandbox's own there. Chromium has a sandbox, too, and no sandbox starts in this one.
const OWN_CHROMIUM_SETTING: (&str, &[u8]) = (
    "trumanfs",
    b"export CHROMIUM_FLAGS=\"$CHROMIUM_FLAGS --no-sandbox\"\n",
);

/// The most settings that are copied.
const MAX_CHROMIUM_SETTINGS: usize = 100;

/// Files that are larger are mounted: a mount costs each launch about as much as copying this many bytes to the first
/// process and into the root.
const MAX_COPIED_BYTES: u64 = 16 << 10;

/// Names in `/etc` that begin so are shown, too: each version of Java has a directory of its own.
const ETC_PREFIXES: [&str; 1] = ["java-"];

/// The devices. Everything else of `/dev` is made anew.
pub(super) const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// The names in `/dev` that the sandbox makes itself.
const OWN_DEVICE_NAMES: [&str; 9] = [
    "console", "core", "fd", "ptmx", "pts", "shm", "stderr", "stdin", "stdout",
];

/// The directories that the sandbox makes itself, so that neither a home nor a bound path may take their place or
/// contain them.
const OWN_DIRS: [&str; 5] = ["etc", "dev", "proc", "tmp", "var"];

/// Something of the host that is shown, read-only, at a path of its own.
#[derive(Debug)]
pub(super) struct HostMount {
    pub(super) path: PathBuf,
    pub(super) source: BindSource,
    pub(super) is_dir: bool,
}

/// A tree: what is made in its root, and what is mounted there.
#[derive(Debug, Default)]
pub(super) struct SandboxLayout {
    pub(super) entries: Vec<RootEntry>,
    pub(super) binds: Vec<BindMount>,
}

/// Checks that a sandbox can show a home at its path.
///
/// # Errors
/// [`Step::Plan`] for a path that the sandbox has something of its own at.
pub fn check_home(path: &Path) -> Result<(), LaunchError> {
    place_of(path).map(drop)
}

/// Decides the tree, with where the homes, the scratch directory and all else that is shown of the host come from. The
/// plan's own home is the first of the homes.
///
/// # Errors
/// A path of the plan that cannot be where it is asked for, or that is not there.
pub(super) fn layout(
    plan: &SandboxPlan,
    homes: Vec<BindSource>,
    scratch: BindSource,
    shown: Vec<HostMount>,
    hidden: &[PathBuf],
    writable: Vec<BindSource>,
    placed: Vec<BindSource>,
) -> Result<SandboxLayout, LaunchError> {
    let mut home_paths = vec![place_of(&plan.home_path)?];
    for further in &plan.further_homes {
        home_paths.push(place_of(&further.path)?);
    }
    let mut layout = SandboxLayout::default();
    layout.add_system()?;
    layout.add_etc(plan)?;
    layout.add_devices();
    layout.entries.push(RootEntry::Dir("proc".into()));
    layout.entries.push(RootEntry::Dir("tmp".into()));
    layout.entries.push(RootEntry::Dir("var".into()));
    let mut devices = Vec::new();
    let mut late = |source, target: PathBuf, is_dir, attributes| {
        layout.binds.push(BindMount {
            source,
            target,
            is_dir,
            attributes: attributes | attr::NO_SUID | attr::NO_DEV,
            late: true,
        });
    };
    late(scratch, "tmp".into(), true, 0);
    for HostMount {
        path,
        source,
        is_dir,
    } in shown
    {
        late(source, place_of(&path)?, is_dir, attr::READ_ONLY);
    }
    for path in hidden {
        late(BindSource::Empty, place_of(path)?, true, attr::READ_ONLY);
    }
    for (WritableDir { path, .. }, source) in plan.writable.iter().zip(writable) {
        late(source, place_of(path)?, true, 0);
    }
    for (one, source) in plan.placed.iter().zip(placed) {
        let is_dir = is_directory(one)?;
        if one.kind == PlacedKind::ReadOnly {
            late(source, place_of(&one.path)?, is_dir, attr::READ_ONLY);
            continue;
        }
        devices.push(BindMount {
            source,
            target: device_place(&one.path)?,
            is_dir: false,
            attributes: attr::READ_ONLY | attr::NO_SUID | attr::NO_EXEC,
            late: true,
        });
    }
    let read_only = if plan.read_only { attr::READ_ONLY } else { 0 };
    for (home, path) in homes.into_iter().zip(home_paths) {
        late(home, path, true, read_only);
    }
    layout.binds.extend(devices);
    // Usually /var/tmp is /tmp. Where something is to lie below it, it cannot be a link.
    let in_var_tmp = |bind: &BindMount| bind.target.starts_with("var/tmp");
    layout.entries.push(if layout.binds.iter().any(in_var_tmp) {
        RootEntry::Dir("var/tmp".into())
    } else {
        RootEntry::Link("var/tmp".into(), "/tmp".into())
    });
    Ok(layout)
}

impl SandboxLayout {
    fn add_early(&mut self, path: &str, is_dir: bool) {
        self.binds.push(BindMount {
            source: BindSource::Path(Path::new("/").join(path)),
            target: path.into(),
            is_dir,
            attributes: 0,
            late: false,
        });
    }

    fn add_system(&mut self) -> Result<(), LaunchError> {
        for name in SYSTEM_DIRS {
            let path = Path::new("/").join(name);
            match link(&path) {
                Ok(Some(target)) => self.entries.push(RootEntry::Link(name.into(), target)),
                Ok(None) => self.add_early(name, true),
                Err(Errno::NOENT) if name != "usr" => {}
                Err(errno) => {
                    return Err(LaunchError::new(
                        Step::Source,
                        path.display().to_string(),
                        errno,
                    ));
                }
            }
        }
        Ok(())
    }

    /// A constructed `/etc`: one user, no host.
    fn add_etc(&mut self, plan: &SandboxPlan) -> Result<(), LaunchError> {
        self.entries.push(RootEntry::Dir("etc".into()));
        let (uid, gid) = (plan.uid, plan.gid);
        let name = if uid == 0 { "root" } else { "user" };
        let group = if gid == 0 { "root" } else { "user" };
        let own = plan.writable.first().map(|first| &first.path);
        let home = own.unwrap_or(&plan.home_path);
        let home = home.as_os_str().as_encoded_bytes();
        if home.iter().any(|byte| matches!(byte, b':' | b'\n')) {
            return Err(LaunchError::refused(
                Step::Plan,
                format!(
                    "{}: a home's path with a colon or a line break cannot stand in /etc/passwd",
                    plan.home_path.display()
                ),
            ));
        }
        let mut passwd = format!("{name}:x:{uid}:{gid}::").into_bytes();
        passwd.extend(home);
        passwd.extend(b":/bin/sh\n");
        let mut groups = format!("{group}:x:{gid}:\n");
        // Whatever belongs to somebody else on the host belongs to this user in a user namespace.
        if uid != 65534 {
            passwd.extend(b"nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n");
        }
        if gid != 65534 {
            groups.push_str("nogroup:x:65534:\n");
        }
        let mut file = |name: &str, content: &[u8]| {
            let path = Path::new("etc").join(name);
            self.entries.push(RootEntry::File(path, content.to_vec()));
        };
        file("passwd", &passwd);
        file("group", groups.as_bytes());
        file(
            "nsswitch.conf",
            b"passwd: files\ngroup: files\nhosts: files dns\nprotocols: files\nservices: files\n",
        );
        file(
            "hosts",
            b"127.0.0.1 localhost sandbox\n::1 localhost ip6-localhost ip6-loopback\n",
        );
        file("host.conf", b"multi on\n");
        match plan.network {
            NetworkAccess::None | NetworkAccess::Host => {
                file("resolv.conf", b"# There is no network here.\n")
            }
            // Every address leads to the launcher, which answers for allowed names.
            NetworkAccess::Captured(_) => file("resolv.conf", b"nameserver 127.0.0.1\n"),
        }
        file("hostname", b"sandbox\n");
        self.shown_etc();
        self.add_chromium();
        for (path, content) in &plan.etc_files {
            if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
                self.dirs_in_etc(above);
            }
            let path = Path::new("etc").join(path);
            self.entries.push(RootEntry::File(path, content.clone()));
        }
        Ok(())
    }

    fn shown_etc(&mut self) {
        for name in ETC_ENTRIES {
            // Private keys lie beside certificates, so of these directories parts are shown.
            if let Some((above, _)) = name.rsplit_once('/')
                && file_type(&Path::new("/etc").join(name)).is_ok()
            {
                self.dirs_in_etc(Path::new(above));
            }
            self.shown_in_etc(OsStr::new(name));
        }
        let listing = rustix::fs::openat(
            CWD,
            "/etc",
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .and_then(rustix::fs::Dir::new);
        for entry in listing.into_iter().flatten().flatten() {
            let name = entry.file_name().to_bytes();
            if ETC_PREFIXES.iter().any(|p| name.starts_with(p.as_bytes())) {
                self.shown_in_etc(std::os::unix::ffi::OsStrExt::from_bytes(name));
            }
        }
    }

    /// Copies the settings that Debian's script for Chromium reads, with the one that Chromium needs here.
    fn add_chromium(&mut self) {
        let from = Path::new("/etc").join(CHROMIUM_SETTINGS);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let listing = rustix::fs::openat(CWD, &from, flags, Mode::empty());
        let Ok(listing) = listing.and_then(rustix::fs::Dir::new) else {
            return;
        };
        let to = Path::new("etc").join(CHROMIUM_SETTINGS);
        self.entries.push(RootEntry::Dir(to.clone()));
        let (own, setting) = OWN_CHROMIUM_SETTING;
        self.entries
            .push(RootEntry::File(to.join(own), setting.to_vec()));
        for entry in listing.flatten().take(MAX_CHROMIUM_SETTINGS) {
            let name: &OsStr =
                std::os::unix::ffi::OsStrExt::from_bytes(entry.file_name().to_bytes());
            let is_file = file_type(&from.join(name)) == Ok(FileType::RegularFile);
            if is_file
                && name != own
                && let Some(content) = read_small_file(&from.join(name))
            {
                self.entries.push(RootEntry::File(to.join(name), content));
            }
        }
    }

    /// Makes a directory in `/etc`, with those above it, once.
    fn dirs_in_etc(&mut self, name: &Path) {
        let path = Path::new("etc").join(name);
        let mut above: Vec<&Path> = path.ancestors().collect();
        above.retain(|dir| dir.components().count() > 1);
        for dir in above.into_iter().rev() {
            let made = RootEntry::Dir(dir.to_owned());
            if !self.entries.contains(&made) {
                self.entries.push(made);
            }
        }
    }

    /// Shows an entry of `/etc`. A missing entry, or one that is no link, file or directory, is not shown: no program
    /// needs all of them.
    fn shown_in_etc(&mut self, name: &OsStr) {
        let path = Path::new("/etc").join(name);
        let target = Path::new("etc").join(name);
        match link(&path) {
            Ok(Some(to)) => self.entries.push(RootEntry::Link(target, to)),
            Ok(None) => {
                let is_dir = match file_type(&path) {
                    Ok(FileType::Directory) => true,
                    Ok(FileType::RegularFile) => false,
                    _ => return,
                };
                if !is_dir && let Some(content) = read_small_file(&path) {
                    self.entries.push(RootEntry::File(target, content));
                    return;
                }
                self.binds.push(BindMount {
                    source: BindSource::Path(path),
                    target,
                    is_dir,
                    attributes: 0,
                    late: false,
                });
            }
            Err(_) => {}
        }
    }

    fn add_devices(&mut self) {
        for dir in ["dev", "dev/pts", "dev/shm"] {
            self.entries.push(RootEntry::Dir(dir.into()));
        }
        for (name, target) in [
            ("ptmx", "pts/ptmx"),
            ("fd", "/proc/self/fd"),
            ("stdin", "/proc/self/fd/0"),
            ("stdout", "/proc/self/fd/1"),
            ("stderr", "/proc/self/fd/2"),
        ] {
            let path = Path::new("dev").join(name);
            self.entries.push(RootEntry::Link(path, target.into()));
        }
        for name in DEVICES {
            self.add_early(&format!("dev/{name}"), false);
        }
    }
}

/// Returns whether every sandbox shows a path of the host: system software.
pub(super) fn is_shown(path: &Path) -> bool {
    let first = path
        .strip_prefix("/")
        .ok()
        .and_then(|path| path.iter().next());
    first.is_some_and(|first| SYSTEM_DIRS.iter().any(|name| first == *name))
}

/// Returns where a path of the plan lies in the sandbox, relative to its root.
fn place_of(path: &Path) -> Result<PathBuf, LaunchError> {
    let refuse = |why: &str| {
        Err(LaunchError::refused(
            Step::Plan,
            format!("{}: {why}", path.display()),
        ))
    };
    let Ok(relative) = path.strip_prefix("/") else {
        return refuse("the path must be absolute");
    };
    let mut names = Vec::new();
    for component in relative.components() {
        match component {
            Component::Normal(name) => names.push(name),
            _ => return refuse("the path must not have `..`"),
        }
    }
    match names.as_slice() {
        [] => refuse("the host's root cannot be shown"),
        [only] if OWN_DIRS.iter().chain(&SYSTEM_DIRS).any(|own| only == own) => {
            refuse("the sandbox has one of its own there")
        }
        [first, ..] if ["dev", "proc", "sys"].iter().any(|own| first == own) => {
            refuse("nothing of /dev, /proc and /sys can be shown")
        }
        names => Ok(names.iter().collect()),
    }
}

/// Returns where a device lies in the sandbox, relative to its root: below `/dev`, and not in the place of what every
/// sandbox has there.
fn device_place(path: &Path) -> Result<PathBuf, LaunchError> {
    let refuse = |why: &str| {
        let why = format!("{}: {why}", path.display());
        Err(LaunchError::refused(Step::Plan, why))
    };
    let Ok(below) = path.strip_prefix("/dev") else {
        return refuse("a device must lie below /dev");
    };
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    let first = below.iter().next().unwrap_or_default();
    let mut own_names = DEVICES.iter().chain(&OWN_DEVICE_NAMES);
    match below.components().all(is_plain) && !first.is_empty() {
        true if own_names.any(|own| first == OsStr::new(own)) => {
            refuse("the sandbox has one of its own there")
        }
        true => Ok(Path::new("dev").join(below)),
        false => refuse("a device's path must be one below /dev, without `..`"),
    }
}

/// Returns whether a placed mount is a directory.
fn is_directory(placed: &PlacedMount) -> Result<bool, LaunchError> {
    let stat = rustix::fs::fstat(&placed.source).map_err(|errno| {
        LaunchError::new(Step::Source, placed.path.display().to_string(), errno)
    })?;
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

fn file_type(path: &Path) -> Result<FileType, Errno> {
    let stat = rustix::fs::statat(CWD, path, AtFlags::empty())?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}

/// Reads a file that everybody may read, unless it is large.
fn read_small_file(path: &Path) -> Option<Vec<u8>> {
    use std::io::Read;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(CWD, path, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    let everybody = Mode::ROTH.as_raw_mode();
    if stat.st_mode & everybody == 0 || u64::try_from(stat.st_size).ok()? > MAX_COPIED_BYTES {
        return None;
    }
    let mut content = Vec::with_capacity(usize::try_from(stat.st_size).ok()? + 1);
    std::fs::File::from(file)
        .take(MAX_COPIED_BYTES)
        .read_to_end(&mut content)
        .ok()?;
    Some(content)
}

/// Returns where a symbolic link points to; nothing if it is none.
fn link(path: &Path) -> Result<Option<PathBuf>, Errno> {
    use std::os::unix::ffi::OsStringExt;
    match rustix::fs::readlinkat(CWD, path, Vec::new()) {
        Ok(target) => Ok(Some(
            std::ffi::OsString::from_vec(target.into_bytes()).into(),
        )),
        Err(Errno::INVAL) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Returns the path of what a descriptor stands for, as this process sees it.
pub(super) fn path_of(fd: impl std::os::fd::AsFd) -> io::Result<PathBuf> {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
    link(Path::new(&path))?.ok_or_else(|| io::ErrorKind::NotFound.into())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn places_are_below_the_root_and_not_the_sandbox_s_own() {
        for good in ["/home/x", "/tmp/x", "/usr/local/home", "/x", "/home//x/"] {
            place_of(Path::new(good)).unwrap();
        }
        for bad in [
            "",
            "x",
            "/",
            "/usr",
            "/etc",
            "/tmp",
            "/a/../etc",
            "/proc/1",
            "/dev/shm/x",
            "/sys/x",
        ] {
            let error = place_of(Path::new(bad)).unwrap_err();
            assert_eq!(error.step, Step::Plan, "{bad}");
        }
    }
}
