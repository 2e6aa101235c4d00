//! The formats of file tasks together: what is signed is read back, and nothing else is.

use super::absolute_path::AbsolutePath;
use super::envelope::{Envelope, PayloadType};
use super::key::PrivateKey;
use super::lease::Lease;
use super::quota::TaskQuota;

/// A lease from 100 to 200, for the executor `files`.
pub(super) fn lease() -> Lease {
    Lease {
        v: 1,
        lease_id: "lease-1".to_owned(),
        iss: "planner".to_owned(),
        aud: "files".to_owned(),
        task_id: "task-1".to_owned(),
        manifest_sha256: "0".repeat(64),
        capabilities: vec!["FILE_MOVE".to_owned()],
        bases: vec![AbsolutePath::parse("/work").unwrap()],
        iat: 100,
        nbf: 100,
        exp: 200,
        max_uses: 1,
        quota: TaskQuota::default(),
    }
}

#[test]
fn a_lease_is_read_back_and_is_no_result() {
    let (key, other) = (
        PrivateKey::from_seed(&[1; 32]),
        PrivateKey::from_seed(&[2; 32]),
    );
    let text = lease().issue(&key).unwrap().to_text();
    assert_eq!(
        Lease::verify(text.as_bytes(), [other.public(), key.public()]),
        Ok(lease())
    );
    assert!(Lease::verify(text.as_bytes(), [other.public()]).is_err());
    let envelope = Envelope::parse(text.as_bytes()).unwrap();
    assert_eq!(envelope.to_text(), text);
    assert_eq!(envelope.verify(PayloadType::Result, [key.public()]), None);
}
