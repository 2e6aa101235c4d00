//! An ordinary user's homes, mounted with fusermount3 and without passthrough: the tests of this binary once more.

use crate::common::{need_mount, need_root, need_tools, ordinary_user};

#[test]
fn the_same_for_an_ordinary_user() {
    need_mount!();
    need_root!("to become an ordinary user");
    need_tools!("setpriv", "unshare", "fusermount3");
    match ordinary_user::run_again(100) {
        Ok(said) => println!("{said}"),
        Err(problem) => panic!("{problem}"),
    }
}
