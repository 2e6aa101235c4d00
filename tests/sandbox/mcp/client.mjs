// The official SDK for TypeScript as a client of `trumanfs serve mcp`, as the inspector has it below itself.
//
//     node client.mjs ERA PROGRAM ROOT PACKAGES    ERA: sessions or stateless; PACKAGES: the directory that has node_modules
//
// The SDK validates each result against the types of the negotiated revision, and what a tool says against the tool's own schema.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const [era, program, root, packages] = process.argv.slice(2);
const sdk = (file) => import(pathToFileURL(path.join(packages, "node_modules/@modelcontextprotocol/client/dist", file)));
const { Client } = await sdk("index.mjs");
const { StdioClientTransport } = await sdk("stdio.mjs");

const stuck = setTimeout(() => {
  console.error("the client has waited too long");
  process.exit(1);
}, 90_000);

const version = era === "stateless" ? "2026-07-28" : "2025-11-25";
const mode = era === "stateless" ? { pin: version } : "legacy";
const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode } });
const errors = [];
client.onerror = (error) => errors.push(error);
const offered = "bash,read_text_file,write_file,edit_file,remove,history,undo,bash_output,run_git,run_pytest,run_sleep";
const args = ["serve", "mcp", "--root", root, "--policy", `${root}.policy`, "--tools", offered];
await client.connect(new StdioClientTransport({ command: program, args, env: process.env }));
assert.equal(client.getNegotiatedProtocolVersion(), version);
assert.equal(client.getServerVersion().name, "trumanfs");

let session;
const call = async (name, given, options) => {
  const result = await client.callTool({ name, arguments: session ? { session, ...given } : given }, options);
  session ??= result.structuredContent.session;
  return result;
};
const does = async (name, given, options) => {
  const result = await call(name, given, options);
  assert.ok(!result.isError, `${name}: ${JSON.stringify(result)}`);
  return result.content[0].text;
};
const fails = async (name, given) => {
  const result = await call(name, given);
  assert.ok(result.isError, `${name}: ${JSON.stringify(result)}`);
  return result.content[0].text;
};

const tools = new Map((await client.listTools()).tools.map((tool) => [tool.name, tool]));
for (const name of ["bash", "edit_file", "undo", "run_git", "run_pytest"]) assert.ok(tools.has(name), name);
assert.equal(tools.get("read_text_file").annotations.readOnlyHint, true);

// Editing.
await does("write_file", { path: "sums.py", content: "def add(a, b):\n    return a - b\n" });
await does("write_file", { path: "test_sums.py", content: "from sums import add\n\ndef test_add():\n    assert add(2, 2) == 4\n" });
// git and pytest, as the policy allows them.
const failed = await call("run_pytest", { args: ["-q"] });
assert.equal(failed.structuredContent.return_code, 1);
assert.match(failed.content[0].text, /1 failed/);
// (Of another size: Python tells two states of a file apart by size and second.)
const diff = await does("edit_file", { path: "sums.py", edits: [{ oldText: "a - b", newText: "a + b  # both" }] });
assert.ok(diff.includes("-    return a - b\n+    return a + b  # both\n"), diff);
assert.match(await does("bash", { command: "pytest -q" }), /1 passed/);
assert.match(await does("run_git", { args: ["status", "--short"] }), /\?\? sums.py/);
assert.match(await fails("run_git", { args: ["push"] }), /not a sub-command/);

// Cancelling a sleep.
const processes = () => {
  try {
    return execFileSync("pgrep", ["-f", "^sleep 87.25$"], { encoding: "utf8" });
  } catch {
    return "";
  }
};
const until = async (what, wanted) => {
  const end = Date.now() + 20_000;
  while (!wanted()) {
    assert.ok(Date.now() < end, what);
    await sleep(50);
  }
};
const cancel = new AbortController();
const asleep = call("run_sleep", { args: ["87.25"] }, { signal: cancel.signal });
await until("nothing sleeps", () => processes() !== "");
cancel.abort("enough");
await assert.rejects(asleep);
await until("the sleep goes on", () => processes() === "");

// Progress of a call.
const told = [];
const slow = await does("bash", { command: "sleep 2.5; echo done" }, { onprogress: ({ progress }) => told.push(progress) });
assert.equal(slow, "done\n");
assert.ok(told.length > 0 && told.every((now, n) => n === 0 || now > told[n - 1]), String(told));

// Undoing a removal.
assert.match(await does("remove", { path: "sums.py" }), /\.trash\//);
assert.match(await fails("read_text_file", { path: "sums.py" }), /No such file/);
assert.match(await does("undo", {}), /brought back \/sums.py/);
assert.match(await does("read_text_file", { path: "sums.py" }), /a \+ b/);
assert.match(await does("history", {}), /edit_file sums.py/);

// Fifty at once.
const answers = await Promise.all(Array.from({ length: 50 }, (_, n) => does("bash", { command: `echo ${n}` })));
assert.deepEqual(answers, Array.from({ length: 50 }, (_, n) => `${n}\n`));

// What an answer leaves out.
await does("write_file", { path: "big", content: "x".repeat(300000) });
const cut = await call("bash", { command: "cat big" });
const [text, link] = cut.content;
assert.ok(cut.structuredContent.truncated_stdout && text.text.includes("bash_output"), text.text.slice(-400));
assert.equal(link.type, "resource_link");
assert.ok((await client.readResource({ uri: link.uri })).contents[0].text.length > 30000);
const rest = await does("bash_output", { job: cut.structuredContent.run, offset: 290000 });
assert.match(rest, /^x{10000}\n\[bytes 290000 to 300000 of 300000: the end\]\n$/);

// Resources.
const uris = (await client.listResources()).resources.map((resource) => resource.uri);
const uri = uris.find((uri) => uri.includes(session) && uri.endsWith("/diff"));
const { contents } = await client.readResource({ uri });
assert.ok(contents[0].text.includes("+    return a + b"), contents[0].text);

await client.close();
assert.deepEqual(errors, []);
clearTimeout(stuck);
console.log("all of it");
