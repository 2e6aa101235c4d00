//! Tests of `cp`, in a directory of its own.

use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};

use crate::commands::tests::Bench;

/// Files `f`, `g`, `d/f`, `d/s/deep`, and an empty directory `h`.
fn bench() -> Bench {
    let bench = Bench::new();
    for path in ["f", "g", "d/f", "d/s/deep"] {
        bench.put(path, path);
    }
    std::fs::create_dir(bench.dir.path().join("h")).unwrap();
    bench
}

fn read(bench: &Bench, path: &str) -> String {
    std::fs::read_to_string(bench.dir.path().join(path)).unwrap_or_default()
}

#[test]
fn cp_copies_as_gnu_does() {
    for (line, out, there, content) in [
        ("cp f new", "", "new", "f"),
        ("cp -v f g", "'f' -> 'g'\n", "g", "f"),
        ("cp f g h", "", "h/g", "g"),
        ("cp -t h f g", "", "h/f", "f"),
        ("cp -r d new", "", "new/s/deep", "d/s/deep"),
        ("cp -r d new/", "", "new/f", "d/f"),
        ("cp -R d/ h", "", "h/d/f", "d/f"),
        ("cp -r d/. h", "", "h/s/deep", "d/s/deep"),
        ("cp -rT d h", "", "h/f", "d/f"),
        ("cp -a d h", "", "h/d/s/deep", "d/s/deep"),
        ("cp -n f g", "", "g", "g"),
        ("cp -n f f", "", "f", "f"),
        ("cp -u f new", "", "new", "f"),
        ("cp -f f g", "", "g", "f"),
        ("cp /dev/null g", "", "g", ""),
        (
            "cp -rv d/s h",
            "'d/s' -> 'h/s'\n'd/s/deep' -> 'h/s/deep'\n",
            "h/s/deep",
            "d/s/deep",
        ),
    ] {
        let mut bench = bench();
        let given = bench.run(line, "");
        assert_eq!(given, (out.to_owned(), String::new(), 0), "{line}");
        assert_eq!(read(&bench, there), content, "{line}");
    }
}

#[test]
fn cp_reports_each_failure() {
    for (line, err) in [
        ("cp", "missing file operand"),
        ("cp f", "missing destination file operand"),
        ("cp missing new", "missing: No such file or directory"),
        ("cp f missing/new", "f: No such file or directory"),
        ("cp f missing/", "f: No such file or directory"),
        ("cp -r d missing/new", "d: No such file or directory"),
        (
            "cp /etc/passwd new",
            "/etc/passwd: No such file or directory",
        ),
        ("cp f /etc/new", "f: No such file or directory"),
        ("cp f g missing", "missing: No such file or directory"),
        ("cp f h g", "g: Not a directory"),
        ("cp d new", "-r not specified; omitting directory 'd'"),
        ("cp f f", "'f' and 'f' are the same file"),
        ("cp -r d/s d", "'d/s' and 'd/s' are the same file"),
        (
            "cp -r d f",
            "cannot overwrite non-directory 'f' with directory 'd'",
        ),
        (
            "cp -T f d",
            "cannot overwrite directory 'd' with non-directory",
        ),
        (
            "cp -r d d/new",
            "cannot copy a directory, 'd', into itself, 'd/new'",
        ),
        (
            "cp -r d d",
            "cannot copy a directory, 'd', into itself, 'd/d'",
        ),
        (
            "cp f d/f h",
            "will not overwrite just-created 'h/f' with 'd/f'",
        ),
        (
            "cp --preserve=links f new",
            "invalid argument 'links' for '--preserve'",
        ),
        ("cp -Z f g", "invalid option -- 'Z'"),
    ] {
        let (_, told, status) = bench().run(line, "");
        assert_eq!((told, status), (format!("cp: {err}\n"), 1), "{line}");
    }
}

#[test]
fn repeated_source_is_copied_once() {
    let mut bench = bench();
    let told = bench.run("cp -r d d f f h", "").1;
    let wanted = "cp: warning: source directory 'd' specified more than once\n\
                  cp: warning: source file 'f' specified more than once\n";
    assert_eq!(told, wanted);
    assert_eq!(read(&bench, "h/d/f"), "d/f");
}

#[test]
fn copy_into_itself_copies_the_rest() {
    let mut bench = bench();
    bench.run("cp -r d d/new", "");
    assert_eq!(read(&bench, "d/new/s/deep"), "d/s/deep");
    assert!(!bench.dir.path().join("d/new/new").exists());
}

#[test]
fn attributes_are_preserved_on_request() {
    let mut bench = bench();
    let at = |bench: &Bench, path: &str| std::fs::metadata(bench.dir.path().join(path)).unwrap();
    let mode = |path: &str, mode: u32, bench: &Bench| {
        let path = bench.dir.path().join(path);
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    };
    mode("f", 0o4751, &bench);
    mode("d", 0o510, &bench);
    bench.run("touch -d @1000 f d d/f", "");
    bench.run("cp f plain", "");
    bench.run("cp -p f kept", "");
    bench.run("cp --preserve=timestamps f timed", "");
    bench.run("cp -r d tree", "");
    bench.run("cp -a d whole", "");
    let umask = crate::mode::umask();
    for (path, mode, mtime) in [
        ("plain", 0o751 & !umask, None),
        ("kept", 0o4751, Some(1000)),
        ("timed", 0o751 & !umask, Some(1000)),
        ("tree", 0o510 & !umask, None),
        ("tree/f", at(&bench, "d/f").mode() & 0o777, None),
        ("whole", 0o510, Some(1000)),
        ("whole/f", at(&bench, "d/f").mode() & 0o777, Some(1000)),
    ] {
        let meta = at(&bench, path);
        assert_eq!(meta.mode() & 0o7777, mode, "{path}");
        assert_eq!(mtime.unwrap_or(meta.mtime()), meta.mtime(), "{path}");
        assert_eq!(mtime.is_none(), meta.mtime() != 1000, "{path}");
    }
}

#[test]
fn holes_stay_holes() {
    let mut bench = bench();
    let file = std::fs::File::create(bench.dir.path().join("sparse")).unwrap();
    file.write_all_at(b"start", 0).unwrap();
    file.write_all_at(b"middle", 10 << 20).unwrap();
    file.set_len(30 << 20).unwrap();
    assert_eq!(bench.run("cp sparse copy", "").2, 0);
    let meta = std::fs::metadata(bench.dir.path().join("copy")).unwrap();
    assert_eq!(meta.len(), 30 << 20);
    assert!(meta.blocks() * 512 < 1 << 20, "{}", meta.blocks());
    let copy = std::fs::read(bench.dir.path().join("copy")).unwrap();
    assert!(copy == std::fs::read(bench.dir.path().join("sparse")).unwrap());
}

#[test]
fn fifo_is_reported_and_not_read() {
    let mut bench = bench();
    let pipe = bench.dir.path().join("d/p");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let (_, told, status) = bench.run("cp -r d new", "");
    let wanted = "cp: d/p: not copied, for it is no regular file\n";
    assert_eq!((told.as_str(), status), (wanted, 1));
    assert_eq!(read(&bench, "new/f"), "d/f");
}
