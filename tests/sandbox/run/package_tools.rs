//! Environments of Python and of Node that an agent makes in a project, with their links, and that are taken back.
//!
//! Offline: the packages are made by the tests. uv and pnpm come by `tests/sandbox/run/get_tools target/package-tools`, as
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

/// Returns the directory of uv and pnpm, if they are installed and this user may run them.
fn package_tools() -> Option<PathBuf> {
    let place = repository().join("target/package-tools");
    let runs = |name: &str| {
        let tried = Command::new(place.join("bin").join(name))
            .arg("--version")
            .current_dir("/")
            .output();
        tried.is_ok_and(|output| output.status.success())
    };
    (runs("uv") && runs("pnpm")).then_some(place)
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
