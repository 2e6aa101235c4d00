//! Set-user-id and set-group-id: what works for an agent gives no file these bits, by whatever door. What had them before keeps
//! them, and the operator's verbs bring them back.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::{LIMIT, Place, Store, err, good};
use crate::common::{binary, need_mount, need_tools, run_limited, trumanfs};

/// Tries all that could give a file the bits, and says what was not as it should be.
const ATTACK: &str = r#"
set +e
refused() { if "$@" 2>err; then echo "$* was possible"; else grep -q 'not permitted' err || cat err; fi; }
cp /bin/true own
refused chmod u+s own
refused chmod g+s own
refused chmod 6755 own
cp /bin/true /tmp/other; chmod 4755 /tmp/other; mv /tmp/other moved 2>err; grep -q moved err || echo "mv did not name it"
cp -p had copied 2>err; cmp had copied; grep -q copied err || echo "cp did not name it"
install -m 755 /bin/true installed; install -d -m 2755 dir; [ -g dir ] || echo "a directory has no set-group-id"
refused install -m 4755 /bin/true refused
mkdir x; tar -cf - had other | tar -C x -xpf - 2>err; cmp had x/had; cmp other x/other
ln had link; chmod 4711 link || echo "a bit that is there cannot stay"
python3 - <<'P'
import ctypes, mmap, os, struct
os.close(os.open("created", os.O_CREAT | os.O_WRONLY, 0o6777))
os.mknod("node", 0o106777)
def refused(what, call):
    try: call()
    except OSError: return
    print(what, "was possible")
own = os.open("own", os.O_RDWR)
refused("fchmod", lambda: os.fchmod(own, 0o2755))
capability = struct.pack("<5I", 0x02000001, 1 << 7, 0, 0, 0)
refused("a capability", lambda: os.setxattr("own", "security.capability", capability))
refused("an ACL", lambda: os.setxattr("own", "system.posix_acl_access", capability))
if ctypes.CDLL(None).syscall(452, -100, b"own", 0o4755, 0) == 0: print("fchmodat2 was possible")
# What is written through a map, nobody asks about.
file = os.open("written", os.O_RDWR)
mapped = mmap.mmap(file, 4096)
mapped[:4] = b"EVIL"
mapped.flush()
if os.stat("written").st_mode & 0o6000: print("a program that was written to kept its rights")
P
find . -type f -perm /6000 | sort
"#;

/// A store with files that have the bits.
fn filled(store: &Path) {
    for (name, mode) in [("had", 0o4755), ("other", 0o755), ("written", 0o6755)] {
        fs::copy("/bin/true", store.join(name)).unwrap();
        fs::set_permissions(store.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn agent(store: &Store, script: &str) -> std::process::Output {
    let mut command = Command::new(binary());
    command.arg("agent").arg("--store").arg(&store.store);
    command.args(["--", "bash", "-c", script]);
    run_limited(command, LIMIT)
}

#[test]
fn agent_gives_no_file_set_ids_and_undo_brings_them_back() {
    need_mount!();
    need_tools!("bash", "install", "tar", "python3");
    let store = Store::new();
    filled(&store.store);
    let output = agent(&store, ATTACK);
    assert_eq!(good(&output), "./had\n./link\n", "{}", err(&output));
    let said = err(&output);
    for line in ["mode 4755 → 4711", "mode 6755 → 755", "mode 4711"] {
        assert!(said.contains(line), "{line} is not in {said}");
    }
    assert_eq!(mode(&store.store.join("created")) & 0o6000, 0);
    let at = store.store.to_str().unwrap();
    let log = good(&trumanfs(&["log", at, "--run", "last", "--all"]));
    assert!(
        log.contains("create /created without set-user-id and set-group-id"),
        "{log}"
    );
    assert!(log.contains("mknod /node without"), "{log}");
    let review = trumanfs(&["review", at]);
    let review = String::from_utf8_lossy(&review.stdout);
    assert!(review.contains("/had  mode 4755 → 4711, "), "{review}");
    good(&trumanfs(&["undo", at, "--run", "last"]));
    assert_eq!(mode(&store.store.join("had")), 0o4755);
    assert_eq!(mode(&store.store.join("written")), 0o6755);
    assert_eq!(
        fs::read(store.store.join("written")).unwrap(),
        fs::read("/bin/true").unwrap()
    );
}

#[test]
fn run_gives_no_file_set_ids_and_the_mount_around_it_does() {
    need_mount!();
    need_tools!("install", "tar", "python3");
    let place = Place::mounted();
    filled(place.home());
    assert_eq!(place.sh(ATTACK), "./had\n./link\n");
    // Beside the sandbox, the home passes modes as they are.
    let own = place.home().join("own");
    fs::set_permissions(&own, fs::Permissions::from_mode(0o6755)).unwrap();
    assert_eq!(mode(&own), 0o6755);
    // A removed program comes back with the bits that it had.
    place.sh("rm had");
    assert!(!place.home().join("had").exists());
    good(&trumanfs(&[
        "undo",
        place.home().to_str().unwrap(),
        "--run",
        "last",
    ]));
    assert_eq!(mode(&place.home().join("had")), 0o4711);
}

/// A program that lets nobody look at it is one of the sandbox all the same.
#[test]
fn program_that_hides_itself_gives_no_file_set_ids() {
    need_mount!();
    need_tools!("python3");
    let place = Place::mounted();
    let script = "import ctypes, os\nctypes.CDLL(None).prctl(4, 0)\nopen('f', 'w').close()\ntry: os.chmod('f', 0o4755)\nexcept PermissionError: print('refused')\nos.close(os.open('g', os.O_CREAT, 0o4755))\nprint(oct(os.stat('g').st_mode))";
    let said = good(&place.run(&[], &["python3", "-c", script]));
    assert_eq!(said, "refused\n0o100755\n");
}

#[test]
fn bundled_copy_leaves_set_ids_out() {
    let store = Store::new();
    filled(&store.store);
    let at = store.store.to_str().unwrap();
    good(&trumanfs(&["exec", "--root", at, "--", "cp -p had copied"]));
    assert_eq!(mode(&store.store.join("copied")), 0o755);
    assert_eq!(mode(&store.store.join("had")), 0o4755);
}
