//! Shared maps that outlive their descriptors: the kernel tells of the close, and what is stored through the map is seen by nobody.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::common::{Home, describe, need_mount, need_passthrough};

/// A program that has a file mapped, and no descriptor of it. (Python's own maps hold one.)
struct Mapped {
    program: Child,
    tell: ChildStdin,
    said: BufReader<ChildStdout>,
}

const PROGRAM: &str = "
import ctypes, os, sys
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o644)
if len(sys.argv) > 2:
    os.write(fd, b'a' * int(sys.argv[2]))
at = libc.mmap(None, os.fstat(fd).st_size, 3, 1, fd, 0)
os.close(fd)
print('mapped', flush=True)
for line in sys.stdin:
    to, text = line.split()
    ctypes.memmove(at + int(to), text.encode(), len(text))
    print('stored', flush=True)
";

impl Mapped {
    /// Maps a file, which is made with so many letters if a size is given.
    fn new(path: &Path, size: Option<usize>) -> Mapped {
        let mut program = Command::new("python3")
            .args(["-c", PROGRAM])
            .arg(path)
            .args(size.map(|size| size.to_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let tell = program.stdin.take().unwrap();
        let said = BufReader::new(program.stdout.take().unwrap());
        let mut mapped = Mapped {
            program,
            tell,
            said,
        };
        mapped.hears("mapped");
        mapped
    }

    fn hears(&mut self, word: &str) {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), word);
    }

    fn store(&mut self, at: usize, text: &str) {
        writeln!(self.tell, "{at} {text}").unwrap();
        self.hears("stored");
    }

    fn ends(mut self) {
        drop(self.tell);
        assert!(self.program.wait().unwrap().success());
    }
}

/// The number of the last record, with its session.
fn now(home: &Home) -> String {
    let journal = home.journal();
    let session = journal[0]["session"].as_str().unwrap();
    format!("{session}:{}", journal.last().unwrap()["seq"])
}

#[track_caller]
fn content_at(home: &Home, path: &str, at: &str) -> Vec<u8> {
    let words = ["cat", home.store().to_str().unwrap(), path, "--at", at];
    let output = crate::common::trumanfs(&words);
    assert!(output.status.success(), "{}", describe(&output));
    output.stdout
}

/// A home with a file of so many letters and another like it, and the operation before all changes.
fn with_file(size: usize, options: &[&str]) -> (Home, String) {
    let prepare = |store: &Path| {
        for name in ["f", "unmapped"] {
            fs::write(store.join(name), vec![b'a'; size]).unwrap();
        }
    };
    let home = Home::prepared(prepare, options);
    let before = now(&home);
    (home, before)
}

#[test]
fn a_version_is_whole_while_its_file_is_mapped_and_after() {
    need_mount!();
    let (home, before) = with_file(100_000, &[]);
    need_passthrough!(home);
    let mut mapped = Mapped::new(&home.path("f"), None);
    mapped.store(50_000, "over");
    assert!(content_at(&home, "/f", &before) == vec![b'a'; 100_000]);
    mapped.ends();
    assert!(content_at(&home, "/f", &before) == vec![b'a'; 100_000]);
}

#[test]
fn a_former_content_is_not_the_inode_that_somebody_has_mapped() {
    need_mount!();
    let (home, before) = with_file(100_000, &[]);
    need_passthrough!(home);
    let mut mapped = Mapped::new(&home.path("f"), None);
    home.sh("printf 'much shorter' > f");
    mapped.store(5, "over");
    mapped.ends();
    assert_eq!(fs::read(home.path("f")).unwrap(), b"much overter");
    assert!(content_at(&home, "/f", &before) == vec![b'a'; 100_000]);
}

#[test]
fn a_mapped_file_is_kept_whole_and_not_by_what_requests_overwrite() {
    need_mount!();
    let home = Home::with(&["--copy-up-to", "8K"]);
    need_passthrough!(home);
    let mut mapped = Mapped::new(&home.path("f"), Some(400_000));
    let before = now(&home);
    let file = fs::File::options()
        .write(true)
        .open(home.path("f"))
        .unwrap();
    file.write_all_at(b"over", 10).unwrap();
    mapped.store(200_000, "stored");
    drop(file);
    mapped.ends();
    assert!(content_at(&home, "/f", &before) == vec![b'a'; 400_000]);
    assert_eq!(
        fs::read(home.path("f")).unwrap()[200_000..200_006],
        *b"stored"
    );
}

/// A second store into the same page shows in no time of the file, and causes no event.
#[test]
fn what_is_stored_through_a_map_shows_to_the_next_reader() {
    need_mount!();
    let (home, _) = with_file(5000, &[]);
    need_passthrough!(home);
    let mut mapped = Mapped::new(&home.path("f"), None);
    for turn in 0..20 {
        for n in 0..turn % 4 {
            assert_eq!(fs::read(home.path("f")).unwrap().len(), 5000, "{n}");
        }
        let text = format!("turn{turn:04}");
        mapped.store(100, &text);
        let read = fs::read(home.path("f")).unwrap();
        assert_eq!(read[100..108], *text.as_bytes(), "turn {turn}");
    }
    mapped.ends();
}
