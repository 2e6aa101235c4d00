//! What leaves a line of the output of its programs: `max_output_bytes` and `suppress_success_output` in lines.

use crate::common::{need_mount, need_tools, skip};
use crate::line_sandboxes::{place, prints, through_both_doors};
use crate::programs::need_sandbox;

const SIXTEEN: &str = "dash -c 'printf 0123456789abcdef'";

#[test]
fn a_program_s_share_of_what_leaves_a_line_is_limited() {
    let place = place("max_output_bytes: 10");
    need_sandbox!(place);
    let cut = "0123456789\n... (6 more bytes, 16 total)\n";
    for (line, stdout, stderr) in [
        (SIXTEEN.to_owned(), cut, ""),
        (
            format!("{{ {SIXTEEN}; }}; echo end"),
            "0123456789\n... (6 more bytes, 16 total)\nend\n",
            "",
        ),
        (format!("echo x | {SIXTEEN} >&2"), "", cut),
        ("dash -c 'printf 0123456789abcdef >&2'".to_owned(), "", cut),
        (
            "dash -c 'printf 01234567; printf 89abcdef >&2' 2>&1".to_owned(),
            cut,
            "",
        ),
    ] {
        through_both_doors(&place, &[], &line, |outcome, _| {
            assert_eq!(
                (&outcome["stdout"], &outcome["stderr"]),
                (&stdout.into(), &stderr.into()),
                "{outcome:#}"
            );
            assert_eq!(
                outcome["truncated_stdout"],
                !stdout.is_empty(),
                "{outcome:#}"
            );
            assert_eq!(
                outcome["truncated_stderr"],
                !stderr.is_empty(),
                "{outcome:#}"
            );
        });
    }
    // What stays in the line is whole, and each program has a share of its own.
    let line = format!(
        "{SIXTEEN} | cat; echo; x=$({SIXTEEN}); echo $x; {SIXTEEN} > f; cat f; echo; {SIXTEEN} | bash -c cat; echo; \
         dash -c 'printf 0123456'; dash -c 'echo 0123456'"
    );
    let whole = "0123456789abcdef\n";
    let printed = format!("{whole}{whole}{whole}{whole}01234560123456\n");
    through_both_doors(&place, &[], &line, |outcome, _| {
        assert_eq!(outcome["stdout"], *printed, "{outcome:#}");
        assert_eq!(outcome["truncated_stdout"], false);
    });
}

#[test]
fn a_program_that_succeeds_may_be_silent_in_a_line() {
    let place = place("suppress_success_output: true");
    need_sandbox!(place);
    let says = |code: u8| format!("dash -c 'echo out; echo err >&2; exit {code}'");
    let line = format!(
        "{}; {} || echo or; {} | cat; x=$({}); echo \"[$x]\"; {} > f; cat f; echo in | dash -c cat && echo and; {} 2>&1",
        says(0),
        says(3),
        says(0),
        says(0),
        says(0),
        says(4)
    );
    through_both_doors(&place, &[], &line, |outcome, _| {
        assert_eq!(
            (&outcome["stdout"], &outcome["stderr"]),
            // Of a program that fails all is there, in the order in which it was written where both go to one place.
            (
                &"out\nor\nout\n[out]\nout\nand\nout\nerr\n".into(),
                &"err\n".into()
            ),
            "{outcome:#}"
        );
    });
    // A program whose time is up has not succeeded.
    let place = self::place("suppress_success_output: true, default_timeout: 1");
    prints(&place, "dash -c 'echo begun; sleep 60'", "begun\n");
}

#[test]
fn what_is_written_to_one_place_stays_in_order() {
    let place = place("ptrace: false");
    need_sandbox!(place);
    let script = "i=0; while [ $i -lt 300 ]; do echo $i; i=$((i+1)); echo $i >&2; i=$((i+1)); done";
    let wanted: String = (0..300).map(|number| format!("{number}\n")).collect();
    for to in ["2>&1 | cat", "2>&1"] {
        let line = format!("dash -c '{script}' {to}");
        through_both_doors(&place, &["--max-lines", "0"], &line, |outcome, _| {
            assert_eq!(outcome["stdout"], *wanted, "{to}: {outcome:#}");
        });
    }
}
