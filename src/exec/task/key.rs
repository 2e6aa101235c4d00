//! Keys: ed25519, in files as PKCS#8 and SPKI in PEM, which other programs read.
//!
//! Owns the rules for key files and the comparison of signatures. A private key is in memory while it is used, is
//! overwritten afterwards, and shows in no message.

use std::fmt;
use std::path::{Path, PathBuf};

use ed25519_dalek::pkcs8::{DecodePrivateKey, DecodePublicKey, EncodePrivateKey, EncodePublicKey};
use ed25519_dalek::pkcs8::{KeypairBytes, spki::der::pem::LineEnding};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use rustix::rand::{GetRandomFlags, getrandom};
use zeroize::Zeroizing;

use super::host_files;
use super::strict::{FormatError, sha256};
use crate::error::Error;

/// The maximum length of a key file, in bytes. A key takes some 120.
const MAX_KEY_BYTES: usize = 4096;

/// A public key.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    key: VerifyingKey,
    keyid: String,
}

impl PublicKey {
    fn of(key: VerifyingKey) -> PublicKey {
        let keyid = sha256(key.as_bytes());
        PublicKey { key, keyid }
    }

    /// Reads the 32 bytes of a key.
    ///
    /// # Errors
    /// They are no point of the curve, not in the one spelling that it has, or one of the few points that make
    /// signatures for anything.
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<PublicKey, FormatError> {
        let key = VerifyingKey::from_bytes(bytes)
            .map_err(|_| FormatError::new("the public key is no point of the curve"))?;
        if key.to_edwards().compress().as_bytes() != bytes {
            return Err(FormatError::new(
                "the public key is not in its canonical form",
            ));
        }
        match key.is_weak() {
            true => Err(FormatError::new("the public key is a point of small order")),
            false => Ok(PublicKey::of(key)),
        }
    }

    /// Reads a key in PEM (`BEGIN PUBLIC KEY`).
    ///
    /// # Errors
    /// It is no ed25519 key, or one that [`PublicKey::from_bytes`] refuses.
    pub fn from_pem(text: &str) -> Result<PublicKey, FormatError> {
        let key = VerifyingKey::from_public_key_pem(text).map_err(|_| {
            FormatError::new("no ed25519 public key in PEM (-----BEGIN PUBLIC KEY-----)")
        })?;
        PublicKey::from_bytes(key.as_bytes())
    }

    /// Reads a key from a file.
    ///
    /// # Errors
    /// The file cannot be read, or is no public key.
    pub fn load(path: &Path) -> Result<PublicKey, Error> {
        let bytes = host_files::read(path, MAX_KEY_BYTES)?;
        let text = std::str::from_utf8(&bytes).unwrap_or_default();
        PublicKey::from_pem(text).map_err(|why| {
            Error::refused(
                format!("{}: {why}", path.display()),
                "Name the file that `trumanfs key new` has made beside the private key: FILE.pub.",
            )
        })
    }

    /// Returns the key in PEM.
    pub fn to_pem(&self) -> String {
        self.key
            .to_public_key_pem(LineEnding::LF)
            .unwrap_or_default()
    }

    /// Returns the SHA-256 of its 32 bytes, in lower-case hexadecimal digits.
    pub fn keyid(&self) -> &str {
        &self.keyid
    }

    /// Returns its 32 bytes.
    pub fn bytes(&self) -> &[u8; 32] {
        self.key.as_bytes()
    }

    /// Returns whether this key has signed the message. Each message has one signature for each key that passes: no
    /// other spelling of it does.
    pub fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        let signature = Signature::from_slice(signature);
        signature.is_ok_and(|signature| self.key.verify_strict(message, &signature).is_ok())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.keyid)
    }
}

/// A private key, with its public one.
pub struct PrivateKey {
    key: SigningKey,
    public: PublicKey,
}

impl PrivateKey {
    fn of(key: SigningKey) -> PrivateKey {
        let public = PublicKey::of(key.verifying_key());
        PrivateKey { key, public }
    }

    /// Makes a key from the kernel's random numbers.
    ///
    /// # Errors
    /// The kernel has none.
    pub fn generate() -> Result<PrivateKey, Error> {
        let mut seed = Zeroizing::new([0; 32]);
        let got = getrandom(seed.as_mut_slice(), GetRandomFlags::empty())
            .map_err(Error::os("getrandom"))?;
        match got == seed.len() {
            true => Ok(PrivateKey::from_seed(&seed)),
            false => Err(Error::Damaged(
                "getrandom returned too few bytes".to_owned(),
            )),
        }
    }

    /// Returns the key of 32 secret bytes.
    pub fn from_seed(seed: &[u8; 32]) -> PrivateKey {
        PrivateKey::of(SigningKey::from_bytes(seed))
    }

    /// Reads a key in PEM (`BEGIN PRIVATE KEY`), as `trumanfs key new` and `openssl genpkey` write it.
    ///
    /// # Errors
    /// It is no ed25519 key without a passphrase.
    pub fn from_pem(text: &str) -> Result<PrivateKey, FormatError> {
        SigningKey::from_pkcs8_pem(text)
            .map(PrivateKey::of)
            .map_err(|_| {
                FormatError::new("no ed25519 private key in PEM (-----BEGIN PRIVATE KEY-----)")
            })
    }

    /// Returns the key in PEM.
    ///
    /// # Errors
    /// It cannot be written so, which does not happen.
    pub fn to_pem(&self) -> Result<Zeroizing<String>, Error> {
        // Without the public key, which OpenSSL 3.0 does not expect there.
        let pair = KeypairBytes {
            secret_key: self.key.to_bytes(),
            public_key: None,
        };
        pair.to_pkcs8_pem(LineEnding::LF)
            .map_err(|error| Error::Damaged(format!("a key cannot be written: {error}")))
    }

    /// Reads a key from a file: a regular one, no symbolic link, of the effective user, with mode 0600 or 0400.
    ///
    /// # Errors
    /// It is not so, or is no key.
    pub fn load(path: &Path) -> Result<PrivateKey, Error> {
        let bytes = host_files::read_secret(path, MAX_KEY_BYTES)?;
        let text = std::str::from_utf8(&bytes).unwrap_or_default();
        PrivateKey::from_pem(text).map_err(|why| {
            Error::refused(
                format!("{}: {why}", path.display()),
                "`trumanfs key new --role kernel|executor --out FILE` makes one.",
            )
        })
    }

    /// Writes the key to a file of mode 0600 that is not there yet, and its public key beside it. Returns where that
    /// is: `FILE.pub`.
    ///
    /// # Errors
    /// One of the two is there already, or they cannot be written; then neither is made.
    pub fn save(&self, path: &Path) -> Result<PathBuf, Error> {
        let mut public = path.as_os_str().to_owned();
        public.push(".pub");
        let public = PathBuf::from(public);
        let text = self.to_pem()?;
        host_files::create(&public, 0o644, self.public.to_pem().as_bytes())?;
        if let Err(error) = host_files::create(path, 0o600, text.as_bytes()) {
            host_files::remove(&public);
            return Err(error);
        }
        Ok(public)
    }

    /// Returns its public key.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Returns the public key's id.
    pub fn keyid(&self) -> &str {
        self.public.keyid()
    }

    /// Signs a message.
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.key.sign(message).to_bytes()
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({}, …)", self.keyid())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use curve25519_dalek::scalar::Scalar;
    use ed25519_dalek::Verifier;
    use sha2::{Digest, Sha512};

    /// The order of the group, little-endian.
    const ORDER: [u8; 32] = [
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde,
        0x14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
    ];

    /// The encodings of the eight points of small order that are canonical, and of those that are not.
    const SMALL: [&str; 14] = [
        "0100000000000000000000000000000000000000000000000000000000000000",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "0000000000000000000000000000000000000000000000000000000000000080",
        "0000000000000000000000000000000000000000000000000000000000000000",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
        "0100000000000000000000000000000000000000000000000000000000000080",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    ];

    fn bytes(hex: &str) -> [u8; 32] {
        let pair = |at: usize| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap();
        std::array::from_fn(pair)
    }

    fn key() -> PrivateKey {
        PrivateKey::from_seed(&[7; 32])
    }

    #[test]
    fn a_signature_has_one_spelling() {
        let signature = key().sign(b"message");
        assert!(key().public().has_signed(b"message", &signature));
        assert!(!key().public().has_signed(b"messagf", &signature));
        // S + L is the same number to a verifier that does not look.
        let (mut more, mut carry) = (signature, 0);
        for (byte, order) in more[32..].iter_mut().zip(ORDER) {
            let sum = u16::from(*byte) + u16::from(order) + carry;
            (*byte, carry) = ((sum & 0xff) as u8, sum >> 8);
        }
        assert_eq!(carry, 0);
        assert!(!key().public().has_signed(b"message", &more));
        for length in [0, 63, 65, 128] {
            let mut other = signature.to_vec();
            other.resize(length, 0);
            assert!(!key().public().has_signed(b"message", &other), "{length}");
        }
    }

    #[test]
    fn an_r_of_small_order_signs_nothing() {
        // Whoever has the key can make such signatures, and so several of one message: S = k·a where R is the identity.
        let own = key();
        let sign = |r: [u8; 32]| {
            let mut hash = Sha512::new();
            hash.update(r);
            hash.update(own.public.bytes());
            hash.update(b"message");
            let k = Scalar::from_bytes_mod_order_wide(&hash.finalize().into());
            let s = k * own.key.to_scalar();
            let mut signature = [0; 64];
            signature[..32].copy_from_slice(&r);
            signature[32..].copy_from_slice(s.as_bytes());
            signature
        };
        let identity = sign(bytes(SMALL[0]));
        let lenient = own
            .public
            .key
            .verify(b"message", &Signature::from_bytes(&identity));
        assert!(
            lenient.is_ok(),
            "it is no signature to anybody: {lenient:?}"
        );
        assert!(!own.public.has_signed(b"message", &identity));
        for r in SMALL {
            assert!(!own.public.has_signed(b"message", &sign(bytes(r))), "{r}");
        }
    }

    #[test]
    fn a_public_key_has_one_spelling_and_is_no_point_of_small_order() {
        for point in SMALL {
            assert!(PublicKey::from_bytes(&bytes(point)).is_err(), "{point}");
        }
        // y and y + p are one number, where both have 255 bits.
        let mut strong = 0;
        for above in 0..19 {
            for sign in [0, 0x80] {
                let mut point = [0xff; 32];
                (point[0], point[31]) = (0xed + above, 0x7f | sign);
                strong +=
                    usize::from(VerifyingKey::from_bytes(&point).is_ok_and(|key| !key.is_weak()));
                assert!(PublicKey::from_bytes(&point).is_err(), "{above}");
            }
        }
        assert!(strong > 0, "no spelling was refused for being another one");
        assert_eq!(
            &PublicKey::from_bytes(key().public().bytes()).unwrap(),
            key().public()
        );
    }

    #[test]
    fn keys_are_read_back_and_their_id_is_the_digest_of_the_bytes() {
        let (own, dir) = (key(), tempfile::tempdir().unwrap());
        let file = dir.path().join("k");
        let public = own.save(&file).unwrap();
        assert_eq!(public, dir.path().join("k.pub"));
        assert_eq!(PrivateKey::load(&file).unwrap().keyid(), own.keyid());
        assert_eq!(&PublicKey::load(&public).unwrap(), own.public());
        assert_eq!(own.keyid(), sha256(own.public().bytes()));
        let mode = |file: &Path| fs::metadata(file).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode(&file), mode(&public)), (0o600, 0o644));
        let (a, b) = (
            PrivateKey::generate().unwrap(),
            PrivateKey::generate().unwrap(),
        );
        assert_ne!(a.keyid(), b.keyid());
        assert!(PrivateKey::from_pem(&own.public().to_pem()).is_err());
        assert!(PublicKey::from_pem(&own.to_pem().unwrap()).is_err());
    }

    #[test]
    fn nothing_is_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("k");
        for taken in ["k", "k.pub"] {
            fs::write(dir.path().join(taken), "mine").unwrap();
            let error = key().save(&file).unwrap_err();
            assert_eq!(error.kind(), crate::error::FailureKind::Conflict, "{error}");
            let names: Vec<_> = fs::read_dir(dir.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .collect();
            assert_eq!(names, [taken]);
            assert_eq!(fs::read(dir.path().join(taken)).unwrap(), b"mine");
            fs::remove_file(dir.path().join(taken)).unwrap();
        }
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), &file).unwrap();
        assert!(key().save(&file).is_err());
        assert!(!dir.path().join("elsewhere").exists());
    }

    #[test]
    fn a_key_that_others_may_have_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("k");
        key().save(&file).unwrap();
        for mode in 0..0o10000 {
            // Each bit alone, and what editors and copies leave.
            if (mode & !0o600_u32).count_ones() > 1
                && ![0o644, 0o640, 0o666, 0o755, 0o700].contains(&mode)
            {
                continue;
            }
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            let loaded = PrivateKey::load(&file);
            assert_eq!(
                loaded.is_ok(),
                mode == 0o600 || mode == 0o400,
                "{mode:o}: {loaded:?}"
            );
            // Nobody but root reads a file whose mode excludes its owner.
            if let Err(error) = loaded
                && mode & 0o077 != 0
                && mode & 0o400 != 0
            {
                let told = error.full_message();
                assert!(
                    told.contains("chmod 600") || told.contains("may not"),
                    "{mode:o}: {told}"
                );
            }
        }
    }

    #[test]
    fn a_key_is_a_regular_file_of_its_user() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("k"), dir.path().join("link"));
        key().save(&file).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let told = PrivateKey::load(&link).unwrap_err().full_message();
        assert!(told.contains("a symbolic link"), "{told}");
        // Nobody writes to the FIFO, and nobody waits for it.
        let fifo = dir.path().join("fifo");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        for other in [&fifo, &dir.path().to_path_buf()] {
            let told = PrivateKey::load(other).unwrap_err().full_message();
            assert!(told.contains("not a regular file"), "{told}");
        }
        let missing = PrivateKey::load(&dir.path().join("none")).unwrap_err();
        assert_eq!(missing.kind(), crate::error::FailureKind::Missing);
        for text in [
            "",
            "key",
            "-----BEGIN PRIVATE KEY-----\nMC4=\n-----END PRIVATE KEY-----\n",
            &"x".repeat(5000),
        ] {
            fs::write(&file, text).unwrap();
            assert!(PrivateKey::load(&file).is_err(), "{text}");
        }
        key().save(&dir.path().join("foreign")).unwrap();
        // Root in a sandbox may not.
        if std::os::unix::fs::chown(dir.path().join("foreign"), Some(1), None).is_err() {
            crate::need::skip!("root", "a file cannot be given to somebody else");
        }
        let told = PrivateKey::load(&dir.path().join("foreign"))
            .unwrap_err()
            .full_message();
        assert!(told.contains("belongs to user 1"), "{told}");
    }

    #[test]
    fn the_secret_shows_nowhere() {
        let shown = format!("{:?} {:?}", key(), key().public());
        for secret in ["07, 07", "7, 7", "0707", "BwcH"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        assert!(shown.contains(key().keyid()));
    }
}
