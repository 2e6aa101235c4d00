//! What a program finds around it: ids, files, devices, processes, and what of the host it does not find.

use std::fs;

use trumanfs::exec::program::sandbox::{ProgramEnd, Step};

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
        "id -u; grep CapEff /proc/self/status; ! cat /etc/shadow 2>/dev/null; ! ls /etc/ssl/private 2>/dev/null; ! echo 1 >/proc/sys/kernel/domainname; ! chmod 600 /dev/null",
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
        ProgramEnd::Exited(1)
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
        ProgramEnd::NotStarted(error) => error,
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

#[test]
fn nothing_is_inherited() {
    let room = Room::new();
    // A descriptor that survives an exec, and a variable: neither is meant for the program.
    let left_open = fs::File::open("/").unwrap();
    rustix::io::fcntl_setfd(&left_open, rustix::io::FdFlags::empty()).unwrap();
    let mut plan = room.plan(&["sh", "-c", "ls /proc/self/fd | tr '\\n' ' '; env | cut -d= -f1 | sort | tr '\\n' ' '; grep -E '^(Seccomp|SigIgn|SigBlk)' /proc/self/status; umask"]);
    plan.env.push(("GIVEN".into(), "1".into()));
    let said = room.run(plan).good();
    drop(left_open);
    // (3 is the directory that `ls` reads.)
    assert!(said.starts_with("0 1 2 3 GIVEN HOME PATH PWD "), "{said}");
    assert!(
        said.contains("SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"),
        "{said}"
    );
    assert!(said.contains("Seccomp:\t2\n"), "{said}");
    assert!(said.ends_with("0022\n"), "{said}");
}

#[test]
fn proc_has_its_own_processes_and_is_read_only() {
    let room = Room::new();
    let said = room.sh(
        "ls /proc | grep '^[0-9]' | sort -n | head -1; cat /proc/1/comm >/dev/null
         for file in sys/kernel/domainname sys/vm/drop_caches sysrq-trigger self/oom_score_adj self/uid_map; do
             if (echo 1 >/proc/$file) 2>/dev/null; then echo \"written: $file\"; fi
         done
         cat /proc/sys/kernel/ostype; grep -c processor /proc/cpuinfo >/dev/null; echo $$",
    );
    assert_eq!(said, "1\nLinux\n2\n");
}

#[test]
fn set_user_id_gives_nothing() {
    crate::common::need_root!("to make a set-user-id program for root");
    let room = Room::new();
    use std::os::unix::fs::PermissionsExt;
    let program = room.home.join("id");
    crate::common::copy_program("/usr/bin/id", &program);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    assert_eq!(
        room.sh("./id -u; ./id -un"),
        format!("{}\nuser\n", room.uid)
    );
}

#[test]
fn devices_are_the_harmless_ones() {
    let room = Room::new();
    let said = room.sh(
        "ls /dev | tr '\\n' ' '; echo x >/dev/null; head -c1 /dev/zero | wc -c; head -c1 /dev/urandom | wc -c; ! echo >/dev/full",
    );
    // (Bubblewrap makes a link to where the kernel's memory would be.)
    let said = said.trim_start_matches("core ");
    assert_eq!(
        said,
        "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero 1\n1\n"
    );
}

#[test]
fn the_network_is_loopback() {
    let room = Room::new();
    let said = room.sh("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '; cat /proc/net/route /proc/net/ipv6_route | grep -vc lo");
    assert_eq!(said, "lo\n1\n");
}

#[test]
fn what_bind_ro_lists_is_shown_and_stays_as_it_is() {
    let room = Room::new();
    let tools = fs::canonicalize(room.outside()).unwrap().join("tools");
    fs::create_dir(&tools).unwrap();
    fs::write(tools.join("text"), "shown").unwrap();
    let link = tools.with_file_name("link");
    std::os::unix::fs::symlink(&tools, &link).unwrap();
    let script = "cat $1/text $2/text; ! touch $1/new 2>/dev/null; ! rm $1/text 2>/dev/null";
    let mut plan = room.plan(&["sh", "-euc", script, "sh"]);
    plan.argv
        .extend([tools.clone().into(), link.clone().into()]);
    plan.bind_ro = vec![link.clone(), "/usr/share".into(), room.home.join("absent")];
    let mut running = start(plan).unwrap();
    assert_eq!(running.shown(), [tools.clone(), link]);
    assert_eq!(running.wait(Default::default()).end, ProgramEnd::Exited(0));
    assert_eq!(fs::read_dir(&tools).unwrap().count(), 1);
    let mut plan = room.plan(&["true"]);
    plan.bind_ro = vec![tools.join("absent")];
    let error = start(plan).unwrap_err();
    assert_eq!(error.step, Step::Source);
    assert!(error.to_string().contains("tools/absent"), "{error}");
}

#[test]
fn a_program_is_shown_with_the_tree_that_it_is_installed_in() {
    let room = Room::new();
    let top = fs::canonicalize(room.outside()).unwrap();
    let tree = top.join(".versions/1.2");
    fs::create_dir_all(tree.join("bin")).unwrap();
    fs::create_dir_all(tree.join("lib")).unwrap();
    fs::write(tree.join("lib/data"), "data").unwrap();
    crate::common::copy_program("/bin/cat", tree.join("bin/tool-1"));
    let shims = top.join("shims");
    fs::create_dir(&shims).unwrap();
    std::os::unix::fs::symlink(tree.join("bin/tool-1"), shims.join("tool")).unwrap();
    let data = tree.join("lib/data");
    let mut plan = room.plan(&["tool".as_ref(), data.as_os_str()]);
    plan.env[0].1 = format!("{}:/usr/bin", shims.display()).into();
    let outcome = room.run(plan);
    assert_eq!(outcome.good(), "data");
    // Without the link nothing of it is there.
    let outcome = room.run(room.plan(&["cat".as_ref(), data.as_os_str()]));
    assert_eq!(outcome.ended.end, ProgramEnd::Exited(1));
}

#[test]
fn a_link_that_an_occupant_has_put_where_the_home_goes_leads_nowhere() {
    let room = Room::new();
    // The home lies below /tmp, which is the occupant's to fill: its place there may be a link or a file by now.
    let Ok(below) = room.home.strip_prefix("/tmp") else {
        crate::need::skip!("chance", "the temporary directory does not lie in /tmp");
    };
    let first = room.scratch().join(below.iter().next().unwrap());
    let script = "echo x >in_home; ls -A \"$PWD\"";
    std::os::unix::fs::symlink("/etc", &first).unwrap();
    assert_eq!(room.sh(script), "in_home\n");
    std::fs::remove_dir(&first).unwrap();
    std::fs::write(&first, "").unwrap();
    assert_eq!(room.sh(script), "in_home\n");
}

/// What /proc has beside processes and what programs need is the machine's affair.
#[test]
fn proc_shows_nothing_of_the_machine() {
    let room = Room::new();
    let script = "cd /proc; for f in cpuinfo meminfo stat uptime loadavg filesystems self/status sys/kernel/ostype; do [ -s $f ] || [ -n \"$(cat $f)\" ] || echo $f is empty; done
        for f in *; do case $f in [0-9]*|cgroups|cpuinfo|devices|filesystems|loadavg|meminfo|misc|mounts|net|self|stat|swaps|sys|sysvipc|thread-self|tty|uptime|version|version_signature|vmstat) continue;; esac
          if [ -d $f ]; then [ -z \"$(ls -A $f)\" ] || echo $f; else [ -z \"$(head -c 1 $f 2>/dev/null)\" ] || echo $f; fi; done
        [ -e config.gz ] || [ -e diskstats ] || echo no diskstats";
    assert_eq!(room.sh(script), "");
}

/// All sandboxes of a session have one scratch directory, and each has its home mounted below it.
#[test]
fn home_below_tmp_stays_where_it_is() {
    let room = Room::new();
    let Ok(below) = room.home.strip_prefix("/tmp") else {
        crate::need::skip!("chance", "the temporary directory does not lie in /tmp");
    };
    let first = below.iter().next().unwrap().to_str().unwrap();
    let script = format!(
        "cd /tmp; mv {first} away 2>/dev/null && echo moved; rmdir -p {} 2>/dev/null && echo removed; touch {first}/beside 2>/dev/null && echo beside; cd \"$OLDPWD\" && echo x >in_home && ls",
        below.display()
    );
    assert_eq!(room.sh(&script), "in_home\n");
    assert_eq!(room.sh(&script), "in_home\n");
}

#[test]
fn home_below_var_tmp_is_where_it_is() {
    let dir = tempfile::TempDir::with_prefix_in("trumanfs-var-", "/var/tmp").unwrap();
    let room = Room::new();
    let mut plan = room.plan(&["sh", "-c", "pwd; echo x >in_home; ls; ls /var/tmp"]);
    let home = dir.path().join("home");
    plan.home_path.clone_from(&home);
    plan.cwd.clone_from(&home);
    let first = dir.path().file_name().unwrap().to_str().unwrap();
    assert_eq!(
        room.run(plan).good(),
        format!("{}\nin_home\n{first}\n", home.display())
    );
    // Elsewhere it is /tmp.
    assert_eq!(room.sh("echo x >/var/tmp/kept; cat /tmp/kept"), "x\n");
}
