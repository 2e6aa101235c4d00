//! The everyday tools. Each script also runs in an ordinary directory, where its output must be the same.

use crate::common::{need_mount, need_root, need_tools};
use crate::programs::script::{NO_PASSTHROUGH, PLAIN, in_home, mount, same};

/// Files of many sizes and modes, as a start.
const TREE: &str = r"
    mkdir -p tree/a/b/c tree/empty
    for n in 0 1 511 4096 4097 100000; do head -c $n /dev/zero | tr '\0' x >tree/a/f$n; done
    printf 'one\ntwo\nthree\n' >tree/a/b/lines
    printf 'odd' >'tree/a/b/name with  spaces'
    printf 'odd' >$'tree/a/b/new\nline'
    printf 'deep' >tree/a/b/c/file
    chmod 600 tree/a/f1; chmod 755 tree/a/f511; chmod 750 tree/a/b
    touch -d '2001-02-03 04:05:06.789012345 UTC' tree/a/f4096 tree/a/b/c
    list() { (cd $1; find . -mindepth 1 -printf '%P %y %m %s %T@ %n %U %G\n' | sed -E 's/^(.*) d ([0-9]+) [0-9]+ /\1 d \2 - /' | LC_ALL=C sort); }
";

fn coreutils(options: &[&str]) {
    let home = mount(options);
    for script in [
        // Copies of every kind.
        r"
        cp -a tree copy; diff -r tree copy; list tree >l1; list copy >l2; diff l1 l2
        cp -r tree plain; diff -r tree plain
        cp -al tree linked; stat -c '%h' linked/a/f1; diff -r tree linked
        cp --reflink=auto tree/a/f100000 r; cmp r tree/a/f100000
        truncate -s 10M sparse; printf x | dd of=sparse bs=1 seek=5000000 conv=notrunc status=none
        cp --sparse=always sparse sparse2; cmp sparse sparse2; stat -c %s sparse2
        [ $(stat -c %b sparse2) -lt 100 ] && echo sparse
        cp -p tree/a/f4096 kept; stat -c '%y %a' kept
        cp -u tree/a/f1 kept; cat kept
        cp -n tree/a/f511 kept; stat -c %s kept
        cp --backup=numbered tree/a/f511 kept; ls kept*
        cp -rT tree copy2; cp -r --parents tree/a/b/c copy2; ls -R copy2 | wc -l
        ",
        // Moving: within, onto, across file systems and back.
        r"
        cp -a tree t; mv t moved; ls; mv moved/a/f1 moved/a/f511; cat moved/a/f511
        mv -n tree/a/f0 tree/a/f4096; stat -c %s tree/a/f4096
        mv -b moved/a/f0 moved/a/f511; ls moved/a
        mv moved/a moved/empty; ls moved/empty
        list moved >l1; mv moved $BASE/out; list $BASE/out >l2; diff l1 l2
        mv $BASE/out back; list back >l3; diff l1 l3; rm -r back
        mkdir d1 d2; touch d1/x; mv -T d1 d2; ls d2
        mkdir d3; mv -T d3 d2 2>&1 || true
        mv tree tree/a/b 2>&1 || true
        mv -T d3 tree/a/f1 2>&1 || true
        ",
        // Looking.
        r"
        ls -lRn --time-style=+ tree | sed -E 's/^total.*//; s/^(d[^ ]+ [0-9]+ [0-9]+ [0-9]+) [0-9]+/\1 -/'
        ls -a tree/a/b; ls -f tree/empty | sort; ls -d .?* 2>&1 || true
        list tree | sed -E 's/ [0-9]{10}\.[0-9]+ / - /'; find tree -name 'f*' -size +4k | sort; find tree -newermt 2002-01-01 -type f | wc -l
        find tree -inum $(stat -c %i tree/a/f1); find tree -samefile tree/a/f1
        stat -c '%n %s %a %h %F %u %g %o' tree/a/f*; stat -c '%F %a' tree/a/b
        test -w tree/a/f1 && test ! -x tree/a/f1 && test -d tree && test -s tree/a/f1 && test ! -s tree/a/f0 && echo tests
        du -sb tree/a/f100000; du -s --apparent-size tree/a/b/c/file; wc -c tree/a/f*
        grep -rc two tree | sort; realpath --relative-to=. tree/a/../a/f1
        cksum tree/a/f*; md5sum tree/a/f* >sums; md5sum -c --quiet sums && echo sums
        file=tree/a/b/lines; head -1 $file; tail -n1 $file; tac $file; sort $file; nl $file; od -c $file | sed -n 1p
        cat tree/missing tree/a/b 2>&1 || true
        ",
        // Changing in place.
        r"
        f=tree/a/b/lines
        sort -o $f $f; cat $f; sed -i 's/two/2/' $f; cat $f; sed -i.bak '1d' $f; ls tree/a/b; cat $f
        perl -i -pe 's/e/E/' $f; cat $f
        printf 'a\nb\n' | tee -a $f | wc -l; cat $f; printf 'short' >$f; cat $f
        dd if=/dev/zero of=tree/a/f4096 bs=512 count=1 seek=2 conv=notrunc status=none; cksum tree/a/f4096
        dd if=tree/a/f100000 of=dd bs=4k oflag=append conv=notrunc status=none; cmp dd tree/a/f100000
        truncate -s 5 tree/a/f511; truncate -s +5 tree/a/f511; od -c tree/a/f511
        touch -d '1999-12-31 23:59:59.5 UTC' $f; stat -c %y $f; touch -r tree/a/b/c -m $f; stat -c %y $f
        touch -a -d '1970-01-02 UTC' $f; stat -c %x $f
        touch -d '2100-01-01 UTC' far; stat -c %Y far
        chmod -R g+w,o-rwx tree; list tree | cut -d' ' -f1-3 | sort
        chmod 4755 tree/a/f1; stat -c %a tree/a/f1; printf x >>tree/a/f1; stat -c %a tree/a/f1
        chmod +t,g+s tree/empty; mkdir tree/empty/sub; stat -c %a tree/empty tree/empty/sub
        chown 12345:54321 tree/a/f0; stat -c '%u %g' tree/a/f0; chgrp -R 7 tree/a/b; stat -c %g tree/a/b/c/file
        split -b 30000 tree/a/f100000 part.; ls part.*; cat part.* | cmp - tree/a/f100000
        shred -n 1 tree/a/f4097; stat -c %s tree/a/f4097
        exec 5<>tree/a/f511; printf ABC >&5; exec 5>&-; od -c tree/a/f511
        fallocate -l 20000 fa; stat -c %s fa; fallocate -p -o 4096 -l 4096 fa; fallocate -d fa; cksum fa
        ",
        // Removing.
        r"
        find tree -name 'f*' -delete; list tree | cut -d' ' -f1-2
        rmdir tree/empty; rmdir tree/a 2>&1 || true; rmdir -p tree/x 2>&1 || true
        unlink tree/a/b/lines; rm tree/a/b/lines 2>&1 || true; rm -f tree/a/b/lines
        rm tree/a 2>&1 || true; rm -r tree/a/b/c; rm -rf tree; ls -A
        mkdir -p x/y/z; rmdir -p x/y/z; ls -A | grep -c x || true
        mktemp -d ./t.XXXXXX | wc -c; touch u; shred -u u; ls -A | grep -cx u || true
        set -o noclobber; echo 1 >once; { echo 2 >once; } 2>/dev/null || echo kept; cat once
        ",
        // Making: links, directories, special files, and what the home refuses in the same words as any other place.
        r"
        install -D -m 640 tree/a/f1 deep/down/here; stat -c '%a %s' deep/down/here; install -d -m 700 dir; stat -c %a dir
        ln tree/a/f1 hard; stat -c %h hard tree/a/f1; echo more >>hard; cat tree/a/f1; rm hard; stat -c %h tree/a/f1
        ln tree/a/f1 tree/a/f0 2>&1 || true; ln tree tree2 2>&1 || true
        mkfifo fifo; stat -c %F fifo; (echo through >fifo &) ; cat fifo
        mkdir tree 2>&1 || true; mkdir no/such 2>&1 || true; (umask 077; mkdir shy; touch shy/x; stat -c %a shy shy/x)
        n=$(printf 'n%.0s' {1..255}); touch $n; ls | wc -L; touch n$n 2>&1 | tail -c 20 || true
        cd tree/a; pwd -P | sed 's/.*work/work/'; cd ..; rmdir empty; ls
        ",
    ] {
        let output = same(
            &home,
            &format!("{TREE}{script}\ncd \"${{TMPDIR%/tmp}}\"; rm -rf ./* .[!.]*"),
        );
        assert!(!output.is_empty());
    }
}

#[test]
fn the_tools_say_what_they_say_natively() {
    need_mount!();
    need_root!("to give files away");
    coreutils(PLAIN);
}

#[test]
fn the_tools_say_what_they_say_natively_without_passthrough() {
    need_mount!();
    need_root!("to give files away");
    coreutils(NO_PASSTHROUGH);
}

#[test]
fn tail_follows_what_is_written_and_what_is_rotated() {
    need_mount!();
    let home = mount(PLAIN);
    let said = in_home(
        &home,
        r#"
        echo start >log
        tail -s 0.1 -n +1 -F log >seen 2>/dev/null & follower=$!
        trap 'kill $follower' EXIT
        saw() { for _ in $(seq 200); do grep -q "$1" seen && return; sleep 0.05; done; echo "never saw $1"; exit 1; }
        saw start
        echo appended >>log; saw appended
        mv log log.1; echo rotated >log; saw rotated
        echo again >>log; saw again
        : >log; echo truncated >>log; saw truncated
        cat seen
        "#,
    );
    assert_eq!(said, "start\nappended\nrotated\nagain\ntruncated\n");
}

/// A real tree: this project's own, and the kernel's headers.
const REAL: &str = r#"
    mkdir -p "$BASE/real"
    for from in "$SCRIPTS/../../src" "$SCRIPTS" /usr/include/linux; do
        [ -d "$from" ] || continue
        # Links are no part of a home.
        (cd "$from"; find . \( -type f -o -type d \) -print0 |
            tar --null --no-recursion -T - -c) | tar x -C "$BASE/real"
    done
    files=$(find "$BASE/real" -type f | wc -l)
    [ "$files" -gt 50 ]
    list() { (cd "$1"; find . -mindepth 1 -printf '%P %y %m %T@ %U %G\n' | LC_ALL=C sort); }
    list "$BASE/real" >"$BASE/real.list"
"#;

#[test]
fn a_real_tree_goes_through_tar_and_comes_back() {
    need_mount!();
    let home = mount(PLAIN);
    in_home(
        &home,
        &format!(
            r#"{REAL}
            tar c -C "$BASE" real | tar xp
            diff -r real "$BASE/real"; list real | diff - "$BASE/real.list"
            tar czf archive.tar.gz real; tar tzf archive.tar.gz | wc -l
            tar xzpf archive.tar.gz -C tmp; diff -r tmp/real "$BASE/real"
            tar xzpf archive.tar.gz --overwrite; diff -r real "$BASE/real"
            tar xzpf archive.tar.gz --recursive-unlink; diff -r real "$BASE/real"
            tar df archive.tar.gz
            "#
        ),
    );
}

#[test]
fn zip_and_cpio_round_trip() {
    need_mount!();
    need_tools!("zip", "unzip");
    let home = mount(PLAIN);
    in_home(
        &home,
        &format!(
            r#"{REAL}
            (cd "$BASE"; zip -qr - real) >real.zip
            unzip -q real.zip; diff -r real "$BASE/real"
            if command -v cpio >/dev/null; then
                (cd real; find . -depth -print0 | cpio -0 --quiet -pdm ../passed); diff -r passed "$BASE/real"
            fi
            "#
        ),
    );
}

#[test]
fn rsync_copies_updates_and_deletes() {
    need_mount!();
    need_tools!("rsync");
    let home = mount(PLAIN);
    in_home(
        &home,
        &format!(
            r#"{REAL}
            rsync -aH "$BASE/real/" copy/; diff -r copy "$BASE/real"; list copy | diff - "$BASE/real.list"
            first=$(find copy -type f | sort | sed -n 1p)
            echo changed >>"$first"; touch copy/extra
            rsync -aH --delete --checksum "$BASE/real/" copy/; diff -r copy "$BASE/real"
            echo changed >>"$first"; rsync -a --inplace --no-whole-file "$BASE/real/" copy/; diff -r copy "$BASE/real"
            rsync -a --delete copy/ "$BASE/back/"; diff -r "$BASE/back" "$BASE/real"
            [ -z "$(rsync -ain --delete --checksum "$BASE/real/" copy/ | grep -v '^\.d')" ]
            "#
        ),
    );
}
