//! Several processes sharing a file: locks, shared mappings, notifications, sockets and FIFOs.

use crate::common::{need_mount, need_tools};
use crate::programs::script::{NO_PASSTHROUGH, PLAIN, in_home, mount, python};

#[test]
fn flock_keeps_the_second_process_waiting() {
    need_mount!();
    need_tools!("flock");
    let home = mount(PLAIN);
    let said = in_home(
        &home,
        r#"
        echo 0 >count; touch lock; mkfifo ready
        # The second waits for the lock, without the lock being asked for from the daemon (which would deadlock).
        (flock 9; echo taken >ready; sleep 0.3; echo first >>order) 9>lock &
        cat ready
        flock -n lock true && echo 'had it too' || echo busy
        flock lock sh -c 'echo second >>order'
        wait; cat order
        # Twelve processes and no lost update.
        for _ in $(seq 12); do
            (for _ in $(seq 20); do flock lock sh -c 'n=$(cat count); echo $((n + 1)) >count'; done) &
        done
        wait; cat count
        (flock -s 8; flock -s -n lock true && echo shared; flock -n lock true || echo 'not exclusive') 8>lock
        "#,
    );
    assert_eq!(
        said,
        "taken\nbusy\nfirst\nsecond\n240\nshared\nnot exclusive\n"
    );
}

#[test]
fn record_locks_hold_between_processes() {
    need_mount!();
    need_tools!("python3");
    for options in [PLAIN, NO_PASSTHROUGH] {
        assert_eq!(python(&mount(options), "sharing.py", &["locks"]), "ok\n");
    }
}

#[test]
fn two_processes_share_a_mapping() {
    need_mount!();
    need_tools!("python3");
    for options in [PLAIN, NO_PASSTHROUGH] {
        assert_eq!(python(&mount(options), "sharing.py", &["mmap"]), "ok\n");
    }
}

#[test]
fn inotify_tells_of_what_happens_in_the_home() {
    need_mount!();
    need_tools!("python3");
    assert_eq!(python(&mount(PLAIN), "sharing.py", &["inotify"]), "ok\n");
}

#[test]
fn sockets_and_fifos_connect_processes() {
    need_mount!();
    need_tools!("python3");
    let home = mount(PLAIN);
    assert_eq!(python(&home, "sharing.py", &["sockets"]), "ok\n");
    let said = in_home(
        &home,
        "mkfifo p q; (tr a-z A-Z <p >q &); (printf 'through two\n' >p &); cat q; stat -c %F p; rm p q; ls .trash | grep -c '_[pq]$'",
    );
    assert_eq!(said, "THROUGH TWO\nfifo\n2\n");
}
