# Runs tests of this binary over a backend, in a mount namespace with devices of its own (a program that could change the
# mode of a device would change no machine's) and a temporary directory that does not lie below /tmp.
# $1: the tests, $2: trumanfs, $3: the repository, $4: the user, $5: the backend; the rest are arguments of the tests.
tests=$1 trumanfs=$2 repository=$3 user=$4 backend=$5
shift 5
# The homes of other tests came along, and would not end as long as this lasts.
{ grep -F ' - fuse.trumanfs ' /proc/self/mountinfo || true; } | cut -d' ' -f5 | while read -r at; do umount --lazy "$at" 2>/dev/null || ! mountpoint -q "$at"; done
mount -t tmpfs -o mode=755 none /mnt
mkdir /mnt/dev /mnt/dev/pts /mnt/dev/shm /mnt/bin
mkdir -p /mnt/repository/tests
mkdir -m 1777 /mnt/tmp
cp "$tests" /mnt/bin/tests
cp "$trumanfs" /mnt/bin/trumanfs
cp -r "$repository/tests/sandbox" /mnt/repository/tests/
while read -r name major minor; do
    mknod -m 666 "/mnt/dev/$name" c "$major" "$minor"
done <<END
null 1 3
zero 1 5
full 1 7
random 1 8
urandom 1 9
tty 5 0
ptmx 5 2
fuse 10 229
END
chmod 1777 /mnt/dev/shm
ln -s /proc/self/fd /mnt/dev/fd
mount --bind /mnt/dev /dev
export TMPDIR=/mnt/tmp HOME=/mnt/tmp TRUMANFS_BINARY=/mnt/bin/trumanfs TRUMANFS_REPOSITORY=/mnt/repository
export TRUMANFS_TEST_SANDBOX="$backend"
unset XDG_RUNTIME_DIR REQUIRE
if [ "$user" = 0 ]; then
    exec /mnt/bin/tests "$@"
fi
exec setpriv --reuid="$user" --regid="$user" --clear-groups /mnt/bin/tests "$@"
