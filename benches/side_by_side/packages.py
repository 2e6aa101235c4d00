"""The packages of the workload `pnpm-install`: pnpm itself and a store that it has filled, so that installing needs no network."""

import json
import shutil

from ground import Failure, quiet

PNPM = "9.15.9"
WANTED = {"eslint": "9.18.0", "express": "4.21.2"}
# Files of their own in plain directories: no links into the store, and no symbolic links, which a home hides by default.
FLAGS = ["--config.node-linker=hoisted", "--config.prefer-symlinked-executables=false", "--config.package-import-method=copy",
         "--ignore-scripts"]


def make_packages(base, kept):
    """Makes base/packages: tool, store, package.json and pnpm-lock.yaml. What was fetched stays in `kept` for the next run."""
    for program in ("node", "npm"):
        if not shutil.which(program):
            raise Failure(f"{program} is missing: run mount-scripts/setup")
    packages = kept / "packages"
    if not (packages / "complete").exists():
        shutil.rmtree(packages, ignore_errors=True)
        packages.mkdir(parents=True)
        (packages / "package.json").write_text(json.dumps({"name": "bench", "version": "1.0.0", "dependencies": WANTED}) + "\n")
        quiet(["npm", "install", "--silent", "--ignore-scripts", "--prefix", str(packages / "tool"), f"pnpm@{PNPM}"], timeout=300)
        quiet([*installer(packages), "--dir", str(packages)], timeout=300)
        shutil.rmtree(packages / "node_modules")
        (packages / "complete").touch()
    shutil.copytree(packages, base / "packages", symlinks=True)


def installer(packages):
    """pnpm install, with 16 threads for its files, and with everything that it keeps to itself below `packages`."""
    own = [f"XDG_{kind}_HOME={packages}/own" for kind in ("CACHE", "CONFIG", "DATA", "STATE")]
    return ["env", "UV_THREADPOOL_SIZE=16", *own, f"{packages}/tool/node_modules/.bin/pnpm", "install", "--store-dir", f"{packages}/store", *FLAGS]
