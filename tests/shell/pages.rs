//! `trumanfs completions` and `trumanfs man`: tried in real shells at a terminal, read by a real man(1).

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::common::{binary, describe, need_tools, repository, run_limited, trumanfs};

#[test]
fn verbs_options_and_paths_are_completed_in_three_shells() {
    need_tools!("bash", "zsh", "fish", "python3");
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    fs::create_dir_all(here.join("bin")).unwrap();
    fs::create_dir(here.join("a long name")).unwrap();
    fs::create_dir(here.join("verylongname")).unwrap();
    fs::write(here.join("verylongfile"), "").unwrap();
    std::os::unix::fs::symlink(binary(), here.join("bin/trumanfs")).unwrap();
    let zsh = trumanfs(&["completions", "zsh"]);
    assert!(zsh.status.success(), "{}", describe(&zsh));
    fs::write(here.join("_trumanfs"), &zsh.stdout).unwrap();
    let path = std::env::var("PATH").unwrap();
    for shell in ["bash", "zsh", "fish"] {
        for (typed, expected) in [
            ("trumanfs umou".to_owned(), "umount "),
            ("trumanfs mount --symli".to_owned(), "--symlinks"),
            (
                format!("trumanfs mount {}/very", here.display()),
                "verylongname/",
            ),
            // The second argument is a directory too; a file stands where one is asked for.
            (
                format!(
                    "trumanfs mount --foreground {0}/bin {0}/very",
                    here.display()
                ),
                "verylongname/",
            ),
            (
                format!("trumanfs serve mcp --root {}/very", here.display()),
                "verylongname/",
            ),
            (
                format!("trumanfs policy check {}/verylongf", here.display()),
                "verylongfile",
            ),
        ] {
            let mut python = Command::new("python3");
            python
                .arg(repository().join("tests/shell/complete.py"))
                .arg(shell)
                .arg(here)
                .args([typed.as_str(), expected])
                .env("PATH", format!("{}:{path}", here.join("bin").display()));
            let output = run_limited(python, Duration::from_secs(60));
            assert!(
                output.status.success(),
                "{shell}: {typed}: {}",
                describe(&output)
            );
        }
    }
}

#[test]
fn runs_and_points_are_completed_in_three_shells() {
    need_tools!("bash", "zsh", "fish", "python3");
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    let store = here.join("store");
    fs::create_dir_all(here.join("bin")).unwrap();
    fs::create_dir(&store).unwrap();
    std::os::unix::fs::symlink(binary(), here.join("bin/trumanfs")).unwrap();
    let at = store.to_str().unwrap();
    for words in [
        &["exec", "--root", at, "--", "echo x > f"][..],
        &["checkpoint", "create", at, "green-light"],
        // A shell must take this as data.
        &["checkpoint", "create", at, "$(touch pwned)`touch pwned`"],
    ] {
        let output = trumanfs(words);
        assert!(output.status.success(), "{}", describe(&output));
    }
    let asked = trumanfs(&[
        "complete-values",
        "runs",
        "--",
        "trumanfs",
        "log",
        at,
        "--run",
    ]);
    let listed = String::from_utf8(asked.stdout).unwrap();
    let run = listed.lines().nth(1).unwrap().split('\t').next().unwrap();
    let (begin, rest) = run.split_at(5);
    let zsh = trumanfs(&["completions", "zsh"]);
    fs::write(here.join("_trumanfs"), &zsh.stdout).unwrap();
    let path = std::env::var("PATH").unwrap();
    for shell in ["bash", "zsh", "fish"] {
        for (typed, expected, target) in [
            (format!("trumanfs log {at} --run {begin}"), rest, here),
            (
                format!("trumanfs undo --dry-run --run {begin}"),
                rest,
                &*store,
            ),
            (format!("trumanfs diff --run={begin}"), rest, &*store),
            (format!("trumanfs accept {at} {begin}"), rest, here),
            (format!("trumanfs cat {at} f --at green"), "-light", here),
            ("trumanfs log --since yest".to_owned(), "erday", &*store),
        ] {
            let mut python = Command::new("python3");
            python
                .arg(repository().join("tests/shell/complete.py"))
                .arg(shell)
                .arg(here)
                .args([typed.as_str(), expected])
                .current_dir(target)
                .env("PATH", format!("{}:{path}", here.join("bin").display()));
            let output = run_limited(python, Duration::from_secs(60));
            assert!(
                output.status.success(),
                "{shell}: {typed}: {}",
                describe(&output)
            );
            assert!(!target.join("pwned").exists(), "{shell}: {typed}");
        }
    }
    // Nothing there is no error.
    let nothing = trumanfs(&[
        "complete-values",
        "runs",
        "--",
        "trumanfs",
        "log",
        "/nowhere",
    ]);
    assert!(nothing.status.success() && nothing.stdout.is_empty() && nothing.stderr.is_empty());
}

#[test]
fn every_verb_has_a_manual_page_that_man_reads_without_a_warning() {
    need_tools!("man");
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("share/man/man1");
    let made = trumanfs(&["man".as_ref(), pages.as_os_str()]);
    assert!(made.status.success(), "{}", describe(&made));
    let mut count = 0;
    for entry in fs::read_dir(&pages).unwrap() {
        let page = entry.unwrap().path();
        let output = man(&page);
        assert!(output.status.success(), "{}", describe(&output));
        assert_eq!(
            String::from_utf8_lossy(&output.stderr),
            "",
            "{}",
            page.display()
        );
        count += 1;
    }
    assert!(count > 40, "{count}");
    let text = |verb: &str| {
        let output = man(&pages.join(format!("trumanfs-{verb}.1")));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let mount = text("mount");
    assert!(mount.contains("Mounts a store as a home"), "{mount}");
    assert!(
        mount.contains("Example: trumanfs mount ~/project ~/agent-home"),
        "{mount}"
    );
    // The first page names the others.
    let output = man(&pages.join("trumanfs.1"));
    let first = String::from_utf8_lossy(&output.stdout).into_owned();
    for verb in ["mount", "agent", "review", "serve", "completions"] {
        assert!(
            first.contains(&format!("trumanfs-{verb}(1)")),
            "{verb}: {first}"
        );
    }
    let refused = trumanfs(&["man".as_ref(), pages.join("trumanfs.1/below").as_os_str()]);
    assert!(!refused.status.success(), "{}", describe(&refused));
}

fn man(page: &Path) -> std::process::Output {
    let mut man = Command::new("man");
    man.args(["--warnings", "--encoding=UTF-8", "--local-file"]);
    man.arg(page)
        .env("MANWIDTH", "100")
        .env("LC_ALL", "C.UTF-8");
    run_limited(man, Duration::from_secs(30))
}

/// `mount-scripts/package` packs what `mount-scripts/install` installs: all of it, and nothing else.
#[test]
fn the_package_lists_what_is_installed() {
    need_tools!("objcopy");
    let dir = tempfile::tempdir().unwrap();
    let mut install = Command::new(repository().join("mount-scripts/install"));
    install
        .env("BINARY", binary())
        .env("DESTDIR", dir.path())
        .env("PREFIX", "/usr")
        .env("HELPERDIR", "/usr/sbin")
        .env("UNITDIR", "/usr/lib/systemd/system")
        .env("PROFILEDIR", "/usr/share/trumanfs/apparmor");
    let output = run_limited(install, Duration::from_secs(60));
    assert!(output.status.success(), "{}", describe(&output));
    let mut find = Command::new("find");
    find.arg(dir.path()).args([
        "-not",
        "-type",
        "d",
        "-not",
        "-path",
        "*/.debug/*",
        "-printf",
        "%P\n",
    ]);
    let output = run_limited(find, Duration::from_secs(30));
    let installed: Vec<String> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(str::to_owned)
        .collect();
    assert!(installed.len() > 50, "{installed:?}");
    let manifest =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap();
    let assets: Vec<&str> = manifest
        .lines()
        .filter_map(|line| {
            line.trim()
                .strip_prefix("[\"target/package/")?
                .split('"')
                .next()
        })
        .collect();
    let fits = |asset: &str, file: &str| match asset.split_once('*') {
        Some((start, end)) => file.starts_with(start) && file.ends_with(end),
        None => asset == file,
    };
    for file in &installed {
        assert!(
            assets.iter().any(|asset| fits(asset, file)),
            "{file} is installed, and not packaged"
        );
    }
    for asset in &assets {
        assert!(
            installed.iter().any(|file| fits(asset, file)),
            "{asset} is packaged, and not installed"
        );
    }
    // The unit starts the program that is installed beside it.
    let unit =
        fs::read_to_string(dir.path().join("usr/lib/systemd/system/trumanfs@.service")).unwrap();
    assert!(unit.contains("ExecStart=/usr/bin/trumanfs mount"), "{unit}");
}
