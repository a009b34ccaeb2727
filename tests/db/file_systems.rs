//! Full disks of real file systems, on loop devices. As root:
//!
//! ```text
//! cargo test --test db file_systems -- --ignored --nocapture
//! ```
//!
//! A file system that cannot be made or mounted (no root, no `mkfs`, no support in the kernel) is
//! skipped with a message.

use std::env;
use std::fs::File;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use maypole::{Db, Durability, Error, WriteBatch};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::noise;

const DIRECTORY: &str = "MAYPOLE_FILE_SYSTEMS_TEST_DIRECTORY";
const REFLINK: &str = "MAYPOLE_FILE_SYSTEMS_TEST_REFLINK";

/// `mkfs.xfs` needs at least 300 MiB.
const IMAGE_BYTES: u64 = 320 << 20;

struct Case {
    /// A name of `mount -t`.
    kind: &'static str,
    /// Whether Maypole writes the log through a memory map on this file system.
    maps: bool,
    /// Whether the test makes a reflinked copy of the live log, which shares the log's blocks.
    reflink: bool,
}

const CASES: [Case; 6] = [
    Case { kind: "tmpfs", maps: true, reflink: false },
    Case { kind: "ext4", maps: true, reflink: false },
    Case { kind: "xfs", maps: false, reflink: false },
    Case { kind: "xfs", maps: false, reflink: true },
    Case { kind: "btrfs", maps: false, reflink: false },
    Case { kind: "btrfs", maps: false, reflink: true },
];

fn succeeds(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// A mounted file system, which is unmounted when it is dropped.
struct Mounted {
    at: PathBuf,
    _dir: tempfile::TempDir,
}

impl Mounted {
    fn new(kind: &str) -> Result<Mounted, String> {
        let dir = tempfile::tempdir().unwrap();
        let (image, at) = (dir.path().join("image"), dir.path().join("mounted"));
        std::fs::create_dir(&at).unwrap();
        let target = at.to_str().unwrap();
        if kind == "tmpfs" {
            succeeds("mount", &["-t", kind, "-o", "size=64m", "maypole", target])?;
        } else {
            File::create(&image).unwrap().set_len(IMAGE_BYTES).unwrap();
            let image = image.to_str().unwrap();
            succeeds(&format!("mkfs.{kind}"), &["-q", image])?;
            succeeds("mount", &["-t", kind, "-o", "loop", image, target])?;
        }
        Ok(Mounted { at, _dir: dir })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Err(error) = succeeds("umount", &[self.at.to_str().unwrap()]) {
            eprintln!("{error}");
        }
    }
}

/// Regression: the log was written through a memory map on every file system. A second write to a
/// page needs new space on btrfs, and on XFS after a reflinked copy of the log. When the disk was
/// full, the process died by SIGBUS. Now the log is a plain file on such file systems, so that a
/// full disk is an error everywhere.
#[test]
#[ignore = "needs root, loop devices, mkfs.ext4, mkfs.xfs and mkfs.btrfs"]
fn a_full_disk_ends_no_process_on_any_file_system() {
    let mut tried = 0;
    for case in &CASES {
        let name = format!("{}{}", case.kind, if case.reflink { ", reflinked" } else { "" });
        let mounted = match Mounted::new(case.kind) {
            Ok(mounted) => mounted,
            Err(why) => {
                println!("skipped: {name}: {why}");
                continue;
            }
        };
        tried += 1;
        for child in ["synced_writes_on_a_full_disk", "a_tree_that_fills_the_disk"] {
            let dir = mounted.at.join(child);
            let output = Command::new(env::current_exe().unwrap())
                .args(["--exact", &format!("file_systems::{child}"), "--ignored", "--nocapture"])
                .env(DIRECTORY, &dir)
                .envs(case.reflink.then_some((REFLINK, "")))
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            let signal = output.status.signal();
            assert!(output.status.success(), "{name}, {child}: signal {signal:?}, {output:?}");
            let find = |start: &str| said.lines().find_map(|line| line.strip_prefix(start));
            let acknowledged: u32 = find("acknowledged ").unwrap().parse().unwrap();
            assert_eq!(find("mapped ").unwrap() == "true", case.maps, "{name}");
            println!("{name}, {child}: {acknowledged}; {}", find("refused: ").unwrap());

            std::fs::remove_file(mounted.at.join("filler")).unwrap();
            let db = Db::open(dir.join("db")).unwrap();
            for n in 0..acknowledged {
                let value = db.get(key(n)).unwrap().unwrap_or_else(|| panic!("{name}: {n} lost"));
                assert!(value == value_of(n)[..], "{name}: {n}");
            }
            db.close().unwrap();
            std::fs::remove_dir_all(&dir).unwrap();
        }
    }
    println!("{tried} of {} cases were tried", CASES.len());
}

fn key(n: u32) -> String {
    format!("key{n:08}")
}

fn value_of(n: u32) -> Vec<u8> {
    noise(u64::from(n), 200)
}

/// Fills the file system until only `spare_bytes` are free, or completely if `spare_bytes` is 0.
fn fill(path: &Path, spare_bytes: u64) {
    let mut filler = File::create(path).unwrap();
    let mut piece = vec![0; 1 << 20];
    let mut rng = StdRng::seed_from_u64(1);
    while !piece.is_empty() {
        rng.fill(&mut piece[..]);
        let free = rustix::fs::statvfs(path).unwrap();
        let has_space = free.f_bavail * free.f_frsize > spare_bytes;
        if !has_space && spare_bytes > 0 {
            break;
        }
        if filler.write_all(&piece).and_then(|()| filler.sync_all()).is_err() {
            piece.truncate(piece.len() / 4 / 1024 * 1024);
        }
    }
}

/// Attempts `most` writes, which begin with number `from`. A rejected write is attempted again.
/// Prints how many writes are acknowledged, whether the log is mapped into memory, and the last
/// error.
fn write(db: &Db, from: u32, most: u32, durability: Durability) {
    let mut acknowledged = from;
    let mut refusal = "nothing was".to_owned();
    for _ in 0..most {
        let mut batch = WriteBatch::new();
        batch.put(key(acknowledged), value_of(acknowledged));
        match db.write_opt(batch, durability) {
            Ok(()) => acknowledged += 1,
            Err(error) => {
                assert!(matches!(error, Error::Io { .. } | Error::ReadOnly(_)), "{error}");
                refusal = error.to_string();
            }
        }
    }
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    println!("mapped {}", maps.contains(".wal"));
    println!("acknowledged {acknowledged}");
    println!("refused: {refusal}");
}

fn directories() -> Option<(PathBuf, PathBuf)> {
    let dir = PathBuf::from(env::var_os(DIRECTORY)?);
    let filler = dir.parent()?.join("filler");
    Some((dir, filler))
}

/// Each write is synced. So the page to which the next write goes has been written back before, and
/// a file system that copies on write needs new space for this page.
#[test]
#[ignore = "the other half of another test, which starts it"]
fn synced_writes_on_a_full_disk() {
    let Some((dir, filler)) = directories() else { return };
    let db = Db::open(dir.join("db")).unwrap();
    for n in 0..10 {
        let mut batch = WriteBatch::new();
        batch.put(key(n), value_of(n));
        db.write_opt(batch, Durability::Sync).unwrap();
    }
    if env::var_os(REFLINK).is_some() {
        for entry in std::fs::read_dir(dir.join("db")).unwrap() {
            let log = entry.unwrap().path();
            if log.extension().is_some_and(|extension| extension == "wal") {
                let (log, copy) = (log.to_str().unwrap(), dir.join("copy"));
                succeeds("cp", &["--reflink=always", log, copy.to_str().unwrap()]).unwrap();
            }
        }
    }
    fill(&filler, 0);
    write(&db, 10, 2000, Durability::Sync);
}

#[test]
#[ignore = "the other half of another test, which starts it"]
fn a_tree_that_fills_the_disk() {
    let Some((dir, filler)) = directories() else { return };
    let db = Db::builder(dir.join("db")).memtable_bytes(256 << 10).open().unwrap();
    fill(&filler, 16 << 20);
    write(&db, 0, 150_000, Durability::Buffered);
}
