//! [`HostKey`]: the public key of an SSH server, and whether a signature is by it.
//!
//! Ed25519, ECDSA over P-256 and P-384, and RSA of 2048 to 8192 bits with SHA-2. Certificates, security keys, P-521, DSA
//! and SHA-1 are not known here, and verify nothing.

use base64ct::{Base64Unpadded, Encoding};
use ring::digest::{SHA256, digest};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA512, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};

use super::wire::WireReader;

/// A public key as servers send it.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostKey<'a>(pub(super) &'a [u8]);

impl HostKey<'_> {
    /// Returns the type that the key names; nothing that could not be shown as it is.
    pub(super) fn type_name(&self) -> Option<&str> {
        let name = std::str::from_utf8(WireReader(self.0).string()?).ok()?;
        let is_plain = |byte: u8| byte.is_ascii_graphic();
        (name.len() <= 64 && name.bytes().all(is_plain)).then_some(name)
    }

    /// Returns whether the key has made a signature of some data. `None`: it is of a kind that is not known here.
    pub(super) fn verify(&self, data: &[u8], signature: &[u8]) -> Option<bool> {
        let mut key = WireReader(self.0);
        let kind = key.string()?;
        let mut read = WireReader(signature);
        let (algorithm, blob) = (read.string()?, read.string()?);
        read.end()?;
        match kind {
            b"ssh-ed25519" => {
                let public = key.string()?;
                key.end()?;
                let is_good = algorithm == kind && is_signed(&ED25519, public, data, blob);
                Some(is_good)
            }
            b"ecdsa-sha2-nistp256" => {
                let public = curve_point(key, b"nistp256")?;
                let fixed = fixed_signature::<32>(blob)?;
                let by = &ECDSA_P256_SHA256_FIXED;
                Some(algorithm == kind && is_signed(by, public, data, &fixed))
            }
            b"ecdsa-sha2-nistp384" => {
                let public = curve_point(key, b"nistp384")?;
                let fixed = fixed_signature::<48>(blob)?;
                let by = &ECDSA_P384_SHA384_FIXED;
                Some(algorithm == kind && is_signed(by, public, data, &fixed))
            }
            b"ssh-rsa" => {
                let (e, n) = (key.number()?, key.number()?);
                key.end()?;
                let by = match algorithm {
                    b"rsa-sha2-256" => &RSA_PKCS1_2048_8192_SHA256,
                    b"rsa-sha2-512" => &RSA_PKCS1_2048_8192_SHA512,
                    _ => return None,
                };
                // Zeros at the front of a signature may be left out.
                let missing = n.len().checked_sub(blob.len())?;
                let whole = [&vec![0; missing], blob].concat();
                let public = RsaPublicKeyComponents { n, e };
                Some(public.verify(by, data, &whole).is_ok())
            }
            _ => None,
        }
    }
}

fn is_signed(
    by: &'static dyn VerificationAlgorithm,
    public: &[u8],
    data: &[u8],
    signature: &[u8],
) -> bool {
    UnparsedPublicKey::new(by, public)
        .verify(data, signature)
        .is_ok()
}

/// Reads the rest of a key over a curve.
fn curve_point<'a>(mut key: WireReader<'a>, curve: &[u8]) -> Option<&'a [u8]> {
    let (named, point) = (key.string()?, key.string()?);
    key.end()?;
    (named == curve).then_some(point)
}

/// Returns the two numbers of a signature, each with all its bytes (RFC 5656, section 3.1.2).
fn fixed_signature<const LEN: usize>(blob: &[u8]) -> Option<Vec<u8>> {
    let mut blob = WireReader(blob);
    let mut fixed = Vec::with_capacity(2 * LEN);
    for _ in 0..2 {
        let number = blob.number()?;
        fixed.resize(fixed.len() + LEN.checked_sub(number.len())?, 0);
        fixed.extend(number);
    }
    blob.end()?;
    Some(fixed)
}

/// Returns the fingerprint of a public key, as ssh-keygen(1) prints it.
pub(super) fn fingerprint(key: &[u8]) -> String {
    let hash = digest(&SHA256, key);
    format!("SHA256:{}", Base64Unpadded::encode_string(hash.as_ref()))
}
