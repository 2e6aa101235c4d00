#!/usr/bin/env python3
"""Issues file tasks as a kernel: signs a lease for a manifest, and prints both as a line for `trumanfs task run -`.

    issuer.py key KEY                                             # makes KEY if it is absent; its entry for trust.json
    issuer.py task KEY AUDIENCE BASE CAPABILITY SOURCE [DESTINATION]

KEY is PKCS#8 in PEM, as of `trumanfs key new` and `openssl genpkey -algorithm ed25519`. Needs PyNaCl. docs/TASKS.md has the formats.
"""
import base64, hashlib, json, os, sys, time, uuid
from nacl.signing import SigningKey

PKCS8, SPKI = (bytes.fromhex(der) for der in ("302e020100300506032b657004220420", "302a300506032b6570032100"))
LEASE = "application/vnd.trumanfs.lease.v1+json"
QUOTA = {"wall_ms": 60_000, "cpu_ms": 10_000, "memory_bytes": 256 << 20, "io_bytes": 1 << 30, "file_bytes": 1 << 30}


def pem(kind, der):
    return f"-----BEGIN {kind} KEY-----\n{base64.b64encode(der).decode()}\n-----END {kind} KEY-----\n"


def load(path):
    if not os.path.exists(path):
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(pem("PRIVATE", PKCS8 + bytes(SigningKey.generate())))
    der = base64.b64decode("".join(open(path).read().splitlines()[1:-1]), validate=True)
    assert der.startswith(PKCS8) and len(der) == 48, f"{path}: not an ed25519 key"
    key = SigningKey(der[-32:])
    return key, hashlib.sha256(bytes(key.verify_key)).hexdigest()


def trust_entry(key, keyid):
    now = int(time.time())
    return {"keyid": keyid, "role": "kernel", "not_before": now, "not_after": now + 365 * 86400, "state": "active",
            "public_key": pem("PUBLIC", SPKI + bytes(key.verify_key))}


def line(key, keyid, audience, base, capability, *paths):
    inputs = dict(zip(("source_path", "destination_path"), paths))
    manifest = json.dumps({"task_id": str(uuid.uuid4()), "capability_id": capability, "inputs": inputs,
                           "constraints": {"reversible": True}, "provenance": {}})
    now = int(time.time())
    payload = json.dumps({"v": 1, "lease_id": str(uuid.uuid4()), "iss": "issuer.py", "aud": audience,
                          "task_id": json.loads(manifest)["task_id"], "manifest_sha256": hashlib.sha256(manifest.encode()).hexdigest(),
                          "capabilities": [capability], "bases": [base], "iat": now, "nbf": now, "exp": now + 300,
                          "max_uses": 1, "quota": QUOTA}).encode()
    signed = b"DSSEv1 %d %s %d %s" % (len(LEASE), LEASE.encode(), len(payload), payload)
    signature = {"keyid": keyid, "sig": base64.b64encode(key.sign(signed).signature).decode()}
    return {"manifest": manifest, "lease": {"payloadType": LEASE, "payload": base64.b64encode(payload).decode(), "signatures": [signature]}}


if len(sys.argv) < 3 or (sys.argv[1], len(sys.argv)) not in (("key", 3), ("task", 7), ("task", 8)):
    sys.exit(__doc__)
key = load(sys.argv[2])
print(json.dumps(trust_entry(*key) if sys.argv[1] == "key" else line(*key, *sys.argv[3:])))
