//! Negotiation of the FUSE features: what the kernel offers, and what this mount uses.

use fuser::{InitFlags, KernelConfig};

use super::{FileSystem, MountMechanisms};

impl FileSystem {
    /// Agrees with the kernel on the mechanisms of this mount. Each saves several requests; see
    /// docs/decisions/0001-requests-before-handlers.md. Never FUSE_OVER_IO_URING: with fuser 0.18 the mount hangs.
    pub(super) fn negotiate(&self, config: &mut KernelConfig) {
        let offered = config.capabilities();
        let mut wanted = InitFlags::FUSE_HANDLE_KILLPRIV_V2
            | InitFlags::FUSE_DO_READDIRPLUS
            | InitFlags::FUSE_READDIRPLUS_AUTO
            | InitFlags::FUSE_PARALLEL_DIROPS
            | InitFlags::FUSE_NO_OPENDIR_SUPPORT
            | InitFlags::FUSE_NO_EXPORT_SUPPORT
            | InitFlags::FUSE_ASYNC_DIO;
        let passthrough =
            self.shared.options.passthrough && offered.contains(InitFlags::FUSE_PASSTHROUGH);
        if passthrough {
            wanted |= InitFlags::FUSE_PASSTHROUGH | InitFlags::FUSE_ATOMIC_O_TRUNC;
            // 1: the store may be on an ordinary file system, and an overlay may be mounted over the home.
            let _ = config.set_max_stack_depth(1);
        } else {
            // Never FUSE_ATOMIC_O_TRUNC here: after an open that empties, the kernel releases the inode, takes it
            // again and once more sets the size to zero by itself (fuse_do_setattr, ATTR_OPEN). Data that others wrote
            // in between is in the store, but the kernel trusts its own size. Without the flag, emptying is a request
            // of its own, under the inode's lock.
            wanted |= InitFlags::FUSE_AUTO_INVAL_DATA | InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP;
        }
        if self.shared.watch.is_none() {
            // The kernel then compares mtimes itself, for listings as well (fuse_readdir_cached).
            wanted |= InitFlags::FUSE_AUTO_INVAL_DATA;
        } else if !passthrough {
            // With this the kernel trusts its own size of a file (fuse_get_cache_mask) until it is made to forget the
            // file, so it needs changes behind the mount to be noticed.
            wanted |= InitFlags::FUSE_WRITEBACK_CACHE;
        }
        let agreed = wanted & offered;
        let _ = config.add_capabilities(agreed);
        let _ = config.set_max_write(1 << 20);
        let _ = config.set_max_background(64);
        let mut mechanisms = self.shared.mechanisms.lock();
        *mechanisms = MountMechanisms {
            passthrough,
            writeback: agreed.contains(InitFlags::FUSE_WRITEBACK_CACHE),
            readdirplus: agreed.contains(InitFlags::FUSE_DO_READDIRPLUS),
            killpriv_v2: agreed.contains(InitFlags::FUSE_HANDLE_KILLPRIV_V2),
            atomic_o_trunc: agreed.contains(InitFlags::FUSE_ATOMIC_O_TRUNC),
            follow: mechanisms.follow,
        };
    }
}
