//! Tests of `date` by itself: directives, names of formats, files and messages.
#![allow(clippy::unwrap_used)]

use crate::commands::tests::Bench;

fn words(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

fn said(args: &[&str]) -> (String, String, u8) {
    let mut all = words(&["date"]);
    all.extend(words(args));
    Bench::new().call(&all, "")
}

/// The output of GNU date for 2026-01-02 03:04:05.067 UTC.
const GNU: &str = "%1d|2\n%3d|002\n%-3d|2\n%_3d|  2\n%03d|002\n%5a|  Fri\n%05a|00Fri\n%-5a|Fri\n%^a|FRI\n%#a|FRI
%#p|am\n%p|AM\n%P|am\n%^P|am\n%#Z|utc\n%^b|JAN\n%h|Jan\n%A %B|Friday January\n%N|067000000\n%3N|067\n%6N|067000
%-N|067000000\n%_N|067      \n%12N|067000000000\n%_3N|067\n%1N|0\n%F|2026-01-02\n%12F|002026-01-02\n%_12F|  2026-01-02
%T|03:04:05\n%10T|  03:04:05\n%e| 2\n%0e|02\n%-e|2\n%k| 3\n%-k|3\n%l| 3\n%_H| 3\n%-H|3\n%-m|1\n%_m| 1\n%j|002\n%-j|2
%_j|  2\n%s|1767323045\n%15s|000001767323045\n%_15s|     1767323045\n%Y|2026\n%6Y|002026\n%_6Y|  2026\n%C|20\n%y|26
%q|1\n%g|26\n%G|2026\n%V|01\n%U|00\n%W|00\n%u|5\n%w|5\n%z|+0000\n%:z|+00:00\n%::z|+00:00:00\n%:::z|+00\n%-z|+0
%_z|   +0\n%_:z| +0:00\n%-:z|+0:00\n%8z|+0000000\n%_8z|      +0\n%Z|UTC\n%5Z|  UTC\n%c|Fri Jan  2 03:04:05 2026
%30c|      Fri Jan  2 03:04:05 2026\n%x|01/02/26\n%X|03:04:05\n%r|03:04:05 AM\n%D|01/02/26\n%R|03:04\n%Q|%Q\n%Ey|26
%Od|02\n%%|%\n%|%\n%-|%-\n%::::z|%::::z\n%:Y|%:Y\n%I|03\n%-I|3\n%M %S|04 05\nabc|abc\n%5n|    \n";

#[test]
fn format_directives_match_gnu() {
    for line in GNU.split('\n') {
        let Some((format, expected)) = line.split_once('|') else {
            continue;
        };
        let (out, err, status) =
            said(&["-u", "-d", "2026-01-02 03:04:05.067", &format!("+{format}")]);
        assert_eq!(out.lines().next(), Some(expected), "{format}");
        assert_eq!((err.as_str(), status), ("", 0), "{format}");
    }
}

#[test]
fn formats_by_name() {
    for (args, expected) in [
        (&["-u", "-d", "@0"][..], "Thu Jan  1 00:00:00 UTC 1970"),
        (&["-u", "-d", "@0", "-I"], "1970-01-01"),
        (&["-u", "-d", "@0", "-Ihours"], "1970-01-01T00+00:00"),
        (&["-u", "-d", "@0", "-Im"], "1970-01-01T00:00+00:00"),
        (
            &["-u", "-d", "@0", "-Iseconds"],
            "1970-01-01T00:00:00+00:00",
        ),
        (
            &["-u", "-d", "@0", "-Ins"],
            "1970-01-01T00:00:00,000000000+00:00",
        ),
        (&["-u", "-d", "@0", "--iso-8601"], "1970-01-01"),
        (
            &["-u", "-d", "@0", "--iso-8601=s"],
            "1970-01-01T00:00:00+00:00",
        ),
        (&["-u", "-d", "@0", "--rfc-3339=date"], "1970-01-01"),
        (
            &["-u", "-d", "@0", "--rfc-3339=s"],
            "1970-01-01 00:00:00+00:00",
        ),
        (
            &["-u", "-d", "@0.5", "--rfc-3339=ns"],
            "1970-01-01 00:00:00.500000000+00:00",
        ),
        (&["-u", "-d", "@0", "-R"], "Thu, 01 Jan 1970 00:00:00 +0000"),
        (&["-u", "--date=@-1.5", "+%s %N %5s"], "-2 500000000 -0002"),
        (
            &["-u", "-d", "0999-01-01", "+%Y %F %C"],
            "0999 0999-01-01 09",
        ),
        (
            &["-u", "-d", "2026-07-04 15:00", "+%I %l %p %U %W %V %j %q"],
            "03  3 PM 26 26 27 185 3",
        ),
        (
            &["-u", "-d", "2026-07-04 12:00 +0200"],
            "Sat Jul  4 10:00:00 UTC 2026",
        ),
        (&["-u", "-d", "2026-07-04", "+"], ""),
    ] {
        assert_eq!(
            said(args),
            (format!("{expected}\n"), String::new(), 0),
            "{args:?}"
        );
    }
}

#[test]
fn date_reads_dates_and_times_of_files() {
    let mut bench = Bench::new();
    bench.put("dates", "2026-01-02\nxyz\n@0");
    let told = bench.run("date -u -f dates +%F", "");
    let expected = "2026-01-02\n1970-01-01\n".to_owned();
    assert_eq!(told, (expected, "date: invalid date 'xyz'\n".to_owned(), 1));
    assert_eq!(bench.run("date -u -f - +%s", "@7\n").0, "7\n");
    let time = std::time::UNIX_EPOCH + std::time::Duration::new(1_234_567_890, 500_000_000);
    let file = std::fs::File::options()
        .write(true)
        .open(bench.dir.path().join("dates"));
    file.unwrap().set_modified(time).unwrap();
    assert_eq!(
        bench.run("date -r dates +%s.%N", "").0,
        "1234567890.500000000\n"
    );
    let told = bench.run("date -r missing", "");
    assert_eq!(told.1, "date: missing: No such file or directory\n");
    assert_eq!(told.2, 1);
}

#[test]
fn date_without_arguments_is_now() {
    let before = chrono::Utc::now().timestamp();
    let (out, err, status) = said(&["+%s"]);
    let now: i64 = out.trim().parse().unwrap();
    assert!((before..before + 60).contains(&now));
    assert_eq!((err.as_str(), status), ("", 0));
    // The zone is the machine's own; it has a name or a number.
    assert!(said(&["+%Z"]).0.len() > 1);
}

#[test]
fn date_reports_wrong_arguments() {
    for (args, message) in [
        (&["-d", "xyz"][..], "invalid date 'xyz'"),
        (&["xyz"], "invalid date 'xyz'"),
        (&["1122"], "invalid date '1122'"),
        (&[""], "invalid date ''"),
        (&["01010101"], "cannot set date: Operation not supported"),
        (
            &["010101012026.30"],
            "cannot set date: Operation not supported",
        ),
        (
            &["-s", "2026-01-01"],
            "cannot set date: Operation not supported",
        ),
        (&["-s", "xyz"], "invalid date 'xyz'"),
        (
            &["-s", "now", "-d", "now"],
            "the options to print and set the time may not be used together",
        ),
        (
            &["-d", "now", "-r", "x"],
            "the options to specify dates for printing are mutually exclusive",
        ),
        (
            &["-d", "now", "xyz"],
            "the argument 'xyz' lacks a leading '+'",
        ),
        (&["+%F", "+%T"], "extra operand '+%T'"),
        (&["-I", "-R"], "multiple output formats specified"),
        (&["-R", "+%F"], "multiple output formats specified"),
        (&["-Ix"], "invalid argument 'x' for '--iso-8601'"),
        (&["--rfc-3339="], "ambiguous argument '' for '--rfc-3339'"),
        (&["--rfc-3339"], "option '--rfc-3339' requires an argument"),
        (&["-d"], "option requires an argument -- 'd'"),
        (&["-Z"], "invalid option -- 'Z'"),
        (&["-3"], "invalid option -- '3'"),
        (&["--zulu"], "unrecognized option '--zulu'"),
    ] {
        let expected = (String::new(), format!("date: {message}\n"), 1);
        assert_eq!(said(args), expected, "{args:?}");
    }
}
