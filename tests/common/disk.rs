//! File systems of their own, each in a file: to be taken away, brought back, or cloned as if the power had gone.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{describe, run_limited, trumanfs};

/// A file system in a file, and a home over a store in it; all of it is taken down when dropped.
pub(crate) struct Disk {
    dir: tempfile::TempDir,
    /// A loop device that is occupied, so that the disk gets another one.
    occupied: Option<String>,
}

pub(crate) fn run(program: &str, args: &[&Path]) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(args);
    let output = run_limited(command, Duration::from_secs(60));
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(format!("{program}: {}", describe(&output))),
    }
}

impl Disk {
    /// `mkfs`: the program that makes the file system, and its options.
    pub(crate) fn new(mkfs: &[&str], megabytes: u64) -> Result<Disk, String> {
        Disk::within(&std::env::temp_dir(), mkfs, megabytes)
    }

    /// As [`Disk::new`], with the file below a directory.
    pub(crate) fn within(base: &Path, mkfs: &[&str], megabytes: u64) -> Result<Disk, String> {
        let dir = tempfile::TempDir::with_prefix_in("trumanfs-disk-", base).unwrap();
        let disk = Disk {
            dir,
            occupied: None,
        };
        for name in ["image", "other"] {
            let file = fs::File::create(disk.at(name)).unwrap();
            file.set_len(megabytes << 20).unwrap();
        }
        fs::create_dir(disk.at("mnt")).unwrap();
        fs::create_dir(disk.at("home")).unwrap();
        let (program, options) = mkfs.split_first().unwrap();
        let mut args: Vec<&Path> = options.iter().map(Path::new).collect();
        let image = disk.at("image");
        args.push(&image);
        if Command::new(program).arg("-V").output().is_err() {
            return Err(format!("needs {program}"));
        }
        run(program, &args)?;
        disk.attach()
            .map_err(|why| format!("needs loop devices: {why}"))?;
        fs::create_dir(disk.store()).unwrap();
        Ok(disk)
    }

    /// Cuts the power: what the disk holds at this moment, as a disk of its own. The image lies where files can be cloned.
    pub(crate) fn cut(&self, base: &Path) -> Disk {
        static CUTS: AtomicU64 = AtomicU64::new(0);
        let cut = base.join(format!("cut{}", CUTS.fetch_add(1, Ordering::Relaxed)));
        let clone: [&Path; 3] = ["--reflink=always".as_ref(), &self.at("image"), &cut];
        run("cp", &clone).unwrap();
        Disk::of(base, &cut)
    }

    /// Brings up what is in an image, with the store that is there.
    pub(crate) fn of(base: &Path, image: &Path) -> Disk {
        let dir = tempfile::TempDir::with_prefix_in("trumanfs-disk-", base).unwrap();
        let disk = Disk {
            dir,
            occupied: None,
        };
        fs::rename(image, disk.at("image")).unwrap();
        for name in ["mnt", "home"] {
            fs::create_dir(disk.at(name)).unwrap();
        }
        // The other half of a cloned xfs may be mounted.
        let attached = disk.attach_with("loop,nouuid").or_else(|_| disk.attach());
        attached.unwrap();
        disk
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.at("mnt/store")
    }

    pub(crate) fn home(&self, name: &str) -> PathBuf {
        self.at("home").join(name)
    }

    pub(crate) fn device(&self) -> u64 {
        fs::metadata(self.store()).unwrap().dev()
    }

    pub(crate) fn attach(&self) -> Result<(), String> {
        self.attach_with("loop")
    }

    fn attach_with(&self, options: &str) -> Result<(), String> {
        let options: [&Path; 2] = ["-o".as_ref(), options.as_ref()];
        run(
            "mount",
            &[options[0], options[1], &self.at("image"), &self.at("mnt")],
        )
        .map(drop)
    }

    /// Unmounts the disk. A process that another test forks at this moment may hold something of it open, and a daemon that
    /// another test starts may have it in a mount namespace of its own, so that nothing is written out by that.
    pub(crate) fn detach(&self) {
        run("sync", &["--file-system".as_ref(), &self.at("mnt")]).unwrap();
        let until = std::time::Instant::now() + Duration::from_secs(10);
        while let Err(why) = run("umount", &[&self.at("mnt")]) {
            assert!(std::time::Instant::now() < until, "{why}");
            std::thread::sleep(Duration::from_millis(20));
        }
        // Where a mount namespace has it for longer, the file system goes on; what is in the image was synced.
        let image = self.at("image");
        let attached = || run("losetup", &["--associated".as_ref(), &image]).unwrap();
        while !attached().is_empty() && std::time::Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Takes the disk away and brings it back under another number.
    pub(crate) fn renumber(&mut self) {
        self.detach();
        let args: [&Path; 3] = ["--find".as_ref(), "--show".as_ref(), &self.at("other")];
        self.occupied = Some(run("losetup", &args).unwrap());
        self.attach().unwrap();
    }

    pub(crate) fn mount_home(&self, option: &str) {
        let (store, home) = (self.store(), self.at("home"));
        let mut mount: Vec<&Path> = vec!["mount".as_ref(), &store, &home];
        mount.extend(option.split(' ').map(Path::new));
        let output = trumanfs(&mount);
        assert!(output.status.success(), "{}", describe(&output));
        assert!(crate::common::watch::is_mountpoint(&self.at("home")));
    }

    pub(crate) fn umount_home(&self) {
        let output = trumanfs(&["umount".as_ref(), &*self.at("home")]);
        assert!(output.status.success(), "{}", describe(&output));
    }

    pub(crate) fn says(&self, words: &[&str]) -> String {
        says(&self.store(), words)
    }
}

/// Runs a command on a store, and returns what it says, errors too.
pub(crate) fn says(store: &Path, words: &[&str]) -> String {
    let (verb, rest) = words.split_first().unwrap();
    let mut args: Vec<PathBuf> = vec![verb.into(), store.into()];
    args.extend(rest.iter().map(PathBuf::from));
    let output = trumanfs(&args);
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

impl Drop for Disk {
    fn drop(&mut self) {
        for name in ["home", "mnt"] {
            crate::common::watch::detach(&self.at(name));
        }
        if let Some(device) = &self.occupied {
            let _ = run("losetup", &["--detach".as_ref(), device.as_ref()]);
        }
    }
}
