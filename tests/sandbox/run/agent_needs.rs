//! The needs of an agent's work beside the project: ports in both directions, hosts by groups, caches, toolchains, its
//! user's name in git.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use super::{LIMIT, Store, begin, err, good, until};
use trumanfs::client::tools_with_caches;
use trumanfs::exec::program::HostGroup;

use crate::common::{binary, describe, need_mount, need_tools, run_limited};

fn agent(store: &Store, options: &[&str], script: &str) -> Command {
    let mut command = Command::new(binary());
    command.arg("agent").arg("--store").arg(&store.store);
    command.args(options).args(["--", "bash", "-c", script]);
    command
}

fn run(store: &Store, options: &[&str], script: &str) -> Output {
    run_limited(agent(store, options, script), LIMIT)
}

/// Ports below those that are given to whoever asks for any.
fn free_ports() -> [u16; 2] {
    let mut free = (21_000..30_000).filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    [free.next().unwrap(), free.next().unwrap()]
}

#[test]
fn its_server_is_reached_and_it_reaches_one_of_the_host() {
    need_mount!();
    need_tools!("python3", "curl");
    let store = Store::new();
    let host = TcpListener::bind("127.0.0.1:0").unwrap();
    let host_port = host.local_addr().unwrap().port().to_string();
    let server = std::thread::spawn(move || {
        let (mut client, _) = host.accept().unwrap();
        assert!(client.read(&mut [0; 1024]).unwrap() > 0);
        client
            .write_all(b"HTTP/1.0 200 OK\r\n\r\nfrom the host\n")
            .unwrap();
    });
    let [inside, on_host] = free_ports();
    let published = format!("{on_host}:{inside}");
    let options = ["--publish", &published, "--host-port", &host_port];
    let script = format!(
        "curl -sS -m20 http://127.0.0.1:{host_port}/ >got
         python3 -c \"import socket
s = socket.create_server(('127.0.0.1', {inside}))
open('ready', 'w')
c, _ = s.accept(); c.sendall(b'served'); c.close()\""
    );
    let child = begin(agent(&store, &options, &script));
    until("it serves", || store.store.join("ready").exists());
    let mut said = String::new();
    let mut client = TcpStream::connect(("127.0.0.1", on_host)).unwrap();
    client.read_to_string(&mut said).unwrap();
    assert_eq!(said, "served");
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", describe(&output));
    server.join().unwrap();
    let got = fs::read_to_string(store.store.join("got")).unwrap();
    assert_eq!(got, "from the host\n");
}

#[test]
fn help_names_all_groups_of_hosts_and_tools_with_caches() {
    let help = run_limited(
        {
            let mut help = Command::new(binary());
            help.args(["agent", "--help"]);
            help
        },
        LIMIT,
    );
    let help = good(&help);
    let about = |option: &str| {
        let text = help.split(option).nth(1).unwrap();
        text.split("\n\n").next().unwrap().to_owned()
    };
    let (hosts, caches) = (about("--net <WHAT>"), about("--cache <TOOL|PATH>"));
    assert!(
        HostGroup::names().all(|name| hosts.contains(name)),
        "{hosts}"
    );
    assert!(
        tools_with_caches().all(|name| caches.contains(name)),
        "{caches}"
    );
}

#[test]
fn port_that_is_taken_is_named_and_nothing_runs() {
    need_mount!();
    let store = Store::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = run(&store, &["--publish", &format!("{port}:3000")], "echo >ran");
    assert!(!output.status.success() && !store.store.join("ran").exists());
    assert!(err(&output).contains(&port), "{}", err(&output));
    for (wrong, named) in [
        ("--publish=0", "0 is no port"),
        ("--publish=1:2:3", "2:3 is no port"),
        ("--publish=3128", "3128: the sandbox answers there itself"),
        ("--publish=443", "443: the program cannot listen there"),
        ("--host-port=53", "53: the sandbox answers there itself"),
        ("--net=npm,nobody", "nobody: write it as none, all, allow="),
    ] {
        let output = run(&store, &[wrong], "echo >ran");
        assert!(!output.status.success() && !store.store.join("ran").exists());
        assert!(err(&output).contains(named), "{wrong}: {}", err(&output));
    }
    let output = run(&store, &["--net", "none", "--net", "npm"], "echo >ran");
    assert_eq!(output.status.code(), Some(123), "{}", describe(&output));
    assert!(err(&output).contains("--net none stands beside"));
}

/// All is every public host, and no service of this machine or beside it.
#[test]
fn hosts_come_by_groups_and_all_of_them_are_the_public_ones() {
    need_mount!();
    need_tools!("curl");
    let store = Store::new();
    let curl = "curl -sS -m20 -o /dev/null -w '%{http_connect}' -p -x http://127.0.0.1:3128";
    let output = run(
        &store,
        &["--net", "npm,pip", "--net", "allow=a.invalid"],
        &format!("{curl} https://crates.invalid/; echo; {curl} https://a.invalid/"),
    );
    let said = err(&output);
    assert!(said.contains("registry.npmjs.org"), "{said}");
    assert!(said.contains("files.pythonhosted.org"), "{said}");
    let host = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = host.local_addr().unwrap().port();
    let output = run(
        &store,
        &["--net", "all"],
        &format!(
            "for at in 127.0.0.1:{port} 10.0.0.1:80 169.254.169.254:80; do {curl} http://$at/; echo; done; {curl} https://a.invalid/; true"
        ),
    );
    let (out, said) = (good(&output), err(&output));
    // Its own loopback is not the machine's.
    let codes: Vec<_> = out.lines().take(3).collect();
    assert_eq!(codes, ["000", "403", "403"], "{said}");
    assert!(said.contains("it is no public address"), "{said}");
    // It is allowed, and not there.
    assert!(!said.contains("a.invalid:443 is refused"), "{said}");
    assert!(host.set_nonblocking(true).is_ok() && host.accept().is_err());
}

/// Its commits have the name of whoever started it; what the project or the agent says comes first, and nothing else of
/// the user's configuration is there.
#[test]
fn it_commits_by_the_name_of_its_user() {
    need_mount!();
    need_tools!("git");
    let store = Store::new();
    let user = store.base.join("user");
    fs::create_dir_all(user.join(".config/git")).unwrap();
    fs::write(
        user.join(".gitconfig"),
        "[user]\n\tname = \"Ada \\\"L.\\\" King\"\n[include]\n\tpath = more\n[alias]\n\tx = !echo alias\n[credential]\n\thelper = store\n",
    )
    .unwrap();
    fs::write(user.join("more"), "[user]\n\temail = ada@example.org\n").unwrap();
    fs::write(user.join(".config/git/ignore"), "*.swp\n").unwrap();
    let output = |options: &[&str], script: &str| {
        let mut command = agent(&store, options, script);
        command.env("HOME", &user).env_remove("XDG_CONFIG_HOME");
        command.env_remove("GIT_CONFIG_GLOBAL");
        let output = run_limited(command, LIMIT);
        assert!(output.status.success(), "{}", describe(&output));
        output
    };
    let run = |script: &str| String::from_utf8(output(&[], script).stdout).unwrap();
    let said = run(
        "git init -q && touch a a.swp && git add -A && git commit -qm one && \
         git log --format='%an %ae %cn' && git ls-files && git config --list --show-scope | grep ^global",
    );
    assert_eq!(
        said,
        "Ada \"L.\" King ada@example.org Ada \"L.\" King\na\nglobal\tuser.name=Ada \"L.\" King\nglobal\tuser.email=ada@example.org\n"
    );
    let said = run(
        "git config user.email p@example.org && git config --global user.name Own && \
         git commit -q --allow-empty -m two && git log -1 --format='%an %ae'",
    );
    assert_eq!(said, "Own p@example.org\n");
    // A git that an agent left in the project is not asked, though PATH leads there.
    run(
        "mkdir tools; printf '#!/bin/sh\\necho ran >>%s/ran\\n' $PWD >tools/git; chmod +x tools/git",
    );
    let mut command = agent(&store, &[], "git config user.name");
    let path = std::env::var("PATH").unwrap();
    command.env(
        "PATH",
        format!("{}:{path}", store.store.join("tools").display()),
    );
    command.env("HOME", &user).env_remove("GIT_CONFIG_GLOBAL");
    let said = run_limited(command, LIMIT);
    assert!(!store.store.join("ran").exists(), "{}", describe(&said));
    // What the agent said of itself is gone with its directory.
    assert_eq!(run("git config user.name"), "Ada \"L.\" King\n");
    // The directory is the agent's: a link there leads nowhere.
    let outside = store.base.join("outside");
    fs::create_dir(&outside).unwrap();
    let link = "rm -rf ~/.config/git; ln -s ../../../../outside ~/.config/git";
    output(&["--keep-state", ".config"], link);
    let said = err(&output(&[], "true"));
    assert!(said.contains("your name for git"), "{said}");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

/// Agents of one name share a cache, whatever their project; the user's own is another one, and nothing of it is in the
/// home.
#[test]
fn cache_is_shared_by_agents_of_a_name_and_by_nobody_else() {
    need_mount!();
    let (one, other) = (Store::new(), Store::new());
    let user = one.base.join("user");
    fs::create_dir_all(user.join(".npm")).unwrap();
    fs::write(user.join(".npm/own"), "the user's").unwrap();
    let run = |store: &Store, options: &[&str], script: &str| {
        let mut command = agent(store, options, script);
        command.env("HOME", &user).env_remove("XDG_CACHE_HOME");
        run_limited(command, LIMIT)
    };
    let npm = ["--profile", "claude", "--cache", "npm"];
    let said = run(
        &one,
        &npm,
        "cd; ls .npm; echo kept >.npm/x; chmod 500 .npm; echo >else",
    );
    assert_eq!(good(&said), "");
    assert!(err(&said).contains("nothing was changed"), "{}", err(&said));
    let both = ["--profile", "claude", "--cache", "npm", "--cache=cargo"];
    let script = "cd; find . -type f; cat .npm/x; chmod 0 .npm; ls -d .cargo/*";
    let said = run(&other, &both, script);
    let wanted = "./.npm/x\nkept\n.cargo/git\n.cargo/registry\n";
    assert_eq!(good(&said), wanted);
    let said = run(&one, &npm, "cd; find .npm -type f; echo new >made");
    assert_eq!(good(&said), ".npm/x\n");
    let aider = ["--profile", "aider", "--cache", "npm"];
    assert_eq!(good(&run(&one, &aider, "ls ~/.npm")), "");
    assert_eq!(good(&run(&one, &["--profile", "claude"], "ls ~")), "");
    let lies = user.join(".cache/trumanfs/agents/claude/%2Enpm/x");
    assert_eq!(fs::read_to_string(lies).unwrap(), "kept\n");
    assert_eq!(fs::read_dir(user.join(".npm")).unwrap().count(), 1);
    // What the agent left at its place leads nowhere.
    let kept = ["--profile", "claude", "--keep-state", ".npm"];
    good(&run(&one, &kept, "ln -s / ~/.npm"));
    let said = run(&one, &npm, "echo >ran");
    assert_eq!(said.status.code(), Some(123), "{}", describe(&said));
    let said = run(&one, &["--cache=npm", "--cache=~/.npm/in"], "echo >ran");
    assert!(err(&said).contains("it lies in the cache ~/.npm"));
    for wrong in ["/etc", "nothing", "~/", "~/../x", "~/a/../b"] {
        let said = run(&one, &["--cache", wrong], "echo >ran");
        assert_eq!(said.status.code(), Some(2), "{wrong}: {}", describe(&said));
    }
    assert!(!one.store.join("ran").exists());
    for home in ["/dev/null/none", one.store.join("cache").to_str().unwrap()] {
        let mut command = agent(&one, &["--cache", "npm"], "echo >ran");
        command.env("XDG_CACHE_HOME", home);
        let said = run_limited(command, LIMIT);
        assert_eq!(said.status.code(), Some(123), "{}", describe(&said));
        assert!(err(&said).contains("XDG_CACHE_HOME"), "{}", err(&said));
    }
    assert!(!one.store.join("cache").exists());
}

/// The programs of a version manager in the user's home directory run, and nothing beside them is there.
#[test]
fn toolchains_of_its_user_work_and_show_nothing_else() {
    need_mount!();
    let store = Store::new();
    let user = store.base.join("user");
    let put = |path: &str, text: &str| {
        let file = user.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        let mode = fs::Permissions::from_mode(if path.contains("bin/") { 0o755 } else { 0o600 });
        fs::set_permissions(&file, mode).unwrap();
    };
    put(".cargo/bin/rustup", "#!/bin/sh\n");
    put(
        ".cargo/bin/tool",
        "#!/bin/sh\nexec \"$RUSTUP_HOME/toolchains/stable/bin/tool\"\n",
    );
    put(".cargo/credentials.toml", "secret");
    put(".rustup/settings.toml", "version = \"12\"\n");
    put(
        ".rustup/toolchains/stable/bin/tool",
        "#!/bin/sh\necho the tool\n",
    );
    put(".rustup/other", "secret");
    put(
        ".nvm/versions/node/v20/bin/mynode",
        "#!/bin/sh\necho node\n",
    );
    put(".ssh/id_rsa", "secret");
    put("bin/mine", "#!/bin/sh\necho mine\n");
    put("keys/api-token", "secret");
    let dirs = [".cargo/bin", ".nvm/versions/node/v20/bin", "bin", "keys"];
    let mut path: Vec<String> = dirs.map(|dir| user.join(dir).display().to_string()).into();
    path.push(std::env::var("PATH").unwrap());
    let run = |options: &[&str], script: &str| {
        let mut command = agent(&store, options, script);
        command.env("HOME", &user).env("PATH", path.join(":"));
        for variable in ["RUSTUP_HOME", "NVM_DIR"] {
            command.env_remove(variable);
        }
        run_limited(command, LIMIT)
    };
    let script = format!(
        "tool; mynode; mine; cd {}; find . -type f | sort; echo x >bin/mine; rm -r .rustup/toolchains/stable; ls -d keys",
        user.display()
    );
    let output = run(&[], &script);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let wanted = "the tool\nnode\nmine\n./.cargo/bin/rustup\n./.cargo/bin/tool\n./.nvm/versions/node/v20/bin/mynode\n\
        ./.rustup/settings.toml\n./.rustup/toolchains/stable/bin/tool\n./bin/mine\n";
    assert_eq!(said, wanted, "{}", describe(&output));
    let said = err(&output);
    assert!(said.contains("keys of your PATH is not shown"), "{said}");
    assert_eq!(said.matches("Read-only file system").count(), 2, "{said}");
    let output = run(
        &["--toolchains", "none"],
        &format!("tool; ls {}", user.display()),
    );
    let said = err(&output);
    assert!(said.contains("tool: command not found"), "{said}");
    assert!(said.contains("No such file or directory"), "{said}");
    assert!(String::from_utf8_lossy(&output.stdout).is_empty());
    // A project around them has them at their places, and its agent may change them.
    let mut command = Command::new(binary());
    command.args(["agent", "--store"]).arg(&user);
    command.args(["--", "bash", "-c", "mine; tool; echo >bin/more"]);
    command.env("HOME", &user).env("PATH", path.join(":"));
    command.env_remove("RUSTUP_HOME").env_remove("NVM_DIR");
    let output = run_limited(command, LIMIT);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "mine\nthe tool\n",
        "{}",
        describe(&output)
    );
    assert!(user.join("bin/more").exists());
}
