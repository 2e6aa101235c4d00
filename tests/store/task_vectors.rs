//! The test vectors of `docs/TASKS.md`: made anew by the library letter by letter, and verified by programs that are not ours.
//!
//! PyNaCl is not part of a build: `tests/store/get_pynacl target/pynacl` gets it, as CI does.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use trumanfs::exec::task::batch_lease::BatchLease;
use trumanfs::exec::task::envelope::{Envelope, PayloadType, pae};
use trumanfs::exec::task::key::{PrivateKey, PublicKey};
use trumanfs::exec::task::lease::Lease;
use trumanfs::exec::task::manifest::{Capability, Manifest, TaskInputs};
use trumanfs::exec::task::result::TaskResult;
use trumanfs::exec::task::revocations::RevocationList;
use trumanfs::exec::task::strict::sha256;

use crate::common::{COMMAND_LIMIT, describe, need_tools, repository, run_limited};
use crate::need::skip;

/// What is signed, by whom, and as what.
const SIGNED: [(&str, &str, PayloadType); 3] = [
    ("lease", "kernel", PayloadType::Lease),
    ("result", "executor", PayloadType::Result),
    ("revocations", "kernel", PayloadType::Revocations),
];

/// The blocks of the page that have a name.
struct Vectors(BTreeMap<String, String>);

impl Vectors {
    fn read() -> Vectors {
        let page = fs::read_to_string(repository().join("docs/TASKS.md")).unwrap();
        let mut blocks = BTreeMap::new();
        for block in page.split("\n```text ").skip(1) {
            let (name, rest) = block.split_once('\n').unwrap();
            let (text, _) = rest.split_once("\n```").unwrap();
            blocks.insert(name.to_owned(), text.to_owned());
        }
        assert_eq!(blocks.len(), 17, "{:?}", blocks.keys());
        Vectors(blocks)
    }

    fn get(&self, name: &str) -> &str {
        self.0
            .get(name)
            .unwrap_or_else(|| panic!("docs/TASKS.md has no block {name:?}"))
    }

    fn key(&self, name: &str) -> PrivateKey {
        PrivateKey::from_pem(&format!("{}\n", self.get(&format!("{name}.key")))).unwrap()
    }

    fn signature(&self, name: &str) -> Vec<u8> {
        let hex = self.get(&format!("{name}.sig"));
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        (0..hex.len()).step_by(2).map(byte).collect()
    }

    /// Writes keys, what is signed and signatures into a directory.
    fn lay_out(&self, dir: &Path) {
        for (name, text) in &self.0 {
            let end = if name.contains(".key") { "\n" } else { "" };
            fs::write(dir.join(name), format!("{text}{end}")).unwrap();
        }
        for (name, ..) in SIGNED {
            fs::write(dir.join(format!("{name}.sig")), self.signature(name)).unwrap();
        }
    }
}

#[test]
fn every_vector_is_made_anew() {
    let vectors = Vectors::read();
    for name in ["kernel", "executor"] {
        let key = vectors.key(name);
        assert_eq!(
            key.to_pem().unwrap().trim_end(),
            vectors.get(&format!("{name}.key"))
        );
        assert_eq!(
            key.public().to_pem().trim_end(),
            vectors.get(&format!("{name}.key.pub"))
        );
    }
    for (name, signer, kind) in SIGNED {
        let payload = vectors.get(&format!("{name}.payload")).as_bytes();
        let key = vectors.key(signer);
        let envelope = match kind {
            PayloadType::Lease => Lease::parse(payload).unwrap().issue(&key).unwrap(),
            PayloadType::BatchLease => BatchLease::parse(payload).unwrap().issue(&key).unwrap(),
            PayloadType::Result => TaskResult::parse(payload).unwrap().sign(&key).unwrap(),
            PayloadType::Revocations => RevocationList::parse(payload).unwrap().sign(&key).unwrap(),
        };
        assert_eq!(envelope.payload, payload, "{name}");
        assert_eq!(
            pae(kind, payload),
            vectors.get(&format!("{name}.pae")).as_bytes()
        );
        assert_eq!(
            envelope.signatures[0].sig,
            vectors.signature(name),
            "{name}"
        );
        assert_eq!(envelope.to_text(), vectors.get(&format!("{name}.envelope")));
        let read = Envelope::parse(envelope.to_text().as_bytes()).unwrap();
        assert_eq!(read.verify(kind, [key.public()]), Some(key.public()));
        for (_, _, other) in SIGNED.iter().filter(|(.., other)| *other != kind) {
            assert_eq!(
                read.verify(*other, [key.public()]),
                None,
                "{name} as {other:?}"
            );
        }
    }
}

#[test]
fn the_vectors_belong_together() {
    let vectors = Vectors::read();
    let text = vectors.get("manifest");
    let manifest = Manifest::parse(text.as_bytes()).unwrap();
    let lease = Lease::parse(vectors.get("lease.payload").as_bytes()).unwrap();
    assert_eq!(lease.check_task(&manifest.task_id), Ok(()));
    assert_eq!(lease.check_digest(&sha256(text.as_bytes())), Ok(()));
    let capability = lease.check_capability(&manifest.capability_id).unwrap();
    let inputs = TaskInputs::read(capability, &manifest.inputs).unwrap();
    assert_eq!(capability, Capability::FileMove);
    assert_eq!(lease.check_path(inputs.source(), &["/work".into()]), Ok(()));
    assert_eq!(lease.check_time(1_800_000_000, 0, 300), Ok(()));
    let result = TaskResult::parse(vectors.get("result.payload").as_bytes()).unwrap();
    assert_eq!(
        (&result.lease_id, &result.manifest_sha256),
        (&lease.lease_id, &lease.manifest_sha256)
    );
    let list = RevocationList::parse(vectors.get("revocations.payload").as_bytes()).unwrap();
    assert!(lease.check_revocation(&list).is_err());
    // The example of a manifest above is the same.
    let page = fs::read_to_string(repository().join("docs/TASKS.md")).unwrap();
    assert_eq!(page.matches(text).count(), 2);
}

fn openssl(dir: &Path, words: &[&str]) -> Output {
    let mut command = Command::new("openssl");
    command.args(words).current_dir(dir);
    run_limited(command, COMMAND_LIMIT)
}

#[test]
fn openssl_verifies_every_vector() {
    need_tools!("openssl");
    let (vectors, dir) = (Vectors::read(), tempfile::tempdir().unwrap());
    vectors.lay_out(dir.path());
    let verify = |name: &str, signer: &str| {
        let (key, pae) = (format!("{signer}.key.pub"), format!("{name}.pae"));
        let sig = format!("{name}.sig");
        let words = [
            "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", &key, "-in", &pae, "-sigfile", &sig,
        ];
        openssl(dir.path(), &words)
    };
    for (name, signer, _) in SIGNED {
        let output = verify(name, signer);
        assert!(output.status.success(), "{name}: {}", describe(&output));
        let other = if signer == "kernel" {
            "executor"
        } else {
            "kernel"
        };
        assert!(!verify(name, other).status.success(), "{name} by {other}");
        let pae = dir.path().join(format!("{name}.pae"));
        let mut bytes = fs::read(&pae).unwrap();
        bytes[40] ^= 1;
        fs::write(&pae, bytes).unwrap();
        assert!(!verify(name, signer).status.success(), "{name} was changed");
    }
}

#[test]
fn openssl_reads_our_keys_and_we_read_its() {
    need_tools!("openssl");
    let dir = tempfile::tempdir().unwrap();
    let own = PrivateKey::generate().unwrap();
    own.save(&dir.path().join("own")).unwrap();
    let output = openssl(dir.path(), &["pkey", "-in", "own", "-pubout"]);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        own.public().to_pem(),
        "{}",
        describe(&output)
    );
    let made = |name: &str, words: &[&str]| {
        let output = openssl(dir.path(), &[&["genpkey", "-out", name], words].concat());
        assert!(output.status.success(), "{}", describe(&output));
        let file = dir.path().join(name);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        PrivateKey::load(&file)
    };
    let theirs = made("theirs", &["-algorithm", "ed25519"]).unwrap();
    let output = openssl(
        dir.path(),
        &["pkey", "-in", "theirs", "-pubout", "-out", "theirs.pub"],
    );
    assert!(output.status.success(), "{}", describe(&output));
    assert_eq!(
        &PublicKey::load(&dir.path().join("theirs.pub")).unwrap(),
        theirs.public()
    );
    for (name, words) in [
        (
            "ec",
            &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"][..],
        ),
        ("x25519", &["-algorithm", "X25519"]),
        ("ed448", &["-algorithm", "ED448"]),
        (
            "locked",
            &["-algorithm", "ed25519", "-aes256", "-pass", "pass:x"],
        ),
    ] {
        let told = made(name, words).unwrap_err().full_message();
        assert!(told.contains("no ed25519 private key"), "{name}: {told}");
    }
}

#[test]
fn pynacl_verifies_every_vector() {
    let python = repository().join("target/pynacl/bin/python");
    if !python.exists() {
        skip!(
            "pynacl",
            "`tests/store/get_pynacl target/pynacl` has not been run, or not for this user"
        );
    }
    let (vectors, dir) = (Vectors::read(), tempfile::tempdir().unwrap());
    vectors.lay_out(dir.path());
    let script = r#"
import base64, json, sys
from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey
read = lambda name: open(name, "rb").read()
der = lambda name: base64.b64decode(b"".join(read(name).splitlines()[1:-1]))
for name, signer in (("lease", "kernel"), ("result", "executor"), ("revocations", "kernel")):
    private, public = SigningKey(der(signer + ".key")[-32:]), VerifyKey(der(signer + ".key.pub")[-32:])
    assert private.verify_key == public
    envelope = json.loads(read(name + ".envelope"))
    payload, kind = base64.b64decode(envelope["payload"], validate=True), envelope["payloadType"].encode()
    assert payload == read(name + ".payload")
    pae = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
    assert pae == read(name + ".pae")
    signature = base64.b64decode(envelope["signatures"][0]["sig"], validate=True)
    assert signature == read(name + ".sig") == private.sign(pae).signature
    public.verify(pae, signature)
    try:
        public.verify(pae + b" ", signature)
    except BadSignatureError:
        print("verified", name)
"#;
    let mut command = Command::new(python);
    command.args(["-c", script]).current_dir(dir.path());
    let output = run_limited(command, COMMAND_LIMIT);
    let told = String::from_utf8_lossy(&output.stdout).lines().count();
    assert!(
        output.status.success() && told == 3,
        "{}",
        describe(&output)
    );
}
