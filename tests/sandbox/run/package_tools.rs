//! Environments of Python and of Node that an agent makes in a project, with their links, and that are taken back; and Node
//! as nvm installs it.
//!
//! Offline: the packages are made by the tests. uv, pnpm and Node come by `tests/sandbox/run/get_tools target/package-tools`, as
//! in CI.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use super::{Store, good};
use crate::common::tree::tree;
use crate::common::{
    binary, describe, need_mount, need_tools, repository, run_limited, skip, trumanfs,
};

/// The time limit of an agent.
const LIMIT: Duration = Duration::from_secs(100);

/// The Python that every sandbox shows.
const PYTHON: &str = "/usr/bin/python3";

/// Node itself, from the directory of programs of the tools.
const NODE: &str = "../node_modules/node-linux/bin/node";

/// A wheel of a package `dep` that says `from dep`.
const WHEEL: &str = r#"
import base64, hashlib, zipfile
files = {
    "dep.py": "print('from dep')\n",
    "dep-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: dep\nVersion: 1.0\n",
    "dep-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}
record = ""
with zipfile.ZipFile("wheels/dep-1.0-py3-none-any.whl", "w") as wheel:
    for name, text in files.items():
        wheel.writestr(name, text)
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(text)}\n"
    wheel.writestr("dep-1.0.dist-info/RECORD", record + "dep-1.0.dist-info/RECORD,,\n")
"#;

/// A project in a directory that nobody has mounted.
struct ToolProject {
    store: Store,
    /// The tools that sandboxes see besides.
    tools: Option<PathBuf>,
}

impl ToolProject {
    fn new(tools: Option<PathBuf>) -> ToolProject {
        let store = Store::new();
        ToolProject { store, tools }
    }

    /// Runs a script on the host, in the project.
    #[track_caller]
    fn host(&self, script: &str) -> String {
        let mut command = Command::new("bash");
        command.args(["-ec", script]).current_dir(&self.store.store);
        good(&run_limited(command, LIMIT))
    }

    fn agent(&self, script: &str) -> Output {
        let mut command = Command::new(binary());
        command.arg("agent").arg("--store").arg(&self.store.store);
        let mut words = String::new();
        if let Some(tools) = &self.tools {
            command.arg("--bind-ro").arg(tools);
            words = format!("PATH={}:$PATH\n", tools.join("bin").display());
        }
        command.args(["--", "bash", "-ec"]);
        command.arg(format!("{words}{script}"));
        run_limited(command, LIMIT)
    }

    /// True if links that lead out exist in an agent's home here.
    fn has_all_links(&self) -> bool {
        self.agent("ln -s /etc link; rm link").status.success()
    }

    /// Has an agent run a script, whose output is returned, and takes all back that it has changed.
    #[track_caller]
    fn done_and_undone(&self, script: &str) -> String {
        let before = tree(&self.store.store);
        let said = good(&self.agent(script));
        let path = self.store.store.to_str().unwrap();
        let undone = trumanfs(&["undo", path, "--run", "last"]);
        assert!(undone.status.success(), "{}", describe(&undone));
        let after = tree(&self.store.store);
        for (path, was) in &before {
            assert_eq!(after.get(path), Some(was), "{}", path.display());
        }
        let more: Vec<_> = after
            .keys()
            .filter(|path| !before.contains_key(*path))
            .collect();
        assert!(more.is_empty(), "{more:?}");
        said
    }
}

macro_rules! need_all_links {
    ($project:expr) => {
        if !$project.has_all_links() {
            skip!("namespaces", "an agent's home is mounted at a path here");
        }
    };
}

macro_rules! need_system_python {
    () => {
        let venv = Command::new(PYTHON)
            .args(["-c", "import venv, ensurepip"])
            .output();
        if !venv.is_ok_and(|output| output.status.success()) {
            skip!("system-python", "{PYTHON} makes no environments");
        }
    };
}

/// Returns the directory of uv, pnpm and Node, if they are installed and this user may run them.
fn package_tools() -> Option<PathBuf> {
    let place = repository().join("target/package-tools");
    let runs = |name: &str| {
        let tried = Command::new(place.join("bin").join(name))
            .arg("--version")
            .current_dir("/")
            .output();
        tried.is_ok_and(|output| output.status.success())
    };
    (runs("uv") && runs("pnpm") && runs(NODE)).then_some(place)
}

macro_rules! need_package_tools {
    () => {
        match package_tools() {
            Some(place) => place,
            None => skip!(
                "package-tools",
                "`tests/sandbox/run/get_tools target/package-tools` has not been run, or not for this user"
            ),
        }
    };
}

/// An environment that its owner has made has links to the system's Python.
#[test]
fn an_environment_that_is_there_works() {
    need_mount!();
    need_system_python!();
    let project = ToolProject::new(None);
    need_all_links!(project);
    project.host(&format!("{PYTHON} -m venv --without-pip .venv"));
    let said = project.done_and_undone(
        "readlink .venv/bin/python3; .venv/bin/python -c 'import sys; print(sys.prefix)'; . .venv/bin/activate; \
         echo 'print(1 + 1)' >two.py; python two.py",
    );
    let path = project.store.store.display();
    assert_eq!(said, format!("{PYTHON}\n{path}/.venv\n2\n"));
}

#[test]
fn python_makes_an_environment() {
    need_mount!();
    need_system_python!();
    let project = ToolProject::new(None);
    need_all_links!(project);
    project.host(&format!("mkdir wheels; {PYTHON} - <<'END'{WHEEL}END"));
    let said = project.done_and_undone(&format!(
        "{PYTHON} -m venv .venv; .venv/bin/pip install -q --disable-pip-version-check --no-index --find-links wheels dep; \
         .venv/bin/python -c 'import dep'; readlink .venv/bin/python3",
    ));
    assert_eq!(said, format!("from dep\n{PYTHON}\n"));
}

#[test]
fn uv_makes_environments() {
    need_mount!();
    need_system_python!();
    let project = ToolProject::new(Some(need_package_tools!()));
    need_all_links!(project);
    project.host(&format!("mkdir wheels; {PYTHON} - <<'END'{WHEEL}END"));
    let text = "[project]\nname = \"app\"\nversion = \"1.0\"\nrequires-python = \">=3.8\"\ndependencies = [\"dep==1.0\"]\n\
        [tool.uv]\npackage = false\nno-index = true\nfind-links = [\"wheels\"]\n";
    fs::write(project.store.store.join("pyproject.toml"), text).unwrap();
    let settings = format!(
        "export UV_PYTHON={PYTHON} UV_PYTHON_DOWNLOADS=never UV_OFFLINE=1 UV_NO_PROGRESS=1"
    );
    let said = project.done_and_undone(&format!(
        "{settings}; uv venv -q; .venv/bin/python -c 'print(6 * 7)'; test -L .venv/bin/python",
    ));
    assert_eq!(said, "42\n");
    let said = project.done_and_undone(&format!(
        "{settings}; uv sync -q; .venv/bin/python -c 'import dep'; uv run -q python -c 'import dep'; ls uv.lock",
    ));
    assert_eq!(said, "from dep\nfrom dep\nuv.lock\n");
    // An environment of the owner's is restored, modes and links included.
    project.host(&format!("{PYTHON} -m venv --without-pip .venv"));
    let said = project.done_and_undone(&format!(
        "{settings}; uv sync -q; .venv/bin/python -c 'import dep'; rm -r .venv; uv venv -q",
    ));
    assert_eq!(said, "from dep\n");
}

/// The package `dep` of Node, packed, and a project that has it as a tarball.
const NODE_PROJECT: &str = r#"
    mkdir -p dep/bin; cd dep
    echo '{"name":"dep","version":"1.0.0","main":"index.js","bin":{"dep-says":"bin/says.js"}}' >package.json
    echo 'console.log("from dep")' >index.js
    printf '#!/usr/bin/env node\nrequire("..");\n' >bin/says.js; chmod +x bin/says.js
    cd ..; tar czf dep-1.0.0.tgz --transform s/^dep/package/ dep; rm -r dep
    echo '{"name":"app","version":"1.0.0","dependencies":{"dep":"file:dep-1.0.0.tgz"},"scripts":{"say":"dep-says"}}' >package.json
"#;

#[test]
fn npm_makes_links_to_programs() {
    need_mount!();
    need_tools!("npm", "node");
    let project = ToolProject::new(None);
    need_all_links!(project);
    project.host(NODE_PROJECT);
    let settings = "export npm_config_update_notifier=false npm_config_audit=false npm_config_fund=false npm_config_offline=true";
    let said = project.done_and_undone(&format!(
        "{settings}; npm install --silent; npm run --silent say; readlink node_modules/.bin/dep-says; \
         npm ci --silent; npm run --silent say",
    ));
    assert_eq!(said, "from dep\n../dep/bin/says.js\nfrom dep\n");
}

#[test]
fn pnpm_links_its_store_into_the_project() {
    need_mount!();
    need_tools!("node");
    let project = ToolProject::new(Some(need_package_tools!()));
    need_all_links!(project);
    project.host(NODE_PROJECT);
    let said = project.done_and_undone(
        "export COREPACK_ENABLE_STRICT=0 npm_config_update_notifier=false; \
         pnpm install --silent --offline --store-dir .pnpm-store; test -L node_modules/dep; node node_modules/dep; \
         pnpm --silent run say; rm -r node_modules; pnpm install --silent --offline --frozen-lockfile --store-dir .pnpm-store; \
         node node_modules/dep",
    );
    assert_eq!(said, "from dep\nfrom dep\nfrom dep\n");
}

/// Makes `$NVM_DIR` below `$HOME`, from `$TOOLS`, as nvm lays it out: a version of Node with its npm and a package that was
/// installed for it, and an older version; beside them an access token in each place where npm keeps one. No registry has
/// nvm itself, so `nvm.sh` is a stand-in, which does for `nvm use` what that does: it puts a version's directory into PATH.
const NVM: &str = r#"
version=$("$TOOLS/node_modules/node-linux/bin/node" -v)
node=$NVM_DIR/versions/node/$version
mkdir -p "$node/lib/node_modules" "$node/etc" "$NVM_DIR/alias" "$NVM_DIR/.cache/bin" "$NVM_DIR/versions/node/v20.1.0/bin"
cp -a "$TOOLS"/node_modules/node-linux/{bin,include,share} "$node"
cp -a "$TOOLS/node_modules/npm" "$node/lib/node_modules"
for name in npm npx; do ln -s "../lib/node_modules/npm/bin/$name-cli.js" "$node/bin/$name"; done
printf '#!/bin/sh\necho v20.1.0\n' >"$NVM_DIR/versions/node/v20.1.0/bin/node"
chmod +x "$NVM_DIR/versions/node/v20.1.0/bin/node"
echo "${version%%.*}" >"$NVM_DIR/alias/default"
cat >"$NVM_DIR/nvm.sh" <<'END'
nvm() {
    local bin
    for bin in "$NVM_DIR/versions/node/v$2".*/bin; do
        [ -x "$bin/node" ] && PATH=$bin:$PATH && return
    done
    return 3
}
END
echo "$version" >"$NVM_DIR/.cache/bin/token"
PATH=$node/bin:$PATH
for place in global user; do npm config set --location=$place //registry.invalid/:_authToken=an-access-token; done
grep -q an-access-token "$HOME/.npmrc" "$node/etc/npmrc"
mkdir "$HOME/tool"
cd "$HOME/tool"
echo '{"name": "tool", "version": "1.0.0", "bin": "tool.js"}' >package.json
printf '#!/usr/bin/env node\nconsole.log("the tool by", process.version)\n' >tool.js
npm pack --silent >packed
npm install --global --silent --offline tool-1.0.0.tgz
cp tool-1.0.0.tgz "$PROJECT/dep.tgz"
echo "$version"
"#;

/// Node, npm and npx of nvm work for an agent, also another version's, and the tokens of its user are not there.
#[test]
fn node_of_nvm_works_and_shows_no_token() {
    need_mount!();
    let tools = need_package_tools!();
    let store = Store::new();
    let home = store.base.join("user");
    fs::create_dir(&home).unwrap();
    let nvm = home.join(".nvm");
    let with_home = |command: &mut Command| {
        command.env("HOME", &home).env("NVM_DIR", &nvm);
        command.env("TOOLS", &tools).env("PROJECT", &store.store);
    };
    let mut lay_out = Command::new("bash");
    lay_out.args(["-euc", NVM]);
    // npm leaves a cache of compiled code there.
    lay_out.env("TMPDIR", &store.base);
    with_home(&mut lay_out);
    let version = good(&run_limited(lay_out, LIMIT)).trim().to_owned();
    let agent = |script: &str| {
        let mut command = Command::new(binary());
        command.arg("agent").arg("--store").arg(&store.store);
        command.args(["--", "bash", "-euc", script]);
        let path = std::env::var("PATH").unwrap();
        let bin = nvm.join("versions/node").join(&version).join("bin");
        command.env("PATH", format!("{}:{path}", bin.display()));
        with_home(&mut command);
        run_limited(command, LIMIT)
    };
    let output = agent(
        r#"
        node -v; tool; npm -v >npm; npx -v | cmp npm -
        [ "$(command -v node)" = "$NVM_DIR/versions/node/$(node -v)/bin/node" ]
        npm ls --global --parseable | sed 's/.*node_modules.//' | sort | tail -n 2
        . "$NVM_DIR/nvm.sh"; nvm use 20; node -v; nvm use "$(cat "$NVM_DIR/alias/default" | tr -d v)"; node -v
        npm install --silent --offline ./dep.tgz; npx --offline tool; npm exec --offline -- tool
    "#,
    );
    let wanted = format!(
        "{version}\nthe tool by {version}\nnpm\ntool\nv20.1.0\n{version}\nthe tool by {version}\nthe tool by {version}\n"
    );
    assert_eq!(good(&output), wanted, "{}", describe(&output));
    assert!(store.store.join("node_modules/tool/tool.js").exists());
    let listed = agent(
        r#"
        cd "$NVM_DIR/.."; ls -A . .nvm .nvm/versions/node/v22*
        grep -rlsF an-access-token . "$HOME" && exit 1
        for path in .nvm/x .nvm/versions/node/v22*/{lib,bin}/x; do ! touch "$path" 2>/dev/null; done
        ! npm install --global --silent --offline "$OLDPWD/dep.tgz" 2>/dev/null
    "#,
    );
    let wanted = format!(
        ".:\n.nvm\n\n.nvm:\nalias\nnvm.sh\nversions\n\n.nvm/versions/node/{version}:\nbin\ninclude\nlib\nshare\n"
    );
    assert_eq!(good(&listed), wanted, "{}", describe(&listed));
}
