//! Descriptors opened with `O_APPEND` or `O_DIRECT`, flags that a program may clear: each script does the same in a home as in
//! an ordinary directory.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::common::{Home, describe, need_mount, need_tools, run_limited};

/// Prepares `f` with 40 bytes, and helpers.
const BEFORE: &str = "
import fcntl, os, sys
open('f', 'w').write('0123456789' * 4)
def clear(fd): fcntl.fcntl(fd, fcntl.F_SETFL, 0); return fd
def show(fd, name='f'): print(os.fstat(fd).st_size, os.lseek(fd, 0, os.SEEK_CUR), open(name).read())
";

/// Scripts after [`BEFORE`].
const SCRIPTS: &[&str] = &[
    "fd = clear(os.open('f', os.O_WRONLY | os.O_APPEND)); os.pwrite(fd, b'X', 3); show(fd); os.write(fd, b'YY'); show(fd)",
    "fd = os.open('f', os.O_WRONLY | os.O_APPEND); os.write(fd, b'end'); clear(fd); os.pwrite(fd, b'X', 3); os.write(fd, b'Z'); show(fd)",
    "fd = os.open('f', os.O_RDWR | os.O_APPEND); os.pwrite(fd, b'end', 0); clear(fd); os.pwrite(fd, b'X', 3); show(fd); print(os.pread(fd, 50, 1))",
    "fd = os.open('n', os.O_WRONLY | os.O_APPEND | os.O_CREAT); os.write(fd, b'abc'); clear(fd); os.pwrite(fd, b'X', 1); show(fd, 'n')",
    "fd = clear(os.open('f', os.O_WRONLY | os.O_APPEND)); s = os.open('f', os.O_RDONLY); os.copy_file_range(s, fd, 5, 2, 20); show(fd)",
    "fd = os.open('f', os.O_WRONLY | os.O_APPEND); s = os.open('f', os.O_RDONLY)\ntry: os.copy_file_range(s, fd, 5, 2, 20)\nexcept OSError as e: print(e.errno)\nshow(fd)",
    "fd = os.open('f', os.O_WRONLY); fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND); os.write(fd, b'end'); clear(fd); os.pwrite(fd, b'X', 0); show(fd)",
    "r = os.open('f', os.O_RDWR); fd = os.open('f', os.O_WRONLY | os.O_APPEND); os.pwrite(r, b'more', 40); os.write(fd, b'end'); show(fd); os.ftruncate(r, 2); os.write(fd, b'end'); show(fd); show(r)",
    "t = os.open('f', os.O_WRONLY | os.O_TRUNC); fd = os.open('f', os.O_WRONLY | os.O_APPEND); os.pwrite(t, b'x' * 9, 0); os.write(fd, b'end'); os.write(t, b'!'); os.write(fd, b'end'); show(fd)",
    "import mmap\nfd = os.open('f', os.O_RDWR | os.O_APPEND); m = mmap.mmap(fd, 40); m[1:3] = b'MM'; os.write(fd, b'end'); m.flush(); show(fd); print(os.pread(fd, 9, 0)); m[4:5] = b'N'; clear(fd); os.pwrite(fd, b'P', 0); print(m[:9])",
];

fn python(dir: &Path, script: &str) -> String {
    let mut command = Command::new("python3");
    command
        .arg("-c")
        .arg(format!("{BEFORE}{script}"))
        .current_dir(dir);
    describe(&run_limited(command, Duration::from_secs(60)))
}

#[test]
fn cleared_append_flag_has_its_native_effect() {
    need_mount!();
    need_tools!("python3");
    let native = tempfile::tempdir().unwrap();
    let homes = [Home::with(&[]), Home::with(&["--no-passthrough"])];
    for (n, script) in SCRIPTS.iter().enumerate() {
        let dir = |top: &Path| {
            let dir = top.join(n.to_string());
            fs::create_dir(&dir).unwrap();
            dir
        };
        let expected = python(&dir(native.path()), script);
        for home in &homes {
            let top = home.home();
            assert_eq!(python(&dir(top), script), expected, "{script}");
            let bytes = |top: &Path| fs::read(top.join(n.to_string()).join("f")).unwrap();
            assert_eq!(bytes(home.store()), bytes(native.path()), "{script}");
        }
    }
}

/// Four processes append lines, each in its own way, while one of them has emptied the file and holds it open, and another
/// writes to its beginning.
#[test]
fn lines_of_many_appending_processes_are_whole() {
    need_mount!();
    need_tools!("python3");
    let script = "
import os
held = os.open('f', os.O_RDWR | os.O_CREAT | os.O_TRUNC)
os.write(held, b'-' * 50 + b'\\n')
for who in range(4):
    if os.fork() == 0:
        fd = os.open('f', os.O_APPEND | (os.O_RDWR if who == 0 else os.O_WRONLY))
        for n in range(400):
            if who == 1 and n % 20 == 0: fd = os.open('f', os.O_APPEND | os.O_WRONLY)
            if who == 2: os.pwrite(held, b'=', n % 50)
            os.write(fd, b'%d %d %s\\n' % (who, n, b'x' * (n % 70)))
        os._exit(0)
failed = [os.wait()[1] for _ in range(4)]
lines = open('f').read().splitlines()
print(failed, len(lines), lines[0].strip('=-'))
for who in range(4):
    mine = [line.split() for line in lines[1:] if line.startswith('%d ' % who)]
    print(mine == [[str(who), str(n)] + (['x' * (n % 70)] if n % 70 else []) for n in range(400)])
";
    for options in [&[][..], &["--no-passthrough"]] {
        let home = Home::with(options);
        let mut command = Command::new("python3");
        command.arg("-c").arg(script).current_dir(home.home());
        let output = run_limited(command, Duration::from_secs(100));
        let expected = format!("[0, 0, 0, 0] 1601 \n{}", "True\n".repeat(4));
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            expected,
            "{options:?}"
        );
        let seen = fs::read(home.path("f")).unwrap();
        assert_eq!(
            seen,
            fs::read(home.store().join("f")).unwrap(),
            "{options:?}"
        );
    }
}

/// dd(1) clears `O_DIRECT` for a last block that is shorter.
#[test]
fn dd_writes_odd_lengths_directly() {
    need_mount!();
    need_tools!("dd");
    for options in [&[][..], &["--no-passthrough"]] {
        let home = Home::with(options);
        let bytes: Vec<u8> = (0..100_001_u32).map(|at| (at / 7 % 251) as u8).collect();
        fs::write(home.path("from"), &bytes).unwrap();
        let mut command = Command::new("dd");
        command.args([
            "if=from",
            "of=to",
            "bs=4096",
            "oflag=direct",
            "iflag=direct",
        ]);
        command.current_dir(home.home());
        let output = run_limited(command, Duration::from_secs(60));
        assert!(
            output.status.success(),
            "{options:?}: {}",
            describe(&output)
        );
        assert!(fs::read(home.path("to")).unwrap() == bytes, "{options:?}");
    }
}

/// A write with `O_DIRECT` after the times were set sets the time, in the home as in the store.
#[test]
fn direct_write_after_utime_sets_the_time() {
    need_mount!();
    need_tools!("python3");
    let script = "
import mmap, os, sys
block = mmap.mmap(-1, 4096)
store = sys.argv[1]
open('f', 'wb').write(bytes(8192))
def show(fd):
    times = [os.fstat(fd).st_mtime, os.stat('f').st_mtime, os.stat(store + '/f').st_mtime]
    print(min(times) > 99, max(times) - min(times) < 60, os.fstat(fd).st_size == os.stat(store + '/f').st_size)
fd = os.open('f', os.O_RDWR | os.O_DIRECT)
for at in 0, 4096, 8192:
    os.utime('f', (9, 9)); os.pwrite(fd, block, at); show(fd)
plain = os.open('f', os.O_RDWR)
os.pwrite(plain, b'x', 0); os.utime('f', (9, 9)); os.pwrite(fd, block, 4096); show(fd)
os.utime('f', (9, 9)); print(os.stat('f').st_mtime, os.stat(store + '/f').st_mtime)
os.close(fd); os.close(plain); print(os.stat('f').st_mtime, open(store + '/f', 'rb').read(1) == b'x')
";
    for options in [&[][..], &["--no-passthrough"]] {
        let home = Home::with(options);
        let mut command = Command::new("python3");
        command.arg("-c").arg(script).arg(home.store());
        command.current_dir(home.home());
        let output = run_limited(command, Duration::from_secs(60));
        let expected = format!("{}9.0 9.0\n9.0 True\n", "True True True\n".repeat(4));
        let said = describe(&output);
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            expected,
            "{options:?}: {said}"
        );
    }
}
