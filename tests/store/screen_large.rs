//! The screen of `review` where there is much to review: what is folded, flagged, marked, moved and edited.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::screen::{open, quit, run};
use crate::common::terminal::Terminal;
use crate::common::{Home, binary, describe, need_mount, need_tools, trumanfs};

#[track_caller]
fn is_sound(home: &Home) {
    let fsck = trumanfs(&["fsck", home.store().to_str().unwrap()]);
    assert!(fsck.status.success(), "{}", describe(&fsck));
}

/// Two thousand changes are a screenful at each size, and a folded row is decided on as a whole.
#[test]
fn two_thousand_changes_are_folded() {
    need_mount!();
    need_tools!("setsid");
    let prepare = |store: &Path| fs::write(store.join(".gitignore"), "out/\n").unwrap();
    let home = Home::prepared(prepare, &[]);
    for at in 0..20 {
        let dir = home.path(format!("src/dir-{at:02}"));
        fs::create_dir_all(&dir).unwrap();
        for file in 0..95 {
            fs::write(dir.join(format!("file-{file:02}")), "text\n").unwrap();
        }
    }
    fs::create_dir(home.path("out")).unwrap();
    for file in 0..50 {
        fs::write(home.path(format!("out/{file}.o")), "text\n").unwrap();
    }
    for lock in ["Cargo.lock", "package-lock.json"] {
        fs::write(home.path(lock), "text\n").unwrap();
    }
    // With `src`, `out`, and the directories.
    for (rows, columns) in [(24, 80), (40, 120), (50, 200)] {
        let mut person = open(home.home(), &[], (rows, columns));
        let screen = person.wait_for("+ ignored by git (51)");
        assert!(screen.contains("1974 paths by path"), "{screen}");
        assert!(screen.contains(">+ /src/ (1921)"), "{screen}");
        assert!(
            screen.contains("+ lock files and generated files (2)"),
            "{screen}"
        );
        quit(person);
    }
    let mut person = open(home.home(), &[], (40, 120));
    person.wait_for(">+ /src/ (1921)");
    person.types("\r");
    person.wait_for("  + /src/dir-19/ (96)");
    person.types("/dir-07/file-50\r");
    person.wait_for(">    A /src/dir-07/file-50");
    // To the heading of the directory; all of it goes.
    person.types("h");
    person.wait_for(">  - /src/dir-07/ (96)");
    person.types("r");
    person.wait_for("take back all changes of 96 listed paths: /src/dir-07/?");
    person.confirms("");
    person.wait_for("1878 paths by path");
    assert!(!home.path("src/dir-07").exists());
    assert!(home.path("src/dir-08/file-94").exists());
    person.confirms("u");
    person.wait_for("1974 paths by path");
    assert!(home.path("src/dir-07/file-94").exists());
    // Accepting what git ignores leaves the rest.
    person.types("z");
    person.wait_for("+ /src/ (1921)");
    person.types("G");
    person.wait_for(">+ ignored by git (51)");
    person.types("a");
    person.wait_for("accept all changes of 51 listed paths: ignored by git?");
    person.confirms("");
    person.wait_for("1923 paths by path");
    person.types("/nowhere\r");
    person.wait_for("no listed path has \"nowhere\" in it");
    quit(person);
    is_sound(&home);
}

/// Several paths are marked and taken back together; the rows say what kind of a change each is; wide names have their
/// width.
#[test]
fn marks_flags_and_wide_names() {
    need_mount!();
    need_tools!("setsid", "git");
    let prepare = |store: &Path| {
        fs::write(store.join("mode"), "text\n").unwrap();
        fs::set_permissions(store.join("mode"), PermissionsExt::from_mode(0o644)).unwrap();
    };
    let home = Home::prepared(prepare, &["--symlinks", "inside"]);
    home.sh("chmod 600 mode; printf '#!/bin/sh\\n' > tool; chmod 755 tool; printf '\\0\\1' > blob; ln -s tool link; mkdir -p .git/hooks; echo ref > .git/HEAD; printf x > .git/hooks/post-merge");
    for name in ["日本語テスト", "e\u{301}te\u{301}", "🚀🚀 go", "aaa"] {
        fs::write(home.path(name), "text\n").unwrap();
    }
    let mut person = open(home.home(), &[], (30, 130));
    let screen = person.wait("the tags", |screen| {
        [
            "/mode mode",
            "/tool exec",
            "/blob bin",
            "/link link",
            "! /.git/hooks/post-merge runs",
        ]
        .iter()
        .all(|row| screen.contains(row))
    });
    assert!(screen.contains("+ git's own files"), "{screen}");
    for name in ["/日本語テスト", "/e\u{301}te\u{301}", "/🚀🚀 go"] {
        assert!(screen.contains(name), "{screen}");
    }
    assert_eq!(person.columns_of("│"), vec![58; 27], "{screen}");
    person.types("/aaa\r");
    person.wait_for(">A /aaa");
    person.types("m/blob\r");
    person.wait_for(">A /blob");
    person.types("m");
    person.wait_for("*A /blob");
    person.types("r");
    person.wait_for("take back all changes of 2 marked paths?");
    person.confirms("");
    person.wait_for("10 paths by path");
    assert!(!home.path("aaa").exists() && !home.path("blob").exists());
    assert!(home.path("tool").exists());
    quit(person);
    is_sound(&home);
}

/// A file that is moved and then saved anew by a real program is one row, and taken back as one.
#[test]
fn rename_with_an_edit_is_one_row() {
    need_mount!();
    need_tools!("setsid", "sed");
    let prepare = |store: &Path| fs::write(store.join("before"), "one\ntwo\nthree\n").unwrap();
    let home = Home::prepared(prepare, &[]);
    home.sh("mv before after; sed -i s/two/TWO/ after; sed -i s/one/ONE/ after");
    let mut person = open(home.home(), &[], (24, 110));
    person.wait_for("1 path by path");
    let screen = person.wait_for("+TWO");
    assert!(screen.contains(">R /after"), "{screen}");
    assert!(screen.contains("/before"), "{screen}");
    person.confirms("r");
    person.wait_for("Nothing is left to be reviewed.");
    assert_eq!(
        fs::read_to_string(home.path("before")).unwrap(),
        "one\ntwo\nthree\n"
    );
    assert!(!home.path("after").exists());
    person.confirms("u");
    person.wait_for(">R /after");
    assert_eq!(
        fs::read_to_string(home.path("after")).unwrap(),
        "ONE\nTWO\nthree\n"
    );
    person.confirms("a");
    person.wait_for("Nothing is left to be reviewed.");
    quit(person);
    is_sound(&home);
}

/// The end of a long line is reached sideways.
#[test]
fn long_lines_are_seen_to_their_end() {
    need_mount!();
    need_tools!("setsid");
    let home = Home::mount();
    let line = format!("{}THE-END", "0123456789".repeat(20));
    fs::write(home.path("long"), line).unwrap();
    let mut person = open(home.home(), &[], (24, 110));
    let screen = person.wait_for("+0123456789");
    assert!(!screen.contains("THE-END"), "{screen}");
    person.types("l");
    for _ in 0..20 {
        person.types("l");
    }
    person.wait_for("THE-END");
    quit(person);
}

/// An edit with a real editor is recorded as an operator's, and can be taken back; other hunks stay to be reviewed.
#[test]
fn edit_is_recorded_and_taken_back() {
    need_mount!();
    need_tools!("setsid", "sed");
    let text = |changed: &[&str]| -> String {
        let line = |n: u32| {
            let changed = changed
                .iter()
                .find(|line| line.starts_with(&format!("{n} ")));
            changed.map_or_else(|| format!("{n} line\n"), |line| format!("{line}\n"))
        };
        (1..=30).map(line).collect()
    };
    let home = Home::prepared(
        |store| fs::write(store.join("f.rs"), text(&[])).unwrap(),
        &[],
    );
    fs::write(home.path("new"), text(&["3 agent", "25 agent"])).unwrap();
    run(&home, "cat new > f.rs; rm new");
    let target = home.home().to_str().unwrap().to_owned();
    let review = [binary(), "review", &target];
    let env = [("EDITOR", "sed -i s/^3.agent$/3-owner/"), ("VISUAL", "")];
    let mut person = Terminal::start(24, 110, &review, &env);
    person.wait_for("+3 agent");
    person.wait_for_keys();
    person.types("/f.rs\r");
    person.wait_for(">M /f.rs");
    person.types("e");
    person.wait_for("recorded your edit of /f.rs");
    assert_eq!(
        fs::read_to_string(home.path("f.rs")).unwrap(),
        text(&["25 agent"]).replace("3 line\n4 line", "3-owner\n4 line")
    );
    // The agent's other hunk is there and can be decided on.
    person.wait_for("+25 agent");
    person.wait_for("changed by others since");
    person.types("u");
    person.wait_for("undo the last thing");
    person.confirms("");
    person.wait_gone("changed by others since");
    assert_eq!(
        fs::read_to_string(home.path("f.rs")).unwrap(),
        text(&["3 agent", "25 agent"])
    );
    quit(person);
    let log = trumanfs(&["log", &target]);
    assert!(
        String::from_utf8_lossy(&log.stdout).contains("edit /f.rs"),
        "{}",
        describe(&log)
    );
    is_sound(&home);
}

/// An editor has the terminal as it was, and what it wrote is not lost where the file changes meanwhile.
#[test]
fn edit_in_the_way_of_another_change_is_kept_in_its_draft() {
    need_mount!();
    need_tools!("setsid", "stty");
    let home = Home::mount();
    fs::write(home.path("f"), "one\n").unwrap();
    let target = home.home().to_str().unwrap().to_owned();
    let drafts = tempfile::tempdir().unwrap();
    let script = drafts.path().join("editor");
    let text = format!(
        "#!/bin/sh\nstty -a | grep -o ' icanon'\necho type:\nread line\necho \"$line\" > \"$1\"\necho theirs > {target}/f\n"
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let drafts_dir = drafts.path().to_str().unwrap();
    let env = [("VISUAL", script.to_str().unwrap()), ("TMPDIR", drafts_dir)];
    let mut person = Terminal::start(24, 110, &[binary(), "review", &target], &env);
    person.wait_for("+one");
    person.wait_for_keys();
    person.types("e");
    let screen = person.wait_for("type:");
    assert!(
        screen.contains(" icanon") && !person.is_alternate(),
        "{screen}"
    );
    person.types("mine\r");
    person.wait_for("your edit was not recorded");
    let screen = person.wait_for("The edited text is in");
    assert!(person.is_alternate(), "{screen}");
    assert_eq!(fs::read_to_string(home.path("f")).unwrap(), "theirs\n");
    let kept = fs::read_dir(drafts.path())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let kept: Vec<_> = kept.filter(|path| path.is_dir()).collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    let mode = fs::metadata(&kept[0]).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    assert_eq!(fs::read_to_string(kept[0].join("f")).unwrap(), "mine\n");
    person.types("x");
    quit(person);
    // An editor that is not there says so, and leaves nothing.
    fs::remove_dir_all(&kept[0]).unwrap();
    let env = [("VISUAL", "no-such-editor"), ("TMPDIR", drafts_dir)];
    let mut person = Terminal::start(24, 110, &[binary(), "review", &target], &env);
    person.wait_for("+theirs");
    person.wait_for_keys();
    person.types("e");
    person.wait_for("the editor ended with 127");
    assert_eq!(fs::read_dir(drafts.path()).unwrap().count(), 1);
    person.types("x");
    quit(person);
}

/// An editor that ^Z stops is stopped with the screen, and goes on with it.
#[test]
fn stopped_editor_goes_on_with_the_screen() {
    need_mount!();
    need_tools!("setsid", "bash");
    let home = Home::mount();
    fs::write(home.path("f"), "one\n").unwrap();
    let target = home.home().to_str().unwrap().to_owned();
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("editor");
    // As editors do: the whole group is stopped.
    let text = "#!/bin/sh\necho mine > \"$1\"\nkill -TSTP 0\n";
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let shell = ["bash", "--norc", "--noprofile", "-i"];
    let env = [
        ("PS1", "outer> "),
        ("VISUAL", script.to_str().unwrap()),
        ("TMPDIR", dir.path().to_str().unwrap()),
    ];
    let mut person = Terminal::start(24, 110, &shell, &env);
    person.wait_for("outer>");
    person.types(&format!("{} review {target}\r", binary()));
    person.wait_for("+one");
    person.wait_for_keys();
    person.types("e");
    person.wait_for("Stopped");
    person.types("fg\r");
    person.wait_for("recorded your edit of /f");
    assert_eq!(fs::read_to_string(home.path("f")).unwrap(), "mine\n");
    person.types("q");
    person.wait_for("outer>");
    person.types("exit\r");
    assert!(person.end().success());
    // The draft is gone.
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

/// A hunk of two changes that are close together is split; one part is accepted, the other one taken back.
#[test]
fn hunk_is_split_and_its_parts_are_decided_on() {
    need_mount!();
    need_tools!("setsid");
    let lines = |changed: &[&str]| -> String {
        let line = |n: usize| {
            changed
                .iter()
                .find(|line| line.starts_with(&format!("{n} ")))
        };
        let lines = (1..=20)
            .map(|n| line(n).map_or_else(|| format!("{n} old\n"), |line| format!("{line}\n")));
        lines.collect()
    };
    let home = Home::prepared(|store| fs::write(store.join("f"), lines(&[])).unwrap(), &[]);
    fs::write(home.path("f"), lines(&["8 new", "11 new"])).unwrap();
    let mut person = open(home.home(), &[], (30, 110));
    let screen = person.wait_for("hunk 1");
    assert!(!screen.contains("hunk 2"), "{screen}");
    person.types("\rs");
    person.wait_for("hunk 2");
    person.types("s");
    person.wait_for("this hunk is whole");
    person.types("gr");
    person.wait_for("take back hunk 1 of /f?");
    person.confirms("");
    person.wait_gone("+8 new");
    assert_eq!(
        fs::read_to_string(home.path("f")).unwrap(),
        lines(&["11 new"])
    );
    person.types("u");
    person.wait_for("undo the last thing");
    person.confirms("");
    person.wait_for("+8 new");
    person.types("\tg");
    person.wait_for("hunk 2");
    person.wait_for("|@@");
    person.types("a");
    person.wait_for("accept hunk 1 of /f?");
    person.confirms("");
    person.wait_gone("+8 new");
    quit(person);
    // What was accepted of the hunk stays so, and the rest of it is listed.
    let target = home.home().to_str().unwrap();
    let listed = trumanfs(&["review", target, "--patch"]);
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(
        text.contains("+11 new") && !text.contains("+8 new"),
        "{text}"
    );
    let number = text
        .split_once(" hunk ")
        .and_then(|(_, rest)| rest.lines().next());
    let output = trumanfs(&[
        "reject",
        target,
        "--session",
        "last",
        "f",
        "--hunk",
        number.unwrap(),
    ]);
    assert!(output.status.success(), "{}", describe(&output));
    assert_eq!(
        fs::read_to_string(home.path("f")).unwrap(),
        lines(&["8 new"])
    );
    is_sound(&home);
}

/// What is ignored is told by the patterns of before: a change folds nothing of what is reviewed with it.
#[test]
fn patterns_under_review_hide_nothing() {
    need_mount!();
    need_tools!("setsid");
    let home = Home::mount();
    home.sh("mkdir src; echo x > src/a; echo x > src/b; echo src/ > .gitignore");
    let mut person = open(home.home(), &[], (24, 80));
    let screen = person.wait_for("A /src/b");
    assert!(screen.contains("A /src/a"), "{screen}");
    assert!(!screen.contains("ignored by git"), "{screen}");
    quit(person);
}
