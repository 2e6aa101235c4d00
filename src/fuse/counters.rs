//! Counters of requests by kind, which explain a benchmark.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($name:ident)*) => {
        /// A counter for each kind of request.
        #[derive(Debug, Default)]
        pub struct RequestCounters { $(#[doc = stringify!($name)] pub $name: AtomicU64,)* }

        impl RequestCounters {
            /// Returns the counts that are not zero, by name.
            pub fn all(&self) -> BTreeMap<&'static str, u64> {
                let all = [$((stringify!($name), self.$name.load(Ordering::Relaxed)),)*];
                all.into_iter().filter(|(_, count)| *count > 0).collect()
            }
        }
    };
}

counters! {
    lookup forget getattr setattr readlink mknod mkdir unlink rmdir symlink rename link open read write flush release fsync
    readdir readdirplus fsyncdir statfs setxattr getxattr listxattr removexattr access create fallocate lseek
    copy_file_range other
}

/// Counts one request.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// The name of a kind of request, and its counter.
pub(super) type NamedCounter = (&'static str, fn(&RequestCounters) -> &AtomicU64);

/// Makes a [`NamedCounter`] from a counter's name.
macro_rules! counted {
    ($name:ident) => {
        (stringify!($name), |counters| &counters.$name)
    };
}
pub(super) use counted;
