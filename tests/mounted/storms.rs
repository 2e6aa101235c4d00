//! Storms: several programs write, append to, truncate, empty, link, move and remove the same few files at once.
//! Afterwards home and store must agree in names, sizes and bytes, and every former content must be what its record
//! claims.
//!
//! `TRUMANFS_ROUNDS` sets the number of rounds.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::calls::*;
use crate::common::random::Random;
use crate::common::{Home, child, describe, need_mount, skip, trumanfs};

fn rounds(usual: u64) -> u64 {
    let asked = std::env::var("TRUMANFS_ROUNDS").ok();
    asked.map_or(usual, |text| text.parse().unwrap())
}

/// Says in what a file of the home differs from that of the store.
fn difference(home: &Home, name: &str) -> Option<String> {
    let (shown, stored) = (home.path(name), home.store().join(name));
    let sizes = [&shown, &stored].map(|path| stat(path).map(|stat| stat.size));
    if sizes[0] != sizes[1] {
        return Some(format!(
            "{name}: in the home / in the store: {:?} / {:?}",
            sizes[0], sizes[1]
        ));
    }
    (sizes[0].is_ok() && fs::read(shown).unwrap() != fs::read(stored).unwrap())
        .then(|| format!("{name}: other bytes"))
}

/// What the home's kernel does by itself when an open that empties has returned (`fuse_do_setattr`, `ATTR_OPEN`): it sets the size to
/// zero once more. Whoever has waited for the inode writes before that. A process of `SCHED_FIFO` that waits is the next to get
/// the lock (`rwsem_try_write_lock`), so here it happens in some of a hundred rounds instead of one in thousands.
fn emptied_while_another_writes(options: &[&str], also: fn(&rustix::fd::OwnedFd)) {
    if !child::spawn(|| Ok(first_come_first_served().is_ok().to_string()))
        .join()
        .is_ok_and(|allowed| allowed == "true")
    {
        skip!("realtime", "needs the right to real-time scheduling");
    }
    let home = Home::plan()
        .options(options)
        .limit(Duration::from_secs(120))
        .mount();
    let path = home.path("f");
    let mut wrong = Vec::new();
    let mut writer = {
        let path = path.clone();
        child::Worker::spawn(move |round| {
            first_come_first_served().map_err(|errno| errno.to_string())?;
            let fd = open(&path, O_RDWR, 0).map_err(|errno| errno.to_string())?;
            std::thread::sleep(Duration::from_micros(round * 37 % 700));
            for _ in 0..=round % 8 {
                pwrite(&fd, &[b'x'; 5000], 0).map_err(|errno| errno.to_string())?;
                also(&fd);
            }
            Ok(String::new())
        })
    };
    for round in 0..rounds(400) {
        fs::write(&path, vec![b'o'; 3000]).unwrap();
        writer.begin(round);
        drop(open(&path, O_WRONLY | O_TRUNC, 0).unwrap());
        writer.end().unwrap();
        wrong.extend(difference(&home, "f").map(|what| format!("round {round}: {what}")));
    }
    assert!(
        wrong.is_empty(),
        "{} rounds:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn an_open_that_empties_leaves_the_size_that_others_write() {
    need_mount!();
    emptied_while_another_writes(&[], |_| {});
    emptied_while_another_writes(&[], |fd| fchmod(fd, 0o644).unwrap());
}

#[test]
fn an_open_that_empties_leaves_the_size_that_others_write_without_passthrough() {
    need_mount!();
    emptied_while_another_writes(&["--no-passthrough"], |_| {});
    emptied_while_another_writes(&["--no-passthrough"], |fd| fchmod(fd, 0o644).unwrap());
    let believed = ["--no-passthrough", "--cache-ttl", "60"];
    emptied_while_another_writes(&believed, |fd| fchmod(fd, 0o644).unwrap());
}

const FILES: [&str; 2] = ["f", "g"];

/// One change of one process; what cannot be done is not.
fn step(home: &Path, kinds: &[u8], random: &mut Random) -> Sys<()> {
    let mut path = || home.join(FILES[usize::try_from(random.below(2)).unwrap()]);
    let (at, other) = (path(), path());
    let kind = kinds[usize::try_from(random.below(kinds.len() as u64)).unwrap()];
    let mark = b'a' + u8::try_from(random.below(26)).unwrap();
    let bytes = vec![mark; 1 + usize::try_from(random.below(8000)).unwrap()];
    match kind {
        b'e' => {
            let fd = open(&at, O_WRONLY | O_CREAT | O_TRUNC, 0o644)?;
            write(&fd, &bytes)?;
        }
        b'w' => {
            let fd = open(&at, O_RDWR, 0)?;
            pwrite(&fd, &bytes, random.below(8000))?;
        }
        b'a' => {
            let fd = open(&at, O_WRONLY | O_APPEND, 0)?;
            write(&fd, &bytes)?;
        }
        b't' => truncate(&at, i64::try_from(random.below(9000)).unwrap())?,
        b'c' => {
            let fd = open(&at, O_RDWR, 0)?;
            ftruncate(&fd, i64::try_from(random.below(9000)).unwrap())?;
        }
        b's' => {
            let fd = open(&at, O_RDWR, 0)?;
            fallocate(&fd, 0, random.below(8000), 1 + random.below(8000))?;
        }
        b'm' => chmod(&at, if random.below(2) == 0 { 0o600 } else { 0o644 })?,
        b'u' => unlink(&at)?,
        b'r' => rename(&at, &other)?,
        b'x' => renameat2(&at, &other, RENAME_EXCHANGE)?,
        b'l' => link(&at, &other)?,
        kind => panic!("no kind of change: {kind}"),
    }
    Ok(())
}

fn storm(options: &[&str], kinds: &[u8], usual: u64) {
    let mut home = Home::plan()
        .options(options)
        .limit(Duration::from_secs(180))
        .mount();
    let mut wrong = Vec::new();
    let mut processes: Vec<_> = (0..3)
        .map(|process| {
            let (home, kinds) = (home.home().to_owned(), kinds.to_owned());
            child::Worker::spawn(move |round| {
                let mut random = Random(round * 3 + process);
                for _ in 0..10 {
                    let _ = step(&home, &kinds, &mut random);
                }
                Ok(String::new())
            })
        })
        .collect();
    for round in 0..rounds(usual) {
        for process in &mut processes {
            process.begin(round);
        }
        for process in &mut processes {
            process.end().unwrap();
        }
        syncfs(open(home.home(), O_RDONLY, 0).unwrap()).unwrap();
        for name in FILES {
            wrong.extend(difference(&home, name).map(|what| format!("round {round}: {what}")));
        }
    }
    drop(processes);
    let shown = FILES.map(|name| fs::read(home.path(name)).ok());
    home.umount();
    let stored = FILES.map(|name| fs::read(home.store().join(name)).ok());
    assert!(shown == stored, "other bytes after unmounting");
    let output = trumanfs(&["fsck".as_ref(), home.store().as_os_str()]);
    assert!(
        wrong.is_empty() && output.status.success(),
        "{}\n{}",
        wrong.join("\n"),
        describe(&output)
    );
}

#[test]
fn a_storm_of_writers() {
    need_mount!();
    storm(&[], b"eeewatcsm", 150);
}

#[test]
fn a_storm_of_writers_without_passthrough() {
    need_mount!();
    storm(&["--no-passthrough"], b"eeewatcsm", 150);
}

/// What is emptied moves away, and another inode takes its place: nobody may link to it, move it or change it in the same moment.
#[test]
fn a_storm_of_names() {
    need_mount!();
    storm(&[], b"eewaulrxm", 250);
    storm(&["--copy-up-to", "4K"], b"eewatulrxm", 100);
}

#[test]
fn a_storm_of_names_without_passthrough() {
    need_mount!();
    storm(&["--no-passthrough"], b"eewatulrxm", 150);
}

/// What a program has open works on, whatever becomes of its names, and whoever looks on.
fn names_go_while_the_file_is_open(options: &[&str], usual: u64) {
    let home = Home::plan()
        .options(options)
        .limit(Duration::from_secs(120))
        .mount();
    let rounds = rounds(usual);
    let life = |dir: &Path, round: u64| -> Result<(), String> {
        let step = |what: &'static str| move |errno| format!("round {round}: {what}: {errno}");
        let (one, two) = (dir.join("one"), dir.join("two"));
        mkdir(dir, 0o755).map_err(step("mkdir"))?;
        let fd = open(&one, O_RDWR | O_CREAT | O_TRUNC, 0o644).map_err(step("open"))?;
        write(&fd, b"before").map_err(step("write"))?;
        if round.is_multiple_of(2) {
            link(&one, &two).map_err(step("link"))?;
        }
        let changes = |when: &'static str| -> Result<(), String> {
            let step =
                |what: &'static str| move |errno| format!("round {round}: {what}, {when}: {errno}");
            fchmod(&fd, 0o600).map_err(step("fchmod"))?;
            ftruncate(&fd, 3).map_err(step("ftruncate"))?;
            futimens(&fd, (1, 0), (2, 0)).map_err(step("futimens"))?;
            pwrite(&fd, b"after", 3).map_err(step("pwrite"))?;
            fsync(&fd).map_err(step("fsync"))?;
            let found = pread(&fd, 100, 0).map_err(step("pread"))?;
            match found == b"befafter" {
                true => Ok(()),
                false => Err(format!("round {round}, {when}: {found:?}")),
            }
        };
        unlink(&one).map_err(step("unlink"))?;
        changes("one name gone")?;
        if round.is_multiple_of(2) {
            unlink(&two).map_err(step("unlink"))?;
        }
        // What was in it is gathered below its entry of the trash.
        rmdir(dir).map_err(step("rmdir"))?;
        changes("all names gone")?;
        std::thread::sleep(Duration::from_micros(round * 97 % 3000));
        changes("a moment later")?;
        close(fd);
        Ok(())
    };
    fn look(dir: &Path) {
        for entry in readdir(dir).unwrap_or_default() {
            let path = dir.join(entry);
            let _ = lstat(&path);
            look(&path);
        }
    }
    let ended = AtomicBool::new(false);
    let wrong: Vec<String> = std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    look(&home.path(".trash"));
                }
            });
        }
        let removers = [0, 1, 2].map(|number| {
            let dir = home.path(format!("dir{number}"));
            threads.spawn(move || (0..rounds).find_map(|round| life(&dir, round).err()))
        });
        let wrong = removers.map(|remover| remover.join().unwrap());
        ended.store(true, Ordering::Relaxed);
        wrong.into_iter().flatten().collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_open_works_on_while_its_names_go() {
    need_mount!();
    names_go_while_the_file_is_open(&[], 200);
}

#[test]
fn what_is_open_works_on_while_its_names_go_without_passthrough() {
    need_mount!();
    names_go_while_the_file_is_open(&["--no-passthrough"], 200);
}
