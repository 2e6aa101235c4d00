//! Tests of `ls` against the machine's own, in directories with entries of all kinds.

use std::fs::{File, FileTimes, Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::super::tests::Bench;

/// Names whose order differs between locales, versions and kinds.
const NAMES: &[&str] = &[
    "a1.txt",
    "a10.txt",
    "a2.txt",
    "a02.txt",
    "a.b.c",
    "A",
    "-dash",
    "~tilde",
    ".hidden",
    "..odd",
    "back~",
    ".back~",
    "a.tar.gz",
    "a-1.tar.gz",
    "a-1.0.tar",
    "a-1~rc.tar",
    "0",
    "00",
    "x.",
    "new\nline",
    "\u{e9}t\u{e9}",
    "a1",
    "a1.5",
    "a1b",
    "a1~",
    ".a",
    ".a.b",
    ".a1.b",
    ".0",
    ".~x",
    "..b",
    "a..b",
    "a..",
    "a.0",
    "x..y",
    "back.~1~",
    "back.~10~",
    "back.~2~",
    "back.b~",
    "1.2.3",
    "1.10",
    "_",
    "z",
    "Makefile",
    "b.rs",
];

fn bench() -> Bench {
    let bench = Bench::new();
    let sizes = [
        0, 1, 999, 1000, 1023, 1024, 1025, 10_239, 10_240, 10_241, 99_999, 1_048_575,
    ];
    for size in sizes {
        bench.put(&format!("sizes/of {size}"), vec![b'x'; size]);
    }
    for name in NAMES {
        bench.put(&format!("names/{name}"), "x");
    }
    bench.put("deep/er/est/file", "x");
    bench.put("deep/er/.dir/inside", "x");
    bench.put("deep/b/c", "x");
    bench.put("run", "#!");
    let dir = bench.dir.path();
    std::fs::create_dir(dir.join("empty")).unwrap();
    for mode in [
        0o000, 0o644, 0o755, 0o4755, 0o4644, 0o2711, 0o2640, 0o1777, 0o1666,
    ] {
        bench.put(&format!("modes/m{mode:o}"), "");
        let path = dir.join(format!("modes/m{mode:o}"));
        set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    set_permissions(dir.join("run"), Permissions::from_mode(0o755)).unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, dir.join("modes/fifo"), fifo, mode, 0).unwrap();
    std::os::unix::net::UnixListener::bind(dir.join("modes/sock")).unwrap();
    std::fs::hard_link(dir.join("run"), dir.join("modes/linked")).unwrap();
    // Only root can change a file's owner.
    for (name, uid, gid) in [
        ("m755", 1, 2),
        ("m644", 4_000_001, 4_000_002),
        ("m0", 65_534, 7),
    ] {
        let _ = std::os::unix::fs::chown(dir.join("modes").join(name), Some(uid), Some(gid));
    }
    put_times(&bench, dir);
    bench
}

/// Puts files of many ages.
fn put_times(bench: &Bench, dir: &Path) {
    let now = SystemTime::now();
    let day = Duration::from_secs(24 * 60 * 60);
    for (name, time) in [
        ("old", UNIX_EPOCH + day * 4000),
        ("epoch", UNIX_EPOCH),
        ("half a year", now - day * 183),
        ("last month", now - day * 30),
        ("now", now),
        ("future", now + day),
        ("nanos", now - day * 30 + Duration::from_nanos(7)),
    ] {
        bench.put(&format!("times/{name}"), "");
        stamp(&dir.join("times").join(name), time);
    }
}

fn stamp(path: &Path, time: SystemTime) {
    let times = FileTimes::new().set_modified(time).set_accessed(time);
    File::open(path).unwrap().set_times(times).unwrap();
}

/// Runs a line through both. Words are separated by spaces.
fn agree(bench: &mut Bench, line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    let theirs = Command::new("ls")
        .args(&words[1..])
        .current_dir(bench.dir.path())
        .env("LC_ALL", "C")
        .output()
        .unwrap();
    let (out, err, status) = bench.run(line, "");
    assert_eq!(
        out,
        String::from_utf8_lossy(&theirs.stdout),
        "{line}: {err}"
    );
    assert_eq!(
        Some(i32::from(status)),
        theirs.status.code(),
        "{line}: {err}"
    );
}

#[test]
fn sort_orders_match_the_machines_ls() {
    let mut bench = bench();
    for flags in [
        "", "a", "A", "r", "ar", "S", "Sr", "t", "tr", "X", "Xr", "v", "vr", "va", "U", "Ur", "c",
        "u", "tu",
    ] {
        for dir in ["names", "sizes", "times", "modes", "deep", "."] {
            agree(&mut bench, &format!("ls -{flags}1 {dir}"));
        }
    }
    for line in [
        "ls --sort=size sizes",
        "ls --sort=ver names",
        "ls --sort=none names",
        "ls --sort ext names",
        "ls --sort=time -r times",
        "ls --time=atime times",
        "ls --time=use -t times",
        "ls --group-directories-first",
        "ls --group-directories-first -rS .",
        "ls --group-directories-first -U",
        "ls -v -r --group-directories-first . deep",
    ] {
        agree(&mut bench, line);
    }
}

#[test]
fn rows_match_the_machines_ls() {
    let mut bench = bench();
    for flags in [
        "l", "la", "ln", "lg", "lo", "lgo", "lG", "lh", "lsh", "ls", "s", "sh", "sk", "li", "i",
        "lis", "F", "p", "lF", "lp", "ng", "no", "lt", "lu", "ltu", "lS", "l1", "1l", "d", "ld",
        "lrt", "nG",
    ] {
        for dir in ["modes", "sizes", "times", ".", "empty", "run deep"] {
            // The root's parent is not the same for both.
            if dir == "." && flags.contains('a') {
                continue;
            }
            agree(&mut bench, &format!("ls -{flags} {dir}"));
        }
    }
    for line in [
        "ls --full-time times",
        "ls -lfs run",
        "ls -fls run",
        "ls -ft run",
        "ls -l --time-style=+%F_%T times",
        "ls -l --time-style=+old%n\nnew%% times",
        "ls -l --time-style=+a\nb\nc times",
        "ls -l --time-style=long-iso times",
        "ls -l --time-style=iso times",
        "ls -l --time-style=full times",
        "ls -l --time-style=locale times",
        "ls -l --time-style=posix-iso times",
        "ls --time-style=nonsense times",
        "ls -l --time-style=nonsense times",
        "ls -l --time-style=l times",
        "ls -l --si sizes",
        "ls -s --si sizes",
        "ls -lh --si sizes",
        "ls -l --si -h sizes",
        "ls --indicator-style=classify modes",
        "ls --file-type modes",
        "ls --indicator-style=sl .",
        "ls -F --indicator-style=none .",
        "ls --classify .",
        "ls --classify=never .",
        "ls --classify=auto .",
        "ls --format=long modes",
        "ls --format=single-column modes",
        "ls -l --format=single-column modes",
        "ls --color=never .",
        "ls --color=auto .",
        "ls --color=nonsense .",
        "ls --zero -ls sizes",
        "ls -L run",
        "ls -H run",
        "ls -N names",
        "ls --show-control-chars names",
        "ls -lk sizes",
    ] {
        agree(&mut bench, line);
    }
}

#[test]
fn operands_and_titles() {
    let mut bench = bench();
    for line in [
        "ls",
        "ls .",
        "ls ./",
        "ls run deep modes",
        "ls -d run deep .",
        "ls -d .*",
        "ls nosuch",
        "ls nosuch run",
        "ls nosuch empty",
        "ls run nosuch empty deep",
        "ls -l run sizes",
        "ls run/",
        "ls deep/er/",
        "ls deep//er",
        "ls deep/../run",
        "ls -R",
        "ls -R deep",
        "ls -R deep/",
        "ls -aR deep",
        "ls -AR deep",
        "ls -R deep run nosuch",
        "ls -lR deep",
        "ls -Rr deep",
        "ls -RU deep",
        "ls -Rd deep",
        "ls -R run",
        "ls -Rs deep",
        "ls -R empty",
        "ls -lr run sizes",
        "ls -r run modes deep empty",
        "ls -U run modes deep empty",
        "ls -s run modes",
        "ls -lis run .",
        "ls -t deep run modes",
        "ls --",
        "ls -- -l",
        "ls -a empty",
        "ls -la deep/er",
        "ls -I *.txt names",
        "ls -I a* -I b* names",
        "ls --ignore=*~ -A names",
        "ls -A --hide=* names",
        "ls --hide=* names",
        "ls -B names",
        "ls -AB names",
        "ls -a -I .* names",
        "ls -a -I * names",
        "ls --nonsense",
        "ls --no",
        "ls -I",
        "ls --sort=nonsense",
        "ls --time=nonsense",
        "ls --recursive --all deep",
    ] {
        agree(&mut bench, line);
    }
}

#[test]
fn ls_reports_errors() {
    let mut bench = bench();
    for (line, message, status) in [
        ("ls nosuch", "nosuch: No such file or directory", 2),
        ("ls /etc", "/etc: No such file or directory", 2),
        ("ls ..", "..: No such file or directory", 2),
        ("ls run/", "run/: Not a directory", 2),
        ("ls ", ": No such file or directory", 2),
        ("ls -Z", "invalid option -- 'Z'", 2),
        ("ls --sort=x", "invalid argument 'x' for '--sort'", 1),
        (
            "ls -l --time-style=l",
            "ambiguous argument 'l' for 'time style'",
            2,
        ),
        (
            "ls --color",
            "--color=always is not supported: nothing here shows colours",
            2,
        ),
    ] {
        let expected = (String::new(), format!("ls: {message}\n"), status);
        assert_eq!(bench.run(line, ""), expected, "{line}");
    }
}

#[test]
fn parent_of_the_root_is_the_root() {
    let mut bench = bench();
    let (out, _, status) = bench.run("ls -ai", "");
    let number = |name: &str| {
        let line = out.lines().find(|line| line.ends_with(&format!(" {name}")));
        line.and_then(|line| line.trim().split(' ').next())
            .map(str::to_owned)
    };
    assert_eq!(status, 0);
    assert!(number(".").is_some());
    assert_eq!(number("."), number(".."));
}
