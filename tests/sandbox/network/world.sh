# Makes a world in a network namespace of its own, and runs tests in it: bash world.sh DIR PROGRAM ARGUMENT...
# Everything is on `lo`, so nothing can leave; that is checked before the first connection.
set -euo pipefail
base=$1
here=$(dirname "$0")
cd "$base"
# The homes of other tests came along, and would not end as long as this lasts.
{ grep -F ' - fuse.trumanfs ' /proc/self/mountinfo || true; } | cut -d' ' -f5 | while read -r at; do umount --lazy "$at" 2>/dev/null || ! mountpoint -q "$at"; done

ip link set lo up
# A host that is allowed, one that is not, two of SSH, the resolver, and a private one.
for address in 93.184.216.34 93.184.216.35 93.184.216.36 93.184.216.37 93.184.216.53 10.1.2.3; do ip address add $address/32 dev lo; done
[ "$(ip -o link | wc -l)" = 1 ] || { echo "there is more than lo"; exit 1; }
if ip route get 1.1.1.1 2>/dev/null || ip -6 route get 2606:4700::1111 2>/dev/null; then echo "there is a way out"; exit 1; fi

echo 'nameserver 93.184.216.53' >resolv.conf
printf 'passwd: files\ngroup: files\nhosts: files dns\n' >nsswitch.conf
mount --bind resolv.conf "$(readlink -f /etc/resolv.conf)"
mount --bind nsswitch.conf /etc/nsswitch.conf

{
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout ca.key -out ca.pem -subj /CN=test -days 2
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -out request -subj /CN=good.test
    echo 'subjectAltName=DNS:good.test,DNS:*.good.test,DNS:evil.test,DNS:generativelanguage.googleapis.com,IP:93.184.216.34' >names
    openssl x509 -req -in request -CA ca.pem -CAkey ca.key -CAcreateserial -out cert.pem -days 2 -extfile names
} 2>openssl.log || { cat openssl.log; exit 1; }

mkdir www
git -c init.defaultBranch=main init -q work
echo hello >work/file
git -C work add file
git -C work -c user.name=a -c user.email=a@b commit -q -m one
git clone -q --bare work www/repo.git
git -C www/repo.git update-server-info

servers=()
made=
end() {
    kill "${servers[@]}" || true
    wait || true
    [ -z "$made" ] || rmdir "$made" || true
}
trap end EXIT

# Real servers of SSH, where there are some, with keys of their own. They give no terminal, and forward nothing.
if [ -x /usr/sbin/sshd ]; then
    mkdir ssh
    ssh-keygen -q -t ed25519 -N '' -f ssh/host
    ssh-keygen -q -t ecdsa -N '' -f ssh/host-ecdsa
    ssh-keygen -q -t rsa -b 2048 -N '' -f ssh/host-rsa
    ssh-keygen -q -t ed25519 -N '' -f ssh/other
    ssh-keygen -q -t ed25519 -N '' -f ssh/client
    for key in ssh/host*.pub; do echo "ssh.test $(cut -d' ' -f1,2 "$key")"; done >ssh/known
    echo "other.test $(cut -d' ' -f1,2 ssh/other.pub)" >ssh/known-other
    cp ssh/client.pub ssh/authorized
    [ -d /run/sshd ] || { mkdir -m 755 /run/sshd && made=/run/sshd; }
    serve_ssh() {
        local address=$1 log=$2
        shift 2
        /usr/sbin/sshd -D -e -f /dev/null "$@" -o ListenAddress="$address" -o PidFile=none -o UsePAM=no \
            -o AuthenticationMethods=publickey -o AuthorizedKeysFile="$base/ssh/authorized" -o StrictModes=no \
            -o PermitRootLogin=prohibit-password -o PermitTTY=no -o DisableForwarding=yes 2>"$log" &
        servers+=($!)
    }
    serve_ssh 93.184.216.36 ssh/log -h "$base/ssh/host" -h "$base/ssh/host-ecdsa" -h "$base/ssh/host-rsa"
    serve_ssh 93.184.216.37 ssh/log-other -h "$base/ssh/other"
fi

/usr/bin/python3 "$here/servers.py" &
servers+=($!)
for _ in $(seq 300); do [ -e ready ] && break; sleep 0.1; done
[ -e ready ] || { echo "the servers did not begin"; exit 1; }
program=$2
shift 2
WORLD=$base "$program" "$@"
