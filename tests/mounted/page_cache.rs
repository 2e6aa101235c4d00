//! Small files that are only read go through the page cache, beside passthrough: one request brings them, later readers cost none,
//! and what is read is always what the store has, however and by whomever the file is changed.

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::{Home, need_mount, need_passthrough, need_root};

fn reads(home: &Home) -> u64 {
    home.status().unwrap()["counters"]["read"]
        .as_u64()
        .unwrap_or(0)
}

/// Reads a file until its content comes through the page cache.
#[track_caller]
fn cached(home: &Home, path: &Path) -> Vec<u8> {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let before = reads(home);
        let content = fs::read(path).unwrap();
        if reads(home) > before {
            return content;
        }
        assert!(Instant::now() < until, "never through the page cache");
    }
}

#[test]
fn a_small_file_is_brought_once_and_a_big_one_never() {
    need_mount!();
    let prepare = |store: &Path| {
        for (name, size) in [("small", 5000), ("full", 16 << 10), ("big", (16 << 10) + 1)] {
            fs::write(store.join(name), vec![b'x'; size]).unwrap();
        }
    };
    let home = Home::prepared(prepare, &[]);
    need_passthrough!(home);
    // Other tests have all pages of all files dropped, now and then.
    for (name, least, most) in [("small", 1, 9), ("full", 1, 9), ("big", 0, 0)] {
        let before = reads(&home);
        for _ in 0..20 {
            let content = fs::read(home.path(name)).unwrap();
            assert!(content.iter().all(|byte| *byte == b'x'));
        }
        let spent = reads(&home) - before;
        assert!(
            (least..=most).contains(&spent),
            "{name}: {spent} requests for the content"
        );
    }
}

#[test]
fn each_change_in_the_home_shows_to_the_next_reader() {
    need_mount!();
    let home = Home::mount();
    need_passthrough!(home);
    let path = home.path("f");
    // What the first reader gets, past the daemon or from pages of before, is what the later ones get.
    let read = || {
        let first = fs::read(&path).unwrap();
        assert_eq!(cached(&home, &path), first);
        first
    };
    fs::write(&path, "one").unwrap();
    assert_eq!(read(), b"one");
    // Of the same length, within the same tick of a coarse clock, with the time put back: each way to write.
    let time = fs::metadata(&path).unwrap().modified().unwrap();
    for (turn, text) in ["two", "six", "ten", "low"]
        .iter()
        .cycle()
        .take(60)
        .enumerate()
    {
        let mut options = fs::File::options();
        let mut file = match turn % 3 {
            0 => options.write(true).truncate(true).open(&path).unwrap(),
            1 => options.write(true).open(&path).unwrap(),
            _ => options.read(true).write(true).open(&path).unwrap(),
        };
        file.write_all(text.as_bytes()).unwrap();
        file.set_modified(time).unwrap();
        drop(file);
        assert_eq!(read(), text.as_bytes(), "turn {turn}");
    }
    home.sh("echo longer >>f; truncate -s 4 f; printf new >g");
    assert_eq!(read(), b"lowl");
    home.sh("mv g f");
    assert_eq!(read(), b"new");
    home.sh("cp f h; rm f; mv h f; python3 -c \"import mmap; f = open('f', 'r+b'); m = mmap.mmap(f.fileno(), 0); m[0] = 90; m.close()\"");
    assert_eq!(read(), b"Zew");
}

#[test]
fn who_reads_while_others_write_sees_what_they_write() {
    need_mount!();
    let home = Home::mount();
    need_passthrough!(home);
    let path = home.path("f");
    fs::write(&path, "0").unwrap();
    cached(&home, &path);
    let mut reader = fs::File::open(&path).unwrap();
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    let mut expected = "0".to_owned();
    for turn in 1..50 {
        let mut writer = fs::File::options().append(true).open(&path).unwrap();
        write!(writer, ",{turn}").unwrap();
        expected += &format!(",{turn}");
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, expected);
        assert_eq!(
            fs::read_to_string(home.store().join("f")).unwrap(),
            expected
        );
    }
    fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .write_at(b"9", 0)
        .unwrap();
    reader.seek(SeekFrom::Start(0)).unwrap();
    let mut byte = [0];
    reader.read_exact(&mut byte).unwrap();
    assert_eq!(byte, *b"9");
    // Emptied and written anew below the reader.
    fs::write(&path, "anew").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"anew");
    reader.seek(SeekFrom::Start(0)).unwrap();
    text.clear();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(text, "anew");
}

#[test]
fn what_is_written_beside_a_reader_can_be_taken_back() {
    need_mount!();
    let home = Home::mount();
    need_passthrough!(home);
    let path = home.path("f");
    fs::write(&path, "first").unwrap();
    cached(&home, &path);
    let reader = fs::File::open(&path).unwrap();
    let now = || {
        let mut bytes = [0; 16];
        let read = reader.read_at(&mut bytes, 0).unwrap();
        String::from_utf8_lossy(&bytes[..read]).into_owned()
    };
    assert_eq!(now(), "first");
    home.sh("printf X | dd of=f conv=notrunc status=none");
    assert_eq!(now(), "Xirst");
    let undone = home.trumanfs(&[
        "undo".as_ref(),
        home.home().as_os_str(),
        "--program".as_ref(),
        "dd".as_ref(),
    ]);
    assert!(
        undone.status.success(),
        "{}",
        crate::common::describe(&undone)
    );
    assert_eq!(fs::read(&path).unwrap(), b"first");
}

#[test]
fn a_change_behind_the_mount_shows() {
    need_mount!();
    let home = Home::mount();
    need_passthrough!(home);
    need_root!("to read the store beside the mount");
    let (path, below) = (home.path("f"), home.store().join("f"));
    fs::write(&path, "inside").unwrap();
    assert_eq!(cached(&home, &path), b"inside");
    for text in ["behind", "beyond", "before"] {
        fs::write(&below, text).unwrap();
        let until = Instant::now() + Duration::from_secs(30);
        while fs::read(&path).unwrap() != text.as_bytes() {
            assert!(Instant::now() < until, "{text} does not show");
            std::thread::sleep(Duration::from_millis(10));
        }
        // The next change is one of what is cached.
        (0..3).for_each(|_| drop(fs::read(&path).unwrap()));
    }
}
