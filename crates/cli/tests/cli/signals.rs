//! `compare` and `bench` remove the databases that they make for a measurement, also when SIGINT,
//! SIGTERM or SIGHUP ends them.
//!
//! Regression: Ctrl-C, SIGTERM and SIGHUP left these databases behind, by default half a gigabyte
//! in the directory for temporary files. Now the program removes what it has made, whenever the
//! signal arrives, and still dies by the signal.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::maypole;

/// A time limit, far longer than anything here takes: a program that hangs fails its test.
const PATIENCE: Duration = Duration::from_secs(120);

/// Starts a long run of `compare` or `bench`, with its temporary files in `dir/not/there`.
fn start(what: &str, dir: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_maypole"));
    let there = dir.join("not/there");
    match what {
        "compare" => {
            let size = ["--keys", "400000", "--absent", "100000", "--value-bytes", "10"];
            command.arg("compare").args(size).arg("--dir").arg(&there)
        }
        _ => {
            fs::create_dir_all(&there).unwrap();
            let size = ["--entries", "400000", "--memtable", "256K", "--value-bytes", "10"];
            command.arg("bench").args(size).env("TMPDIR", &there)
        }
    };
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Waits until `condition` holds or the program ends. Returns the exit status if the program ended.
fn wait_until(child: &mut Child, mut condition: impl FnMut() -> bool) -> Option<ExitStatus> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        if condition() {
            return None;
        }
        assert!(start.elapsed() < PATIENCE, "it hangs");
        sleep(Duration::from_millis(1));
    }
}

fn end(child: &mut Child) -> ExitStatus {
    wait_until(child, || false).unwrap()
}

/// The number of files and directories under `dir` whose names satisfy `name`.
fn count(dir: &Path, name: &dyn Fn(&str) -> bool) -> usize {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let entries = entries.filter_map(Result::ok);
    entries
        .map(|entry| {
            let own = usize::from(name(entry.file_name().to_str().unwrap()));
            own + count(&entry.path(), name)
        })
        .sum()
}

fn assert_nothing_is_left(what: &str, dir: &Path, when: &str) {
    let mut left = count(dir, &|_| true);
    if what == "bench" {
        // The directories `not` and `not/there`, which the test has made.
        left -= 2;
    }
    assert_eq!(left, 0, "{what}, {when}: something was left behind");
}

/// Those of SIGINT, SIGTERM and SIGHUP that the program does not ignore. It ignores what this
/// process ignores, such as SIGHUP under `nohup`.
fn signals() -> Vec<Signal> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.map_or(0, |mask| u64::from_str_radix(mask.trim(), 16).unwrap());
    let all = [Signal::INT, Signal::TERM, Signal::HUP].into_iter();
    all.filter(|signal| mask >> (signal.as_raw() - 1) & 1 == 0).collect()
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_signal_at_any_moment_leaves_nothing_behind() {
    for what in ["compare", "bench"] {
        for signal in signals() {
            // Ctrl-C is sent at each moment, the other signals only at every third, because all are
            // handled in the same way.
            let step = if signal == signals()[0] { 1 } else { 3 };
            for moment in (0..12).step_by(step) {
                let dir = tempfile::tempdir().unwrap();
                let mut child = start(what, dir.path());
                let since = Instant::now();
                let reached = wait_until(&mut child, || match moment {
                    // The first 12 ms: the program starts, makes its directory and opens databases.
                    0..5 => since.elapsed() >= Duration::from_millis(3 * moment),
                    5 => dir.path().join("not").exists(),
                    6 => count(dir.path(), &|name| name.starts_with("maypole-")) > 0,
                    7 => count(dir.path(), &|name| name == "LOCK") > 0,
                    8 => count(dir.path(), &|name| name.ends_with(".wal")) > 0,
                    9 => count(dir.path(), &|name| name.ends_with(".sst")) > 0,
                    // At work: flushes, compactions.
                    _ => since.elapsed() >= Duration::from_millis(100 * (moment - 7)),
                });
                assert_eq!(reached, None, "it ended before moment {moment}");
                send(&child, signal);
                let status = end(&mut child);
                let when = format!("{signal:?} at moment {moment}");
                assert_eq!(status.signal(), Some(signal.as_raw()), "{what}, {when}: {status}");
                assert_nothing_is_left(what, dir.path(), &when);
                let err = BufReader::new(child.stderr.take().unwrap()).lines();
                for line in err.map(Result::unwrap) {
                    let expected = line.starts_with("note: ") || line.starts_with("still removing");
                    assert!(expected, "{what}, {when}: {line}");
                }
            }
        }
    }
}

/// `timeout` sends its signal to the program and then to the program's group, so that the program
/// gets it twice in a row.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_signal_that_comes_twice_in_a_row_is_taken_once() {
    for signal in signals() {
        let dir = tempfile::tempdir().unwrap();
        let mut child = start("compare", dir.path());
        wait_until(&mut child, || count(dir.path(), &|name| name.ends_with(".sst")) > 0);
        send(&child, signal);
        sleep(Duration::from_millis(2));
        send(&child, signal);
        assert_eq!(end(&mut child).signal(), Some(signal.as_raw()));
        assert_nothing_is_left("compare", dir.path(), "twice in a row");
    }
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_second_ctrl_c_does_not_wait_for_the_removal() {
    if !signals().contains(&Signal::INT) {
        return;
    }
    // There are enough files that their removal takes a moment. If the removal is over before the
    // second Ctrl-C, the test tries more files.
    for files in [30_000, 60_000, 120_000, 240_000] {
        let dir = tempfile::tempdir().unwrap();
        let mut child = start("compare", dir.path());
        wait_until(&mut child, || count(dir.path(), &|name| name.ends_with(".wal")) > 0);
        let there = dir.path().join("not/there");
        let scratch = fs::read_dir(&there).unwrap().next().unwrap().unwrap().path();
        // The program is paused, because it must not end before all files exist.
        send(&child, Signal::STOP);
        (0..files).for_each(|i| fs::write(scratch.join(format!("f{i}")), "").unwrap());
        send(&child, Signal::CONT);
        send(&child, Signal::INT);
        let mut err = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let removing = err.any(|line| line.starts_with("still removing"));
        if !removing {
            end(&mut child);
            continue;
        }
        send(&child, Signal::INT);
        assert_eq!(end(&mut child).signal(), Some(Signal::INT.as_raw()));
        if scratch.exists() {
            return;
        }
    }
    panic!("removing 240,000 files took no time: the second Ctrl-C was never needed");
}

#[test]
fn a_signal_that_was_ignored_at_the_start_stays_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new("sh")
        .args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_maypole")])
        .args(["compare", "--keys", "20000", "--absent", "9", "--policies", "none", "--dir"])
        .arg(dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until(&mut child, || count(dir.path(), &|name| name.ends_with(".wal")) > 0);
    send(&child, Signal::HUP);
    assert_eq!(end(&mut child).code(), Some(0));
    assert_nothing_is_left("compare", dir.path(), "an ignored signal");
}

/// The program removes directories that it has made, unless they contain files of others.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn what_others_put_beside_the_databases_stays() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = start("compare", dir.path());
    wait_until(&mut child, || dir.path().join("not/there").exists());
    fs::write(dir.path().join("not/precious"), "data").unwrap();
    send(&child, signals()[0]);
    end(&mut child);
    assert_eq!(count(dir.path(), &|_| true), 2, "only `not` and what is in it");
    assert_eq!(fs::read(dir.path().join("not/precious")).unwrap(), b"data");
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn space_that_is_not_there_is_refused_with_both_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let there = dir.path().join("new");
    let calls = [
        maypole!("compare", "--keys", "1000000", "--value-bytes", "67108864", "--dir", &there),
        maypole!(
            "bench",
            "--entries",
            "10000000000",
            "--value-bytes",
            "67108864",
            "--db",
            &there,
            "--workloads",
            "fillseq"
        ),
    ];
    for call in calls {
        let error = call.badly(1);
        assert!(error.contains("new: up to about ") && error.contains("TiB are needed"), "{error}");
        assert!(error.contains("are free"), "{error}");
    }
    assert!(!there.exists(), "something was touched");
}

/// The announced space is an upper bound, and at most four times the space that is taken.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn the_space_that_is_announced_is_about_what_is_taken() {
    let compare = ["compare", "--keys", "150k", "--absent", "9", "--value-bytes", "200"];
    let calls: [&[&str]; 3] = [
        &compare,
        // This call makes the databases of these two policies, and the tree that they are copied
        // from.
        &[&compare[..], &["--policies", "bloom(40),burr(16)"]].concat(),
        &["bench", "--entries", "200000", "--value-bytes", "200", "--compression", "none"],
    ];
    for call in calls {
        let what = call[0];
        let dir = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_maypole"))
            .args(call)
            .args((what == "bench").then_some("--workloads=fillrandom,overwrite"))
            .env("TMPDIR", dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut note = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut note).unwrap();
        let announced = note.strip_prefix("note: up to about ").expect(&note);
        let (number, unit) = announced.split_once(' ').unwrap();
        assert!(unit.starts_with("MiB will be written in "), "{note}");
        let announced = number.parse::<f64>().unwrap();
        let mut most = 0.0f64;
        let ended = wait_until(&mut child, || {
            let files: HashMap<u64, u64> = disk_bytes(dir.path()).into_iter().collect();
            most = most.max(files.values().sum::<u64>() as f64 / (1 << 20) as f64);
            false
        });
        assert_eq!(ended.unwrap().code(), Some(0));
        assert!(most <= announced, "{what}: {most} MiB taken, {announced} announced");
        assert!(most * 4.0 > announced, "{what}: {most} MiB taken, {announced} announced");
    }
}

/// The inode number of each file and the space it takes, so that a file with two names can be
/// counted once.
fn disk_bytes(dir: &Path) -> Vec<(u64, u64)> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    entries
        .filter_map(Result::ok)
        .flat_map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path()),
            Ok(metadata) => vec![(metadata.ino(), metadata.blocks() * 512)],
            Err(_) => Vec::new(),
        })
        .collect()
}

/// If SIGTERM arrives while `write-table` waits for more input, `write-table` leaves neither half a
/// table nor the directory that it made for the table.
#[test]
fn a_signal_leaves_nothing_of_a_table() {
    let dir = tempfile::tempdir().unwrap();
    let parent = dir.path().join("not/there");
    let mut child = Command::new(env!("CARGO_BIN_EXE_maypole"))
        .args(["write-table", "--out"])
        .arg(parent.join("t.sst"))
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    // The input is kept open until the program has ended, because at the end of its input the
    // program would finish the table.
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"a\t1\n").unwrap();
    let is_writing = || {
        let scratch = fs::read_dir(&parent).into_iter().flatten().next()?.ok()?;
        fs::read_dir(scratch.path()).ok()?.next()
    };
    while is_writing().is_none() {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        sleep(Duration::from_millis(1));
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(Signal::TERM.as_raw()));
    drop(input);
    let left: Vec<_> = walk(dir.path());
    assert!(left.is_empty(), "something was left behind: {left:?}");
}

/// Everything below a directory.
fn walk(dir: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| [vec![path.clone()], walk(&path)].concat()).collect()
}
