//! The AppArmor profile: where `mount-scripts/install` puts it, and what AppArmor's parser says of it.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{describe, need_tools, repository, run_limited};
use crate::room::LIMIT;

/// Installs into a directory that plays a system's root. The program that is installed is another one: what matters is where
/// things go.
fn install(root: &Path, prefix: &str) {
    let mut install = Command::new("bash");
    install
        .arg(repository().join("mount-scripts/install"))
        .env("DESTDIR", root)
        .env("PREFIX", prefix)
        .env("BINARY", "/bin/true")
        .env_remove("PROFILEDIR");
    let output = run_limited(install, LIMIT);
    assert!(output.status.success(), "{}", describe(&output));
    assert!(root.join(&prefix[1..]).join("bin/trumanfs").exists());
}

#[test]
fn the_profile_is_installed_where_there_is_apparmor_that_can_read_it() {
    need_tools!("objcopy", "install");
    let shipped = fs::read_to_string(repository().join("mount-scripts/trumanfs.apparmor")).unwrap();
    for (abi, prefix) in [
        (None, "/usr/local"),
        (Some("3.0"), "/usr/local"),
        (Some("4.0"), "/usr/local"),
        (Some("4.0"), "/opt/trumanfs"),
    ] {
        let root = tempfile::tempdir().unwrap();
        if let Some(abi) = abi {
            let dir = root.path().join("etc/apparmor.d/abi");
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join(abi), "").unwrap();
        }
        install(root.path(), prefix);
        let profile = fs::read_to_string(root.path().join("etc/apparmor.d/trumanfs")).ok();
        let wanted = (abi == Some("4.0")).then(|| match prefix {
            "/usr/local" => shipped.clone(),
            _ => shipped.replace(
                "/{usr/,usr/local/}bin/trumanfs",
                "/opt/trumanfs/bin/trumanfs",
            ),
        });
        assert_eq!(profile, wanted, "{abi:?} {prefix}");
        assert!(wanted.is_none_or(|text| prefix == "/usr/local" || text != shipped));
    }
}

#[test]
fn apparmor_s_parser_reads_the_profile() {
    let places = ["/usr/sbin/apparmor_parser", "/sbin/apparmor_parser"];
    let Some(parser) = places.into_iter().find(|path| Path::new(path).exists()) else {
        crate::need::skip!("apparmor", "there is no apparmor_parser");
    };
    let mut version = Command::new(parser);
    version.arg("--version");
    let said = run_limited(version, LIMIT);
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let release = said.split("version ").nth(1).unwrap_or_default();
    let major = release
        .split('.')
        .next()
        .and_then(|major| major.parse().ok());
    if major.is_none_or(|major: u32| major < 4) {
        crate::need::skip!(
            "apparmor",
            "apparmor_parser is {release}, which cannot read `userns`"
        );
    }
    // Neither a cache nor the kernel has a part in it.
    let mut parse = Command::new(parser);
    parse.args(["--skip-kernel-load", "--skip-cache", "--stdout"]);
    parse.arg(repository().join("mount-scripts/trumanfs.apparmor"));
    let output = run_limited(parse, LIMIT);
    assert!(output.status.success(), "{}", describe(&output));
    assert!(!output.stdout.is_empty(), "{}", describe(&output));
}
