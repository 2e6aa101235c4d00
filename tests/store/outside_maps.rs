//! Files that a program of the home maps: what it stores through a map is nobody else's, and no stamp says otherwise.

use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::fs::FileExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Home, need_mount, need_passthrough, need_tools};
use crate::outside_stamps::{expect_stamped, stamp_of, undo_last};

/// A Python program in a home that says what it has done, and waits for a line before it goes on.
struct SteppedProgram {
    child: Child,
    tell: ChildStdin,
    said: Lines<BufReader<ChildStdout>>,
}

impl SteppedProgram {
    fn begin(home: &Home, script: &str) -> SteppedProgram {
        let mut child = Command::new("python3")
            .args(["-c", script])
            .current_dir(home.home())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        SteppedProgram {
            tell: child.stdin.take().unwrap(),
            said: BufReader::new(child.stdout.take().unwrap()).lines(),
            child,
        }
    }

    #[track_caller]
    fn expect(&mut self, step: &str) {
        assert_eq!(self.said.next().unwrap().unwrap(), step);
    }

    fn go_on(&mut self) {
        self.tell.write_all(b"\n").unwrap();
    }

    #[track_caller]
    fn expect_end(mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

/// A write through a map after the stamp would look like a change outside the home.
#[test]
fn file_that_is_mapped_after_its_close_has_no_stamp() {
    const PROGRAM: &str = "
import ctypes, os, sys
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
fd = os.open('f', os.O_RDWR)
os.write(fd, b'a')
at = libc.mmap(None, 8192, 3, 1, fd, 0)
os.close(fd)
print('mapped', flush=True)
sys.stdin.readline()
ctypes.memmove(at + 5000, b'b', 1)
print('stored', flush=True)
sys.stdin.readline()
";
    need_mount!();
    need_tools!("python3");
    let home = Home::prepared(
        |store| fs::write(store.join("f"), [b'x'; 8192]).unwrap(),
        &[],
    );
    need_passthrough!(home);
    let mut program = SteppedProgram::begin(&home, PROGRAM);
    program.expect("mapped");
    assert_eq!(stamp_of(home.store(), "f"), None);
    program.go_on();
    program.expect("stored");
    assert_eq!(stamp_of(home.store(), "f"), None);
    program.go_on();
    program.expect_end();
    // Either side may have changed the file since the close.
    assert_eq!(stamp_of(home.store(), "f"), None);
    let both = fs::File::options()
        .read(true)
        .write(true)
        .open(home.path("f"))
        .unwrap();
    both.write_all_at(b"c", 0).unwrap();
    drop(both);
    expect_stamped(home.store(), "f");
}

/// The first close takes a stamp, and the second one cannot: what is stored between the last close and the end of the
/// map is nobody else's.
#[test]
fn file_that_is_mapped_after_a_first_close_is_undone() {
    const PROGRAM: &str = "
import mmap, os, time
file = os.open('f', os.O_RDWR)
os.close(os.dup(file))
print('closed', flush=True)
input()
map = mmap.mmap(file, 0)
os.close(file)
print('mapped', flush=True)
input()
# Longer than a tick of the file system's clock.
time.sleep(0.05)
map[0:3] = b'new'
map.close()
";
    need_mount!();
    need_tools!("python3");
    for is_sealed in [false, true] {
        for then in ["true", "mv g f", "mv f h", "chmod 600 f"] {
            let case = format!("{then}, {is_sealed}");
            let fill = |store: &std::path::Path| {
                fs::write(store.join("f"), "1\n2\n3\n").unwrap();
                fs::write(store.join("g"), "other\n").unwrap();
            };
            let mut home = Home::prepared(fill, &[]);
            let mut program = SteppedProgram::begin(&home, PROGRAM);
            program.expect("closed");
            let limit = Instant::now() + Duration::from_secs(20);
            while is_sealed && stamp_of(home.store(), "f").is_none() {
                assert!(Instant::now() < limit, "{case}: no stamp");
            }
            program.go_on();
            program.expect("mapped");
            program.go_on();
            program.expect_end();
            home.sh(then);
            let (code, told) = undo_last(&mut home, &[]);
            assert!(code == Some(0), "{case}: {told}");
            let is = fs::read(home.store().join("f")).unwrap();
            assert!(is == b"1\n2\n3\n", "{case}: {told}");
        }
    }
}
