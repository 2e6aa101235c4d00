//! What a program finds around it: ids, files, devices, processes, and what of the host it does not find.

use std::fs;

use trumanfs::exec::program::sandbox::{End, Step};

use crate::room::{Room, start};

#[test]
fn ids_are_the_owner_s_and_capabilities_none() {
    let room = Room::new();
    let said = room
        .sh("id -u; id -g; grep -E '^(Cap|NoNewPrivs|Groups)' /proc/self/status; cat /etc/passwd");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], room.uid.to_string());
    let caps: Vec<&&str> = lines
        .iter()
        .filter(|line| line.starts_with("Cap"))
        .collect();
    assert_eq!(caps.len(), 5, "{said}");
    for line in caps {
        assert!(line.ends_with("\t0000000000000000"), "{line}");
    }
    assert!(said.contains("NoNewPrivs:\t1"), "{said}");
    if rustix::process::geteuid().is_root() {
        // Root drops supplementary groups; an ordinary user cannot (user_namespaces(7)).
        let groups = lines
            .iter()
            .find(|line| line.starts_with("Groups"))
            .unwrap();
        assert_eq!(groups.trim(), "Groups:");
    }
    assert!(said.contains(&format!("x:{}:", room.uid)), "{said}");
}

#[test]
fn a_root_s_home_gives_no_rights_either() {
    crate::common::need_root!("for a home that is root's");
    let room = Room::of(0);
    let said = room.sh(
        "id -u; grep CapEff /proc/self/status; ! cat /etc/shadow 2>/dev/null; ! echo 1 >/proc/sys/kernel/domainname; ! chmod 600 /dev/null",
    );
    assert!(said.starts_with("0\nCapEff:\t0000000000000000\n"), "{said}");
}

#[test]
fn the_host_is_not_there() {
    let room = Room::new();
    fs::write(room.outside().join("secret"), "x").unwrap();
    let said = room.sh("ls -A /; ls -A /tmp; ls /proc | grep -c '^[0-9]'; hostname; cat /proc/self/cgroup | cut -d: -f3 | sort -u");
    let names: Vec<&str> = said.lines().collect();
    for absent in ["home", "root", "run", "mnt", "sys", "boot", "srv", "opt"] {
        // (The home may lie below /home or /root.)
        if !room.home.starts_with(format!("/{absent}")) {
            assert!(!names.contains(&absent), "{absent} in {said}");
        }
    }
    for there in ["usr", "bin", "etc", "dev", "proc", "tmp"] {
        assert!(names.contains(&there), "{there} not in {said}");
    }
    assert!(said.contains("sandbox\n/\n"), "{said}");
    let secret = room.outside().join("secret");
    assert_eq!(
        room.run(room.plan(&["cat".as_ref(), secret.as_os_str()]))
            .ended
            .end,
        End::Exited(1)
    );
}

#[test]
fn the_home_and_tmp_can_be_written_and_nothing_else() {
    let room = Room::new();
    let said = room.sh(
        "echo in >file; echo t >/tmp/t; echo s >/dev/shm/s; cat /tmp/t /dev/shm/s /var/tmp/t
         for place in / /usr /etc /dev /dev/pts /proc /usr/bin /var; do
             if (: >$place/x) 2>/dev/null; then echo \"written: $place\"; fi
             if (mkdir $place/d) 2>/dev/null; then echo \"made: $place\"; fi
         done",
    );
    assert_eq!(said, "t\ns\nt\n");
    assert_eq!(fs::read_to_string(room.home.join("file")).unwrap(), "in\n");
    assert_eq!(fs::read_to_string(room.scratch().join("t")).unwrap(), "t\n");
}

#[test]
fn a_home_may_be_read_only() {
    let room = Room::new();
    fs::write(room.home.join("file"), "text").unwrap();
    let mut plan = room.plan(&["sh", "-c", "cat file; echo >new || touch /tmp/new"]);
    plan.read_only = true;
    let outcome = room.run(plan);
    assert!(outcome.err.contains("Read-only"), "{outcome:?}");
    assert_eq!(outcome.good(), "text");
    assert!(!room.home.join("new").exists());
    assert!(room.scratch().join("new").exists());
}

#[test]
fn a_mounted_home_is_the_writable_place() {
    crate::common::need_mount!();
    let home = crate::common::Home::mount();
    let own = rustix::process::geteuid().as_raw();
    let room = Room::of(own);
    let mut plan = room.plan(&[
        "sh",
        "-euc",
        "pwd; echo a >a; mv a b; rm b; mkdir d; echo c >d/c; stat -c %u d/c",
    ]);
    plan.home = fs::File::open(home.home()).unwrap().into();
    plan.home_path = home.home().to_owned();
    plan.cwd = home.home().to_owned();
    let said = room.run(plan).good();
    assert_eq!(said, format!("{}\n{own}\n", home.home().display()));
    assert_eq!(fs::read_to_string(home.path("d/c")).unwrap(), "c\n");
    assert_eq!(home.trashed("b").len(), 1);
}

#[test]
fn an_owner_s_home_is_root_s_to_launch_in() {
    crate::common::need_mount!();
    crate::common::need_root!("to mount for another user");
    let room = Room::new();
    let home = crate::common::Home::plan()
        .options(&["--owner", &room.uid.to_string()])
        .prepare(|store| std::os::unix::fs::chown(store, Some(room.uid), Some(room.uid)).unwrap())
        .mount();
    let mut plan = room.plan(&["sh", "-euc", "echo a >a; stat -c %u a"]);
    plan.home = rustix::fs::open(
        home.home(),
        rustix::fs::OFlags::PATH,
        rustix::fs::Mode::empty(),
    )
    .unwrap();
    plan.home_path = home.home().to_owned();
    plan.cwd = home.home().to_owned();
    assert_eq!(room.run(plan).good(), format!("{}\n", room.uid));
}

#[test]
fn what_cannot_be_started_is_named() {
    let room = Room::new();
    let not_started = |plan| match room.run(plan).ended.end {
        End::NotStarted(error) => error,
        other => panic!("{other:?}"),
    };
    let error = not_started(room.plan(&["no-such-program"]));
    assert_eq!(
        (error.step, error.errno),
        (Step::Program, Some(rustix::io::Errno::NOENT))
    );
    fs::write(room.home.join("text"), "x").unwrap();
    let error = not_started(room.plan(&["./text"]));
    assert_eq!(
        (error.step, error.errno),
        (Step::Program, Some(rustix::io::Errno::ACCESS))
    );
    let mut plan = room.plan(&["true"]);
    plan.cwd = room.home.join("absent");
    assert_eq!(not_started(plan).step, Step::Directory);
    let mut plan = room.plan(&["true"]);
    plan.home_path = "/usr".into();
    assert_eq!(start(plan).unwrap_err().step, Step::Plan);
}
