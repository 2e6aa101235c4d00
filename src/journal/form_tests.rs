//! Tests of the form of lines: what the encoder writes, the parser reads, and serde agrees; and lines that nobody wrote.

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

use super::deletion_samples::{purge_op, volatile};
use super::fields::LineFields;
use super::*;
use crate::name::{EscapedBytes, WorldPath};

pub(super) fn name() -> impl Strategy<Value = EscapedBytes> + Clone {
    vec(any::<u8>(), 1..12)
        .prop_filter("no name", |name| {
            !name.contains(&b'/') && !name.contains(&0) && name != b"." && name != b".."
        })
        .prop_map(EscapedBytes)
}

pub(super) fn path() -> impl Strategy<Value = WorldPath> + Clone {
    vec(name(), 0..4).prop_map(|names| {
        let names: Vec<_> = names.into_iter().map(|name| name.0).collect();
        WorldPath::parse(&names.join(&b'/')).unwrap()
    })
}

fn kept() -> impl Strategy<Value = Option<VersionRef>> + Clone {
    let how = prop_oneof![
        Just(KeepMethod::Moved),
        Just(KeepMethod::Cloned),
        Just(KeepMethod::Copied),
        Just(KeepMethod::Blocks),
        Just(KeepMethod::Length),
    ];
    of((how, any::<u64>()).prop_map(|(how, n)| VersionRef { how, n }))
}

fn replaced() -> impl Strategy<Value = Option<ReplacedFile>> + Clone {
    of((any::<InodeNumbers>(), name()).prop_map(|(ids, trash)| ReplacedFile { ids, trash }))
}

fn run_id() -> impl Strategy<Value = RunId> + Clone {
    "[0-9a-hjkmnp-tv-z]{12}".prop_map(|id| id.parse().unwrap())
}

/// Operations that move, create or remove names.
fn name_op() -> impl Strategy<Value = Op> {
    type Bits = (u32, Option<u32>);
    let one = (path(), any::<InodeNumbers>(), name());
    let two = (path(), path(), any::<InodeNumbers>(), replaced());
    let rename = |(path, to, ids, replaced)| Op::Rename {
        path,
        to,
        ids,
        replaced,
    };
    let restore = |(path, to, ids, replaced)| Op::Restore {
        path,
        to,
        ids,
        replaced,
    };
    prop_oneof![
        (path(), any::<Bits>()).prop_map(|(path, (mode, dropped))| Op::Create {
            path,
            mode,
            dropped
        }),
        (path(), any::<Bits>()).prop_map(|(path, (mode, dropped))| Op::Mknod {
            path,
            mode,
            dropped
        }),
        (path(), any::<u32>()).prop_map(|(path, mode)| Op::Mkdir { path, mode }),
        (path(), name()).prop_map(|(path, target)| Op::Symlink { path, target }),
        (path(), path(), any::<InodeNumbers>()).prop_map(|(path, from, ids)| Op::Link {
            path,
            from,
            ids
        }),
        one.clone()
            .prop_map(|(path, ids, trash)| Op::Unlink { path, ids, trash }),
        one.prop_map(|(path, ids, trash)| Op::Rmdir { path, ids, trash }),
        two.clone().prop_map(rename),
        two.prop_map(restore),
        (path(), path(), any::<[InodeNumbers; 2]>()).prop_map(|(path, to, [ids, other])| {
            Op::Exchange {
                path,
                to,
                ids,
                other,
            }
        }),
        (
            path(),
            name(),
            vec(name(), 0..3),
            vec((name(), name()), 0..3)
        )
            .prop_map(|(path, trash, entries, names)| Op::Gather {
                path,
                trash,
                entries,
                names
            }),
        purge_op(),
    ]
}

/// Operations on contents and attributes.
fn content_op() -> impl Strategy<Value = Op> {
    type Before = (InodeNumbers, u64, FileTime);
    type After = (u64, Option<u32>, Option<InodeNumbers>);
    let file = (path(), any::<Before>(), kept(), any::<After>());
    let range = any::<(u64, u64)>();
    let set = any::<(Option<u32>, Option<u32>, Option<u32>, bool)>();
    prop_oneof![
        file.clone()
            .prop_map(|(path, (ids, size, mtime), kept, (_, mode, _))| {
                Op::Write {
                    path,
                    ids,
                    size,
                    mtime,
                    mode,
                    kept,
                }
            }),
        file.clone()
            .prop_map(|(path, (ids, size, mtime), kept, (to, mode, new))| {
                Op::Truncate {
                    path,
                    ids,
                    size,
                    to,
                    mtime,
                    mode,
                    kept,
                    new,
                }
            }),
        file.clone()
            .prop_map(|(path, (ids, size, mtime), kept, (to, _, new))| {
                Op::Content {
                    path,
                    ids,
                    size,
                    to,
                    mtime,
                    kept,
                    new,
                }
            }),
        (file, range).prop_map(|((path, (ids, size, mtime), kept, _), range)| {
            Op::Allocate {
                path,
                ids,
                mode: 3,
                range,
                size,
                mtime,
                kept,
            }
        }),
        (path(), any::<InodeNumbers>(), former_attrs(), set).prop_map(
            |(path, ids, was, (mode, uid, gid, times))| Op::Attr {
                path,
                ids,
                was,
                mode,
                uid,
                gid,
                times
            }
        ),
        (path(), any::<InodeNumbers>(), name(), of(name())).prop_map(|(path, ids, name, was)| {
            Op::Xattr {
                path,
                ids,
                name,
                was,
            }
        }),
    ]
}

fn former_attrs() -> impl Strategy<Value = FormerAttrs> {
    any::<([u32; 3], FileTime, FileTime)>().prop_map(|([mode, uid, gid], atime, mtime)| {
        FormerAttrs {
            mode,
            uid,
            gid,
            atime,
            mtime,
        }
    })
}

fn begin() -> impl Strategy<Value = Op> {
    let after = any::<(String, u64, String)>();
    let after = of(after.prop_map(|(session, seq, hash)| SessionEnd { session, seq, hash }));
    let store = any::<(u64, Option<FileTime>, Option<u32>)>();
    let store = of(store.prop_map(|(inode, born, generation)| StoreId {
        inode,
        born,
        generation,
    }));
    let settings = any::<(Vec<String>, Vec<String>, bool, u64, Option<u64>)>();
    let mounted = of(
        settings.prop_map(|(hide, read_only, durable, copied_up_to, max)| {
            let keep = KeepSettings {
                versions: durable,
                copied_up_to,
                max,
                evict: !durable,
            };
            Box::new(MountSettings {
                hide,
                read_only,
                durable,
                keep,
                ..MountSettings::default()
            })
        }),
    );
    let texts = any::<([String; 4], Option<String>)>();
    (texts, of(name()), after, store, mounted).prop_map(
        |(([session, version, host, boot], copied), home, after, store, mounted)| Op::Begin {
            session,
            version,
            host,
            boot,
            home,
            after,
            store,
            copied,
            mounted,
        },
    )
}

/// Operations that change no file of the home.
fn session_op() -> impl Strategy<Value = Op> {
    type Ranges = Vec<(String, u64, u64)>;
    prop_oneof![
        begin(),
        any::<bool>().prop_map(|settled| Op::End { settled }),
        (name(), any::<Option<u64>>(), path(), vec(name(), 0..3)).prop_map(
            |(command, length, cwd, also)| Op::Run {
                command,
                length,
                cwd,
                also
            }
        ),
        (
            any::<String>(),
            of((
                any::<(u32, String, Option<String>, bool)>(),
                vec(path(), 0..3)
            ))
        )
            .prop_map(|(name, mark)| Op::Checkpoint {
                name,
                mark: mark.map(|((turn, text, conversation, others), written)| TurnMark {
                    turn,
                    text,
                    conversation,
                    written,
                    others
                }),
            }),
        (any::<(String, Ranges, bool)>(), vec(name(), 0..3)).prop_map(
            |((what, of, redo), also)| Op::Undo {
                what,
                of,
                redo,
                also
            }
        ),
        (
            any::<(String, Ranges)>(),
            of(run_id()),
            vec((path(), any::<String>()), 0..3)
        )
            .prop_map(|((what, of), run, hunks)| Op::Accept {
                what,
                run,
                of,
                hunks
            }),
        (any::<Vec<(String, u64)>>(), volatile())
            .prop_map(|(versions, volatile)| Op::Evict { versions, volatile }),
        any::<(u64, String)>().prop_map(|(of, error)| Op::Abort { of, error }),
    ]
}

fn actor() -> impl Strategy<Value = Actor> {
    any::<([u32; 3], [String; 2], Option<u64>)>().prop_map(
        |([pid, uid, gid], [comm, exe], undo)| Actor {
            pid,
            uid,
            gid,
            comm,
            exe,
            undo,
        },
    )
}

fn record() -> impl Strategy<Value = Record> {
    let op = prop_oneof![3 => name_op(), 2 => content_op(), 2 => session_op()];
    let kind = (0..OriginKind::ALL.len()).prop_map(|at| OriginKind::ALL[at]);
    let origin = (kind, of(run_id())).prop_map(|(kind, run)| Origin { kind, run });
    let at = vec(any::<DirTime>(), 0..4);
    let first = (1..=SCHEMA, any::<u64>());
    (first, op, at, of(actor()), origin).prop_map(|((v, seq), op, at, actor, origin)| Record {
        v,
        seq,
        time: "2026-01-16T10:15:30.123460Z".to_owned(),
        op,
        at,
        actor,
        origin,
        prev: "0123456789abcdef".repeat(if v < 5 { 4 } else { 1 }),
    })
}

fn read(line: &[u8]) -> Option<Record> {
    LineFields::read(line)?.record(true)
}

/// Returns a record of each operation; times of the same record differ with its number.
pub(super) fn samples() -> Vec<Record> {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut records: Vec<Record> = Vec::new();
    for word in WORDS {
        let mut known = 0;
        while known < 3 {
            let record = record().new_tree(&mut runner).unwrap().current();
            if record.op.word() == *word {
                records.push(record);
                known += 1;
            }
        }
    }
    records
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn encoded_record_is_parsed_as_it_was(written in record()) {
        let line = encoder::line(&written).unwrap();
        prop_assert_eq!(&line, &serde_json::to_vec(&written).unwrap());
        prop_assert_eq!(read(&line), Some(written.clone()));
        prop_assert_eq!(&serde_json::from_slice::<Record>(&line).unwrap(), &written);
        let bare = Record { time: String::new(), actor: None, prev: String::new(), ..written.clone() };
        prop_assert_eq!(Record::parse_operation(&line).unwrap(), bare);
        let header = RecordHeader::of(&line).unwrap();
        prop_assert_eq!((header.v, header.seq, &*header.op), (written.v, written.seq, written.op.word()));
        if written.actor.as_ref().is_none_or(|actor| actor.undo.is_none()) {
            prop_assert_eq!(header.origin(), written.origin);
        }
    }

    #[test]
    fn old_line_in_another_order_is_the_same_record(mut written in record(), places in any::<u64>()) {
        written.v = written.v.min(5);
        let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(&written) else { panic!() };
        let mut fields: Vec<_> = fields.into_iter().collect();
        let at = usize::try_from(places).unwrap() % fields.len();
        fields.rotate_left(at);
        let fields: Vec<_> = fields.iter().map(|(name, value)| format!("{name:?} : {value}")).collect();
        let line = format!("{{ {} }}", fields.join(" , "));
        prop_assert!(read(line.as_bytes()).is_none());
        prop_assert_eq!(&Record::parse(line.as_bytes()).unwrap(), &written);
        let fixed = encoder::line(&written).unwrap();
        let (one, other) = (RecordHeader::of(line.as_bytes()).unwrap(), RecordHeader::of(&fixed).unwrap());
        prop_assert_eq!((one.v, one.seq, &one.time, &one.op), (other.v, other.seq, &other.time, &other.op));
        prop_assert_eq!((one.path(), one.to(), one.pid()), (other.path(), other.to(), other.pid()));
        prop_assert_eq!((one.comm(), one.origin(), one.has_kept()), (other.comm(), other.origin(), other.has_kept()));
        prop_assert_eq!(refs_of(&one), refs_of(&other));
    }

    #[test]
    fn seal_is_parsed_as_it_was(seq in any::<u64>(), lines in any::<String>(), digests in vec((of(any::<String>()), any::<u64>(), any::<bool>()), 0..3), stamps in vec((of(any::<String>()), any::<[u64; 4]>(), any::<[FileTime; 2]>(), of(any::<u64>())), 0..3)) {
        let digest = |(session, n, is_version): (Option<String>, u64, bool)| ContentDigest {
            session,
            of: match is_version {
                true => DigestSubject::Version { n },
                false => DigestSubject::Inode { seq, ids: [0, n], born: 7 },
            },
            size: n,
            sha256: "ab".repeat(32),
        };
        let stamp = |(session, [seq, inode, born, size], [mtime, ctime], n): (Option<String>, [u64; 4], [FileTime; 2], Option<u64>)| LeftState {
            sha256: n.map(|_| "cd".repeat(32)),
            made: n.is_none(), mapped: n.is_none(), session, seq, ids: [0, inode], born, size, mtime, mode: n.map(|_| 0o755), ctime, n, entries: None, by: None,
        };
        let by_unknown = |state: LeftState| {
            let (during, gone) = ("0123456789ab".parse().unwrap(), state.made);
            let file = WorldPath::parse(b"/dir/file").unwrap();
            LeftState { by: Some(Box::new(UnknownWriter { during, file, gone })), ..state }
        };
        let seal = Seal {
            v: SCHEMA,
            seq,
            time: "2026-01-16T10:15:30.123460Z".to_owned(),
            op: "seal".to_owned(),
            from: seq,
            lines,
            digests: digests.into_iter().map(digest).collect(),
            unknown: stamps.iter().cloned().map(stamp).map(by_unknown).collect(),
            stamps: stamps.into_iter().map(stamp).collect(),
            prev: "0".repeat(16),
            check: String::new(),
        };
        let line = seal.line().unwrap();
        prop_assert!(seal::is_whole(&line));
        let read = LineFields::read(&line).unwrap();
        prop_assert!(read.seal().is_some() && read.record(true).is_none());
        let mut parsed = Seal::parse(&line).unwrap();
        prop_assert_eq!(&parsed, &serde_json::from_slice::<Seal>(&line).unwrap());
        parsed.check.clear();
        prop_assert_eq!(parsed, seal);
    }
}

fn refs_of(header: &RecordHeader<'_>) -> Vec<String> {
    let mut refs = Vec::new();
    header.refs(|one| refs.push(format!("{one:?}"))).unwrap();
    refs
}

/// With each byte damaged in some ways, the result is that of serde, or none.
#[test]
fn damaged_line_is_parsed_as_serde_does_or_not_at_all() {
    let compare = |line: &[u8]| {
        if let Some(quick) = read(line) {
            let shown = String::from_utf8_lossy(line);
            let slow: Record = serde_json::from_slice(line).expect(&shown);
            assert_eq!(quick, slow, "{shown}");
        }
        // Nothing else panics either.
        if let Ok(header) = RecordHeader::of(line) {
            let _ = (header.refs(|_| {}), header.origin(), header.pid());
            let _ = (header.paths().count(), header.comm(), header.aborted());
        }
        let _ = (
            Seal::parse(line),
            ChainLink::of(line),
            line_ends::prev(line),
        );
    };
    for written in samples() {
        let line = encoder::line(&written).unwrap();
        // Long ones have long texts.
        let step = line.len() / 150 + 1;
        for at in (0..line.len()).step_by(step) {
            for byte in *b"0\\\"}],\n\xff-e 1a\0" {
                let mut changed = line.clone();
                changed[at] = byte;
                compare(&changed);
                changed = line.clone();
                changed.insert(at, byte);
                compare(&changed);
            }
            assert!(read(&line[..at]).is_none());
            compare(&line[..at]);
            compare(&[&line[..at], &line[at + 1..]].concat());
        }
        compare(&[&line[..], b" "].concat());
    }
}

/// A later release may add fields: a reader of this schema passes over them, wherever they are.
#[test]
fn unknown_fields_are_passed_over_at_any_depth() {
    let values = [
        "1",
        "-1.5e300",
        "1e999",
        "\"a\\\"}]\\u00e4\"",
        "null",
        "true",
        "[]",
        "{}",
        "[[1,{\"path\":\"/x\"}],\"]\"]",
        "{\"a\":{\"b\":[1,2]}}",
        "18446744073709551616",
    ];
    for written in samples() {
        let line = String::from_utf8(encoder::line(&written).unwrap()).unwrap();
        let op = format!("\"op\":\"{}\"", written.op.word());
        for value in values {
            let mut places = vec![(op.clone(), format!("{op},\"stamp\":{value}"))];
            for object in [
                "\"actor\":{",
                "\"origin\":{",
                "\"kept\":{",
                "\"replaced\":{",
            ] {
                places.push((object.to_owned(), format!("{object}\"stamp\":{value},")));
            }
            places.push((
                ",\"prev\"".to_owned(),
                format!(",\"stamps\":{value},\"prev\""),
            ));
            for (from, to) in places {
                let more = line.replacen(&from, &to, 1);
                assert_eq!(read(more.as_bytes()).as_ref(), Some(&written), "{more}");
                assert_eq!(Record::parse(more.as_bytes()).unwrap(), written);
                let (one, other) = (
                    RecordHeader::of(line.as_bytes()).unwrap(),
                    RecordHeader::of(more.as_bytes()).unwrap(),
                );
                assert_eq!(refs_of(&one), refs_of(&other), "{more}");
            }
        }
        let deep = format!("{op},\"x\":{}{}", "[".repeat(99_999), "]".repeat(99_999));
        let deep = line.replacen(&op, &deep, 1);
        assert!(read(deep.as_bytes()).is_none());
    }
}

fn with_fields(v: u32, fields: &str) -> String {
    format!(r#"{{"v":{v},"seq":7,"time":"t",{fields}}}"#)
}

#[test]
fn order_within_a_line_makes_no_difference() {
    let usual = with_fields(
        6,
        r#""op":"link","path":"/a","from":"/b","ids":[0,1],"prev":"x""#,
    );
    let other = with_fields(
        6,
        r#""op":"link","ids":[0,1],"from":"/b","path":"/a","prev":"x""#,
    );
    assert_eq!(
        Record::parse(usual.as_bytes()).unwrap(),
        Record::parse(other.as_bytes()).unwrap()
    );
}

/// In schema 6 there is one form; up to schema 5 some of these lines were valid.
#[test]
fn lines_in_another_form_are_refused_in_the_new_schema_only() {
    for (fields, is_valid_in_old) in [
        (r#""prev":"x","op":"mkdir","path":"/a","mode":1"#, true),
        (r#""op":"mkdir","prev":"x","path":"/a","mode":1"#, true),
        (r#""op":"mkdir", "path":"/a","mode":1,"prev":"x""#, true),
        (r#""op":"mk\u0064ir","path":"/a","mode":1,"prev":"x""#, true),
        (r#""op":"mkdir","pa\u0074h":"/a","mode":1,"prev":"x""#, true),
        (
            r#""op":"mkdir","path":"/a","path":"/a","mode":1,"prev":"x""#,
            false,
        ),
        (
            r#""op":"mkdir","path":"/a","mode":1,"prev":"x","seq":7"#,
            false,
        ),
        (
            r#""op":"mkdir","path":"/a","mode":4294967296,"prev":"x""#,
            false,
        ),
        (r#""op":"mkdir","path":"/a","mode":-1,"prev":"x""#, false),
        (r#""op":"mkdir","path":"/a","mode":01,"prev":"x""#, false),
        (r#""op":"mkdir","path":"/a","mode":1.0,"prev":"x""#, false),
        (
            r#""op":"mkdir","path":"/a\u0000","mode":1,"prev":"x""#,
            false,
        ),
        (r#""op":"mkdir","path":"/a\\x0","mode":1,"prev":"x""#, false),
        (
            r#""op":"mkdir","path":"/a\ud800","mode":1,"prev":"x""#,
            false,
        ),
        (r#""op":"mkdir","path":"/a","mode":1"#, false),
        (r#""op":"mkdir","path":"/a","prev":"x""#, false),
        (r#""op":"mount","path":"/a","prev":"x""#, false),
    ] {
        let (new, old) = (with_fields(6, fields), with_fields(5, fields));
        assert!(Record::parse(new.as_bytes()).is_err(), "{new}");
        let parsed = Record::parse(old.as_bytes());
        assert_eq!(parsed.is_ok(), is_valid_in_old, "{old}");
        assert_eq!(
            serde_json::from_str::<Record>(&old).is_ok(),
            is_valid_in_old,
            "{old}"
        );
    }
    let unknown = with_fields(6, r#""op":"mount","path":"/a","prev":"x""#);
    let error = Record::parse(unknown.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("mount"), "{error}");
}

#[test]
fn line_of_a_mebibyte_is_read() {
    let name = EscapedBytes(b"\"\\\xff\n\xc3\xa4".repeat(1 << 17));
    let written = Record {
        op: Op::Checkpoint {
            name: "\u{1}\"\\".repeat(1 << 18),
            mark: None,
        },
        ..samples().remove(0)
    };
    let line = encoder::line(&written).unwrap();
    assert!(line.len() > 1 << 20);
    assert_eq!(read(&line), Some(written.clone()));
    let op = Op::Purge {
        entries: vec![name],
        volatile: Vec::new(),
        expired: None,
    };
    let written = Record { op, ..written };
    assert_eq!(read(&encoder::line(&written).unwrap()), Some(written));
}

/// The examples and lists of `docs/FORMAT.md` are those of this program.
#[test]
fn format_document_agrees_with_the_parser() {
    let text = include_str!("../../docs/FORMAT.md");
    let examples: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("{\"v\":"))
        .collect();
    let [example, seal] = examples[..] else {
        panic!("{} examples", examples.len())
    };
    let parsed = read(example.as_bytes()).unwrap();
    assert_eq!((parsed.v, parsed.op.word()), (SCHEMA, "unlink"));
    assert_eq!(encoder::line(&parsed).unwrap(), example.as_bytes());
    let seal = LineFields::read(seal.as_bytes()).unwrap().seal().unwrap();
    assert_eq!((seal.v, seal.digests.len()), (SCHEMA, 2));
    let kinds = OriginKind::ALL.map(OriginKind::word).join(" ");
    for listed in [
        format!("| `v` | the schema, {SCHEMA} |"),
        WORDS.join(" "),
        kinds,
    ] {
        assert!(text.contains(&listed), "{listed}");
    }
}

/// A reader of an earlier schema, whole or damaged, and the one of this schema find the same chain.
#[test]
fn chain_of_hashes_goes_over_lines_of_both_schemas() {
    let (mut text, mut prev) = (String::new(), ChainLink::first(4));
    for (number, v) in [3, 4, 5, 6, 6].into_iter().enumerate() {
        let written = Record {
            v,
            seq: number as u64 + 1,
            op: Op::Checkpoint {
                name: "\"\u{e4}\n".to_owned(),
                mark: None,
            },
            prev: prev.to_string(),
            ..samples().remove(0)
        };
        let line = encoder::line(&written).unwrap();
        prev = ChainLink::of(&line);
        text.push_str(std::str::from_utf8(&line).unwrap());
        text.push('\n');
    }
    let seqs = |text: &[u8]| -> Vec<u64> {
        let records = JournalReader::new(text);
        records.map_while(|record| Some(record.ok()?.seq)).collect()
    };
    assert_eq!(seqs(text.as_bytes()), [1, 2, 3, 4, 5]);
    let mut file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    let mut reverse = ReverseReader::new(file).unwrap();
    let mut found = Vec::new();
    while let Some(record) = reverse.next_record().unwrap() {
        found.push(record.seq);
    }
    assert_eq!(found, [5, 4, 3, 2, 1]);
    // Torn anywhere, in a character or an escape too: all complete lines are there.
    for end in 0..text.len() {
        let torn = &text.as_bytes()[..end];
        let lines = torn.iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(seqs(torn).len(), lines);
    }
}
