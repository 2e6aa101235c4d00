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
use super::strict::{Malformed, sha256};
use crate::error::Error;

/// How long a key file may be, in bytes. A key takes some 120.
const LONGEST: usize = 4096;

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
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<PublicKey, Malformed> {
        let key = VerifyingKey::from_bytes(bytes)
            .map_err(|_| Malformed::new("the public key is no point of the curve"))?;
        if key.to_edwards().compress().as_bytes() != bytes {
            return Err(Malformed::new(
                "the public key is not in its canonical form",
            ));
        }
        match key.is_weak() {
            true => Err(Malformed::new("the public key is a point of small order")),
            false => Ok(PublicKey::of(key)),
        }
    }

    /// Reads a key in PEM (`BEGIN PUBLIC KEY`).
    ///
    /// # Errors
    /// It is no ed25519 key, or one that [`PublicKey::from_bytes`] refuses.
    pub fn from_pem(text: &str) -> Result<PublicKey, Malformed> {
        let key = VerifyingKey::from_public_key_pem(text).map_err(|_| {
            Malformed::new("no ed25519 public key in PEM (-----BEGIN PUBLIC KEY-----)")
        })?;
        PublicKey::from_bytes(key.as_bytes())
    }

    /// Reads a key from a file.
    ///
    /// # Errors
    /// The file cannot be read, or is no public key.
    pub fn load(path: &Path) -> Result<PublicKey, Error> {
        let bytes = host_files::read(path, LONGEST)?;
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
    pub fn from_pem(text: &str) -> Result<PrivateKey, Malformed> {
        SigningKey::from_pkcs8_pem(text)
            .map(PrivateKey::of)
            .map_err(|_| {
                Malformed::new("no ed25519 private key in PEM (-----BEGIN PRIVATE KEY-----)")
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
        let bytes = host_files::read_secret(path, LONGEST)?;
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
