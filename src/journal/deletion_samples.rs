//! Samples of records of what is deleted for good, for the tests of the form.

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

use super::form_tests::{name, path};
use super::*;

fn cut() -> impl Strategy<Value = Box<HistoryCut>> + Clone {
    let session = any::<(String, u64, String)>();
    let session = session.prop_map(|(id, records, last)| CutSession { id, records, last });
    let cut = (any::<(String, u64)>(), vec(session, 0..3));
    cut.prop_map(|(before, sessions)| Box::new(HistoryCut { before, sessions }))
}

pub(super) fn purge_op() -> impl Strategy<Value = Op> {
    let fields = (vec(name(), 0..3), volatile(), of(cut()));
    fields.prop_map(|(entries, volatile, expired)| Op::Purge {
        entries,
        volatile,
        expired,
    })
}

pub(super) fn volatile() -> impl Strategy<Value = Vec<VolatileLoss>> + Clone {
    let loss = (path(), any::<u64>(), any::<u64>());
    let loss = loss.prop_map(|(dir, files, bytes)| VolatileLoss { dir, files, bytes });
    vec(loss, 0..3)
}
