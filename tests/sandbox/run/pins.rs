//! Programs that a repository's configuration names, and git may start: those that are pinned do not run.

use std::fs;

use super::*;
use crate::common::{need_mount, need_tools};

/// Programs that a configuration names, each of which leaves its name behind. (Nothing but the home can be written.)
const CONFIG: &str = r#"
[user]
    name = a
    email = a@b
[diff "x"]
    textconv = "sh -c 'echo textconv >>MARK; cat $1' -"
[diff]
    external = "sh -c 'echo external >>MARK'"
[gpg]
    program = MARKER
[gpg "openpgp"]
    program = MARKER
[gpg "ssh"]
    program = MARKER
[commit]
    gpgSign = true
    verbose = true
[tag]
    gpgSign = true
    forceSignAnnotated = true
[stash]
    showPatch = true
[core]
    fsmonitor = MARKER
    alternateRefsCommand = "sh -c 'echo alternates >>MARK'"
    pager = MARKER
[remote "o"]
    url = .
    uploadpack = MARKER
    receivepack = MARKER
    fetch = +refs/heads/*:refs/remotes/o/*
"#;

#[test]
fn programs_of_a_repository_that_are_pinned_do_not_run() {
    need_mount!();
    need_tools!("git");
    let place = Place::mounted();
    // As shipped, without the network, which would be another reason to fail.
    let policy = Path::new("development");
    let git = |words: &[&str]| {
        let words = [&["git"], words].concat();
        run_limited(
            command(place.home(), policy, &["--net", "none"], &words),
            LIMIT,
        )
    };
    good(&git(&["init", "-q"]));
    place.script(
        "marker",
        "#!/bin/sh\necho program >>MARK\n"
            .replace("MARK", &place.home.path("MARK").display().to_string())
            .as_str(),
    );
    let config = CONFIG
        .replace("MARKER", &place.home.path("marker").display().to_string())
        .replace("MARK;", &format!("{};", place.home.path("MARK").display()))
        .replace("MARK'", &format!("{}'", place.home.path("MARK").display()));
    let kept = fs::read_to_string(place.home.path(".git/config")).unwrap();
    fs::write(place.home.path(".git/config"), kept + &config).unwrap();
    fs::write(place.home.path(".gitattributes"), "*.t diff=x\n").unwrap();
    fs::write(place.home.path("a.t"), "one\n").unwrap();
    good(&git(&["add", "-A"]));
    good(&git(&["commit", "-m", "one"]));
    // A commit with a signature, which nobody made.
    let object = good(&git(&["cat-file", "-p", "HEAD"]));
    let signed = object.replacen(
        "\n\n",
        "\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n",
        1,
    );
    fs::write(place.home.path("signed"), signed).unwrap();
    let hash = Command::new("git")
        .args(["hash-object", "-t", "commit", "-w", "signed"])
        .current_dir(place.home())
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "safe.directory")
        .env("GIT_CONFIG_VALUE_0", "*")
        .output()
        .unwrap();
    let hash = good(&hash).trim().to_owned();
    fs::write(place.home.path("a.t"), "two\n").unwrap();
    let _ = fs::remove_file(place.home.path("MARK"));
    for words in [
        &["status"][..],
        &["status", "-s"],
        &["blame", "a.t"],
        &["diff"],
        &["log", "-p"],
        &["log", "--format=%G?", &hash],
        &["for-each-ref", "--format=%(refname)"],
        &["commit", "--dry-run", "-a"],
        &["stash", "push", "-m", "x"],
        &["stash", "show"],
        &["stash", "list"],
        &["stash", "pop"],
        &["commit", "-a", "-m", "two"],
        &["tag", "-a", "v1", "-m", "x"],
        &["remote", "-v"],
        &["remote", "show", "o"],
        &["fetch", "o"],
        &["fetch", "--all"],
        &["ls-remote", "o"],
        &["push", "o", "HEAD:x"],
    ] {
        let output = git(words);
        let ran = fs::read_to_string(place.home.path("MARK")).unwrap_or_default();
        // The other side of a push is a git of its own, which has no pins.
        let ran = match words {
            ["push", ..] => ran.replace("alternates\n", ""),
            _ => ran,
        };
        assert_eq!(ran, "", "git {}: {}", words.join(" "), describe(&output));
    }
}
