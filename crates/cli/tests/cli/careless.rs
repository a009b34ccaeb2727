//! Careless calls: endless inputs, data that does not fit into memory, files of other programs,
//! limited terminals. Each call is rejected with an error of one line, or does what its caller
//! means.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::{Done, maypole, run_with};

fn binary() -> &'static str {
    env!("CARGO_BIN_EXE_maypole")
}

fn done(output: Output) -> Done {
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    Done {
        code: output.status.code().expect("it was not killed"),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

/// Runs `script` in a shell, where `$M` is the program and `$D` is `dir`. Temporary files go to
/// `$D/tmp`.
fn shell(dir: &Path, script: &str) -> Done {
    fs::create_dir_all(dir.join("tmp")).unwrap();
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(script).env("M", binary()).env("D", dir).env("TMPDIR", dir.join("tmp"));
    done(shell.stdin(Stdio::null()).output().unwrap())
}

/// Runs the program with `variables` in its environment.
fn with(variables: &[(&str, &str)], arguments: &[&str]) -> Done {
    let mut command = Command::new(binary());
    command.args(arguments).envs(variables.iter().copied()).stdin(Stdio::null());
    done(command.output().unwrap())
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).unwrap().next().is_none()
}

fn keys(dir: &Path) -> std::path::PathBuf {
    let path = dir.join("keys");
    let lines: String = (0..2000).map(|i| format!("key {i}\n")).collect();
    fs::write(&path, lines).unwrap();
    path
}

/// Regression: `compare` of 300 policies under a memory limit aborted, and left hundreds of
/// megabytes in the directory for temporary files. Now it is rejected at the start.
#[cfg(target_os = "linux")]
#[test]
fn more_databases_than_memory_holds_are_refused_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let policies = vec!["bloom(10)"; 300].join(",");
    let call = format!("ulimit -v 4000000; $M compare --keys 1k --policies '{policies}'");
    let error = shell(dir.path(), &call).badly(1);
    assert!(error.contains("301 databases") && error.contains("--sweep"), "{error}");
    assert!(is_empty(&dir.path().join("tmp")));
}

/// Regression: input without a line break, or a key file without an end such as `/dev/zero`, took
/// all memory, and the process aborted. Now the call fails with an error of one line.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn what_has_no_end_is_refused_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let endless = "yes | tr -d '\\n' | head -c 600000000";
    for (call, said) in [
        ("$M load $D/db --key-file -", "line 1"),
        ("$M load $D/db --key-file - --tsv", "line 1"),
        ("$M write-table --out $D/t.sst", "line 1"),
        ("$M compare --key-file -", "standard input: more than"),
    ] {
        let error = shell(dir.path(), &format!("ulimit -v 700000; {endless} | {call}")).badly(1);
        assert!(error.contains(said), "{call}: {error}");
        let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().path()).collect();
        assert_eq!(left, [dir.path().join("tmp")], "{call}");
        assert!(is_empty(&dir.path().join("tmp")), "{call}");
    }
    for call in
        ["compare --key-file", "load $D/db --key-file", "compare --key-file k --absent-file"]
    {
        for device in ["/dev/zero", "/dev/urandom"] {
            let call = format!(
                "cd $D; printf 'a\\nb\\nc\\n' > k; $M {call} {device}; rc=$?; rm k; exit $rc"
            );
            let error = shell(dir.path(), &call).badly(1);
            assert!(error.contains("is a device"), "{error}");
        }
    }
    // /dev/null is a device as well, but it is accepted as an empty file because its input ends.
    let error = maypole!("compare", "--key-file", "/dev/null").badly(1);
    assert!(error.contains("no keys"), "{error}");
    let error = maypole!("compare", "--key-file", dir.path()).badly(1);
    assert!(error.contains("is a directory"), "{error}");
}

/// Regression: `compare` took a file that gzip had made for a list of 9 keys, and printed a verdict
/// on filters for them. The byte order mark of UTF-8 became part of the first key.
#[test]
fn compressed_files_and_other_encodings_are_no_keys() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("keys");
    let db = dir.path().join("db");
    let utf16: Vec<u8> =
        "some key\nanother key\nkey 3\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (bytes, said) in [
        (&b"\x1f\x8b\x08\x00\x00\x00\n\x00\x00\nabc\n"[..], "gzip -dc"),
        (b"\x28\xb5\x2f\xfd\n\n\n\n", "zstd -dc"),
        (b"\xfd7zXZ\0\n\n\n\n", "xz -dc"),
        (b"BZh91AY&SY\n\n\n\n", "bzip2 -dc"),
        (b"PK\x03\x04\n\n\n\n", "unzip -p"),
        (b"\xff\xfea\0\n\0b\0\n\0c\0\n\0", "iconv"),
        (&utf16, "iconv"),
    ] {
        fs::write(&path, bytes).unwrap();
        for call in [&["compare", "--key-file"][..], &["load", db.to_str().unwrap(), "--key-file"]]
        {
            let call: Vec<_> = call.iter().map(Into::into).chain([path.clone().into()]).collect();
            let error = crate::run::<std::ffi::OsString>(&call).badly(1);
            assert!(error.contains(said), "{error}");
        }
        assert!(!db.exists());
    }
    let marked = b"\xef\xbb\xbfa\t1\nb\t2\n";
    for (format, value) in [("tsv", "a\t1\nb\t2\n"), ("escaped", "a\t1\nb\t2\n")] {
        let db = dir.path().join(format);
        let call = ["load", db.to_str().unwrap(), "--key-file", "-", "--format", format];
        let loaded = run_with(&call, marked);
        assert!(loaded.code == 0 && loaded.err.contains("byte order mark"), "{}", loaded.err);
        assert_eq!(maypole!("scan", &db).well(), value);
    }
    // In the binary format, the bytes of a byte order mark are ordinary bytes of the key.
    let db = dir.path().join("binary");
    let call = ["load", db.to_str().unwrap(), "--key-file", "-", "--format", "binary"];
    run_with(&call, b"\x03\0\0\0\xef\xbb\xbf\0\0\0\0").well();
    assert_eq!(maypole!("count", &db).well(), "1\n");
}

/// Regression: `compare --out` overwrote a page of another program without a warning. Now it fails
/// if `index.html` is not of an earlier `compare`, or is missing while other output files exist.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn only_pages_of_the_same_command_are_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let keys = keys(dir.path());
    let out = dir.path().join("out");
    let compare = || {
        maypole!("compare", "--key-file", &keys, "--policies", "bloom(10)", "--cold", "--out", &out)
    };
    fs::create_dir(&out).unwrap();
    for name in ["index.html", "compare.json", "speed.csv"] {
        let path = out.join(name);
        fs::write(&path, "of somebody else").unwrap();
        let error = compare().badly(1);
        assert!(error.contains(name) && error.contains("did not make it"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "of somebody else");
        fs::remove_file(path).unwrap();
    }
    let page = out.join("index.html");
    let other = maypole!("structures", "--keys=1000", "--out", &dir.path().join("keys")).badly(1);
    assert!(other.contains("keys"), "{other}");
    fs::write(&page, "<meta name=\"generator\" content=\"maypole structures\">").unwrap();
    compare().badly(1);
    // A page of the same command may be replaced, also if its other files are missing: a call
    // writes the page first, and may be interrupted right after it.
    fs::write(&page, "<meta name=\"generator\" content=\"maypole compare\">").unwrap();
    fs::write(out.join("notes.txt"), "mine").unwrap();
    for _ in 0..2 {
        let made = compare();
        assert_eq!(made.code, 0, "{}", made.err);
        let files: Vec<_> = fs::read_dir(&out).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert!(files.iter().all(|name| !name.to_str().unwrap().starts_with('.')), "{files:?}");
        assert_eq!(fs::read_to_string(out.join("notes.txt")).unwrap(), "mine");
    }
    assert!(fs::read_to_string(&page).unwrap().contains("<h1>Filter policies compared</h1>"));
}

/// Regression: a call that SIGKILL or a lack of memory ended left a scratch directory, which was
/// never removed. Now the next call removes it.
#[cfg(unix)]
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn what_a_killed_call_left_is_removed_by_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let tmp = dir.path().join("tmp");
    fs::create_dir(&tmp).unwrap();
    let mut call = Command::new(binary());
    call.args(["compare", "--keys", "400k"]).env("TMPDIR", &tmp);
    call.stdout(Stdio::null()).stderr(Stdio::null());
    let mut killed = call.spawn().unwrap();
    let owned = || {
        let mut dirs = fs::read_dir(&tmp).unwrap().map(|entry| entry.unwrap().path());
        dirs.find(|path| path.join("maypole-scratch.lock").exists())
    };
    let left = loop {
        match owned() {
            Some(path) => break path,
            None => std::thread::sleep(std::time::Duration::from_millis(5)),
        }
    };
    // The directory is in use, so another call leaves it alone.
    let quick = "$M compare --keys 100 --policies none --json";
    let said = shell(dir.path(), quick);
    assert!(said.code == 0 && !said.err.contains("cut off") && left.exists(), "{}", said.err);
    killed.kill().unwrap();
    killed.wait().unwrap();
    // This directory has no lock file, so it may belong to another program and is not removed.
    fs::create_dir(tmp.join("maypole-compare-old")).unwrap();
    let said = shell(dir.path(), quick);
    assert!(said.code == 0 && said.err.contains("cut off, removed"), "{}", said.err);
    assert!(!left.exists() && tmp.join("maypole-compare-old").exists());
}

/// Regression: `--bits 0.5` was advertised, but rejected after the call had started, with exit code
/// 1 rather than 2.
#[test]
fn bits_that_no_filter_has_are_refused_as_a_call() {
    for bits in ["0.5", "0.99", "29"] {
        let error = maypole!("compare", "--bits", bits, "--policies", "bloom(BITS)").badly(2);
        assert!(error.contains("between 1 and 28"), "{error}");
    }
    let error = maypole!("compare", "--policies", "bloom(BITS+80)", "--bits", "28").badly(2);
    assert!(error.contains("between 1 and 100"), "{error}");
}

/// Regression: `size` printed the heading "at most 30.0 %" above a row of 30.2 %, and the heading
/// "the same memory" above rows of 69 B and 2 B.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn rows_keep_what_their_heading_says() {
    for rate in ["0.5", "0.3", "0.17", "0.01", "0.00001"] {
        for keys in ["1", "2", "30", "1000", "1M"] {
            let done = maypole!("size", "--rate", rate, "--keys", keys, "--json");
            let rows: serde_json::Value = serde_json::from_str(&done.out).unwrap();
            let textbook = &rows["filters"][0];
            let fpr = textbook["fpr"].as_f64().unwrap();
            assert!(fpr <= rate.parse::<f64>().unwrap(), "{rate} {keys}: {textbook}");
        }
    }
    let few = maypole!("size", "--keys", "1");
    assert!(few.out.contains("Filters of 1 key,"), "{}", few.out);
    assert!(few.out.contains("At most the same memory"), "{}", few.out);
    assert!(maypole!("size").well().contains("\nThe same memory in a tree of 4 levels"));
}

/// Regression: locales without Unicode got box characters, and screens of 40 columns got lines of
/// 111, 194 and 203 characters.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_narrow_terminal_and_a_plain_locale_get_what_they_can_show() {
    let dir = tempfile::tempdir().unwrap();
    let table = dir.path().join("t.sst");
    run_with(&["write-table", "--out", table.to_str().unwrap()], b"a key\t1\nb\t2\n").well();
    let table = table.to_str().unwrap();
    let calls: &[&[&str]] = &[
        &["size"],
        &["size", "--keys", "1"],
        &["structures", "--keys", "1k"],
        &["inspect", table],
        &["inspect", table, "--filter"],
        &["bench", "--entries", "1k", "--workloads", "fillseq"],
        &["compare", "--keys", "1k", "--policies", "none,bloom(10)"],
    ];
    for call in calls {
        for locale in ["LANG", "LC_ALL"] {
            let plain = with(&[(locale, "C"), ("COLUMNS", "40")], call);
            assert!(plain.code == 0 && plain.out.is_ascii(), "{call:?}: {}", plain.out);
            let widest = plain.out.lines().max_by_key(|line| line.chars().count()).unwrap();
            assert!(widest.chars().count() <= 40, "{call:?}: {widest:?}");
        }
    }
    for columns in ["0", "", "-3", "many", "99999999999999999999"] {
        let text = with(&[("COLUMNS", columns), ("LC_ALL", "C.UTF-8")], &["size"]).well();
        assert!(text.contains('─'), "{columns}");
    }
    assert!(!with(&[("COLUMNS", "1")], &["size"]).well().is_empty());
}

/// Regression: with an empty `TMPDIR` the note said "written in , and removed".
#[cfg(unix)]
#[test]
fn an_empty_name_of_the_temporary_directory_names_none() {
    let call = ["compare", "--keys", "100", "--policies", "none"];
    let said = with(&[("TMPDIR", "")], &call);
    assert!(said.code == 0 && said.err.contains("written in /tmp,"), "{}", said.err);
}

/// Regression: counts of one were printed as "1 keys" and "1 lines".
#[test]
fn one_of_a_thing_is_named_in_the_singular() {
    let dir = tempfile::tempdir().unwrap();
    let [one, absent] = ["one", "absent"].map(|name| dir.path().join(name));
    fs::write(&one, "a\n").unwrap();
    fs::write(&absent, "b\n").unwrap();
    let error = maypole!("compare", "--key-file", &one).badly(1);
    assert!(error.contains("1 distinct key:"), "{error}");
    fs::write(&one, "a\na\nc\nc\n").unwrap();
    let done =
        maypole!("compare", "--key-file", &one, "--absent-file", &absent, "--policies=bloom(10)");
    assert!(done.out.contains("asked by 1 absent lookup\n"), "{}{}", done.out, done.err);
    assert!(!done.out.contains("1 keys") && !done.out.contains("1 lines"), "{}", done.out);
}

/// Regression: two calls of `compare --sweep` with the same output directory overwrote each other's
/// file `sweep.state`, and the slower call failed at its end.
#[cfg(unix)]
#[test]
fn two_sweeps_in_one_directory_are_one_too_many() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("sweep.state");
    let held = File::create(&state).unwrap();
    held.lock().unwrap();
    let call = ["compare", "--sweep", "--keys", "100", "--policies", "none", "--out"];
    let call: Vec<_> =
        call.iter().map(Into::into).chain([dir.path().as_os_str().to_owned()]).collect();
    let error = crate::run::<std::ffi::OsString>(&call).badly(1);
    assert!(error.contains("another call"), "{error}");
    assert_eq!(fs::read(&state).unwrap(), b"");
}

/// Regressions: `write-table` replaced its own input if `--out` named the file that was redirected
/// to standard input. If two options named standard input, the second option found it empty.
#[cfg(unix)]
#[test]
fn a_file_is_not_input_and_output_at_a_time_nor_input_twice() {
    let dir = tempfile::tempdir().unwrap();
    let error = shell(
        dir.path(),
        "cd $D; printf 'a\\nb\\n' > k; $M write-table --format keys --out ./k < k",
    )
    .badly(1);
    assert!(error.contains("is also standard input"), "{error}");
    assert_eq!(fs::read_to_string(dir.path().join("k")).unwrap(), "a\nb\n");
    for option in ["--absent-file", "--query-file"] {
        let error = maypole!("compare", "--key-file", "-", option, "-").badly(2);
        assert!(error.contains("only one option"), "{error}");
    }
}

/// Regression: `load DIR`, `write-table --out DIR/000007.sst` and `checkpoint DB DIR` accepted the
/// directory of another engine. `write-table` replaced a table there, and also tables of Maypole's
/// databases. Now each call names the owner of the directory, and the files stay.
#[test]
fn output_into_the_directory_of_a_database_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let level = dir.path().join("leveldb");
    fs::create_dir(&level).unwrap();
    fs::write(level.join("CURRENT"), "MANIFEST-000002\n").unwrap();
    fs::write(level.join("000005.ldb"), "its own").unwrap();
    fs::write(level.join("000007.sst"), "its own").unwrap();
    let names = || {
        let names = fs::read_dir(&level).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    };
    let before = names();
    let own = dir.path().join("own");
    maypole!("put", &own, "key", "value").well();
    maypole!("compact", &own).well();
    let keys = dir.path().join("keys");
    fs::write(&keys, "a\nb\n").unwrap();
    let table = level.join("000007.sst");
    let calls = [
        maypole!("load", &level, "--key-file", &keys),
        run_with(&["write-table", "--out", table.to_str().unwrap()], b"a\t1\n"),
        maypole!("checkpoint", &own, &level),
    ];
    for call in calls {
        let error = call.badly(1);
        assert!(error.contains("LevelDB") && error.contains("left untouched"), "{error}");
        assert_eq!(names(), before);
        assert_eq!(fs::read(&table).unwrap(), b"its own");
    }
    let mut table = fs::read_dir(&own).unwrap().map(|entry| entry.unwrap().path());
    let table = table.find(|path| path.extension().is_some_and(|end| end == "sst")).unwrap();
    let bytes = fs::read(&table).unwrap();
    let error = run_with(&["write-table", "--out", table.to_str().unwrap()], b"a\t1\n").badly(1);
    assert!(error.contains("in the directory of a database"), "{error}");
    assert_eq!(fs::read(&table).unwrap(), bytes);
}
