//! The report of a session: it tells what happened, its commands work as printed, it is self-contained, and no name
//! or content of the occupant's becomes markup. Where a browser is available, it checks this.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use crate::common::{Home, describe, need_mount, run_limited, skip, trumanfs};
use sha2::{Digest, Sha256};

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

#[track_caller]
fn report(store: &Path, file: &Path) -> String {
    let output = trumanfs(&[
        OsStr::new("report"),
        store.as_os_str(),
        OsStr::new("--html"),
        file.as_os_str(),
    ]);
    assert_eq!(code(&output), 0, "{}", describe(&output));
    fs::read_to_string(file).unwrap()
}

/// A home in which somebody has tried to get into the page by every way there is.
fn hostile() -> Home {
    let home = Home::prepared(
        |store| fs::write(store.join("text"), "one\ntwo\n").unwrap(),
        &[],
    );
    let names = [
        "<script>document.title='pwned'<\u{2215}script>",
        "\"><img src=x onerror=document.title='pwned'>",
        "' onclick='document.title=1",
        "&lt;b&gt;",
        "line\nbreak",
        "\u{202e}gpj.exe",
        "--><!--",
        "$(touch pwned)`touch pwned`",
    ];
    for name in names {
        fs::write(
            home.path(name),
            "</pre></details><script>document.title='pwned'</script>\n",
        )
        .unwrap();
    }
    let text = "<script>document.title='pwned'</script>\u{202e}\u{0}no text any more";
    fs::write(home.path("text"), text.replace('\0', "")).unwrap();
    for name in &names[..4] {
        fs::remove_file(home.path(name)).unwrap();
    }
    home.sh("mkdir -p 'a b/it'\\''s'; echo 1 > 'a b/it'\\''s/f'; rm -r 'a b'; echo back > gone; rm gone; chmod 755 text");
    home
}

#[test]
fn it_says_what_happened_and_nothing_becomes_markup() {
    need_mount!();
    let mut home = hostile();
    let file = home.base().join("report.html");
    let while_mounted = report(home.home(), &file);
    assert!(while_mounted.contains("still running"));
    home.umount();
    let page = report(home.store(), &file);
    for words in [
        "ended cleanly",
        "What is different",
        "mode 644 → 755",
        "python",
        "/gone",
        "chmod",
        "\\u{202e}gpj.exe",
    ] {
        assert_eq!(page.contains(words), words != "python", "{words}");
    }
    let lower = page.to_lowercase();
    assert_eq!(
        lower.matches("<script").count(),
        1,
        "the page's own and no other"
    );
    assert_eq!(lower.matches("</script").count(), 1);
    assert_eq!(lower.matches("<img").count(), 0);
    assert!(!page.contains('\u{202e}'));
    for outside in [
        "http:", "https:", "//", "url(", "@import", "<link", "<iframe", "src=",
    ] {
        let quoted = ["&lt;img src=x"];
        let found = lower.replace(quoted[0], "");
        let script = found
            .split("<script>")
            .next()
            .unwrap()
            .replace("<!doctype", "");
        assert!(
            !script.contains(outside) || outside == "//",
            "{outside} leads out of the page"
        );
    }
    // Every tag is one that the page itself writes: no attribute that acts, no style.
    for tag in page
        .split('<')
        .skip(1)
        .map(|rest| rest.split('>').next().unwrap())
    {
        let acts = tag.contains(" on") || tag.contains("style=") || tag.contains("javascript:");
        assert!(!acts || tag.starts_with("!"), "{tag}");
    }
}

#[test]
fn only_its_own_style_and_script_may_work() {
    need_mount!();
    let home = hostile();
    let page = report(home.store(), &home.base().join("report.html"));
    let policy = page
        .split("Content-Security-Policy\" content=\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    assert!(policy.starts_with("default-src 'none';"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    for tag in ["style", "script"] {
        let text = page
            .split(&format!("<{tag}>"))
            .nth(1)
            .unwrap()
            .split(&format!("</{tag}>"))
            .next()
            .unwrap();
        let output = Command::new("base64")
            .arg("-w0")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn();
        let mut base64 = output.unwrap();
        std::io::Write::write_all(
            &mut base64.stdin.take().unwrap(),
            &Sha256::digest(text.as_bytes()),
        )
        .unwrap();
        let hash = String::from_utf8(base64.wait_with_output().unwrap().stdout).unwrap();
        assert!(
            policy.contains(&format!("{tag}-src 'sha256-{hash}'")),
            "{tag}: {policy}"
        );
    }
}

/// Every command of the kind, as a shell would get it.
fn commands(page: &str, start: &str) -> Vec<String> {
    let unescape = |text: &str| {
        text.replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&quot;", "\"")
            .replace("&#39;", "'")
            .replace("&amp;", "&")
    };
    let codes = page.split("<span class=\"cmd\"><code>").skip(1);
    let codes = codes.map(|rest| unescape(rest.split("</code>").next().unwrap()));
    codes.filter(|command| command.starts_with(start)).collect()
}

#[test]
fn its_commands_bring_back_what_was_removed() {
    need_mount!();
    let home = hostile();
    let page = report(home.store(), &home.base().join("report.html"));
    let found = commands(&page, "trumanfs trash restore");
    assert_eq!(found.len(), 6, "{found:?}");
    let bin = Path::new(crate::common::binary()).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    for command in found {
        let mut shell = Command::new("bash");
        shell
            .args(["-c", &command])
            .env("PATH", &path)
            .current_dir(home.base());
        let output = run_limited(shell, Duration::from_secs(60));
        assert_eq!(code(&output), 0, "{command}: {}", describe(&output));
    }
    assert_eq!(fs::read_to_string(home.path("gone")).unwrap(), "back\n");
    assert_eq!(fs::read_to_string(home.path("a b/it's/f")).unwrap(), "1\n");
    assert!(home.path("&lt;b&gt;").exists());
    assert!(!home.base().join("pwned").exists());
}

#[test]
fn what_is_too_much_is_left_out_and_told() {
    need_mount!();
    let home = Home::plan().limit(Duration::from_secs(300)).mount();
    // More paths than are listed, more contents than are shown, and longer ones.
    let script = "for d in $(seq 52); do mkdir d$d; (cd d$d; for f in $(seq 60); do echo $f > f$f; done; seq 3000 > f1); done; rm d1/f2";
    let output = home.run_within(Duration::from_secs(250), "sh", &["-euc", script]);
    assert!(output.status.success(), "{}", describe(&output));
    let mut deep = home.home().to_owned();
    for _ in 0..60 {
        deep.push("deeper and deeper");
    }
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("f"), "x").unwrap();
    let page = report(home.store(), &home.base().join("report.html"));
    assert!(page.contains("further changes are not listed here"));
    assert!(page.contains("because there is too much of it"));
    assert!(page.contains("… and more."));
    assert!(page.len() < 8 << 20, "{} bytes", page.len());
    assert_eq!(
        page.matches("<ul>").count(),
        page.matches("</ul>").count() - page.matches("<ul class").count()
    );
    assert_eq!(
        page.matches("<details").count(),
        page.matches("</details>").count()
    );
}

#[test]
fn damage_is_told_and_wishes_that_cannot_be_met_are_refused() {
    need_mount!();
    let mut home = hostile();
    home.umount();
    let file = home.base().join("report.html");
    let sessions = home.store().join(".trumanfs/sessions");
    let session = fs::read_dir(&sessions)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let journal = session.join("journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text.replacen("\"mode\":420", "\"mode\":421", 1)).unwrap();
    let page = report(home.store(), &file);
    assert!(
        page.contains("the journal is damaged") && page.contains("journal line"),
        "not told"
    );
    fs::write(&journal, text).unwrap();
    let ask = |more: &[&OsStr]| {
        let mut args = vec![OsStr::new("report"), home.store().as_os_str()];
        args.extend(more);
        code(&trumanfs(&args))
    };
    assert_eq!(
        ask(&[
            "--html".as_ref(),
            file.as_ref(),
            "--session".as_ref(),
            "1999".as_ref()
        ]),
        3
    );
    assert_eq!(
        ask(&[
            "--html".as_ref(),
            home.base().join("no/such/dir.html").as_ref()
        ]),
        6
    );
    // To standard output, of a session by the beginning of its id.
    let id = session.file_name().unwrap().to_str().unwrap();
    let output = trumanfs(&[
        "report".as_ref(),
        home.store().as_os_str(),
        "--session".as_ref(),
        id[..18].as_ref(),
        "--html".as_ref(),
        "-".as_ref(),
    ]);
    assert_eq!(code(&output), 0);
    assert!(output.stdout.starts_with(b"<!doctype html>"));
}

/// What is different comes first and unfolded, and commands have their lines.
#[test]
fn report_opens_with_the_differences() {
    need_mount!();
    let home = Home::prepared(|store| fs::write(store.join("text"), "one\n").unwrap(), &[]);
    let at = home.home().to_str().unwrap();
    let line = "echo two >> text\necho three >> text; mkdir .git; echo x > .git/index; echo y > .git/index";
    let output = trumanfs(&["exec", "--root", at, "--", line]);
    assert!(output.status.success(), "{}", describe(&output));
    let file = home.base().join("report.html");
    let output = trumanfs(&[
        "report",
        at,
        "--run",
        "last",
        "--html",
        file.to_str().unwrap(),
    ]);
    assert!(output.status.success(), "{}", describe(&output));
    let page = fs::read_to_string(&file).unwrap();
    assert!(
        page.contains("echo two &gt;&gt; text\necho three"),
        "{page}"
    );
    assert!(
        !page.contains("\\x0a") && !page.contains("\\u{a}"),
        "{page}"
    );
    let at = |what: &str| page.find(what).unwrap_or_else(|| panic!("{what}: {page}"));
    assert!(at("What is different") < at("id=\"h-time\""));
    assert!(at("id=\"h-time\"") < at("id=\"h-where\""));
    assert!(
        page.contains("<details class=\"file\" open><summary>"),
        "{page}"
    );
    // Git's own are folded, in the tree and among what was destroyed.
    let git = page.split("<bdi class=\"folder\">.git/").next().unwrap();
    assert!(
        git.ends_with("</span></span> ") && git.contains("<details><summary>"),
        "{git}"
    );
    assert!(
        page.contains("<details class=\"noise\"><summary>Git’s own files: 1 thing"),
        "{page}"
    );
}

/// `--open` shows the page with the caller's browser, and says where it is where there is none.
#[test]
fn report_is_opened_in_a_browser() {
    need_mount!();
    let home = Home::prepared(|store| fs::write(store.join("text"), "one\n").unwrap(), &[]);
    home.sh("echo two > text");
    let at = home.home().to_str().unwrap();
    let bin = home.base().join("bin");
    fs::create_dir(&bin).unwrap();
    let place = |name: &str, status: u8| {
        let shown = home.base().join("shown");
        let script = format!(
            "#!/bin/sh\n/bin/cp \"$1\" {}\nexit {status}\n",
            shown.display()
        );
        fs::write(bin.join(name), script).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(bin.join(name), mode).unwrap();
    };
    let file = home.base().join("report.html");
    let open = |browser: &str| {
        let mut command = Command::new(crate::common::binary());
        command.args(["report", at, "--open", "--html"]).arg(&file);
        command.env("BROWSER", browser).env("PATH", &bin);
        let _ = fs::remove_file(home.base().join("shown"));
        run_limited(command, Duration::from_secs(50))
    };
    let is_shown = || fs::read(home.base().join("shown")).ok() == fs::read(&file).ok();
    // No browser: the page is written, and named.
    let output = open("");
    assert_eq!(code(&output), 6, "{}", describe(&output));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("neither BROWSER in the environment nor xdg-open in PATH"),
        "{said}"
    );
    assert!(said.contains(file.to_str().unwrap()), "{said}");
    place("xdg-open", 0);
    assert_eq!(code(&open("")), 0);
    assert!(is_shown());
    place("xdg-open", 3);
    assert!(String::from_utf8_lossy(&open("").stderr).contains("xdg-open ended with"));
    // The first browser that works, before xdg-open.
    place("mine", 0);
    let output = open("no-such-browser:mine %s");
    assert_eq!(code(&output), 0, "{}", describe(&output));
    assert!(is_shown());
    assert!(String::from_utf8_lossy(&open("no-such-browser").stderr).contains("no-such-browser: "));
    let output = trumanfs(&["report", at, "--open", "--html", "-"]);
    assert_eq!(code(&output), 2, "{}", describe(&output));
}

/// Measures, in a frame of a width, how much wider the page is, and which of its elements hide a part of themselves.
const MEASURE: &str = r#"<!doctype html><body><script>
addEventListener("load", () => {
  const frame = document.createElement("iframe");
  frame.width = WIDTH; frame.height = 4000; frame.style.border = "0";
  frame.src = "report.html";
  frame.onload = () => {
    const page = frame.contentDocument;
    const found = [page.documentElement.scrollWidth > WIDTH ? "page" : ""];
    for (const at of page.querySelectorAll("main *:not(.sr), header *")) {
      const hides = getComputedStyle(at).overflowX !== "visible" && at.clientWidth > 0;
      if (hides && at.scrollWidth > at.clientWidth + 1) found.push(at.className || at.tagName);
    }
    document.body.textContent = "measured[" + found.filter(Boolean).join(",") + "]";
  };
  document.body.append(frame);
});
</script>"#;

#[test]
fn nothing_is_clipped_on_a_narrow_page() {
    need_mount!();
    let home = hostile();
    let long = "x".repeat(300);
    fs::write(home.path("n".repeat(200)), format!("{long}\n")).unwrap();
    home.sh(&format!("echo {long} >> text; : {long}"));
    report(home.store(), &home.base().join("report.html"));
    for width in [320, 500, 1280] {
        let measure = home.base().join("measure.html");
        fs::write(&measure, MEASURE.replace("WIDTH", &width.to_string())).unwrap();
        let mut command = Command::new("chromium");
        command.args(["--headless=new", "--no-sandbox", "--disable-gpu"]);
        command.args([
            "--allow-file-access-from-files",
            "--virtual-time-budget=20000",
            "--dump-dom",
        ]);
        let profile = home.base().join("profile");
        command.arg(format!("--user-data-dir={}", profile.display()));
        command
            .arg("--window-size=1400,4200")
            .arg(format!("file://{}", measure.display()));
        if Command::new("chromium").arg("--version").output().is_err() {
            skip!("browser", "needs a browser: chromium");
        }
        let output = run_limited(command, Duration::from_secs(50));
        let dom = String::from_utf8_lossy(&output.stdout).into_owned();
        if dom.is_empty() {
            skip!(
                "browser",
                "chromium does not run here: {}",
                describe(&output)
            );
        }
        let found = dom
            .split_once("measured[")
            .and_then(|(_, rest)| rest.split_once(']'));
        let found = found.map(|(found, _)| found.to_owned());
        // On a wide page the lines of a difference keep their length, and scroll.
        let clipped: Vec<&str> = found.as_deref().map_or(vec!["unmeasured"], |found| {
            let clipped = found.split(',').filter(|name| !name.is_empty());
            clipped
                .filter(|name| width < 640 || !["diff", "CODE"].contains(name))
                .collect()
        });
        assert!(clipped.is_empty(), "{width}: {clipped:?}: {dom}");
    }
}

#[test]
fn a_browser_shows_it_and_runs_nothing_else() {
    need_mount!();
    let browsers = ["chromium", "chromium-browser", "google-chrome"];
    let found = browsers.iter().find(|name| {
        Command::new(name)
            .arg("--version")
            .output()
            .is_ok_and(|o| o.status.success())
    });
    let Some(browser) = found else {
        skip!("browser", "needs a browser: chromium");
    };
    let home = hostile();
    let file = home.base().join("report.html");
    report(home.store(), &file);
    let ask = |more: &[String]| {
        let mut command = Command::new(browser);
        command.args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
        ]);
        command.arg(format!(
            "--user-data-dir={}",
            home.base().join("profile").display()
        ));
        command.args(more).arg(format!("file://{}", file.display()));
        run_limited(command, Duration::from_secs(50))
    };
    let output = ask(&["--dump-dom".to_owned()]);
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    if dom.is_empty() {
        skip!(
            "browser",
            "{browser} does not run here: {}",
            describe(&output)
        );
    }
    assert!(dom.contains("· trumanfs</title>"), "the title was changed");
    assert!(dom.contains("What was destroyed, and how to get it back"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !said.contains("Content Security Policy") && !said.contains("CONSOLE"),
        "{said}"
    );
    let picture = home.base().join("page.png");
    ask(&[
        "--window-size=1180,1600".to_owned(),
        format!("--screenshot={}", picture.display()),
    ]);
    let bytes = fs::read(&picture).unwrap();
    assert!(
        bytes.starts_with(b"\x89PNG") && bytes.len() > 30_000,
        "{} bytes",
        bytes.len()
    );
}

/// What an operator did topped the programs, and what git and compilers fill by themselves came before what was edited.
#[test]
fn edits_come_first_and_an_operator_last() {
    need_mount!();
    let home = Home::prepared(
        |store| {
            fs::create_dir_all(store.join("src")).unwrap();
            fs::write(store.join("src/edited"), "1\n").unwrap();
            fs::create_dir(store.join("node_modules")).unwrap();
            for n in 0..50 {
                fs::write(store.join(format!("gone{n}")), "x").unwrap();
            }
        },
        &[],
    );
    home.sh("printf '#!/bin/sh\\nsleep 0.2; echo > made' > script; chmod +x script; ./script");
    home.sh("rm gone*; echo 2 > src/edited; echo x > added; echo x > node_modules/lib; mkdir .git; echo x > .git/o");
    let undo = ["undo", "HOME", "--session", "last", "--program", "rm"];
    let undo = undo.map(|word| match word {
        "HOME" => home.home().as_os_str(),
        word => std::ffi::OsStr::new(word),
    });
    assert_eq!(code(&home.trumanfs(&undo)), 0);
    let page = report(home.store(), &home.base().join("order.html"));
    let at = |text: &str| {
        page.find(text)
            .unwrap_or_else(|| panic!("{text} is not in the page"))
    };
    let row = |name: &str| at(&format!("<th scope=\"row\"><bdi>{name}"));
    assert!(row("rm") < row("an operator"), "who did what");
    // As `log` has it: not by its interpreter.
    row("script<");
    let tree = at("<div class=\"tree\">");
    let line = |text: &str| tree + page[tree..].find(text).unwrap();
    assert!(line(">edited<") < line(">added<"));
    assert!(line(">added<") < line(">.git/<"));
    assert!(line(">added<") < line(">node_modules/<"));
    let bulk = &page[line(">.git/<") - 120..line(">.git/<")];
    assert!(!bulk.contains("<details open>"), "{bulk}");
}
