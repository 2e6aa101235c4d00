//! Signed envelopes: DSSE, with less freedom than its protocol leaves. What is signed are the exact bytes of a payload
//! together with its type, so a lease is never a result.
//!
//! Protocol: <https://github.com/secure-systems-lab/dsse/blob/master/protocol.md>. Stricter than that: base64 of the
//! standard alphabet with padding alone, one spelling for the same bytes; no members but those of the protocol; one to
//! eight signatures.

use base64ct::{Base64, Encoding};
use serde::Deserialize;

use super::key::{PrivateKey, PublicKey};
use super::strict::{self, Malformed};

/// How many signatures an envelope may have.
const MOST_SIGNATURES: usize = 8;

/// What a payload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadType {
    /// A lease.
    Lease,
    /// The result of a task.
    Result,
    /// A list of leases that count no more.
    Revocations,
}

impl PayloadType {
    const ALL: [PayloadType; 3] = [
        PayloadType::Lease,
        PayloadType::Result,
        PayloadType::Revocations,
    ];

    /// Returns the media type, which is signed too.
    pub fn as_str(self) -> &'static str {
        match self {
            PayloadType::Lease => "application/vnd.trumanfs.lease.v1+json",
            PayloadType::Result => "application/vnd.trumanfs.result.v1+json",
            PayloadType::Revocations => "application/vnd.trumanfs.revocations.v1+json",
        }
    }

    /// Returns how long an envelope of this type may be, in bytes.
    pub fn limit(self) -> usize {
        match self {
            PayloadType::Lease => 64 << 10,
            PayloadType::Result => 256 << 10,
            PayloadType::Revocations => 1 << 20,
        }
    }
}

/// A payload with its type and signatures. That it could be read says nothing of who signed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// What the payload is.
    pub payload_type: PayloadType,
    /// The exact bytes that are signed.
    pub payload: Vec<u8>,
    /// One to eight signatures.
    pub signatures: Vec<EnvelopeSignature>,
}

/// A signature, and whose it may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvelopeSignature {
    /// A hint at the key, which nobody vouches for; may be empty.
    pub keyid: String,
    /// The signature's bytes.
    pub sig: Vec<u8>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Wire {
    payload_type: String,
    payload: String,
    #[serde(deserialize_with = "strict::objects")]
    signatures: Vec<WireSignature>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireSignature {
    #[serde(default)]
    keyid: String,
    sig: String,
}

impl Envelope {
    /// Reads an envelope.
    ///
    /// # Errors
    /// It is longer than its type may be, or not as this file's header says.
    pub fn parse(text: &[u8]) -> Result<Envelope, Malformed> {
        let longest = PayloadType::ALL.map(PayloadType::limit).into_iter().max();
        let wire: Wire = strict::read(text, longest.unwrap_or_default())?;
        let known = PayloadType::ALL
            .into_iter()
            .find(|known| known.as_str() == wire.payload_type);
        let payload_type = known.ok_or_else(|| {
            Malformed::new(format!("payloadType {:?} is not known", wire.payload_type))
        })?;
        if text.len() > payload_type.limit() {
            return Err(Malformed::new(format!(
                "{} bytes, more than {}",
                text.len(),
                payload_type.limit()
            )));
        }
        let count = wire.signatures.len();
        if !(1..=MOST_SIGNATURES).contains(&count) {
            return Err(Malformed::new(format!(
                "{count} signatures, not 1 to {MOST_SIGNATURES}"
            )));
        }
        let mut signatures = Vec::with_capacity(count);
        for signature in wire.signatures {
            signatures.push(EnvelopeSignature {
                keyid: signature.keyid,
                sig: decode("sig", &signature.sig)?,
            });
        }
        Ok(Envelope {
            payload_type,
            payload: decode("payload", &wire.payload)?,
            signatures,
        })
    }

    /// Returns an envelope of the payload, with the signature of one key.
    pub fn sign(payload_type: PayloadType, payload: Vec<u8>, key: &PrivateKey) -> Envelope {
        let signature = EnvelopeSignature {
            keyid: key.keyid().to_owned(),
            sig: key.sign(&pae(payload_type, &payload)).to_vec(),
        };
        Envelope {
            payload_type,
            payload,
            signatures: vec![signature],
        }
    }

    /// Returns the envelope as one line, without a line end. The same envelope always has the same text.
    pub fn to_text(&self) -> String {
        let string = |text: &str| serde_json::Value::from(text).to_string();
        let signatures: Vec<String> = self
            .signatures
            .iter()
            .map(|signature| {
                let (keyid, sig) = (
                    string(&signature.keyid),
                    Base64::encode_string(&signature.sig),
                );
                format!(r#"{{"keyid":{keyid},"sig":"{sig}"}}"#)
            })
            .collect();
        format!(
            r#"{{"payloadType":"{}","payload":"{}","signatures":[{}]}}"#,
            self.payload_type.as_str(),
            Base64::encode_string(&self.payload),
            signatures.join(",")
        )
    }

    /// Returns the key that has signed the payload as one of this type, where one of these has. What `keyid` says only
    /// decides which key is tried first.
    pub fn verify<'k>(
        &self,
        payload_type: PayloadType,
        keys: impl IntoIterator<Item = &'k PublicKey>,
    ) -> Option<&'k PublicKey> {
        if self.payload_type != payload_type {
            return None;
        }
        let message = pae(payload_type, &self.payload);
        let mut tries: Vec<(&'k PublicKey, &EnvelopeSignature)> = Vec::new();
        for key in keys {
            tries.extend(self.signatures.iter().map(|signature| (key, signature)));
        }
        tries.sort_by_key(|(key, signature)| key.keyid() != signature.keyid);
        let found = tries
            .into_iter()
            .find(|(key, signature)| key.has_signed(&message, &signature.sig));
        found.map(|(key, _)| key)
    }
}

/// Returns the bytes that a signature is over: DSSE's pre-authentication encoding.
pub fn pae(payload_type: PayloadType, payload: &[u8]) -> Vec<u8> {
    let name = payload_type.as_str();
    let mut bytes = format!("DSSEv1 {} {name} {} ", name.len(), payload.len()).into_bytes();
    bytes.extend_from_slice(payload);
    bytes
}

fn decode(member: &str, text: &str) -> Result<Vec<u8>, Malformed> {
    let bytes = Base64::decode_vec(text)
        .map_err(|_| Malformed::new(format!("{member} is not base64 with padding")))?;
    // Bits that the last character has beyond the bytes, and whatever else a decoder may let pass.
    match Base64::encode_string(&bytes) == text {
        true => Ok(bytes),
        false => Err(Malformed::new(format!(
            "{member} is not in base64's canonical spelling"
        ))),
    }
}
