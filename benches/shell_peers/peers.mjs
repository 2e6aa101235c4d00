// Times lines in just-bash, in this process, over a real directory. Arguments: the directory, then JSON on standard input:
// [[name, line], …]. Prints JSON: {name: microseconds, or null where the line fails}.

import { readFileSync } from "node:fs";
import { Bash, ReadWriteFs } from "just-bash";

const root = process.argv[2];
const lines = JSON.parse(readFileSync(0, "utf8"));
const found = {};
for (const [name, line, seconds] of lines) {
  const shell = new Bash({ fs: new ReadWriteFs({ root }), cwd: "/" });
  const times = [];
  const end = performance.now() + seconds * 1000;
  let failed = false;
  do {
    const start = performance.now();
    const result = await shell.exec(line);
    times.push(performance.now() - start);
    failed = result.exitCode !== 0;
  } while (!failed && performance.now() < end);
  times.sort((a, b) => a - b);
  found[name] = failed ? null : times[Math.floor(times.length / 2)] * 1000;
}
console.log(JSON.stringify(found));
