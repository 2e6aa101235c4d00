//! Extended attributes. Homes support them only with `--xattr`; what they answer otherwise is a decision.

use super::trial::*;
use crate::common::calls::*;

crate::posix::in_all_places!(CASES);

pub(crate) const CASES: &[Case] = &[
    case("sets, reads, lists and removes", |t| {
        t.file("f", b"");
        t.mkdir("d");
        for name in ["f", "d"] {
            let path = t.p(name);
            eq!(t, user_names(t, &path), Vec::<String>::new());
            ok!(t, setxattr(&path, "user.one", b"1", 0));
            ok!(t, setxattr(&path, "user.two", b"two\0with zero", 0));
            eq!(t, ok!(t, getxattr(&path, "user.one")), b"1");
            eq!(t, ok!(t, getxattr(&path, "user.two")), b"two\0with zero");
            eq!(t, user_names(t, &path), ["user.one", "user.two"]);
            ok!(t, setxattr(&path, "user.one", b"longer than before", 0));
            eq!(
                t,
                ok!(t, getxattr(&path, "user.one")),
                b"longer than before"
            );
            ok!(t, removexattr(&path, "user.one"));
            err!(t, ENODATA, getxattr(&path, "user.one"));
            eq!(t, user_names(t, &path), ["user.two"]);
        }
    })
    .needs(XATTR),
    case("XATTR_CREATE gives EEXIST, XATTR_REPLACE ENODATA", |t| {
        let path = t.file("f", b"");
        err!(
            t,
            ENODATA,
            setxattr(&path, "user.x", b"1", libc::XATTR_REPLACE)
        );
        ok!(t, setxattr(&path, "user.x", b"1", libc::XATTR_CREATE));
        err!(
            t,
            EEXIST,
            setxattr(&path, "user.x", b"2", libc::XATTR_CREATE)
        );
        ok!(t, setxattr(&path, "user.x", b"3", libc::XATTR_REPLACE));
        eq!(t, ok!(t, getxattr(&path, "user.x")), b"3");
        err!(t, EINVAL, setxattr(&path, "user.x", b"4", 1 << 10));
        err!(t, ENODATA, removexattr(&path, "user.y"));
    })
    .needs(XATTR),
    case(
        "sizes: 0 asks, too small is ERANGE, an empty value is a value",
        |t| {
            let path = t.file("f", b"");
            ok!(t, setxattr(&path, "user.x", b"0123456789", 0));
            eq!(t, ok!(t, getxattr_into(&path, "user.x", 0)), 10);
            err!(t, ERANGE, getxattr_into(&path, "user.x", 9));
            eq!(t, ok!(t, getxattr_into(&path, "user.x", 10)), 10);
            ok!(t, setxattr(&path, "user.empty", b"", 0));
            eq!(t, ok!(t, getxattr(&path, "user.empty")), b"");
            let long = vec![b'v'; 2000];
            ok!(t, setxattr(&path, "user.long", &long, 0));
            eq!(t, ok!(t, getxattr(&path, "user.long")), long);
            err!(t, E2BIG, setxattr(&path, "user.huge", &vec![0; 65537], 0));
        },
    )
    .needs(XATTR),
    case("names up to 255 bytes, longer ones ERANGE", |t| {
        let path = t.file("f", b"");
        let name = format!("user.{}", "n".repeat(250));
        ok!(t, setxattr(&path, &name, b"1", 0));
        eq!(t, ok!(t, getxattr(&path, &name)), b"1");
        err!(t, ERANGE, setxattr(&path, &format!("{name}n"), b"1", 0));
        err!(t, EOPNOTSUPP, setxattr(&path, "nospace.x", b"1", 0));
    })
    .needs(XATTR),
    case("attributes go with the file: rename, link, chmod", |t| {
        let path = t.file("f", b"");
        ok!(t, setxattr(&path, "user.x", b"1", 0));
        ok!(t, link(&path, t.p("g")));
        ok!(t, rename(&path, t.p("h")));
        ok!(t, chmod(t.p("h"), 0o600));
        eq!(t, ok!(t, getxattr(t.p("g"), "user.x")), b"1");
        ok!(t, setxattr(t.p("g"), "user.x", b"2", 0));
        eq!(t, ok!(t, getxattr(t.p("h"), "user.x")), b"2");
        let fd = ok!(t, open(t.p("g"), O_RDONLY, 0));
        ok!(
            t,
            rustix::fs::fsetxattr(&fd, "user.y", b"3", rustix::fs::XattrFlags::empty())
        );
        eq!(t, ok!(t, getxattr(t.p("h"), "user.y")), b"3");
    })
    .needs(XATTR),
    case("updates the change time", |t| {
        let path = t.file("f", b"");
        let before = t.age(&path);
        ok!(t, setxattr(&path, "user.x", b"1", 0));
        let after = ok!(t, stat(&path));
        is!(t, after.ctime > before.ctime && after.mtime == before.mtime);
        t.tick(after.ctime);
        ok!(t, removexattr(&path, "user.x"));
        is!(t, ok!(t, stat(&path)).ctime > after.ctime);
    })
    .needs(XATTR),
    case("rights: reading needs to read, setting to write", |t| {
        let path = t.file_of(ANN, "f", 0o644);
        t.user(ANN, || ok!(t, setxattr(&path, "user.x", b"1", 0)));
        t.user(BOB, || {
            eq!(t, ok!(t, getxattr(&path, "user.x")), b"1");
            err!(t, EACCES, setxattr(&path, "user.x", b"2", 0));
            err!(t, EACCES, removexattr(&path, "user.x"));
        });
        ok!(t, chmod(&path, 0o600));
        t.user(BOB, || err!(t, EACCES, getxattr(&path, "user.x")));
    })
    .needs(XATTR | USERS),
    case(
        "user.* is for files and directories: EPERM for a FIFO",
        |t| {
            ok!(t, mkfifo(t.p("p"), 0o666));
            err!(t, EPERM, setxattr(t.p("p"), "user.x", b"1", 0));
            err!(t, ENODATA | EPERM, getxattr(t.p("p"), "user.x"));
        },
    )
    .needs(XATTR),
    case("ENOENT and ENOTDIR", |t| {
        t.file("f", b"");
        err!(t, ENOENT, getxattr(t.p("missing"), "user.x"));
        err!(t, ENOENT, setxattr(t.p("missing"), "user.x", b"", 0));
        err!(t, ENOTDIR, listxattr(t.p("f/x")));
        err!(t, ENOENT, removexattr(t.p("missing"), "user.x"));
    })
    .needs(XATTR),
];

fn user_names(t: &Trial<'_>, path: &std::path::Path) -> Vec<String> {
    let mut names = ok!(t, listxattr(path));
    names.retain(|name| name.starts_with("user."));
    names.sort();
    names
}
