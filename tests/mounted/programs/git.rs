//! git: the same commands in an ordinary directory must give the same hashes.

use crate::common::{need_mount, need_tools};
use crate::programs::script::{NO_PASSTHROUGH, PLAIN, in_home, mount, same};

/// A repository with some history, outside of the home.
const ORIGIN: &str = r#"
    origin=$BASE/origin
    if [ ! -d "$origin" ]; then
        git init -q -b main "$origin"
        cp -r "$SCRIPTS" "$origin/programs"; chmod +x "$origin"/programs/*.py
        git -C "$origin" add -A; git -C "$origin" commit -qm first
        for n in $(seq 30); do
            echo "$n" >>"$origin/count"; mkdir -p "$origin/dir$((n % 7))"; echo "$n" >"$origin/dir$((n % 7))/file$n"
            git -C "$origin" add -A; git -C "$origin" commit -qm "commit $n"
        done
        git -C "$origin" checkout -q -b side HEAD~5; echo side >"$origin/side"
        git -C "$origin" add -A; git -C "$origin" commit -qm side; git -C "$origin" checkout -q main
    fi
"#;

/// What somebody does in a repository.
///
/// The untracked cache is tried three times: git wants another second in the time of a directory that changes a second
/// later, and the kernel sets times that lag behind the clock (7 ms measured, natively as well).
const WORK: &str = r#"
    git clone -q "$origin" repo; cd repo
    git status --porcelain=v2 --branch | sed -E 's/[0-9a-f]{40}/&/'; git log --oneline -3; git ls-files -s | git hash-object --stdin
    git checkout -q -b topic; echo topic >topic; echo changed >>count; git add -A; git commit -qm topic; git rev-parse HEAD
    git diff --stat HEAD~3; git mv count counted; git rm -q dir1/file1; git commit -qam moved; git rev-parse HEAD
    git checkout -q main; echo main >mainfile; git add mainfile; git commit -qm main
    git merge -q --no-edit topic; git rev-parse HEAD
    git merge -q --no-edit origin/side; git rev-parse HEAD
    git checkout -q topic; git rebase -q main; git rev-parse HEAD
    git rebase -q --onto HEAD~3 HEAD~1; git rev-parse HEAD; git reset -q --hard main
    git cherry-pick origin/side~1 --allow-empty >/dev/null 2>&1 || git cherry-pick --skip; git rev-parse HEAD
    echo stashed >>counted; echo untracked >new; git stash push -qu; git status --short; git stash pop -q; git status --short
    git checkout -q -- .; git clean -fdxq; git status --short
    echo conflict >side; git commit -qam conflict; git checkout -q -b other HEAD~1; echo other >side; git commit -qam other
    git merge topic >/dev/null 2>&1 || git status --short; git merge --abort
    git worktree add -q ../tree main; git -C ../tree status --short; git worktree list | wc -l; git worktree remove ../tree
    git tag -a v1 -m v1; git describe; git archive HEAD | tar t | wc -l; git grep -c 1 -- dir2 | wc -l
    git bisect start HEAD $(git rev-list --max-parents=0 HEAD | sed -n 1p) >/dev/null; git bisect run sh -c 'test ! -e dir3/file10' >/dev/null; git rev-parse bisect/bad; git bisect reset 2>/dev/null
    git format-patch -q -2 -o patches; git checkout -q HEAD~2; git am -q patches/*; git rev-parse HEAD^{tree}
    git fsck --full --strict 2>&1 | grep -v dangling || true
    git repack -adq; git gc -q --prune=now; git fsck --full 2>&1 | grep -v dangling || true
    git count-objects -v | grep -E 'count|in-pack|garbage'
    git config core.untrackedCache true; tries() { git update-index --test-untracked-cache >/dev/null 2>&1; }; tries || tries || tries && echo untracked cache || echo no untracked cache
    git maintenance run --task=commit-graph --quiet; git rev-list --count --all
    git clone -q . ../again; git -C ../again rev-parse HEAD; git clone -q --depth 1 "file://$PWD" ../shallow 2>/dev/null; git -C ../shallow log --oneline | wc -l
    git -C ../again push -q origin HEAD:refs/heads/pushed; git rev-parse pushed
    git bundle create -q ../all.bundle --all; git bundle verify -q ../all.bundle && echo bundle
"#;

#[test]
fn a_working_day_gives_the_same_hashes() {
    need_mount!();
    need_tools!("git");
    same(&mount(PLAIN), &format!("{ORIGIN}{WORK}"));
}

#[test]
fn a_working_day_gives_the_same_hashes_without_passthrough() {
    need_mount!();
    need_tools!("git");
    same(&mount(NO_PASSTHROUGH), &format!("{ORIGIN}{WORK}"));
}

#[test]
fn the_home_itself_can_be_a_repository_and_the_trash_is_no_part_of_it() {
    need_mount!();
    need_tools!("git");
    let home = mount(PLAIN);
    in_home(
        &home,
        r#"
        rmdir tmp; git init -q -b main .; echo 1 >a; echo 2 >b; git add -A; git commit -qm first
        rm b; git add -A; git commit -qm second
        [ "$(git ls-files)" = a ]; [ -z "$(git status --porcelain --ignored)" ]
        git checkout -q HEAD~1; [ "$(cat b)" = 2 ]; git checkout -q main; git clean -fdxq
        [ "$(find . -path ./.git -prune -o -type f -print)" = ./a ]
        ls .trash | grep -q _b
        git fsck --full
        "#,
    );
}
