//! Files that may be written and not read: their content is kept like any other, or the call that would destroy it
//! fails before it has.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::common::{Home, need_mount, need_root, need_tools};
use crate::keep::destroy;

/// Ways to destroy the content of `F`, in Python. `A()` opens it for appending only, `clear` makes an ordinary
/// descriptor of it.
const WAYS: &[(&str, &str)] = &[
    ("cut", "os.ftruncate(A(), 0)"),
    ("cut to some", "os.ftruncate(A(), 3)"),
    ("cut by name", "os.truncate(F, 3)"),
    ("cut by name, to nothing", "os.truncate(F, 0)"),
    (
        "cut by name beside an append",
        "a = A(); os.write(a, b'more'); os.truncate(F, 7); os.write(a, b'!')",
    ),
    ("emptied by an open", "os.open(F, os.O_WRONLY | os.O_TRUNC)"),
    (
        "emptied by an open beside an append",
        "a = A(); os.open(F, os.O_WRONLY | os.O_TRUNC); os.write(a, b'!')",
    ),
    (
        "emptied by an appending open",
        "os.open(F, os.O_WRONLY | os.O_APPEND | os.O_TRUNC)",
    ),
    ("punched", "range_of(A(), 3)"),
    ("zeroed", "range_of(A(), 0x10)"),
    (
        "overwritten after O_APPEND was cleared",
        "a = clear(A()); os.pwrite(a, b'over', 1)",
    ),
    (
        "overwritten before and after an append",
        "a = A(); os.write(a, b'more'); clear(a); os.pwrite(a, b'over', 1); os.pwrite(a, b'over', 9)",
    ),
    (
        "overwritten by a copy",
        "s = os.open('/proc/self/exe', os.O_RDONLY); x = os.open(F + '.src', os.O_RDWR | os.O_CREAT); os.write(x, os.pread(s, 64, 0)); os.copy_file_range(x, clear(A()), 60, 0, 2)",
    ),
    (
        "overwritten",
        "os.pwrite(os.open(F, os.O_WRONLY), b'over', 5)",
    ),
    (
        "appended, then overwritten",
        "os.write(A(), b'more'); os.pwrite(os.open(F, os.O_WRONLY), b'over', 5)",
    ),
    (
        "by a map of another open",
        "os.write(A(), b'more'); a = A(); os.ftruncate(a, 9); os.write(a, b'over')",
    ),
    (
        "by another name",
        "os.link(F, F + '.link'); os.truncate(F + '.link', 0)",
    ),
    (
        "replaced",
        "n = os.open(F + '.new', os.O_CREAT | os.O_WRONLY); os.write(n, b'new'); os.rename(F + '.new', F)",
    ),
    (
        "removed while open",
        "a = A(); os.unlink(F); os.ftruncate(a, 0)",
    ),
];

const HELPERS: &str = "import os, fcntl, ctypes
def A(): return os.open(F, os.O_WRONLY | os.O_APPEND)
def clear(fd): fcntl.fcntl(fd, fcntl.F_SETFL, 0); return fd
def range_of(fd, mode):
    if ctypes.CDLL(None, use_errno=True).fallocate(fd, mode | 1, ctypes.c_long(2), ctypes.c_long(60)):
        raise OSError(ctypes.get_errno(), 'fallocate')
try:
    WAY
except PermissionError as error: print('refused', error)
except OSError as error:
    if error.errno != 95: raise
";

/// Whose the file is, and its mode.
#[derive(Clone, Copy)]
struct Closed {
    owner: Option<u32>,
    mode: u32,
}

fn content(name: &str) -> Vec<u8> {
    format!("the precious content of {name}\n")
        .repeat(9)
        .into_bytes()
}

/// Returns the content of every file below a directory, whatever its mode.
fn all_contents(top: &Path) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(top).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(all_contents(&path));
        } else if path.is_file() {
            let mode = path.metadata().unwrap().permissions().mode();
            let _ = fs::set_permissions(&path, fs::Permissions::from_mode(mode | 0o400));
            found.push(fs::read(&path).unwrap());
        }
    }
    found
}

/// Tries every way on closed files. A user whose home it is works there; `None`: the user of this test.
fn by_every_way(options: &[&str], user: Option<u32>, closed: Closed) {
    let names: Vec<String> = (0..WAYS.len()).map(|n| format!("file-{n}")).collect();
    let mut home = Home::plan()
        .options(options)
        .limit(std::time::Duration::from_secs(240))
        .prepare(|store| {
            std::os::unix::fs::chown(store, user, user).unwrap();
            for name in &names {
                let path = store.join(name);
                fs::write(&path, content(name)).unwrap();
                std::os::unix::fs::chown(&path, closed.owner, closed.owner).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(closed.mode)).unwrap();
            }
        })
        .mount();
    let mut failed = Vec::new();
    for ((way, script), name) in WAYS.iter().zip(&names) {
        let python = HELPERS.replace("    WAY", &format!("    {script}"));
        let output = destroy(&home, name, &format!("#!py\n{python}"), user);
        let refused = !output.stdout.is_empty();
        let foreign = closed.owner != user;
        if !output.status.success() || refused && !foreign {
            failed.push(format!(
                "{way}: {}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            ));
        }
    }
    home.umount();
    let contents = all_contents(home.store());
    for ((way, _), name) in WAYS.iter().zip(&names) {
        let before = content(name);
        if !contents.iter().any(|kept| kept.starts_with(&before)) {
            failed.push(format!("{way} ({name}): the content is gone"));
        }
    }
    assert!(failed.is_empty(), "{options:?}:\n{}", failed.join("\n"));
}

#[test]
fn own_unreadable_file_is_kept() {
    need_mount!();
    for options in [&[][..], &["--no-passthrough"], &["--cache-ttl", "1"]] {
        let closed = Closed {
            owner: None,
            mode: 0o200,
        };
        by_every_way(options, None, closed);
    }
}

#[test]
fn unreadable_file_in_home_of_another_user_is_kept() {
    need_mount!();
    need_root!("to mount for another user");
    need_tools!("setpriv");
    let user = 12345;
    for owner in [Some(user), Some(0)] {
        for options in [
            &["--owner", "12345"][..],
            &["--owner", "12345", "--no-passthrough"],
            &["--allow-other"],
            &["--allow-other", "--no-passthrough"],
        ] {
            for mode in [0o222, 0o602] {
                by_every_way(options, Some(user), Closed { owner, mode });
            }
        }
    }
}

/// Programs that change `f`, `g` and `s` of modes 0200, 0000 and 4700, or what is in the directory `d` of mode 0.
const PROGRAMS: &[&str] = &[
    "echo z >f",
    "echo z >>f",
    "truncate -s 0 f",
    "truncate -s 5 f",
    "truncate -s 9999 f",
    "echo x >>f; chmod 600 f; chmod 4755 f",
    "echo x >f; chmod 600 f; chmod 4755 f",
    "chmod 600 f; echo y >f; chmod 200 f",
    "chmod 600 g; echo y >>g; chmod 0 g",
    "rm -f f g; echo new >f",
    "mv f f2; echo new >f; mv g f2",
    "ln f l; echo z >l; rm -f f",
    "ln f l; truncate -s 3 l",
    "echo s >>s; chmod 0 s",
    "chmod 6000 g; chmod 0200 s; echo z >s",
    "python3 -c 'import os; a = os.open(\"f\", os.O_WRONLY | os.O_APPEND); os.ftruncate(a, 3)'",
    "python3 -c 'import os; a = os.open(\"f\", os.O_WRONLY | os.O_APPEND); os.write(a, b\"more\"); os.pwrite(os.open(\"f\", os.O_WRONLY), b\"over\", 7)'",
    "printf abc | dd of=f conv=notrunc bs=1 seek=4 status=none; rm -f f",
    "echo z >f; echo zz >f; echo zzz >>f",
    "chmod 700 d; echo n >d/n; echo m >>d/m; chmod 0 d",
];

/// Returns each path with its mode and content, whatever the mode.
fn look(top: &Path) -> Vec<(String, u32, Vec<u8>)> {
    let mut found = Vec::new();
    let mut entries: Vec<_> = fs::read_dir(top)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name == ".trumanfs" || name == ".trash" {
            continue;
        }
        let mode = path.metadata().unwrap().permissions().mode() & 0o7777;
        let with = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        with(0o700);
        if path.is_dir() {
            found.push((name, mode, Vec::new()));
            found.extend(look(&path));
        } else {
            found.push((name, mode, fs::read(&path).unwrap()));
        }
        with(mode);
    }
    found
}

#[test]
fn programs_with_unreadable_files_are_undone_and_redone() {
    need_mount!();
    need_tools!("python3", "dd");
    let mut failed = Vec::new();
    for options in [&[][..], &["--no-passthrough"]] {
        for program in PROGRAMS {
            let mut home = Home::prepared(
                |store| {
                    let put = |name: &str, mode| {
                        fs::write(store.join(name), content(name)).unwrap();
                        fs::set_permissions(store.join(name), fs::Permissions::from_mode(mode))
                            .unwrap();
                    };
                    put("f", 0o200);
                    put("g", 0);
                    put("s", 0o4700);
                    fs::create_dir(store.join("d")).unwrap();
                    put("d/m", 0o200);
                    let closed = fs::Permissions::from_mode(0o000);
                    fs::set_permissions(store.join("d"), closed).unwrap();
                },
                options,
            );
            // The test's own looks change a file's ctime only.
            let store = home.store().to_owned();
            let before = look(&store);
            let output = destroy(&home, "f", program, None);
            if !output.status.success() {
                failed.push(format!(
                    "{program}: {}",
                    String::from_utf8_lossy(&output.stderr)
                ));
            }
            home.umount();
            let after = look(&store);
            let at = store.as_os_str();
            let sessions = fs::read_dir(store.join(".trumanfs/sessions")).unwrap();
            let session = sessions.last().unwrap().unwrap().file_name();
            let undo = [
                "undo".as_ref(),
                at,
                "--session".as_ref(),
                session.as_os_str(),
            ];
            let redo = ["redo".as_ref(), at];
            for (words, expected) in [(&undo[..], &before), (&redo, &after), (&undo, &before)] {
                let verb = words[0].display();
                let output = crate::common::trumanfs(words);
                if !output.status.success() || look(&store) != *expected {
                    failed.push(format!(
                        "{options:?} {program}: {verb} {}: {:?} instead of {expected:?}",
                        crate::common::describe(&output),
                        look(&store)
                    ));
                    break;
                }
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
