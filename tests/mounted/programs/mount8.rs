//! mount(8) and umount(8), with the helper from `mount-scripts/`, in a mount namespace of its own: nothing is installed.

use std::fs;

use crate::common::{need_mount, need_root, need_tools, skip, tool};
use crate::programs::script::{LEAVE_OTHERS, bash};

#[test]
fn mount_and_fstab_mount_a_home() {
    need_mount!();
    need_root!("to mount with mount(8)");
    need_tools!("unshare", "mount", "umount");
    let Some(sbin) = tool("mount").and(fs::canonicalize("/sbin").ok()) else {
        skip!("tools", "there is no /sbin on this machine");
    };
    let base = tempfile::TempDir::with_prefix("trumanfs-").unwrap();
    let helper = crate::common::repository().join("mount-scripts/mount.trumanfs");
    // mount(8) looks for helpers in /sbin only; so there is another /sbin, for a moment and for this process's children.
    let script = format!(
        r#"
        {LEAVE_OTHERS}
        cd "$BASE"; mkdir store home sbin bin; cp '{trumanfs}' bin/trumanfs; export PATH=$PWD/bin:/usr/bin:/bin; echo 1 >store/a; echo 2 >store/b.key
        install -m 755 '{helper}' sbin/mount.trumanfs; install -m 755 '{helper}' sbin/mount.fuse.trumanfs
        # mount(8) gives its helpers no PATH.
        mount --bind sbin '{sbin}'; mount --bind bin /usr/local/bin
        mount -t trumanfs "$PWD/store" "$PWD/home" -o 'hide=*.key'
        ls home; cat home/b.key 2>&1 | sed 's/.*: //' || true
        findmnt -no FSTYPE,SOURCE home; findmnt -no OPTIONS home | grep -o 'nosuid,nodev'
        trumanfs status home --json | grep -o '"home":"[^"]*"' | sed "s|$PWD||"
        umount home; ls home | wc -l
        mount -t fuse.trumanfs "$PWD/store" "$PWD/home" -o ro,noexec,nofail,x-systemd.automount,relatime
        touch home/x 2>&1 | sed 's/.*: //' || true; cp /bin/true home/true 2>/dev/null || echo read-only
        findmnt -no OPTIONS home | tr , '\n' | grep -cxE 'ro|noexec|relatime'
        trumanfs umount home
        mount -t trumanfs "$PWD/store" "$PWD/home" -o nonsense 2>&1 | grep -o 'nonsense: unknown option' || true
        # mount(8) takes these for the default, and a home is safe against them all the same.
        mount -t trumanfs "$PWD/store" "$PWD/home" -o suid,dev; findmnt -no OPTIONS home | grep -o 'nosuid,nodev'; umount home
        mount -t trumanfs "$PWD/store" "$PWD/home" -o hide 2>&1 | grep -o 'needs a value' || true
        findmnt home && exit 1 || echo nothing mounted
        # With a blank in the path, as fstab writes it.
        mkdir 'st ore' 'ho me'; echo 3 >'st ore/c'
        printf '%s\n' "$PWD/st\040ore $PWD/ho\040me trumanfs noauto,symlinks=inside,cache_ttl=1 0 0" >fstab
        mount -T fstab "$PWD/ho me"; ls 'ho me'; ln -s c 'ho me/link'; cat 'ho me/link'; umount 'ho me'
        mount -f -t trumanfs "$PWD/store" "$PWD/home"; findmnt home || echo only pretended
        "#,
        trumanfs = crate::common::binary(),
        helper = helper.display(),
        sbin = sbin.display(),
    );
    fs::write(base.path().join("script"), script).unwrap();
    let said = bash(
        base.path(),
        base.path(),
        "unshare --mount --propagation private bash -Eeuo pipefail script",
    );
    let expected = "a\nNo such file or directory\nfuse.trumanfs trumanfs\nnosuid,nodev\n\"home\":\"/home\"\n0\n\
        Read-only file system\nread-only\n3\nnonsense: unknown option\nnosuid,nodev\nneeds a value\nnothing mounted\n\
        c\n3\nonly pretended\n";
    assert_eq!(said, expected);
}
