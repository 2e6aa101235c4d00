//! The names of owners and groups. Each is looked up once per call: the machine's user database may be slow.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use trumanfs_sys::users;

type NameCache = RefCell<HashMap<u32, Option<Rc<[u8]>>>>;

/// Names by number.
#[derive(Debug, Default)]
pub(in super::super) struct OwnerNames {
    users: NameCache,
    groups: NameCache,
}

impl OwnerNames {
    /// Returns the name of a user, if there is one.
    pub(in super::super) fn user(&self, uid: u32) -> Option<Rc<[u8]>> {
        cached_name(&self.users, uid, users::name)
    }

    /// Returns the name of a group, if there is one.
    pub(in super::super) fn group(&self, gid: u32) -> Option<Rc<[u8]>> {
        cached_name(&self.groups, gid, users::group)
    }
}

fn cached_name(
    names: &NameCache,
    number: u32,
    find: fn(u32) -> Option<Vec<u8>>,
) -> Option<Rc<[u8]>> {
    let mut names = names.borrow_mut();
    let name = names
        .entry(number)
        .or_insert_with(|| find(number).map(Rc::from));
    name.clone()
}
