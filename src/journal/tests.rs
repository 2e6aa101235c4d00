//! Tests of the journal: writing and reading back, torn and altered lines, seals, and journals of earlier schemas.

use std::fs::File;
use std::io::{BufReader, Write};
use std::os::fd::OwnedFd;

use super::*;
use crate::error::{Error, Result};
use crate::name::{EscapedBytes, WorldPath};

fn path(text: &str) -> WorldPath {
    WorldPath::parse(text.as_bytes()).unwrap()
}

fn open(at: &std::path::Path) -> OwnedFd {
    File::options()
        .append(true)
        .read(true)
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
            trash: EscapedBytes(b"20260116T101530.123456Z_\xff".to_vec()),
        };
        journal
            .begin(
                op,
                &[],
                Some(&ActorCache::default().author(Caller::myself())),
            )
            .unwrap()
            .done();
    }
}

fn read_all(at: &std::path::Path) -> Result<Vec<Record>> {
    JournalReader::new(BufReader::new(File::open(at).unwrap())).collect()
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

fn run(id: &str, kind: OriginKind) -> Run {
    Run {
        id: id.parse().unwrap(),
        kind,
        command: EscapedBytes(b"rm \xff 'a\n'".to_vec()),
        cwd: path("/d"),
        also: Vec::new(),
    }
}

#[test]
fn a_run_is_told_before_its_first_record_and_once() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("j");
    let journal = Journal::new(open(&at), None, false, 9);
    let actors = ActorCache::default();
    let (one, idle) = (
        run("000000000001", OriginKind::Shell),
        run("000000000002", OriginKind::Tool),
    );
    journal.begin_run(&one).unwrap();
    assert_eq!(journal.begin_run(&one), Err(Error::Exists));
    journal.begin_run(&idle).unwrap();
    journal.end_run(idle.id);
    // The id of a run without records is free again.
    journal.begin_run(&idle).unwrap();
    let made = |name: &str| Op::Mkdir {
        path: path(name),
        mode: 7,
    };
    let plain = actors.author(Caller::myself());
    let of_run = actors.author(Caller::myself().for_run(one.origin()));
    journal.note(made("/before"), Some(&plain)).unwrap();
    let begun = journal.begin(made("/a"), &[], Some(&of_run)).unwrap();
    assert_eq!(begun.seq(), 3);
    begun.done();
    journal.note(made("/between"), Some(&plain)).unwrap();
    journal.note(made("/b"), Some(&of_run)).unwrap();
    let failed = journal.begin(made("/c"), &[], Some(&of_run)).unwrap();
    failed.abort(&Error::Exists);
    journal.end_run(one.id);
    assert_eq!(journal.begin_run(&one), Err(Error::Exists));
    let records = read_all(&at).unwrap();
    let told: Vec<_> = records.iter().map(|r| (r.op.word(), r.origin)).collect();
    let (plain, of_run) = (Origin::default(), one.origin());
    let expected = [
        ("mkdir", plain),
        ("run", of_run),
        ("mkdir", of_run),
        ("mkdir", plain),
        ("mkdir", of_run),
        ("mkdir", of_run),
        ("abort", of_run),
    ];
    assert_eq!(told, expected);
    assert_eq!(
        records[1].op,
        Op::Run {
            command: one.command.clone(),
            length: None,
            cwd: path("/d"),
            also: Vec::new(),
        }
    );
    let lines = std::fs::read_to_string(&at).unwrap();
    let origins = lines.lines().filter(|line| line.contains("\"origin\""));
    assert_eq!(origins.count(), 5, "a plain process is not mentioned");
    for (line, record) in lines.lines().zip(&records) {
        let header = RecordHeader::of(line.as_bytes()).unwrap();
        assert_eq!(header.origin(), record.origin);
        let mut refs = Vec::new();
        header.refs(|one| refs.push(format!("{one:?}"))).unwrap();
        assert_eq!(refs.is_empty(), record.op.word() != "mkdir", "{line}");
    }
}

/// Up to schema 2, a change of an undo has it in its actor.
#[test]
fn what_belongs_to_an_undo_is_known_in_journals_of_each_schema() {
    let line = |op: &str, rest: &str| {
        format!(
            r#"{{"v":2,"seq":9,"time":"t","op":"{op},"actor":{{"pid":1,"uid":2,"gid":3{rest},"prev":"x"}}"#
        )
    };
    let run: RunId = "0123456789ab".parse().unwrap();
    let new = r#"},"origin":{"kind":"undo","run":"0123456789ab"}"#;
    let shell = r#"},"origin":{"kind":"shell","run":"0123456789ab"}"#;
    let (change, undo) = (r#"mkdir","path":"/a","mode":1"#, r#"undo","what":"undo 1""#);
    for (line, belongs, kind) in [
        (line(change, "}"), None, OriginKind::Process),
        (
            line(change, r#","undo":7}"#),
            Some(UndoId::Record(7)),
            OriginKind::Undo,
        ),
        (
            line(undo, "}"),
            Some(UndoId::Record(9)),
            OriginKind::Process,
        ),
        (line(change, new), Some(UndoId::Run(run)), OriginKind::Undo),
        (line(undo, new), Some(UndoId::Run(run)), OriginKind::Undo),
        (line(change, shell), None, OriginKind::Shell),
    ] {
        let record = Record::parse(line.as_bytes()).unwrap();
        let slow: Record = serde_json::from_str(&line).unwrap();
        assert_eq!(record, slow);
        assert_eq!(record.undo_id(), belongs, "{line}");
        let header = RecordHeader::of(line.as_bytes()).unwrap();
        assert_eq!(header.origin().kind, kind, "{line}");
    }
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
    assert_eq!(about(&read.with_device(12)), [[12, 5], [3, 6]]);
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
        .with_outcome(Err(Error::Exists));
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
    let text =
        std::fs::read_to_string(&at)
            .unwrap()
            .replacen(&format!("\"v\":{SCHEMA}"), "\"v\":9", 1);
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

fn operations() -> Vec<Op> {
    let (there, ids, how) = (path("/f"), [1, 2], KeepMethod::Moved);
    let kept = Some(VersionRef { how, n: 7 });
    let trash = EscapedBytes(b"x\xff".to_vec());
    let replaced = Some(ReplacedFile {
        ids: [3, 4],
        trash: trash.clone(),
    });
    vec![
        Op::Create {
            path: there.clone(),
            mode: 1,
            dropped: None,
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
            name: EscapedBytes(b"user.x".to_vec()),
            was: None,
        },
    ]
}

#[test]
fn a_line_is_parsed_as_serde_does() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("j");
    let journal = Journal::new(open(&at), None, false, 9);
    sample(&journal, 3);
    let there = path("/f");
    let dropped = [
        Op::Create {
            path: there.clone(),
            mode: 0o755,
            dropped: Some(0o6000),
        },
        Op::Mknod {
            path: there,
            mode: 0o100_755,
            dropped: Some(0o4000),
        },
    ];
    for op in operations().into_iter().chain(dropped) {
        journal
            .begin(op, &[(1, 2, 5), (3, 4, 6)], None)
            .unwrap()
            .done();
    }
    journal.note(Op::End { settled: false }, None).unwrap();
    for line in std::fs::read_to_string(&at).unwrap().lines() {
        let slow: Record = serde_json::from_str(line).unwrap();
        assert_eq!(Record::parse(line.as_bytes()).unwrap(), slow);
    }
    assert!(Record::parse(br#"{"v":1,"seq":1,"time":"","op":"mkdir","prev":""}"#).is_err());
    assert!(Record::parse(br#"{"v":1,"seq":1,"time":"","op":"vanish","prev":""}"#).is_err());
}

/// A journal of three records and a seal, then one record with its own seal.
fn sealed(at: &std::path::Path) -> (Journal, Vec<String>) {
    let journal = Journal::new(open(at), None, false, 9);
    sample(&journal, 3);
    assert!(journal.seal().unwrap());
    assert!(!journal.seal().unwrap(), "there is nothing new");
    sample(&journal, 1);
    assert!(journal.seal().unwrap());
    let text = std::fs::read_to_string(at).unwrap();
    (journal, text.lines().map(str::to_owned).collect())
}

fn survey(at: &std::path::Path) -> Vec<JournalLine> {
    let mut survey = LenientReader::new(BufReader::new(File::open(at).unwrap()));
    std::iter::from_fn(|| survey.next_line().unwrap()).collect()
}

#[test]
fn a_seal_has_no_number_of_its_own_and_readers_pass_over_it() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("j");
    let (journal, lines) = sealed(&at);
    let ops: Vec<_> = lines.iter().map(|l| l.contains("\"seal\"")).collect();
    assert_eq!(ops, [false, false, false, true, false, true]);
    let seqs: Vec<_> = read_all(&at).unwrap().iter().map(|r| r.seq).collect();
    assert_eq!((seqs, journal.last()), (vec![1, 2, 3, 4], 4));
    let mut backward = ReverseReader::new(File::open(&at).unwrap()).unwrap();
    let mut seqs = Vec::new();
    while let Some(record) = backward.next_record().unwrap() {
        seqs.push(record.seq);
    }
    assert_eq!(seqs, [4, 3, 2, 1]);
    let file = File::open(&at).unwrap();
    let end = tail(&file).unwrap().unwrap();
    assert_eq!(end.record.seq, 4);
    assert_eq!(end.length, std::fs::metadata(&at).unwrap().len());
    let late = chrono::Utc::now() + chrono::TimeDelta::seconds(9);
    assert_eq!(seq_at(&file, late).unwrap(), Some(4));
    let early = chrono::Utc::now() - chrono::TimeDelta::seconds(99);
    assert_eq!(seq_at(&file, early).unwrap(), None);
    // A writer that continues it starts at its last line, and the next seal covers the lines left by this one.
    let journal = Journal::new(open(&at), Some(&end), false, 9);
    sample(&journal, 1);
    assert!(journal.seal().unwrap());
    assert_eq!(read_all(&at).unwrap().len(), 5);
    let lines = survey(&at);
    let good = |line: &&JournalLine| {
        let seal = matches!(
            &line.what,
            ParsedLine::Seal {
                whole: true,
                covers: true,
                ..
            }
        );
        line.follows && (seal || matches!(line.what, ParsedLine::Record(_)))
    };
    assert_eq!(lines.iter().filter(good).count(), 8);
}

#[test]
fn a_journal_of_a_million_bytes_is_sealed_while_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("j");
    let journal = Journal::new(open(&at), None, false, 9);
    std::thread::scope(|threads| {
        let writing = threads.spawn(|| sample(&journal, 4000));
        while !writing.is_finished() {
            journal.seal().unwrap();
        }
    });
    journal.seal().unwrap();
    assert_eq!(read_all(&at).unwrap().len(), 4000);
    for line in survey(&at) {
        let bad = match line.what {
            ParsedLine::Seal { whole, covers, .. } => !whole || !covers,
            ParsedLine::Record(_) => false,
            ParsedLine::Neither { .. } => true,
        };
        assert!(line.follows && !bad, "line {}", line.number);
    }
}

#[test]
fn each_flipped_byte_of_what_is_sealed_shows_in_the_last_record_and_the_seal_too() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("j");
    let (_, lines) = sealed(&at);
    let whole = std::fs::read(&at).unwrap();
    let fifth: usize = lines[..4].iter().map(|l| l.len() + 1).sum();
    for place in fifth..whole.len() {
        let mut bytes = whole.clone();
        // Not a newline, which would split the line.
        bytes[place] ^= if whole[place] == b'\n' { 0x40 } else { 0x01 };
        std::fs::write(&at, &bytes).unwrap();
        // A last line without its newline is torn: its writer died.
        if place + 1 == whole.len() {
            continue;
        }
        assert!(read_all(&at).is_err(), "byte {place} forwards");
        let mut backward = ReverseReader::new(File::open(&at).unwrap()).unwrap();
        let read = std::iter::from_fn(|| backward.next_record().transpose());
        assert!(read.collect::<Result<Vec<_>>>().is_err(), "byte {place}");
        let bad = |line: &JournalLine| match line.what {
            ParsedLine::Seal { whole, covers, .. } => !(whole && covers && line.follows),
            ParsedLine::Record(_) => !line.follows,
            ParsedLine::Neither { .. } => true,
        };
        assert!(survey(&at).iter().any(bad), "byte {place} surveyed");
    }
}

#[test]
fn a_seal_stands_by_itself_without_the_hashes_of_lines() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("j");
    let (_, mut lines) = sealed(&at);
    // The second line is changed, and all later hashes are made to fit, except the seals' own.
    lines[1] = lines[1].replace("file 1", "file 7");
    for next in 2..lines.len() {
        let link = ChainLink::of(lines[next - 1].as_bytes()).to_string();
        let prev = line_ends::prev(lines[next].as_bytes()).unwrap().to_vec();
        let prev = String::from_utf8(prev).unwrap();
        lines[next] = lines[next].replace(&prev, &link);
    }
    std::fs::write(&at, lines.join("\n") + "\n").unwrap();
    let found: Vec<_> = survey(&at)
        .into_iter()
        .map(|line| match line.what {
            ParsedLine::Seal { whole, covers, .. } => (line.follows, whole, covers),
            _ => (line.follows, true, true),
        })
        .collect();
    assert_eq!(found[..3], [(true, true, true); 3]);
    assert_eq!(found[3], (true, false, false));
}

#[test]
fn a_journal_of_the_first_schema_goes_on_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("j");
    let line = format!(
        r#"{{"v":1,"seq":1,"time":"2026-01-16T10:15:30.123460Z","op":"checkpoint","name":"a","prev":"{}"}}"#,
        "0".repeat(64)
    );
    std::fs::write(&at, line + "\n").unwrap();
    let end = tail(&File::open(&at).unwrap()).unwrap();
    let journal = Journal::new(open(&at), end.as_ref(), false, 9);
    sample(&journal, 1);
    assert!(!journal.seal().unwrap());
    let schemas: Vec<_> = read_all(&at).unwrap().iter().map(|r| r.v).collect();
    assert_eq!(schemas, [1, 1]);
}

#[test]
fn digests_wait_for_a_seal_and_long_ones_are_shared_out() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("j");
    let journal = Journal::new(open(&at), None, false, 9);
    sample(&journal, 1);
    let digest = |n| crate::journal::ContentDigest {
        session: (n % 2 == 0).then(|| "s".to_owned()),
        of: match n % 3 {
            0 => DigestSubject::Version { n },
            _ => DigestSubject::Inode {
                seq: n,
                ids: [0, n],
                born: u64::MAX,
            },
        },
        size: n,
        sha256: "ab".repeat(32),
    };
    let all: Vec<_> = (0..250).map(digest).collect();
    assert_eq!(journal.add_digests(all.clone()), 250);
    journal.seal().unwrap();
    assert_eq!(journal.add_digests([]), 0);
    let seals = survey(&at).into_iter().filter_map(|line| match line.what {
        ParsedLine::Seal {
            seal,
            whole: true,
            covers: true,
            ..
        } => Some(seal),
        _ => None,
    });
    let seals: Vec<_> = seals.collect();
    assert_eq!(seals.len(), 3);
    assert_eq!((seals[0].from, seals[0].seq, seals[1].from), (1, 1, 2));
    let read: Vec<_> = seals.into_iter().flat_map(|seal| seal.digests).collect();
    assert_eq!(read, all);
}

fn stamp(n: u64) -> LeftState {
    LeftState {
        session: None,
        seq: n,
        ids: [0, n],
        born: 0,
        size: n,
        mtime: (-1, 5),
        mode: n.is_multiple_of(2).then_some(0o644),
        ctime: (n.cast_signed(), 999_999_999),
        made: n.is_multiple_of(3),
        mapped: false,
        sha256: n.is_multiple_of(2).then(|| "ab".repeat(32)),
        n: n.is_multiple_of(2).then_some(n),
        entries: None,
        by: None,
    }
}

/// Each stamp comes with the record before its seal; a reader that wants none gets none.
#[test]
fn stamps_are_found_on_the_way_back_and_only_where_they_are_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("j");
    let journal = Journal::new(open(&at), None, false, 9);
    sample(&journal, 2);
    journal.add_stamps((1..=1201).map(stamp));
    journal.seal().unwrap();
    sample(&journal, 1);
    journal.add_stamps([stamp(1202)]);
    journal.seal().unwrap();
    journal.add_stamps([stamp(1203)]);
    assert!(journal.seal().unwrap(), "a stamp alone is sealed, too");
    assert!(!journal.seal().unwrap());
    let seals = survey(&at).into_iter();
    let seals = seals.filter(|line| {
        matches!(
            line.what,
            ParsedLine::Seal {
                whole: true,
                covers: true,
                ..
            }
        )
    });
    assert_eq!(seals.count(), 5);
    let reader = || ReverseReader::new(File::open(&at).unwrap()).unwrap();
    for mut back in [
        reader().with_stamps(),
        reader().without_checks().with_stamps(),
    ] {
        assert_eq!(back.next_record().unwrap().unwrap().seq, 3);
        assert_eq!(back.take_stamps(), [stamp(1202), stamp(1203)]);
        assert!(back.take_stamps().is_empty());
        assert_eq!(back.next_record().unwrap().unwrap().seq, 2);
        assert_eq!(
            back.take_stamps(),
            (1..=1201).map(stamp).collect::<Vec<_>>()
        );
        assert_eq!(back.next_record().unwrap().unwrap().seq, 1);
        assert!(back.take_stamps().is_empty());
    }
    let mut back = reader();
    while back.next_record().unwrap().is_some() {
        assert!(back.take_stamps().is_empty());
    }
}
