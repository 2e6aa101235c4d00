//! Former contents with missing parts: the known part is restored, the missing one is named, the exit code means
//! "partly", and nothing is made up.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::common::{describe, trumanfs};
use rustix::fs::OFlags;
use trumanfs::name::WorldPath;
use trumanfs::world::{
    Caller, KeepOptions, LocatedNode, NoOpenState, SetAttrs, World, WorldOptions, new_session_id,
};

fn run(store: &Path, words: &[&str]) -> Output {
    let (verb, rest) = words.split_first().unwrap();
    let mut args: Vec<PathBuf> = vec![verb.into(), store.into()];
    args.extend(rest.iter().map(PathBuf::from));
    trumanfs(&args)
}

/// Runs a line of the bundled shell in an unmounted store: a session of its own.
fn line(store: &Path, line: &str) {
    let args = [
        "exec".as_ref(),
        "--root".as_ref(),
        store,
        "--".as_ref(),
        line.as_ref(),
    ];
    let output = trumanfs::<&Path>(&args);
    assert!(output.status.success(), "{line}: {}", describe(&output));
}

fn sessions(store: &Path) -> Vec<PathBuf> {
    let mut sessions: Vec<PathBuf> = fs::read_dir(store.join(".trumanfs/sessions"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    sessions.sort();
    sessions
}

/// Does something with the file `f` of an unmounted store, in a session of its own.
fn act(store: &Path, act: impl FnOnce(&World, &LocatedNode)) {
    let options = WorldOptions {
        session: new_session_id(),
        keep: by_blocks(),
        ..WorldOptions::default()
    };
    let (world, _) = World::open(store, options).unwrap();
    let located = world.find(&WorldPath::parse(b"f").unwrap()).unwrap();
    act(&world, &located);
    world.close();
}

/// Copies only what is small, so that bigger files are kept by blocks.
fn by_blocks() -> KeepOptions {
    KeepOptions {
        copied_up_to: 1 << 20,
        ..KeepOptions::default()
    }
}

fn truncate(store: &Path, size: u64) {
    let change = SetAttrs {
        size: Some(size),
        ..SetAttrs::default()
    };
    act(store, |world, located| {
        world
            .set_attr(located, change, None, &NoOpenState, Caller::myself())
            .unwrap();
    });
}

fn overwrite(store: &Path) {
    act(store, |world, located| {
        let file = world
            .open_file(located, OFlags::RDWR, &NoOpenState, Caller::myself())
            .unwrap();
        rustix::io::write(file, b"WHAT").unwrap();
    });
}

/// The versions of the newest session, without their lists of ranges.
fn versions(store: &Path) -> Vec<PathBuf> {
    let dir = sessions(store).pop().unwrap().join("versions");
    let mut versions: Vec<PathBuf> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_none())
        .collect();
    versions.sort();
    versions
}

/// The former content; what was left at the end may have a copy as well, which is made later.
fn former(store: &Path) -> PathBuf {
    versions(store).into_iter().next().unwrap()
}

fn cut(path: &Path, size: u64) {
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(size).unwrap();
}

/// Says what a command says, errors too, and checks that it ended with this code.
#[track_caller]
fn ends(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{}", describe(output));
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

const TEXT: &str = "what was there before";
const MISSING: &str = "6 of its 21 bytes are not there any more (6 from offset 15)";

/// A store whose file `f` was emptied, in one way or another; of its former content the last six bytes are gone.
fn shortened(how: impl FnOnce(&Path)) -> tempfile::TempDir {
    let store = tempfile::tempdir().unwrap();
    fs::write(store.path().join("f"), TEXT).unwrap();
    how(store.path());
    let version = former(store.path());
    assert_eq!(fs::read_to_string(&version).unwrap(), TEXT);
    cut(&version, 15);
    store
}

#[test]
fn of_a_short_version_the_prefix_comes_back_and_the_rest_is_named() {
    // The inode that moved aside; a copy.
    let ways: [fn(&Path); 3] = [
        |store| truncate(store, 0),
        |store| line(store, "echo new > f"),
        overwrite,
    ];
    for how in ways {
        let store = shortened(how);
        let store = store.path();
        let now = fs::read(store.join("f")).unwrap();
        let session = sessions(store)[0].file_name().unwrap().to_owned();
        let session = session.to_str().unwrap();

        let cat = run(store, &["cat", "/f", "--at", &format!("{session}:1")]);
        let said = ends(&cat, 5);
        assert_eq!(cat.stdout, TEXT.as_bytes()[..15], "{said}");
        assert!(said.contains("/f: ") && said.contains(MISSING), "{said}");
        let said = ends(&run(store, &["versions", "/f"]), 0);
        assert!(
            said.contains("21 bytes") && said.contains(MISSING),
            "{said}"
        );
        assert!(
            said.contains("trumanfs cat") && !said.contains("lost"),
            "{said}"
        );
        let said = ends(&run(store, &["undo", "--session", session, "--dry-run"]), 5);
        assert!(said.contains(MISSING), "{said}");
        assert_eq!(fs::read(store.join("f")).unwrap(), now);

        let said = ends(&run(store, &["undo", "--session", session]), 5);
        assert!(said.contains("undone") && said.contains("/f: "), "{said}");
        assert!(said.contains(MISSING), "{said}");
        assert_eq!(fs::read_to_string(store.join("f")).unwrap(), TEXT[..15]);
        // To undo twice is to undo once, and what was there is kept.
        let said = ends(&run(store, &["undo", "--session", session]), 5);
        assert!(said.contains("nothing else could be taken back"), "{said}");
        ends(&run(store, &["redo"]), 0);
        assert_eq!(fs::read(store.join("f")).unwrap(), now);
        let said = ends(&run(store, &["undo", "--session", session, "--force"]), 5);
        assert!(said.contains(MISSING), "{said}");
        assert_eq!(fs::read_to_string(store.join("f")).unwrap(), TEXT[..15]);

        let restore = [
            "restore",
            "/f",
            "--at",
            &format!("{session}:1"),
            "--to",
            "/g",
        ];
        let said = ends(&run(store, &restore), 5);
        assert!(said.contains("/g: ") && said.contains(MISSING), "{said}");
        assert_eq!(fs::read_to_string(store.join("g")).unwrap(), TEXT[..15]);
    }
}

#[test]
fn of_what_nothing_is_left_nothing_is_made_up() {
    let store = shortened(|store| line(store, "echo new > f"));
    let store = store.path();
    cut(&versions(store)[0], 0);
    let session = sessions(store)[0].file_name().unwrap().to_owned();
    let session = session.to_str().unwrap();
    let said = ends(&run(store, &["undo", "--session", session]), 4);
    assert!(
        said.contains("nothing is left of the content before"),
        "{said}"
    );
    let said = ends(&run(store, &["undo", "--session", session, "--force"]), 5);
    assert!(
        said.contains("nothing is left of the content before"),
        "{said}"
    );
    assert_eq!(fs::read_to_string(store.join("f")).unwrap(), "new\n");
    let said = ends(&run(store, &["versions", "/f"]), 0);
    assert!(said.contains("lost: nothing is left"), "{said}");
}

/// Its owner has cut a file to which only was appended: the first append has kept the content before.
#[test]
fn a_file_that_was_cut_outside_has_its_former_content() {
    let store = tempfile::tempdir().unwrap();
    let store = store.path();
    fs::write(store.join("f"), TEXT).unwrap();
    line(store, "echo more >> f");
    cut(&store.join("f"), 15);
    let session = sessions(store)[0].file_name().unwrap().to_owned();
    let session = session.to_str().unwrap();
    let cat = run(store, &["cat", "/f", "--at", &format!("{session}:1")]);
    let said = ends(&cat, 0);
    assert_eq!(cat.stdout, TEXT.as_bytes(), "{said}");
    ends(&run(store, &["undo", "--session", session]), 4);
    assert_eq!(fs::read_to_string(store.join("f")).unwrap(), TEXT[..15]);
}

/// A store whose file `f` of 3 MiB was cut and kept by blocks; of its former content the last MiB is gone.
fn cut_in_blocks() -> (tempfile::TempDir, String, Vec<u8>) {
    let store = tempfile::tempdir().unwrap();
    let big: Vec<u8> = (0..3_u32 << 20).map(|at| b'a' + (at % 23) as u8).collect();
    fs::write(store.path().join("f"), &big).unwrap();
    truncate(store.path(), 1_000_000);
    let version = former(store.path());
    assert!(version.with_extension("map").exists(), "not kept by blocks");
    cut(&version, 2 << 20);
    let session = sessions(store.path())[0].file_name().unwrap().to_owned();
    (store, session.into_string().unwrap(), big)
}

/// A content that is kept by blocks is laid over what came after. Where its file is too short, that is missing and not zeros; what
/// the file has now does not stand for it either.
#[test]
fn of_blocks_that_are_not_there_no_zeros_are_made() {
    let (store, session, big) = cut_in_blocks();
    let (store, session) = (store.path(), session.as_str());
    let missing =
        "1048576 of its 3145728 bytes are not there any more (1048576 from offset 2097152)";
    let said = ends(&run(store, &["undo", "--session", session]), 5);
    assert!(said.contains(missing), "{said}");
    assert!(fs::read(store.join("f")).unwrap() == big[..2 << 20]);
    // Cut in the file, too: of what the session left there is a copy.
    let (store, session, _) = cut_in_blocks();
    let store = store.path();
    cut(&store.join("f"), 4096);
    let restore = ["restore", "/f", "--at", &format!("{session}:1")];
    let said = ends(&run(store, &restore), 5);
    assert!(said.contains(missing), "{said}");
    assert!(fs::read(store.join("f")).unwrap() == big[..2 << 20]);
}

fn purge(store: &Path) -> Output {
    let words = ["trash", "purge", "--all", "--versions=only"];
    let mut args: Vec<&Path> = words.iter().map(Path::new).collect();
    args.push(store);
    trumanfs(&args)
}

/// Whoever deletes a version, or makes one that is not to be, may be killed between the version and its list.
#[test]
fn a_list_without_its_version_is_settled_seen_and_mended() {
    // Of a session that has not ended: the next one settles it.
    let store = tempfile::tempdir().unwrap();
    let store = store.path();
    fs::write(store.join("f"), TEXT).unwrap();
    let options = WorldOptions {
        session: new_session_id(),
        keep: by_blocks(),
        ..WorldOptions::default()
    };
    drop(World::open(store, options).unwrap());
    let dir = sessions(store).pop().unwrap().join("versions");
    for name in ["00000007.map", "00000008.map.new"] {
        fs::write(dir.join(name), "").unwrap();
    }
    line(store, "echo settled > g");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "they have stayed");
    ends(&run(store, &["fsck"]), 0);

    // Of one that has: purging takes it, and fsck sees it.
    fs::write(store.join("big"), vec![b'x'; 3 << 20]).unwrap();
    let big = |size| {
        let options = WorldOptions {
            session: new_session_id(),
            keep: by_blocks(),
            ..WorldOptions::default()
        };
        let (world, _) = World::open(store, options).unwrap();
        let located = world.find(&WorldPath::parse(b"big").unwrap()).unwrap();
        let change = SetAttrs {
            size: Some(size),
            ..SetAttrs::default()
        };
        world
            .set_attr(&located, change, None, &NoOpenState, Caller::myself())
            .unwrap();
        world.close();
    };
    for repair in [false, true] {
        big(if repair { 1_000_000 } else { 2_000_000 });
        let version = former(store);
        let session = sessions(store).pop().unwrap();
        let session = session.file_name().unwrap().to_str().unwrap().to_owned();
        // As an eviction that is killed half-way leaves it: recorded, and the version gone.
        let list = fs::read(version.with_extension("map")).unwrap();
        ends(&purge(store), 0);
        assert!(!version.exists(), "{session}: it is still there");
        fs::write(version.with_extension("map"), &list).unwrap();
        let said = ends(&run(store, &["fsck"]), 1);
        assert!(
            said.contains("the list of ranges of version 00000001 has no version"),
            "{said}"
        );
        if repair {
            ends(&run(store, &["fsck", "--repair"]), 0);
        } else {
            let said = ends(&purge(store), 0);
            assert!(!said.contains("not there any more"), "{said}");
        }
        assert!(!version.with_extension("map").exists());
        ends(&run(store, &["fsck"]), 0);
    }
}

/// A byte that was flipped in a kept content is noticed by its digest: an undo stops, and `--force` gives back what there is.
#[test]
fn altered_version_is_named_and_given_back_by_force_alone() {
    let store = tempfile::tempdir().unwrap();
    let store = store.path();
    fs::write(store.join("f"), TEXT).unwrap();
    overwrite(store);
    let [version] = versions(store).try_into().unwrap();
    let mut bytes = fs::read(&version).unwrap();
    bytes[5] ^= 1;
    fs::write(&version, &bytes).unwrap();
    let now = fs::read(store.join("f")).unwrap();
    let session = sessions(store)[0].file_name().unwrap().to_owned();
    let session = session.to_str().unwrap();
    for words in [
        &["undo", "--session", session, "--dry-run"][..],
        &["undo", "--session", session],
    ] {
        let said = ends(&run(store, words), 4);
        assert!(
            said.contains("/f: ") && said.contains("is not what was kept"),
            "{said}"
        );
        assert!(said.contains("--force"), "{said}");
        assert_eq!(fs::read(store.join("f")).unwrap(), now);
    }
    let cat = run(store, &["cat", "/f", "--at", &format!("{session}:1")]);
    assert!(ends(&cat, 5).contains("is not what was kept"));
    assert_eq!(cat.stdout, bytes);
    let said = ends(&run(store, &["undo", "--session", session, "--force"]), 5);
    assert!(said.contains("is not what was kept"), "{said}");
    assert_eq!(fs::read(store.join("f")).unwrap(), bytes);
}

/// A daemon that is killed after it kept a content and before it recorded why leaves a version that nothing needs.
#[test]
fn version_without_a_record_is_settled_by_the_next_session() {
    let store = tempfile::tempdir().unwrap();
    let store = store.path();
    fs::write(store.join("f"), TEXT).unwrap();
    let options = || WorldOptions {
        session: new_session_id(),
        keep: by_blocks(),
        ..WorldOptions::default()
    };
    let (world, _) = World::open(store, options()).unwrap();
    let located = world.find(&WorldPath::parse(b"f").unwrap()).unwrap();
    let file = world.open_file(&located, OFlags::RDWR, &NoOpenState, Caller::myself());
    rustix::io::write(file.unwrap(), b"WHAT").unwrap();
    drop(world);
    let [kept] = versions(store).try_into().unwrap();
    fs::write(kept.with_file_name("00000002"), TEXT).unwrap();
    ends(&run(store, &["fsck"]), 1);
    let (world, settled) = World::open(store, options()).unwrap();
    world.close();
    let said =
        |found: &trumanfs::world::StoreFinding| found.what.contains("1 content(s) had been kept");
    assert!(settled.iter().any(said), "{settled:?}");
    assert!(kept.exists() && !kept.with_file_name("00000002").exists());
    ends(&run(store, &["fsck"]), 0);
}

/// A file takes no space in the trash as long as it has a name outside; and then once.
#[test]
fn linked_file_in_the_trash_counts_once_its_last_name_is_there() {
    let store = tempfile::tempdir().unwrap();
    fs::write(store.path().join("f"), vec![7; 1 << 20]).unwrap();
    let options = WorldOptions {
        session: new_session_id(),
        keep: by_blocks(),
        ..WorldOptions::default()
    };
    let (world, _) = World::open(store.path(), options).unwrap();
    let at = |name: &str| WorldPath::parse(name.as_bytes()).unwrap();
    let caller = Caller::myself();
    let size = world.statfs().unwrap().f_blocks;
    let unlink = |name: &str| {
        let path = at(name);
        let (dir, name) = world.parent(&path).unwrap();
        world.unlink(&dir, name, caller).unwrap();
    };
    let operator = || trumanfs::operator::Store::of(&world).unwrap();
    let listed = || {
        trumanfs::operator::usage::usage(&operator())
            .unwrap()
            .trash
            .disk
    };
    for name in ["a", "b", "c"] {
        let path = at(name);
        let (dir, name_of) = world.parent(&path).unwrap();
        world
            .link(&world.find(&at("f")).unwrap(), &dir, name_of, caller)
            .unwrap();
        unlink(name);
        assert_eq!((world.trash().bytes(), listed()), (0, 0), "{name}");
    }
    unlink("f");
    let all = 1_u64 << 20;
    for bytes in [world.trash().bytes(), listed()] {
        assert!((all..all + 65536).contains(&bytes), "{bytes}");
    }
    assert_eq!(world.statfs().unwrap().f_blocks, size);
    world.close();
}
