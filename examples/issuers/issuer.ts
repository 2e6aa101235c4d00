// Issues file tasks as a kernel: signs a lease for a manifest, and prints both as a line for `trumanfs task run -`.
//
//     node --experimental-strip-types issuer.ts key KEY             # makes KEY if it is absent; its entry for trust.json
//     node --experimental-strip-types issuer.ts task KEY AUDIENCE BASE CAPABILITY SOURCE [DESTINATION]
//
// KEY is PKCS#8 in PEM, as of `trumanfs key new` and `openssl genpkey -algorithm ed25519`. Needs Node 22.6 and no package.
// docs/TASKS.md has the formats.
import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, randomUUID, sign } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";

const LEASE = "application/vnd.trumanfs.lease.v1+json";
const QUOTA = { wall_ms: 60_000, cpu_ms: 10_000, memory_bytes: 2 ** 28, io_bytes: 2 ** 30, file_bytes: 2 ** 30 };
const now = Math.floor(Date.now() / 1000);
const sha256 = (data: string | Uint8Array): string => createHash("sha256").update(data).digest("hex");

function load(path: string): KeyObject {
  if (!existsSync(path)) {
    const pem = generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem" });
    writeFileSync(path, pem, { mode: 0o600, flag: "wx" });
  }
  const key = createPrivateKey(readFileSync(path));
  if (key.asymmetricKeyType !== "ed25519") throw new Error(`${path}: not an ed25519 key`);
  return key;
}

function keyid(key: KeyObject): string {
  return sha256(createPublicKey(key).export({ type: "spki", format: "der" }).subarray(-32));
}

function trustEntry(key: KeyObject): object {
  const public_key = createPublicKey(key).export({ type: "spki", format: "pem" });
  return { keyid: keyid(key), role: "kernel", not_before: now, not_after: now + 365 * 86400, state: "active", public_key };
}

function line(key: KeyObject, aud: string, base: string, capability: string, source_path: string, destination_path?: string): object {
  const task_id = randomUUID();
  const manifest = JSON.stringify({
    task_id, capability_id: capability, inputs: { source_path, destination_path }, constraints: { reversible: true }, provenance: {},
  });
  const payload = Buffer.from(JSON.stringify({
    v: 1, lease_id: randomUUID(), iss: "issuer.ts", aud, task_id, manifest_sha256: sha256(manifest),
    capabilities: [capability], bases: [base], iat: now, nbf: now, exp: now + 300, max_uses: 1, quota: QUOTA,
  }));
  const signed = Buffer.concat([Buffer.from(`DSSEv1 ${LEASE.length} ${LEASE} ${payload.length} `), payload]);
  const signature = { keyid: keyid(key), sig: sign(null, signed, key).toString("base64") };
  return { manifest, lease: { payloadType: LEASE, payload: payload.toString("base64"), signatures: [signature] } };
}

const [verb, file, ...words] = process.argv.slice(2);
if (!(verb === "key" && words.length === 0) && !(verb === "task" && [4, 5].includes(words.length))) {
  throw new Error("issuer.ts key KEY | issuer.ts task KEY AUDIENCE BASE CAPABILITY SOURCE [DESTINATION]");
}
const key = load(file);
const [aud, base, capability, source, destination] = words;
console.log(JSON.stringify(verb === "key" ? trustEntry(key) : line(key, aud, base, capability, source, destination)));
