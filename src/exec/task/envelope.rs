//! Signed envelopes: DSSE, with less freedom than its protocol leaves. What is signed are the exact bytes of a payload
//! together with its type, so a lease is never a result.
//!
//! Protocol: <https://github.com/secure-systems-lab/dsse/blob/master/protocol.md>. Stricter than that: base64 of the
//! standard alphabet with padding alone, one spelling for the same bytes; no members but those of the protocol; one to
//! eight signatures.

use base64ct::{Base64, Encoding};
use serde::Deserialize;

use super::key::{PrivateKey, PublicKey};
use super::strict::{self, FormatError};

/// The largest number of signatures of an envelope.
const MOST_SIGNATURES: usize = 8;

/// The type of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadType {
    /// A lease for one task.
    Lease,
    /// A lease for a list of manifests.
    BatchLease,
    /// The result of a task.
    Result,
    /// A list of leases that count no more.
    Revocations,
}

impl PayloadType {
    const ALL: [PayloadType; 4] = [
        PayloadType::Lease,
        PayloadType::BatchLease,
        PayloadType::Result,
        PayloadType::Revocations,
    ];

    /// Returns the media type, which is signed too.
    pub fn as_str(self) -> &'static str {
        match self {
            PayloadType::Lease => "application/vnd.trumanfs.lease.v1+json",
            PayloadType::BatchLease => "application/vnd.trumanfs.batch-lease.v1+json",
            PayloadType::Result => "application/vnd.trumanfs.result.v1+json",
            PayloadType::Revocations => "application/vnd.trumanfs.revocations.v1+json",
        }
    }

    /// Returns how long an envelope of this type may be, in bytes.
    pub fn limit(self) -> usize {
        match self {
            PayloadType::Lease | PayloadType::BatchLease => 64 << 10,
            PayloadType::Result => 256 << 10,
            PayloadType::Revocations => 1 << 20,
        }
    }
}

/// A payload with its type and signatures. That it could be read says nothing of who signed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// The type of the payload.
    pub payload_type: PayloadType,
    /// The exact bytes that are signed.
    pub payload: Vec<u8>,
    /// The signatures, one to eight.
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
struct EnvelopeWire {
    payload_type: String,
    payload: String,
    #[serde(deserialize_with = "strict::objects")]
    signatures: Vec<SignatureWire>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignatureWire {
    #[serde(default)]
    keyid: String,
    sig: String,
}

impl Envelope {
    /// Reads an envelope.
    ///
    /// # Errors
    /// It is longer than its type may be, or not as this file's header says.
    pub fn parse(text: &[u8]) -> Result<Envelope, FormatError> {
        let longest = PayloadType::ALL.map(PayloadType::limit).into_iter().max();
        let wire: EnvelopeWire = strict::read(text, longest.unwrap_or_default())?;
        let known = PayloadType::ALL
            .into_iter()
            .find(|known| known.as_str() == wire.payload_type);
        let payload_type = known.ok_or_else(|| {
            FormatError::new(format!("payloadType {:?} is not known", wire.payload_type))
        })?;
        if text.len() > payload_type.limit() {
            return Err(FormatError::new(format!(
                "{} bytes, more than {}",
                text.len(),
                payload_type.limit()
            )));
        }
        let count = wire.signatures.len();
        if !(1..=MOST_SIGNATURES).contains(&count) {
            return Err(FormatError::new(format!(
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
    encoding(payload_type.as_str(), payload)
}

fn encoding(name: &str, payload: &[u8]) -> Vec<u8> {
    let mut bytes = format!("DSSEv1 {} {name} {} ", name.len(), payload.len()).into_bytes();
    bytes.extend_from_slice(payload);
    bytes
}

fn decode(member: &str, text: &str) -> Result<Vec<u8>, FormatError> {
    let bytes = Base64::decode_vec(text)
        .map_err(|_| FormatError::new(format!("{member} is not base64 with padding")))?;
    // Bits that the last character has beyond the bytes, and whatever else a decoder may let pass.
    match Base64::encode_string(&bytes) == text {
        true => Ok(bytes),
        false => Err(FormatError::new(format!(
            "{member} is not in base64's canonical spelling"
        ))),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
mod tests {
    use super::*;

    const TYPE: PayloadType = PayloadType::Lease;

    fn key(seed: u8) -> PrivateKey {
        PrivateKey::from_seed(&[seed; 32])
    }

    fn parse(text: &str) -> Result<Envelope, FormatError> {
        Envelope::parse(text.as_bytes())
    }

    #[test]
    fn the_encoding_is_that_of_the_protocol() {
        // The example of protocol.md.
        assert_eq!(
            encoding("http://example.com/HelloWorld", b"hello world"),
            b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
        );
        assert_eq!(encoding("", b""), b"DSSEv1 0  0 ");
    }

    #[test]
    fn an_envelope_is_read_back_letter_by_letter() {
        let envelope = Envelope::sign(TYPE, b"{\"a\":1}".to_vec(), &key(1));
        let text = envelope.to_text();
        assert!(!text.contains('\n'));
        assert_eq!(parse(&text).unwrap(), envelope);
        assert_eq!(parse(&text).unwrap().to_text(), text);
        assert_eq!(
            Envelope::sign(TYPE, b"{\"a\":1}".to_vec(), &key(1)),
            envelope
        );
    }

    #[test]
    fn another_spelling_is_another_envelope() {
        let payload = b"??>>~~".to_vec();
        let text = Envelope::sign(TYPE, payload, &key(1)).to_text();
        let sig = text
            .split("\"sig\":\"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap();
        let own = "\"payload\":\"Pz8+Pn5+\"";
        assert!(text.contains(own), "{text}");
        let payload = |spelled: &str| text.replace(own, &format!("\"payload\":\"{spelled}\""));
        assert!(parse(&payload("Pz8+Pn4=")).is_ok());
        for spelled in [
            "Pz8-Pn5-",
            "Pz8+Pn4",
            "Pz8+Pn5=",
            "Pz8+\\nPn5+",
            "Pz8+ Pn5+",
            "Pz8+Pn5+=",
            "Pz8+Pn5+====",
            "Pz8=Pn5+",
            "P",
            "*",
        ] {
            assert!(parse(&payload(spelled)).is_err(), "{spelled}");
        }
        // The last character of 64 bytes has four bits that mean nothing.
        let last = sig.trim_end_matches('=').chars().last().unwrap();
        assert!("AQgw".contains(last), "{sig}");
        for other in "BRhx".chars() {
            let spelled = format!("{}{other}==", &sig[..sig.len() - 3]);
            assert!(parse(&text.replace(sig, &spelled)).is_err(), "{other}");
        }
        // JSON has spellings of its own; they change no byte that is signed.
        let escaped = parse(&payload("Pz8\\u002bPn5+")).unwrap();
        assert!(escaped.verify(TYPE, [key(1).public()]).is_some());
    }

    #[test]
    fn only_the_members_of_the_protocol_are_there() {
        let text = Envelope::sign(TYPE, b"{}".to_vec(), &key(1)).to_text();
        let signature = text.split("\"signatures\":[").nth(1).unwrap();
        let signature = signature.strip_suffix("]}").unwrap();
        let many = |count: usize| vec![signature; count].join(",");
        assert!(parse(&text.replace(signature, &many(8))).is_ok());
        let keyless = text.replace(&format!("\"keyid\":\"{}\",", key(1).keyid()), "");
        assert!(keyless.len() < text.len());
        assert!(
            parse(&keyless)
                .unwrap()
                .verify(TYPE, [key(1).public()])
                .is_some()
        );
        for (what, bad) in [
            ("no signature", text.replace(signature, "")),
            ("nine", text.replace(signature, &many(9))),
            ("member", text.replacen('{', "{\"x\":1,", 1)),
            (
                "member below",
                text.replace("{\"keyid\"", "{\"cert\":\"\",\"keyid\""),
            ),
            ("twice", text.replacen('{', "{\"payload\":\"\",", 1)),
            ("type", text.replace("lease.v1", "lease.v2")),
            ("case", text.replace("payloadType", "payload_type")),
            ("stripped", text.replace("\"payload\":\"e30=\",", "")),
            ("null", text.replace("\"e30=\"", "null")),
            (
                "array",
                format!("[\"{}\",\"e30=\",[{signature}]]", TYPE.as_str()),
            ),
            ("array below", text.replace(signature, "[\"\",\"\"]")),
            ("behind", format!("{text}{text}")),
        ] {
            assert_ne!(bad, text, "{what}");
            assert!(parse(&bad).is_err(), "{what}: {bad}");
        }
        assert!(parse(&format!("{text}\n")).is_ok());
    }

    #[test]
    fn each_type_has_its_length() {
        for kind in PayloadType::ALL {
            let of = |length: usize| Envelope::sign(kind, vec![b' '; length], &key(1)).to_text();
            let around = of(0).len();
            let fits = (kind.limit() - around) / 4 * 3;
            assert!(parse(&of(fits)).is_ok(), "{kind:?}");
            let told = parse(&of(fits + 3)).unwrap_err().to_string();
            assert!(told.contains("more than"), "{kind:?}: {told}");
        }
    }

    #[test]
    fn a_signature_is_for_one_type_one_payload_and_one_key() {
        let envelope = Envelope::sign(TYPE, b"{}".to_vec(), &key(1));
        let (own, other) = (key(1), key(2));
        assert_eq!(
            envelope.verify(TYPE, [other.public(), own.public()]),
            Some(own.public())
        );
        assert_eq!(envelope.verify(TYPE, [other.public()]), None);
        assert_eq!(envelope.verify(TYPE, []), None);
        for kind in [PayloadType::Result, PayloadType::Revocations] {
            // Presented as what it is not, and with its type rewritten.
            assert_eq!(envelope.verify(kind, [own.public()]), None);
            let rewritten = Envelope {
                payload_type: kind,
                ..envelope.clone()
            };
            assert_eq!(rewritten.verify(kind, [own.public()]), None);
            assert_eq!(rewritten.verify(TYPE, [own.public()]), None);
        }
        let changed = Envelope {
            payload: b"{} ".to_vec(),
            ..envelope.clone()
        };
        assert_eq!(changed.verify(TYPE, [own.public()]), None);
        for bit in 0..512 {
            let mut changed = envelope.clone();
            changed.signatures[0].sig[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(changed.verify(TYPE, [own.public()]), None, "bit {bit}");
        }
    }

    #[test]
    fn one_good_signature_is_enough_and_keyid_is_only_a_hint() {
        let (good, other) = (key(1), key(2));
        let mut envelope = Envelope::sign(TYPE, b"{}".to_vec(), &good);
        let bad = EnvelopeSignature {
            keyid: good.keyid().to_owned(),
            sig: vec![0; 64],
        };
        envelope.signatures.insert(0, bad.clone());
        envelope.signatures[1].keyid = other.keyid().to_owned();
        let keys = || [other.public(), good.public()];
        assert_eq!(envelope.verify(TYPE, keys()), Some(good.public()));
        envelope.signatures.pop();
        envelope.signatures.push(EnvelopeSignature {
            sig: vec![1; 10],
            ..bad
        });
        assert_eq!(envelope.verify(TYPE, keys()), None);
    }
}
