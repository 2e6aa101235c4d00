//! Tests of `find` by itself. Its output for a tree of ordinary files is compared with GNU's in
//! `tests/shell/find.lines`.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};

use crate::commands::tests::Bench;

fn tree() -> Bench {
    let bench = Bench::new();
    bench.put("a/b/deep.rs", "fn main() {}\n");
    bench.put("a/one.txt", "1\n");
    bench.put("a/two.TXT", "");
    bench.put("c.rs", "x".repeat(2000));
    std::fs::create_dir(bench.dir.path().join("empty")).unwrap();
    bench
}

/// Runs a line that must succeed without messages.
#[track_caller]
fn printed(bench: &mut Bench, line: &str) -> String {
    let (out, err, status) = bench.run(line, "");
    assert_eq!((err.as_str(), status), ("", 0), "{line}");
    out
}

#[test]
fn entries_are_sorted_at_each_level() {
    let mut bench = tree();
    for (line, expected) in [
        (
            "find",
            ". ./a ./a/b ./a/b/deep.rs ./a/one.txt ./a/two.TXT ./c.rs ./empty",
        ),
        ("find a/", "a/ a/b a/b/deep.rs a/one.txt a/two.TXT"),
        (
            "find empty a -maxdepth 1",
            "empty a a/b a/one.txt a/two.TXT",
        ),
        (
            "find . -depth",
            "./a/b/deep.rs ./a/b ./a/one.txt ./a/two.TXT ./a ./c.rs ./empty .",
        ),
        ("find . -mindepth 2 -type f -name *.rs", "./a/b/deep.rs"),
        ("find . -name a -prune -o -type f -print", "./c.rs"),
        ("find . -iname *.txt -print -quit", "./a/one.txt"),
        ("find a -size +3 , -empty", "a/two.TXT"),
        ("find . -size +3 -size -4k", "./c.rs"),
        ("find . -type l,b,c", ""),
    ] {
        let out = printed(&mut bench, line);
        let shown: Vec<&str> = out.lines().collect();
        assert_eq!(shown.join(" "), expected, "{line}");
    }
}

#[test]
fn times_compare_as_in_gnu() {
    let mut bench = Bench::new();
    let hour = 3600;
    for (name, age) in [
        ("h1", hour),
        ("h23", 23 * hour),
        ("h25", 25 * hour),
        ("h47", 47 * hour),
        ("h49", 49 * hour),
    ] {
        bench.put(name, "");
        let file = std::fs::File::options()
            .write(true)
            .open(bench.dir.path().join(name));
        let time = SystemTime::now() - Duration::from_secs(age);
        file.unwrap().set_modified(time).unwrap();
    }
    for (test, expected) in [
        ("-mtime 0", "h1 h23"),
        ("-mtime 1", "h25 h47"),
        ("-mtime +0", "h25 h47 h49"),
        ("-mtime +1", "h49"),
        ("-mtime -1", "h1 h23"),
        ("-mtime -2", "h1 h23 h25 h47"),
        ("-mtime +0.5", "h47 h49"),
        ("-mmin -90", "h1"),
        ("-mmin +90", "h23 h25 h47 h49"),
        ("-mmin 61", "h1"),
        ("-newer h25", "h1 h23"),
        ("-newermt yesterday", "h1 h23"),
    ] {
        let out = printed(&mut bench, &format!("find . -type f {test}"));
        let shown: Vec<&str> = out.lines().map(|line| &line[2..]).collect();
        assert_eq!(shown.join(" "), expected, "{test}");
    }
}

#[test]
fn exec_runs_for_each_and_for_many() {
    let mut bench = tree();
    let out = printed(&mut bench, "find a -name *.txt -exec echo <{}> ;");
    assert_eq!(out, "<a/one.txt>\n");
    let out = printed(&mut bench, "find a -type f -exec echo all {} +");
    assert_eq!(out, "all a/b/deep.rs a/one.txt a/two.TXT\n");
    // Output stays in order.
    let out = printed(&mut bench, "find c.rs -print -exec echo x ; -print");
    assert_eq!(out, "c.rs\nx\nc.rs\n");
    assert_eq!(bench.run("find c.rs -exec false {} +", "").2, 1);
    assert_eq!(bench.run("find c.rs -exec false ;", "").2, 0);
}

#[test]
fn exec_splits_many_paths() {
    let mut bench = Bench::new();
    for number in 0..1000 {
        bench.put(&format!("{number:0>200}"), "");
    }
    let out = printed(&mut bench, "find . -type f -exec echo {} +");
    assert_eq!(out.lines().count(), 2);
    assert_eq!(out.split_whitespace().count(), 1000);
}

#[test]
fn delete_reports_failures_and_goes_on() {
    let mut bench = tree();
    let told = bench.run("find a -name a -delete", "");
    let error = "find: a: Directory not empty\n".to_owned();
    assert_eq!(told, (String::new(), error, 1));
    assert_eq!(printed(&mut bench, "find a -name *.txt -delete"), "");
    assert!(!bench.dir.path().join("a/one.txt").exists());
    let told = bench.run("find a/. -delete", "");
    assert_eq!(told.1, "find: a/.: Invalid argument\n");
    assert_eq!(printed(&mut bench, "find . -delete"), "");
    assert_eq!(printed(&mut bench, "find"), ".\n");
}

#[test]
fn expression_errors_are_worded_as_in_gnu() {
    let mut bench = tree();
    for (line, message) in [
        ("find . -foo", "unknown predicate `-foo'"),
        ("find -Q", "unknown predicate `-Q'"),
        ("find . -name", "missing argument to `-name'"),
        ("find . -exec echo", "missing argument to `-exec'"),
        ("find . -exec ;", "invalid argument `;' to `-exec'"),
        ("find . -mtime x", "invalid argument `x' to `-mtime'"),
        ("find . -size 1x", "invalid -size type `x'"),
        ("find . -size 5cc", "Invalid argument `5cc' to -size"),
        ("find . -type x", "Unknown argument to -type: x"),
        ("find . -perm 9", "invalid mode '9'"),
        (
            "find . -maxdepth -1",
            "Expected a positive decimal integer argument to -maxdepth, but got '-1'",
        ),
        ("find . -name a b", "paths must precede expression: `b'"),
        (
            "find . ( -name x",
            "invalid expression; I was expecting to find a ')' somewhere but did not see one.",
        ),
        (
            "find . ( )",
            "invalid expression; empty parentheses are not allowed.",
        ),
        ("find . -name x )", "you have too many ')'"),
        ("find . !", "expected an expression after '!'"),
        ("find . -name x -o", "expected an expression after '-o'"),
        (
            "find . ( -name x -o )",
            "expected an expression between '-o' and ')'",
        ),
        (
            "find . -o -name x",
            "invalid expression; you have used a binary operator '-o' with nothing before it.",
        ),
        (
            "find . -exec echo {} {} +",
            "Only one instance of {} is supported with -exec ... +",
        ),
        (
            "find . -newer missing",
            "missing: No such file or directory",
        ),
        ("find missing", "missing: No such file or directory"),
        ("find c.rs/", "c.rs/: Not a directory"),
        ("find /etc", "/etc: No such file or directory"),
    ] {
        let told = bench.run(line, "");
        let expected = (String::new(), format!("find: {message}\n"), 1);
        assert_eq!(told, expected, "{line}");
    }
    let told = bench.run("find missing c.rs", "");
    assert_eq!((told.0.as_str(), told.2), ("c.rs\n", 1));
}

#[test]
fn expressions_may_be_long_but_not_deep() {
    let mut bench = tree();
    let nots = "! ".repeat(100_000);
    assert_eq!(
        printed(&mut bench, &format!("find c.rs {nots}-true")),
        "c.rs\n"
    );
    let ors = "-false -o ".repeat(50_000);
    assert_eq!(
        printed(&mut bench, &format!("find c.rs {ors}-true")),
        "c.rs\n"
    );
    let open = "( ".repeat(100_000);
    let told = bench.run(&format!("find c.rs {open}-true"), "");
    assert_eq!(told.1, "find: parentheses are nested too deep\n");
}

#[test]
fn names_are_bytes() {
    let mut bench = Bench::new();
    let name = OsStr::from_bytes(b"\xff\n.rs");
    std::fs::write(bench.dir.path().join(name), "").unwrap();
    let words = [&b"find"[..], b".", b"-name", b"\xff?.rs", b"-print0"];
    let words: Vec<Vec<u8>> = words.map(<[u8]>::to_vec).to_vec();
    assert_eq!(bench.call(&words, "").0, "./\u{fffd}\n.rs\0");
}

#[test]
fn links_are_absent_and_special_files_are_listed() {
    let mut bench = tree();
    std::os::unix::fs::symlink("/etc", bench.dir.path().join("link")).unwrap();
    let fifo = bench.dir.path().join("fifo");
    rustix::fs::mknodat(CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
    let out = printed(&mut bench, "find . -maxdepth 1 -name *i*");
    assert_eq!(out, "./fifo\n");
    assert_eq!(printed(&mut bench, "find . -type p"), "./fifo\n");
    let told = bench.run("find link", "");
    assert_eq!(told.1, "find: link: No such file or directory\n");
}

#[test]
fn vanished_directory_is_reported() {
    let mut bench = tree();
    // It is removed just before the walk enters it.
    let told = bench.run("find . -name a -exec rm -rf a ;", "");
    assert_eq!(told.1, "find: ./a: No such file or directory\n");
    assert_eq!(told.2, 1);
    let mut bench = tree();
    let told = bench.run("find . -type f -exec rm -rf a ; -print", "");
    assert_eq!(
        (told.0.as_str(), told.2),
        ("./a/b/deep.rs\n./a/one.txt\n./a/two.TXT\n./c.rs\n", 0)
    );
}

#[test]
fn walk_ends_with_the_lines_time() {
    let mut bench = tree();
    bench.state.deadline.cancel.cancel();
    let words = [&b"find"[..]].map(<[u8]>::to_vec);
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| bench.call(&words, "")));
    assert!(ended.is_err(), "the call ends with TimedOut");
}

#[test]
fn walk_has_no_depth_limit_of_its_own() {
    // More than PATH_MAX; ten thousand would take minutes, since each operation resolves its path anew.
    const LEVELS: usize = 2500;
    let mut bench = Bench::new();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let mut dir = openat(CWD, bench.dir.path(), flags, Mode::empty()).unwrap();
    for _ in 0..LEVELS {
        mkdirat(&dir, "d", Mode::RWXU).unwrap();
        dir = openat(&dir, "d", flags, Mode::empty()).unwrap();
    }
    drop(dir);
    let out = printed(&mut bench, &format!("find . -mindepth {LEVELS}"));
    assert_eq!(out.len(), 2 * LEVELS + 2);
    // Ordinary tools cannot remove a tree this deep, so `find` has to.
    assert_eq!(printed(&mut bench, "find . -delete"), "");
    assert_eq!(printed(&mut bench, "find"), ".\n");
}
