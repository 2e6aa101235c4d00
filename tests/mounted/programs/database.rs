//! SQLite: journal and WAL modes, a writer and concurrent readers, a writer that is killed; through Python's module
//! and the command-line tool.

use crate::common::{need_mount, need_tools};
use crate::programs::script::{NO_PASSTHROUGH, PLAIN, mount, python, same};

fn concurrent(options: &[&str]) {
    need_mount!();
    need_tools!("python3");
    let home = mount(options);
    for mode in ["delete", "truncate", "persist", "wal", "wal-mmap"] {
        let said = python(&home, "sqlite.py", &[mode]);
        assert!(said.contains("integrity ok"), "{mode}: {said}");
    }
}

#[test]
fn readers_see_whole_transactions() {
    concurrent(PLAIN);
}

#[test]
fn readers_see_whole_transactions_without_passthrough() {
    concurrent(NO_PASSTHROUGH);
}

#[test]
fn the_tool_says_what_it_says_natively() {
    need_mount!();
    need_tools!("sqlite3");
    for options in [PLAIN, NO_PASSTHROUGH] {
        same(
            &mount(options),
            r#"
            for mode in delete truncate persist wal; do
                sqlite3 $mode.db "pragma journal_mode=$mode; create table t(a integer primary key, b text);
                    with recursive n(i) as (values(1) union all select i+1 from n where i<5000)
                    insert into t select i, hex(i*i) from n; create index tb on t(b);"
                sqlite3 $mode.db 'begin; delete from t where a%3=0; rollback; delete from t where a%5=0; vacuum;
                    pragma integrity_check; select count(*), sum(a), max(b) from t'
                sqlite3 $mode.db ".backup copy-$mode.db"; sqlite3 copy-$mode.db 'pragma integrity_check; select count(*) from t'
                sqlite3 $mode.db .dump | cksum; rm $mode.db; ls $mode.db* 2>/dev/null || true
            done
            "#,
        );
    }
}
