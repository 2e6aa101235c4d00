//! An ordinary user's sandboxes: the tests of this binary once more.

use crate::common::{need_root, need_tools, ordinary_user};

#[test]
fn the_same_for_an_ordinary_user() {
    need_root!("to become an ordinary user");
    need_tools!("setpriv", "unshare");
    match ordinary_user::run_again(8) {
        Ok(said) => println!("{said}"),
        Err(problem) => panic!("{problem}"),
    }
}
