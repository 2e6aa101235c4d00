// The official SDK for TypeScript as a client of `trumanfs serve mcp --shell bash`.
//
//     node shell_client.mjs ERA PROGRAM ROOT PACKAGES    as client.mjs
import assert from "node:assert/strict";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [era, program, root, packages] = process.argv.slice(2);
const sdk = (file) => import(pathToFileURL(path.join(packages, "node_modules/@modelcontextprotocol/client/dist", file)));
const { Client } = await sdk("index.mjs");
const { StdioClientTransport } = await sdk("stdio.mjs");

setTimeout(() => {
  console.error("the client has waited too long");
  process.exit(1);
}, 90_000).unref();

const mode = era === "stateless" ? { pin: "2026-07-28" } : "legacy";
const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode } });
const args = ["serve", "mcp", "--root", root, "--shell", "bash"];
await client.connect(new StdioClientTransport({ command: program, args, env: process.env }));

let session;
const call = async (name, given) => {
  const result = await client.callTool({ name, arguments: session ? { session, ...given } : given });
  session ??= result.structuredContent.session;
  return result;
};

await client.listTools();
let told = await call("bash", { command: "set -o pipefail; for i in b a; do printf '%s\\n' $i; done | sort | tee f; v=kept" });
assert.equal(told.structuredContent.stdout, "a\nb\n");
told = await call("bash", { command: "echo $v; false | true; echo $?; awk 'END { print NR }' f" });
assert.equal(told.structuredContent.stdout, "kept\n1\n2\n");
told = await call("edit_file", { path: "f", old_string: "a\n", new_string: "first\n" });
assert.match(told.structuredContent.diff, /\+first/);
told = await call("bash", { command: "rm -rf f && mkdir -p d/e && touch d/e/g && find d -type f" });
assert.equal(told.structuredContent.stdout, "d/e/g\n");
told = await call("undo", {});
assert.ok(!told.isError, JSON.stringify(told));
told = await call("bash", { command: "cat f; ls; set -e; cat nothing; echo not here" });
assert.equal(told.structuredContent.stdout, "first\nb\nf\n");
assert.equal(told.structuredContent.return_code, 1);
told = await call("bash", { command: 'echo "v=$v"' });
assert.equal(told.structuredContent.stdout, "v=\n");
assert.match(told.structuredContent.warnings[0], /a new shell/);
// All at once, each in a session of its own or in turn.
const all = await Promise.all([...Array(20).keys()].map((n) => call("bash", { command: `echo ${n} >> all; echo ${n}` })));
all.forEach((one, n) => assert.equal(one.structuredContent.stdout, `${n}\n`));
told = await call("bash", { command: "sort -n all | tr '\\n' ' '" });
assert.equal(told.structuredContent.stdout, [...Array(20).keys()].join(" ") + " ");
await client.close();
console.log("all of it");
