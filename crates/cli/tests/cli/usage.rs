//! Help, and calls that are refused before anything is touched.

use std::fs;
use std::process::Command;

use crate::maypole;

const COMMANDS: [&str; 26] = [
    "compare",
    "advise",
    "size",
    "structures",
    "bench",
    "put",
    "get",
    "explain",
    "delete",
    "scan",
    "count",
    "load",
    "write-table",
    "ingest",
    "compact",
    "apply-filter",
    "checkpoint",
    "import",
    "export",
    "keyspaces",
    "stats",
    "inspect",
    "verify",
    "repair",
    "completions",
    "man",
];

#[test]
fn every_command_explains_itself_and_every_option() {
    let overview = maypole!("--help").well();
    for command in COMMANDS {
        assert!(overview.contains(&format!("\n  {command} ")), "{command}");
        let help = maypole!(command, "--help").well();
        assert!(help.contains(&format!("Usage: maypole {command}")), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 110), "{help}");
    }
    let help = maypole!("compare", "--help").well();
    for option in [
        "policies",
        "keys",
        "key-file",
        "tsv",
        "from-tables",
        "absent-file",
        "query-file",
        "zipf",
        "bits",
        "compression",
        "out",
        "sweep",
        "value-bytes",
        "absent",
        "cache",
        "cold",
        "dir",
        "seed",
        "json",
    ] {
        assert!(help.contains(&format!("--{option}")), "{option}");
    }
}

#[test]
fn a_policy_that_cannot_be_built_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    for policy in [
        "bloom(0)",
        "bloom(-3)",
        "bloom(nan)",
        "blom(10)",
        "bloom(1e9)",
        "bloom(inf)",
        "bloom()",
        "bloom(10",
        "bloom",
        "",
        "fpr(0)",
        "fpr(2)",
    ] {
        for list in [policy.to_string(), format!("none,{policy}"), format!("{policy},bloom(10)")] {
            let dir_option = format!("--dir={}", dir.path().join("new").display());
            let error = maypole!("compare", format!("--policies={list}"), dir_option).badly(2);
            assert!(error.contains("--policies"), "{error}");
        }
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "something was touched");
}

#[test]
fn wrong_calls_are_told_from_failures() {
    for call in [
        &["pick"][..],
        &["get"],
        &["get", "db"],
        &["put", "db", "key"],
        &["scan", "db", "--limit", "many"],
        &["inspect", "f", "--json", "--annotate"],
        &["compact", "db", "--filter", "bloom(0)"],
        &["apply-filter", "db"],
        &["apply-filter", "db", "bloom(0)"],
        &["checkpoint", "db"],
        &["completions"],
        &["completions", "cmd"],
        &["load", "db"],
        &["compare", "--keys", "0"],
        &["compare", "--keys", "ten"],
        &["compare", "--absent", "0"],
        &["compare", "--cache", "12 parsecs"],
        &["compare", "--keys", "10", "--key-file", "f"],
        &["compare", "--absent-file", "f"],
        &["compare", "--colour"],
        &["compare", "--query-file", "f"],
        &["compare", "--key-file", "f", "--query-file", "f", "--zipf", "1"],
        &["compare", "--key-file", "f", "--from-tables", "f"],
        &["compare", "--tsv"],
        &["compare", "--zipf", "0"],
        &["compare", "--zipf", "nan"],
        &["compare", "--bits", "4,x"],
        &["compare", "--sweep"],
        &["compare", "--compression", "lzma"],
        &["size", "--keys", "0"],
        &["size", "--keys", "1.5"],
        &["size", "--rate", "0"],
        &["size", "--rate", "1"],
        &["size", "--bits", "10", "--rate", "0.1"],
        &["size", "--levels", "8"],
        &["size", "--memory", "0"],
        &["size", "--entry-bytes", "0"],
        &["bench", "--workloads", "fillseq,readfast"],
        &["bench", "--workloads", ""],
        &["bench", "--entries", "0"],
        &["bench", "--threads", "0"],
        &["bench", "--deletes", "0"],
        &["bench", "--window", "0"],
        &["bench", "--delete-range", "0"],
        &["bench", "--key-bytes", "7"],
        &["bench", "--filter", "bloom(0)"],
        &["bench", "--compression", "lzma"],
        // Numbers out of range: `load --value-bytes 99999999999` once aborted for lack of memory.
        &["load", "db", "--key-file", "f", "--value-bytes", "99999999999"],
        &["load", "db", "--key-file", "f", "--value-bytes", "-1"],
        &["load", "db", "--key-file", "f", "--value-bytes", "18446744073709551616"],
        &["compare", "--keys", "2"],
        &["compare", "--keys", "99999999999"],
        &["compare", "--absent", "99999999999"],
        &["compare", "--value-bytes", "99999999999"],
        &["compare", "--cache", "16777215T"],
        &["compare", "--cache", "-1"],
        &["compare", "--seed", "-1"],
        &["bench", "--entries", "99999999999"],
        &["bench", "--reads", "0"],
        &["bench", "--reads", "99999999999"],
        &["bench", "--reads", "100G"],
        &["structures", "--keys", "1G"],
        &["bench", "--threads", "99999"],
        &["bench", "--key-bytes", "99999"],
        &["bench", "--value-bytes", "99999999999"],
        &["bench", "--value-bytes", "-1"],
        &["bench", "--cache", "16777215T"],
        &["bench", "--memtable", "0"],
        &["bench", "--memtable", "99G"],
        &["scan", "db", "--limit", "-1"],
        &["stats", "db", "--format", "yaml"],
        &["stats", "db", "--watch=0"],
        &["stats", "db", "--watch=soon"],
        &["stats", "db", "--watch", "--format", "json"],
        &["stats", "db", "--watch", "--json"],
        &["stats", "db", "--read-cost", "-1"],
        &["stats", "db", "--read-cost", "nan"],
    ] {
        crate::run(call).badly(2);
    }
}

#[test]
fn a_command_without_its_database_fails_and_creates_none() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    for command in [
        &["get", "k"][..],
        &["delete", "k"],
        &["scan"],
        &["count"],
        &["stats"],
        &["verify"],
        &["repair"],
        &["compact"],
        &["checkpoint", "copy"],
    ] {
        let call = maypole!(command[0], &missing, command.get(1).copied().unwrap_or("--"));
        let error = call.badly(1);
        assert!(error.contains("missing"), "{error}");
    }
    assert!(!missing.exists());
}

/// Every command that takes a database says so if it is given a file instead.
#[test]
fn a_file_in_the_place_of_a_database_is_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let (file, table) = (dir.path().join("keys.txt"), dir.path().join("t.sst"));
    fs::write(&file, "a\n").unwrap();
    let mut writer = maypole::table::SstWriter::create(&table, Default::default()).unwrap();
    writer.put(b"a", b"").unwrap();
    writer.finish().unwrap();
    for arguments in [
        &["put", "k", "v"][..],
        &["get", "k"],
        &["delete", "k"],
        &["scan"],
        &["count"],
        &["load", "--key-file", file.to_str().unwrap()],
        &["ingest", table.to_str().unwrap()],
        &["compact"],
        &["checkpoint", "copy"],
        &["stats"],
        &["stats", "--watch"],
        &["verify"],
        &["repair"],
    ] {
        let mut call = vec![arguments[0].into(), file.clone().into_os_string()];
        call.extend(arguments[1..].iter().map(Into::into));
        let error = crate::run(&call).badly(1);
        assert!(error.contains("keys.txt: cannot open the database: this is a file"), "{error}");
        assert!(error.contains("maypole inspect"), "{error}");
    }
    assert_eq!(fs::read(&file).unwrap(), b"a\n");
}

/// Checks that the completion script of each shell has all commands and, as a sample, two options.
/// If bash is installed, its script must complete a command.
#[test]
fn completions_and_manual_pages_know_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = maypole!("completions", shell).well();
        for command in COMMANDS {
            assert!(script.contains(command), "{shell}: {command}");
        }
        assert!(script.contains("value-bytes") && script.contains("tsv"), "{shell}");
    }
    let script = maypole!("completions", "bash").well();
    let ask =
        "COMP_WORDS=(maypole chec); COMP_CWORD=1; _maypole maypole chec; echo \"${COMPREPLY[@]}\"";
    if let Ok(bash) = Command::new("bash").args(["-c", &format!("{script}\n{ask}")]).output() {
        assert_eq!(String::from_utf8_lossy(&bash.stdout).trim(), "checkpoint", "{bash:?}");
    }
    let page = maypole!("man").well();
    assert!(page.contains(".TH maypole 1") && page.contains("RocksDB"), "{page}");
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("share/man1");
    assert_eq!(maypole!("man", "--out", &pages).well(), "");
    for command in COMMANDS {
        let page = fs::read_to_string(pages.join(format!("maypole-{command}.1"))).unwrap();
        assert!(page.contains(command), "{page}");
    }
    let error = maypole!("man", "--out", pages.join("maypole.1")).badly(1);
    assert!(error.contains("maypole.1"), "{error}");
}
