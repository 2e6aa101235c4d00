//! Compares the bundled shell with `bash -c`, command by command: `cargo bench --bench shell`.
//!
//! Ours runs in this process, in a store that is not mounted; bash runs as agents run it, one process for each line,
//! in an identical directory on the same file system. The output of both is read in full. `BENCH_ROOT` names a
//! directory to work in (a tmpfs, for example).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, SamplingMode, criterion_group, criterion_main};
use trumanfs::exec::Limits;
use trumanfs::exec::offline_home::OfflineHome;
use trumanfs::exec::shell::Shell;

/// Short lines, as agents type them: a name for the table, and the line.
const SMALL: &[(&str, &str)] = &[
    ("true", "true"),
    ("pwd", "pwd"),
    ("cd", "(cd src && pwd)"),
    ("echo", "echo hello world"),
    ("redirect", "echo hello > out.txt"),
    ("cat", "cat src/f1.txt"),
    ("head", "head -5 src/f1.txt"),
    ("tail", "tail -5 src/f1.txt"),
    ("wc", "wc -l src/f1.txt"),
    ("grep", "grep -n line src/f1.txt"),
    ("ls", "ls src"),
    ("ls -l", "ls -l src"),
    ("find", "find src -name '*.txt'"),
    ("glob", "echo src/*.txt"),
    ("which", "which ls"),
    ("date", "date +%Y"),
    ("touch", "touch t.txt"),
    ("mkdir, rm -r", "mkdir d && rm -r d"),
    ("cp, mv, rm", "cp src/f1.txt c && mv c e && rm e"),
    ("pipe", "cat src/f1.txt | grep line | wc -l"),
];

fn fill(dir: &Path) {
    fs::create_dir_all(dir.join("src")).unwrap();
    for n in 0..20 {
        let text: String = (0..50)
            .map(|line| format!("line {line} of file {n}\n"))
            .collect();
        fs::write(dir.join(format!("src/f{n}.txt")), text).unwrap();
    }
}

/// Makes 5,000 files of some KiB, in 100 directories.
fn fill_tree(dir: &Path) {
    for d in 0..100 {
        let sub = dir.join(format!("tree/d{d}"));
        fs::create_dir_all(&sub).unwrap();
        for n in 0..50 {
            let text: String = (0..120)
                .map(|line| format!("    let value_{line} = compute({d}, {n}); // what is done\n"))
                .collect();
            fs::write(sub.join(format!("f{n}.rs")), text).unwrap();
        }
    }
}

struct Places {
    _dirs: [tempfile::TempDir; 2],
    shell: Shell,
    native: std::path::PathBuf,
}

fn places(fill: impl Fn(&Path)) -> Places {
    let base = std::env::var_os("BENCH_ROOT").map_or_else(std::env::temp_dir, Into::into);
    let dirs = [(); 2].map(|()| tempfile::tempdir_in(&base).unwrap());
    dirs.iter().for_each(|dir| fill(dir.path()));
    let [ours, native] = [
        dirs.first().unwrap().path().to_owned(),
        dirs.last().unwrap().path().to_owned(),
    ];
    let limits = Limits {
        lines: 0,
        bytes: 0,
        ..Limits::default()
    };
    let home = Arc::new(OfflineHome::open(&ours).unwrap());
    let shell = Shell::new(home, ours.as_os_str().as_bytes(), limits);
    Places {
        _dirs: dirs,
        shell,
        native,
    }
}

fn bash(line: &str, dir: &Path) {
    let output = Command::new("bash")
        .args(["-c", line])
        .env("LC_ALL", "C")
        .current_dir(dir)
        .output();
    assert!(output.unwrap().status.success(), "{line}");
}

fn small(c: &mut Criterion) {
    let mut places = places(fill);
    for (name, line) in SMALL {
        let mut group = c.benchmark_group(*name);
        group
            .warm_up_time(Duration::from_millis(200))
            .measurement_time(Duration::from_secs(1))
            .sample_size(30);
        group.bench_function("ours", |b| {
            b.iter(|| {
                let outcome = places.shell.run(line.as_bytes());
                assert_eq!(outcome.return_code, 0, "{line}");
                outcome
            });
        });
        group.bench_function("bash", |b| b.iter(|| bash(line, &places.native)));
        group.finish();
    }
}

fn large(c: &mut Criterion) {
    let mut places = places(fill_tree);
    for (name, line) in [
        (
            "grep -r, 5,000 files",
            "grep -rn 'value_77 = compute(5' tree",
        ),
        ("grep -rci, 5,000 files", "grep -rci 'VALUE_1[0-9]' tree"),
        ("find, 5,000 files", "find tree -name 'f4*.rs' -size -8k"),
        ("wc, 5,000 files", "cat tree/*/*.rs | wc -l"),
    ] {
        let mut group = c.benchmark_group(name);
        group
            .warm_up_time(Duration::from_secs(1))
            .measurement_time(Duration::from_secs(4))
            .sample_size(20);
        group.sampling_mode(SamplingMode::Flat);
        group.bench_function("ours", |b| b.iter(|| places.shell.run(line.as_bytes())));
        group.bench_function("bash", |b| b.iter(|| bash(line, &places.native)));
        group.finish();
    }
}

criterion_group!(benches, small, large);
criterion_main!(benches);
