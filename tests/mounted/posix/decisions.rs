//! Deliberate differences between a home and a native file system, with the reason and the proof.
//!
//! A case does not run where a feature it requires is missing ([`Case::needs`]). Each such difference must have a
//! line here.

use super::trial::*;
use crate::common::calls::*;
use crate::common::watch;

/// A difference: what it is, why, and a case that proves it in a mounted home.
struct Decision {
    what: &'static str,
    why: &'static str,
    /// What a home must have for the difference to show, beside being mounted.
    needs: Needs,
    proof: fn(&Trial<'_>),
}

const DECISIONS: &[Decision] = &[
    Decision {
        what: "symlink(2) gives EPERM",
        why: "links are a way out; EPERM is the documented answer of a file system without them. `--symlinks inside` has the safe ones",
        needs: 0,
        proof: |t| {
            if !t.has(LINKS) {
                err!(t, EPERM, symlink("f", t.p("l")));
                err!(t, EPERM, symlink("/etc/passwd", t.p("l")));
                err!(t, ENOENT, lstat(t.p("l")));
            }
        },
    },
    Decision {
        what: "with `--symlinks inside`, a link that is absolute or climbs out is not made",
        why: "it would name something outside, which does not exist for the occupant",
        needs: LINKS,
        proof: |t| {
            for target in [
                "/etc/passwd",
                "/",
                "../../../../../../../../etc/passwd",
                "../../x",
                "d/../../../..",
            ] {
                err!(t, EPERM, symlink(target, t.p("l")));
                err!(t, ENOENT, lstat(t.p("l")));
            }
        },
    },
    Decision {
        what: "mknod(2) of a device gives EPERM, for root too",
        why: "a device node is a way to the machine; mounts are nodev besides",
        needs: ROOT,
        proof: |t| {
            err!(t, EPERM, mknod(t.p("c"), S_IFCHR | 0o600, 0x0103));
            err!(t, EPERM, mknod(t.p("b"), S_IFBLK | 0o600, 0x0700));
            err!(t, ENOENT, lstat(t.p("c")));
            err!(t, ENOENT, lstat(t.p("b")));
        },
    },
    Decision {
        what: "the mount is nosuid and nodev, of a type and source that say nothing of the host",
        why: "a setuid file keeps its bit but gives nobody rights; the store's path is nobody's business inside",
        needs: 0,
        proof: |t| match watch::mount_at(t.root) {
            Some(mount) => {
                eq!(
                    t,
                    (mount.kind.as_str(), mount.source.as_str()),
                    ("fuse.trumanfs", "trumanfs")
                );
                let options: Vec<&str> = mount.options.split(',').collect();
                is!(
                    t,
                    options.contains(&"nosuid") && options.contains(&"nodev"),
                    "mount options: {options:?}"
                );
            }
            None => t.problem("the home is not in the mount table".to_owned()),
        },
    },
    Decision {
        what: "a setuid program runs without its owner's rights",
        why: "nosuid, see above",
        needs: USERS,
        proof: |t| {
            let id = t.program("id", "/usr/bin/id");
            ok!(t, chmod(&id, 0o4755));
            eq!(t, ok!(t, stat(&id)).mode, 0o4755);
            t.user(ANN, || {
                let said = std::process::Command::new(&id)
                    .arg("-u")
                    .output()
                    .map(|output| output.stdout);
                eq!(
                    t,
                    said.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned())
                        .ok(),
                    Some(ANN.to_string())
                );
            });
        },
    },
    Decision {
        what: "extended attributes give EOPNOTSUPP",
        why: "each would cost a request; `--xattr` has them",
        needs: 0,
        proof: |t| {
            if !t.has(XATTR) {
                let path = t.file("f", b"");
                err!(t, EOPNOTSUPP, setxattr(&path, "user.x", b"1", 0));
                err!(t, EOPNOTSUPP, getxattr(&path, "user.x"));
                err!(t, EOPNOTSUPP, removexattr(&path, "user.x"));
                // The list of a file system without attributes is empty or refused.
                match listxattr(&path) {
                    Ok(names) => eq!(t, names, Vec::<String>::new()),
                    Err(error) => eq!(t, name_of(error), "EOPNOTSUPP"),
                }
            }
        },
    },
    Decision {
        what: "a home without --allow-other is its owner's alone: EACCES at the door",
        why: "the kernel keeps all others out, so no rights need checking twice",
        needs: ROOT,
        proof: |t| {
            if !t.has(USERS) {
                t.file("f", b"");
                ok!(t, chmod(t.p("f"), 0o666));
                t.user(ANN, || {
                    err!(t, EACCES, stat(t.root));
                    err!(t, EACCES, stat(t.p("f")));
                    err!(t, EACCES, open(t.p("f"), O_RDONLY, 0));
                    err!(t, EACCES, readdir(t.root));
                });
            }
        },
    },
    Decision {
        what: "name_to_handle_at(2) gives EOPNOTSUPP",
        why: "a handle would be a door beside the names; export support is off",
        needs: 0,
        proof: |t| err!(t, EOPNOTSUPP, name_to_handle(t.file("f", b""), 0)),
    },
    Decision {
        what: "ioctls give ENOTTY, but for what the kernel answers without asking",
        why: "only what we answer exists; `cp --reflink=auto` and copy_file_range still share where the store can",
        needs: 0,
        proof: |t| {
            let fd = ok!(t, open(t.file("f", b"content"), O_RDWR, 0));
            let dir = ok!(t, open(t.mkdir("d"), O_RDONLY, 0));
            for (name, request) in NO_IOCTLS {
                for fd in [&fd, &dir] {
                    let mut words = [0; 64];
                    let done = ioctl_words(fd, *request, &mut words);
                    is!(
                        t,
                        matches!(done, Err(e) if [ENOTTY, EOPNOTSUPP].contains(&e.raw_os_error())),
                        "{name}: {done:?}"
                    );
                }
            }
            // FIBMAP: block 0, which is no block.
            let mut words = [0; 64];
            match ioctl_words(&fd, 1, &mut words) {
                Ok(_) => eq!(t, words, [0; 64]),
                Err(error) => eq!(t, name_of(error), "EPERM"),
            }
            // FIGETBSZ and FIONREAD.
            ok!(t, ioctl_words(&fd, 2, &mut words));
            is!(t, words[0] > 0);
            words = [0; 64];
            ok!(t, ioctl_words(&fd, 0x541b, &mut words));
            eq!(t, words[0], 7);
            ok!(t, pwrite(&fd, b"C", 0));
        },
    },
    Decision {
        what: "`.trumanfs` does not exist and `.trash` is read-only, by whatever call",
        why: "the journal is the operator's; what was removed cannot be removed again",
        needs: 0,
        proof: |t| {
            let (state, trash) = (t.root.join(".trumanfs"), t.root.join(".trash"));
            t.file("f", b"gone");
            ok!(t, unlink(t.p("f")));
            err!(t, ENOENT, stat(&state));
            err!(t, ENOENT, open(&state, O_RDONLY, 0));
            err!(t, ENOENT, open(state.join("lock"), O_RDONLY, 0));
            err!(t, ENOENT, mkdir(&state, 0o755));
            err!(t, ENOENT, creat(&state, 0o644));
            is!(
                t,
                !t.names(t.root)
                    .iter()
                    .any(|name| name == ".trash" || name == ".trumanfs"),
                "readdir shows .trash or .trumanfs"
            );
            eq!(t, ok!(t, stat(&trash)).kind, S_IFDIR);
            err!(t, EROFS, creat(trash.join("x"), 0o644));
            err!(t, EROFS, mkdir(trash.join("x"), 0o755));
            let removed = t.names(&trash);
            is!(
                t,
                removed.iter().any(|name| name.ends_with("_f")),
                "f is not in the trash"
            );
            for name in removed.iter().filter(|name| name.ends_with("_f")) {
                err!(t, EROFS, unlink(trash.join(name)));
                err!(t, EROFS, truncate(trash.join(name), 0));
                err!(t, EROFS, open(trash.join(name), O_WRONLY, 0));
                eq!(t, t.content(&trash.join(name)), b"gone");
            }
            t.mkdir("d");
            err!(t, EROFS, rename(t.p("d"), trash.join("d")));
            err!(t, EROFS, rmdir(&trash));
            err!(t, EROFS, rename(&trash, t.p("moved")));
            err!(t, ENOENT, stat(t.p("moved")));
        },
    },
    Decision {
        what: "without passthrough a file is data from end to end for SEEK_DATA and SEEK_HOLE",
        why: "the kernel asks the daemon before it has written back what the page cache holds, so holes could be data",
        needs: 0,
        proof: |t| {
            if !t.has(HOLES) {
                let fd = ok!(t, open(t.file("f", b""), O_RDWR, 0));
                ok!(t, ftruncate(&fd, 1 << 20));
                eq!(t, ok!(t, lseek(&fd, SeekFrom::Data(0))), 0);
                eq!(t, ok!(t, lseek(&fd, SeekFrom::Hole(0))), 1 << 20);
            }
        },
    },
    Decision {
        what: "a home's owner still reaches what they have looked at when they close the directory to themselves",
        why: "the kernel knows the way and does not ask; asking at each step would cost a third more for every change",
        needs: PLAIN | ROOTS,
        proof: |t| {
            let dir = t.mkdir("d");
            ok!(t, creat(dir.join("f"), 0o644));
            ok!(t, chmod(&dir, 0));
            ok!(t, stat(dir.join("f")));
            err!(t, EACCES, stat(dir.join("never looked at")));
            err!(t, EACCES, open(dir.join("f"), O_RDONLY, 0));
            ok!(t, chmod(&dir, 0o700));
        },
    },
    Decision {
        what: "fallocate(2) shifts nothing: FALLOC_FL_COLLAPSE_RANGE and FALLOC_FL_INSERT_RANGE give EOPNOTSUPP",
        why: "the kernel does not hand them to FUSE; programs copy instead",
        needs: 0,
        proof: |t| {
            let fd = ok!(t, open(t.file("f", &[b'x'; 16384]), O_RDWR, 0));
            for mode in [8, 0x20] {
                err!(t, EOPNOTSUPP, fallocate(&fd, mode, 4096, 4096));
            }
            eq!(t, ok!(t, fstat(&fd)).size, 16384);
        },
    },
    Decision {
        what: "an offset behind what the store's file system can have is found out by writing, not by seeking",
        why: "the kernel takes FUSE for a file system without a limit, and the store's is known to the store",
        needs: 0,
        proof: |t| {
            let fd = ok!(t, open(t.file("f", b"x"), O_RDWR, 0));
            let far = i64::MAX as u64 - 4096;
            eq!(t, ok!(t, lseek(&fd, SeekFrom::Start(far))), far);
            eq!(t, ok!(t, pread(&fd, 10, far)), b"");
            eq!(t, ok!(t, fstat(&fd)).size, 1);
        },
    },
];

/// What a file system answers, by its number in linux/fs.h and its neighbours.
const NO_IOCTLS: &[(&str, u64)] = &[
    ("FS_IOC_GETFLAGS", 0x8008_6601),
    ("FS_IOC_SETFLAGS", 0x4008_6602),
    ("FS_IOC_GETVERSION", 0x8008_7601),
    ("FS_IOC_SETVERSION", 0x4008_7602),
    ("FS_IOC_FSGETXATTR", 0x801c_581f),
    ("FS_IOC_FSSETXATTR", 0x401c_5820),
    ("FS_IOC_FIEMAP", 0xc020_660b),
    ("FS_IOC_GETFSUUID", 0x8011_1500),
    ("FS_IOC_GETFSSYSFSPATH", 0x8081_1501),
    ("FS_IOC_GETFSLABEL", 0x8100_9431),
    ("FS_IOC_SETFSLABEL", 0x4100_9432),
    ("FS_IOC_GET_ENCRYPTION_POLICY_EX", 0xc009_6616),
    ("FS_IOC_ENABLE_VERITY", 0x4080_6685),
    ("FS_IOC_MEASURE_VERITY", 0xc004_6686),
    ("EXT4_IOC_MOVE_EXT", 0xc028_660f),
    ("XFS_IOC_FSGEOMETRY", 0x8100_587e),
    ("TCGETS", 0x5401),
    ("BLKGETSIZE64", 0x8008_1272),
];

crate::posix::in_all_places!(CASES);

/// The decisions as cases.
pub(crate) const CASES: &[Case] = &[
    decision(0),
    decision(1),
    decision(2),
    decision(3),
    decision(4),
    decision(5),
    decision(6),
    decision(7),
    decision(8),
    decision(9),
    decision(10),
    decision(11),
    decision(12),
    decision(13),
    case("every decision has a reason and a case", |t| {
        eq!(t, CASES.len(), DECISIONS.len() + 1);
        for decision in DECISIONS {
            is!(
                t,
                decision.why.len() > 10,
                "{} has no reason",
                decision.what
            );
        }
    }),
];

const fn decision(index: usize) -> Case {
    let Decision {
        what, needs, proof, ..
    } = &DECISIONS[index];
    case(what, *proof).needs(*needs | HOME)
}
