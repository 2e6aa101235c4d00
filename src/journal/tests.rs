use std::fs::File;
use std::io::{BufReader, Write};
use std::os::fd::OwnedFd;

use super::*;
use crate::name::{Escaped, WorldPath};

fn path(text: &str) -> WorldPath {
    WorldPath::parse(text.as_bytes()).unwrap()
}

fn open(at: &std::path::Path) -> OwnedFd {
    File::options()
        .append(true)
        .create(true)
        .open(at)
        .unwrap()
        .into()
}

fn sample(journal: &Journal, n: u64) {
    for i in 0..n {
        let op = Op::Unlink {
            path: path(&format!("/dir/file {i}")),
            ids: [1, i],
            trash: Escaped(b"20260116T101530.123456Z_\xff".to_vec()),
        };
        journal
            .begin(op, &[], Some(&Actors::default().of(Caller::myself())))
            .unwrap()
            .done();
    }
}

fn read_all(at: &std::path::Path) -> Result<Vec<Record>> {
    Reader::new(BufReader::new(File::open(at).unwrap())).collect()
}

#[test]
fn what_is_written_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("j");
    let journal = Journal::new(open(&at), None, true, 9);
    sample(&journal, 20);
    let records = read_all(&at).unwrap();
    assert_eq!(records.len(), 20);
    assert!(matches!(&records[7].op, Op::Unlink { trash, .. } if trash.0.ends_with(b"\xff")));
    let bytes = std::fs::metadata(&at).unwrap().len() / 20;
    assert!(bytes <= 400, "a record takes {bytes} bytes");
}

/// The device gets another number with the next boot.
#[test]
fn the_stores_device_has_no_number_in_a_journal() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("j");
    let journal = Journal::new(open(&at), None, false, 9);
    let op = Op::Exchange {
        path: path("/a"),
        to: path("/b"),
        ids: [9, 5],
        other: [3, 6],
    };
    journal.begin(op, &[], None).unwrap().done();
    let read = read_all(&at).unwrap().remove(0);
    let about = |record: &Record| match record.op {
        Op::Exchange { ids, other, .. } => [ids, other],
        _ => [[0; 2]; 2],
    };
    assert_eq!(about(&read), [[0, 5], [3, 6]]);
    assert_eq!(about(&read.on(12)), [[12, 5], [3, 6]]);
}

#[test]
fn a_failed_act_is_noted() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("j");
    let journal = Journal::new(open(&at), None, false, 9);
    let op = Op::Mkdir {
        path: path("/d"),
        mode: 0o755,
    };
    let failed: Result<()> = journal
        .begin(op, &[], None)
        .unwrap()
        .settle(Err(Error::Exists));
    assert_eq!(failed, Err(Error::Exists));
    assert!(matches!(
        &read_all(&at).unwrap()[1].op,
        Op::Abort { of: 1, .. }
    ));
}

#[test]
fn a_cut_at_any_byte_leaves_a_readable_journal_that_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole");
    sample(&Journal::new(open(&whole), None, false, 9), 3);
    let bytes = std::fs::read(&whole).unwrap();
    for cut in 0..=bytes.len() {
        let at = dir.path().join("cut");
        std::fs::write(&at, &bytes[..cut]).unwrap();
        let records = read_all(&at).unwrap();
        let last = tail(&File::open(&at).unwrap()).unwrap();
        assert_eq!(records.last(), last.as_ref().map(|t| &t.record));
        let length = last.as_ref().map_or(0, |t| t.length);
        File::options()
            .write(true)
            .open(&at)
            .unwrap()
            .set_len(length)
            .unwrap();
        sample(&Journal::new(open(&at), last.as_ref(), false, 9), 1);
        assert_eq!(read_all(&at).unwrap().len(), records.len() + 1);
    }
}

#[test]
fn a_changed_byte_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("j");
    sample(&Journal::new(open(&at), None, false, 9), 3);
    let text = std::fs::read_to_string(&at)
        .unwrap()
        .replacen("file 1", "file 9", 1);
    std::fs::write(&at, text).unwrap();
    let error = read_all(&at).unwrap_err();
    assert!(error.to_string().starts_with("journal line 3"), "{error}");
}

#[test]
fn a_journal_of_a_newer_release_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("j");
    sample(&Journal::new(open(&at), None, false, 9), 1);
    let text = std::fs::read_to_string(&at)
        .unwrap()
        .replacen("\"v\":1", "\"v\":9", 1);
    File::create(&at)
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    assert!(
        read_all(&at)
            .unwrap_err()
            .to_string()
            .contains("newer release")
    );
}

#[test]
fn a_line_is_parsed_as_serde_does() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("j");
    let journal = Journal::new(open(&at), None, false, 9);
    sample(&journal, 3);
    let (there, ids, kept) = (
        path("/f"),
        [1, 2],
        Some(Kept {
            how: How::Moved,
            n: 7,
        }),
    );
    let trash = Escaped(b"x\xff".to_vec());
    let replaced = Some(Replaced {
        ids: [3, 4],
        trash: trash.clone(),
    });
    let ops = [
        Op::Create {
            path: there.clone(),
            mode: 1,
        },
        Op::Mkdir {
            path: there.clone(),
            mode: 2,
        },
        Op::Unlink {
            path: there.clone(),
            ids,
            trash: trash.clone(),
        },
        Op::Rmdir {
            path: there.clone(),
            ids,
            trash,
        },
        Op::Write {
            path: there.clone(),
            ids,
            size: 3,
            mtime: (5, 6),
            mode: Some(0o644),
            kept,
        },
        Op::Write {
            path: there.clone(),
            ids,
            size: 3,
            mtime: (0, 0),
            mode: None,
            kept: None,
        },
        Op::Truncate {
            path: there.clone(),
            ids,
            size: 3,
            to: 4,
            mtime: (5, 6),
            mode: None,
            kept,
            new: Some([8, 9]),
        },
        Op::Rename {
            path: there.clone(),
            to: path("/g"),
            ids,
            replaced,
        },
        Op::Rename {
            path: there.clone(),
            to: path("/g"),
            ids,
            replaced: None,
        },
        Op::Exchange {
            path: there.clone(),
            to: path("/g"),
            ids,
            other: [5, 6],
        },
        Op::Xattr {
            path: there,
            ids,
            name: Escaped(b"user.x".to_vec()),
            was: None,
        },
    ];
    for op in ops {
        journal
            .begin(op, &[(1, 2, 5), (3, 4, 6)], None)
            .unwrap()
            .done();
    }
    journal.note(Op::End, None).unwrap();
    for line in std::fs::read_to_string(&at).unwrap().lines() {
        let slow: Record = serde_json::from_str(line).unwrap();
        assert_eq!(Record::parse(line.as_bytes()).unwrap(), slow);
    }
    assert!(Record::parse(br#"{"v":1,"seq":1,"time":"","op":"mkdir","prev":""}"#).is_err());
    assert!(Record::parse(br#"{"v":1,"seq":1,"time":"","op":"vanish","prev":""}"#).is_err());
}
