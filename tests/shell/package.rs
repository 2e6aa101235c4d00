//! The Debian package: made with Debian's own tools, and what its scripts do at installing and removing. `benches/trials/package/run`
//! installs it in a clean Debian.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use crate::common::{binary, describe, need_tools, repository, run_limited};

/// A machine's root directory, as far as the package's scripts look at it.
struct Machine(tempfile::TempDir);

const SHIPPED: &str = "usr/share/trumanfs/apparmor/trumanfs";
const PROFILE: &str = "etc/apparmor.d/trumanfs";
const BESIDE: &str = "etc/apparmor.d/trumanfs.dpkg-dist";

impl Machine {
    fn new() -> Machine {
        let machine = Machine(tempfile::tempdir().unwrap());
        machine.write(SHIPPED, "first\n");
        machine
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.at(path)).ok()
    }

    fn script(&self, name: &str, word: &str) -> Output {
        let mut script = Command::new("sh");
        let place = repository().join("mount-scripts/debian").join(name);
        script.arg(place).arg(word).env("DPKG_ROOT", self.0.path());
        let output = run_limited(script, Duration::from_secs(30));
        assert!(output.status.success(), "{name}: {}", describe(&output));
        output
    }

    /// Installs a release with this profile. Returns what is said about it.
    fn install(&self, shipped: &str) -> String {
        self.write(SHIPPED, shipped);
        let output = self.script("postinst", "configure");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

#[test]
fn a_profile_of_apparmor_that_somebody_edited_stays() {
    let machine = Machine::new();
    machine.write("etc/apparmor.d/abi/4.0", "");
    assert_eq!(machine.install("first\n"), "");
    assert_eq!(machine.read(PROFILE).unwrap(), "first\n");
    assert_eq!(machine.install("second\n"), "");
    assert_eq!(machine.read(PROFILE).unwrap(), "second\n");

    machine.write(PROFILE, "edited\n");
    assert_eq!(machine.install("second\n"), "");
    assert_eq!(machine.read(PROFILE).unwrap(), "edited\n");
    assert!(machine.read(BESIDE).is_none(), "nothing is new");
    let said = machine.install("third\n");
    assert!(said.contains("stays as it is"), "{said}");
    assert_eq!(machine.read(PROFILE).unwrap(), "edited\n");
    assert_eq!(machine.read(BESIDE).unwrap(), "third\n");

    // Removed by somebody, it does not come back.
    fs::remove_file(machine.at(PROFILE)).unwrap();
    machine.install("fourth\n");
    assert!(machine.read(PROFILE).is_none());

    // A package that is removed leaves its configuration, one that is purged nothing.
    machine.write(PROFILE, "edited\n");
    machine.script("postrm", "remove");
    assert_eq!(machine.read(PROFILE).unwrap(), "edited\n");
    machine.script("postrm", "purge");
    assert!(machine.read(PROFILE).is_none() && machine.read(BESIDE).is_none());
    assert!(!machine.at("var/lib/trumanfs").exists());
}

#[test]
fn a_profile_that_was_there_before_the_package_stays() {
    let machine = Machine::new();
    machine.write("etc/apparmor.d/abi/4.0", "");
    machine.write(PROFILE, "of the administrator\n");
    let said = machine.install("first\n");
    assert!(said.contains("stays as it is"), "{said}");
    assert_eq!(machine.read(PROFILE).unwrap(), "of the administrator\n");
    assert_eq!(machine.read(BESIDE).unwrap(), "first\n");
}

#[test]
fn a_machine_without_apparmor_or_with_an_old_one_gets_no_profile() {
    let machine = Machine::new();
    assert_eq!(machine.install("first\n"), "");
    assert!(!machine.at("etc/apparmor.d").exists() && !machine.at("var").exists());
    machine.write("etc/apparmor.d/abi/3.0", "");
    assert_eq!(machine.install("first\n"), "");
    assert!(machine.read(PROFILE).is_none());
    machine.script("postrm", "purge");
}

#[test]
fn a_package_is_made_without_cargo_deb() {
    need_tools!("objcopy", "dpkg-deb", "dpkg-shlibdeps");
    let dir = tempfile::tempdir().unwrap();
    let mut package = Command::new(repository().join("mount-scripts/package"));
    package
        .arg("--dpkg")
        .arg(dir.path())
        .env("BINARY", binary())
        .env("DPKG_DEB_COMPRESSOR_TYPE", "none");
    let output = run_limited(package, Duration::from_secs(120));
    assert!(output.status.success(), "{}", describe(&output));
    let deb = dir.path().join("trumanfs.deb");
    let field = |name: &str| {
        let mut ask = Command::new("dpkg-deb");
        ask.arg("--field").arg(&deb).arg(name);
        let output = run_limited(ask, Duration::from_secs(30));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    assert_eq!(field("Version"), concat!(env!("CARGO_PKG_VERSION"), "-1"));
    let depends = field("Depends");
    assert!(
        depends.contains("libc6 (>= ") && depends.ends_with(", fuse3"),
        "{depends}"
    );
    let unpacked = dir.path().join("unpacked");
    let mut unpack = Command::new("dpkg-deb");
    unpack.arg("--raw-extract").arg(&deb).arg(&unpacked);
    let output = run_limited(unpack, Duration::from_secs(60));
    assert!(output.status.success(), "{}", describe(&output));
    // What `dpkg --verify` goes by.
    let mut check = Command::new("md5sum");
    check.args(["--check", "--quiet", "DEBIAN/md5sums"]);
    let output = run_limited(in_dir(check, &unpacked), Duration::from_secs(60));
    assert!(output.status.success(), "{}", describe(&output));
    for file in [
        "usr/share/man/man1/trumanfs-mount.1.gz",
        "usr/share/zsh/vendor-completions/_trumanfs",
        "usr/share/doc/trumanfs/copyright",
        "usr/sbin/mount.fuse.trumanfs",
    ] {
        assert!(unpacked.join(file).exists(), "{file}");
    }
    let mut version = Command::new(unpacked.join("usr/bin/trumanfs"));
    version.arg("--version");
    let output = run_limited(version, Duration::from_secs(30));
    assert!(output.status.success(), "{}", describe(&output));
}

fn in_dir(mut command: Command, dir: &Path) -> Command {
    command.current_dir(dir);
    command
}
