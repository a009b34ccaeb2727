//! Power loss on real file systems: ext4, XFS and btrfs, cloned from under a running writer.
//!
//! ```text
//!   an image file
//!   └─ XFS with reflinks, by a loop device
//!      ├─ the disk: an image file ── ext4, XFS or btrfs, by a loop device ◄── the writer, a process
//!      │     │                                                                   │ what it was told
//!      │     │ clone (FICLONE), again and again                                  ▼ is synced
//!      └─ an image ── mounted: the file system replays its journal ──► opened, compared, verified
//! ```
//!
//! A clone of the disk has what the disk's file system has written to the disk up to one moment.
//! Data that is only in that file system's page cache is not in the clone: it is lost, as in a
//! power loss. In each image
//!
//! * every write that was acknowledged as synced before the start of the clone exists, and so does
//!   every checkpoint that was complete by then;
//! * the content is a prefix of the writes, without a hole, in each stream of writes and across
//!   them ([`streams`]);
//! * `verify` finds nothing.
//!
//! A *life* of the writer lasts until the test kills it. The last image of a life becomes the disk
//! of the next life, so most histories include a recovery and a power loss after it. This test does
//! not cover a device that loses or reorders writes which were not flushed. The tests with the file
//! system in memory cover it (`tests/db/crash.rs`).
//!
//! ```sh
//! cargo test --release --test power_loss -- --ignored --nocapture                 # a minute
//! MAYPOLE_POWER_LOSS_IMAGES=1000 MAYPOLE_POWER_LOSS_SEED=7 \
//!     cargo test --release --test power_loss -- --ignored --nocapture             # an hour
//! ```
//!
//! The test runs in namespaces of its own, on an image file without a name. So whatever ends the
//! test, even SIGKILL, the kernel removes the mounts, detaches the loop devices and frees the
//! space. Namespaces, loop devices and FICLONE are features of Linux.

#![cfg(target_os = "linux")]

mod check;
mod disks;
#[path = "../db/history.rs"]
mod history;
mod streams;
mod writer;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use check::{Demand, Finding};
use disks::{FileSystem, Mount};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use writer::STOPS;

const IMAGES: &str = "MAYPOLE_POWER_LOSS_IMAGES";
const SEED: &str = "MAYPOLE_POWER_LOSS_SEED";
/// Environment variables by which a process that the test has started knows its part: the part of
/// the test inside the namespaces, or the writer.
const INSIDE: &str = "MAYPOLE_POWER_LOSS_INSIDE";
const WRITER: &str = "MAYPOLE_POWER_LOSS_WRITER";

const IMAGES_A_LIFE: u64 = 5;
/// After this number of lives a new disk is made, so that some images are taken while a database is
/// created.
const LIVES_A_DISK: u64 = 4;
/// The longest wait before the first image of a life. It is short, so that the image is taken while
/// the database is created or recovered.
const FIRST_WAIT_MILLIS: u64 = 40;
const MAX_WAIT_MILLIS: u64 = 200;
/// The disk is cloned right after the writer has printed one of these words, or at a random moment
/// (`None`). Each word announces a promise. If the writer has not kept the promise, only an image
/// that is taken at once shows this, because the next sync of any thread would make up for it.
const MOMENTS: [Option<&str>; 9] = [
    None,
    None,
    None,
    Some("synced"),
    Some("synced"),
    Some("persists"),
    Some("ingests"),
    Some("checkpoint"),
    Some("closes"),
];
const MAX_WAIT_FOR_A_WORD: Duration = Duration::from_millis(800);

#[test]
#[ignore = "needs root, loop devices and mkfs.xfs; takes a minute"]
fn power_loss_on_real_file_systems_leaves_a_prefix_that_holds_every_synced_write() {
    if let Some(what) = disks::missing() {
        println!("power loss on real file systems: skipped, {what}");
        return;
    }
    let status = disks::in_own_namespaces()
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "inside", "--ignored", "--nocapture"])
        .env(INSIDE, "1")
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}

fn number_of(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable}: \"{value}\" is not a number")))
}

/// Not a test of its own, but the part of the test above that runs inside the namespaces.
#[test]
#[ignore = "the other half of another test, which starts it"]
fn inside() {
    if std::env::var(INSIDE).is_err() {
        return;
    }
    let images = number_of(IMAGES).unwrap_or(10);
    let seed = number_of(SEED)
        .unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs());
    let outer = disks::Outer::new();
    let mut bad = 0;
    for (number, file_system) in FileSystem::ALL.into_iter().enumerate() {
        if !file_system.can_be_made() {
            println!("power loss on {file_system}: skipped, there is no {}", file_system.mkfs());
            continue;
        }
        let mut trial = Trial::new(file_system, &outer, seed + number as u64);
        trial.run(images);
        trial.print();
        bad += trial.lost + trial.holes + trial.broken;
    }
    assert_eq!(bad, 0, "images that broke a promise");
}

/// Not a test of its own, but the process that writes and is killed.
#[test]
#[ignore = "the other half of another test, which starts it"]
fn write_until_killed() {
    if let Some(seed) = number_of(WRITER) {
        writer::run(&disks::disk_point(), &disks::incoming(), seed);
    }
}

/// The output of a writer so far.
#[derive(Default)]
struct Said {
    demand: Demand,
    /// How often the writer did each kind of work.
    done: BTreeMap<String, u64>,
}

/// A running writer, and the thread that reads its output.
struct Writer {
    process: Child,
    said: Arc<(Mutex<Said>, Condvar)>,
    listener: JoinHandle<()>,
}

impl Writer {
    fn start(seed: u64, demand: Demand) -> Writer {
        // Starts this program again, by `/proc`, because a mount may hide the program's own path.
        let mut process = Command::new("/proc/self/exe")
            .args(["--exact", "write_until_killed", "--ignored", "--nocapture"])
            .env(WRITER, seed.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = Said { demand, done: BTreeMap::new() };
        let said = Arc::new((Mutex::new(said), Condvar::new()));
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let listener = std::thread::spawn({
            let said = Arc::clone(&said);
            move || {
                for line in lines {
                    said.0.lock().unwrap().hear(&line.unwrap());
                    said.1.notify_all();
                }
            }
        });
        Writer { process, said, listener }
    }

    /// The promises so far.
    fn demand(&self) -> Demand {
        self.said.0.lock().unwrap().demand.clone()
    }

    /// Makes the writer stop itself right after it has printed `word`. Returns whether it has done
    /// so in time.
    fn stop_after(&self, word: &str) -> bool {
        let stops = |said: &Said| said.done.get(STOPS).copied();
        let before = stops(&self.said.0.lock().unwrap());
        let wait = |time| {
            let said = self.said.0.lock().unwrap();
            let runs = |said: &mut Said| stops(said) == before;
            !self.said.1.wait_timeout_while(said, time, runs).unwrap().1.timed_out()
        };
        let wanted = writer::wanted(&disks::incoming());
        std::fs::write(&wanted, word).unwrap();
        if !wait(MAX_WAIT_FOR_A_WORD) {
            // The writer removes the file `wanted` before it stops, and only one process can remove
            // the file. So if the removal succeeds here, the writer will not stop.
            if std::fs::remove_file(&wanted).is_ok() {
                return false;
            }
            assert!(wait(Duration::from_secs(60)), "the writer is silent");
        }
        let status = waitpid(Some(Pid::from_child(&self.process)), WaitOptions::UNTRACED);
        assert!(status.unwrap().unwrap().1.stopped(), "the writer ended on its own");
        true
    }

    fn go_on(&self) {
        kill_process(Pid::from_child(&self.process), Signal::CONT).unwrap();
    }

    /// Kills the writer; returns how often it did each kind of work.
    fn kill(mut self) -> BTreeMap<String, u64> {
        assert!(self.process.try_wait().unwrap().is_none(), "the writer ended on its own");
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.listener.join().unwrap();
        std::mem::take(&mut self.said.0.lock().unwrap().done)
    }
}

impl Said {
    fn hear(&mut self, line: &str) {
        // The test harness writes to the same pipe, so other lines are ignored.
        let Some(words) = line.strip_prefix(writer::MARK) else { return };
        let (what, rest) = words.split_once(' ').unwrap();
        let numbers = || rest.split(' ').map(|word| word.parse::<u64>().unwrap());
        let (done, count) = match what {
            "synced" => {
                self.demand.raise(numbers());
                ("syncs", 1)
            }
            "checkpoint" => {
                self.demand.add_checkpoint(numbers());
                ("checkpoints", 1)
            }
            _ => (what, numbers().next().unwrap()),
        };
        *self.done.entry(done.to_owned()).or_default() += count;
    }
}

/// The test of one file system, with all its images.
struct Trial<'a> {
    file_system: FileSystem,
    outer: &'a disks::Outer,
    seed: u64,
    rng: StdRng,
    start: Instant,
    images: u64,
    lives: u64,
    /// The numbers of images in which a synced write is lost (`lost`), whose writes have a hole
    /// (`holes`), and which cannot be mounted, opened or verified (`broken`).
    lost: u64,
    holes: u64,
    broken: u64,
    checkpoints: u64,
    done: BTreeMap<String, u64>,
}

impl<'a> Trial<'a> {
    fn new(file_system: FileSystem, outer: &'a disks::Outer, seed: u64) -> Trial<'a> {
        Trial {
            file_system,
            outer,
            seed,
            rng: StdRng::seed_from_u64(seed),
            start: Instant::now(),
            images: 0,
            lives: 0,
            lost: 0,
            holes: 0,
            broken: 0,
            checkpoints: 0,
            done: BTreeMap::new(),
        }
    }

    fn run(&mut self, images: u64) {
        while self.images < images {
            let disk = self.outer.file("disk");
            self.file_system.make(&disk);
            let mut demand = Demand::default();
            for _ in 0..LIVES_A_DISK {
                let Some(survived) = self.live(&disk, demand, images) else { break };
                demand = survived;
            }
        }
    }

    /// One life of a writer. Its last image replaces `disk`. Returns the promises that the new disk
    /// must keep. `None`: the last image broke a promise, or there are enough images already.
    fn live(&mut self, disk: &Path, demand: Demand, enough: u64) -> Option<Demand> {
        if self.images >= enough {
            return None;
        }
        self.lives += 1;
        let mount = Mount::disk(self.file_system, disk);
        let writer = Writer::start(self.rng.random(), demand);
        let image = self.outer.file("image");
        let mut survived = None;
        for number in 0..IMAGES_A_LIFE.min(enough - self.images) {
            let longest = if number == 0 { FIRST_WAIT_MILLIS } else { MAX_WAIT_MILLIS };
            sleep(Duration::from_millis(self.rng.random_range(0..longest)));
            let word = MOMENTS[self.rng.random_range(0..MOMENTS.len())];
            let stopped = number > 0 && word.is_some_and(|word| writer.stop_after(word));
            let demand = writer.demand();
            disks::clone(disk, &image);
            if stopped {
                writer.go_on();
            }
            self.images += 1;
            survived = self.judge(&image, demand);
        }
        for (what, count) in writer.kill() {
            *self.done.entry(what).or_default() += count;
        }
        drop(mount);
        std::fs::rename(&image, disk).unwrap();
        survived
    }

    /// Mounts the image, and checks that it has everything that `demand` promises. Returns what
    /// later images must have if this image becomes the next disk: the same, and the unsynced
    /// writes that this image happens to have. `None`: something is missing, or the image is
    /// damaged.
    fn judge(&mut self, image: &Path, demand: Demand) -> Option<Demand> {
        let untouched = self.outer.file("untouched");
        disks::clone(image, &untouched);
        let found = catch_unwind(AssertUnwindSafe(|| {
            let mount = Mount::image(self.file_system, image);
            check::check(mount.path(), &demand)
        }));
        let found = found.unwrap_or_else(|_| Err(Finding::Broken("a panic, see above".to_owned())));
        let (count, story) = match found {
            Ok(survived) => {
                self.checkpoints += survived.checkpoints_seen();
                return Some(survived);
            }
            Err(Finding::Lost(story)) => (&mut self.lost, story),
            Err(Finding::Hole(story)) => (&mut self.holes, story),
            Err(Finding::Broken(story)) => (&mut self.broken, story),
        };
        *count += 1;
        println!("{}, image {}, seed {}: {story}", self.file_system, self.images, self.seed);
        if self.lost + self.holes + self.broken == 1 {
            println!("as it was found: {}", self.keep(&untouched).display());
        }
        None
    }

    /// Copies the content of an image to a directory that is kept after this test.
    fn keep(&self, image: &Path) -> PathBuf {
        let name = format!("maypole-power-loss-{}-{}", self.file_system, self.seed);
        let kept = std::env::temp_dir().join(name);
        let mount = Mount::image(self.file_system, image);
        let _ = std::fs::remove_dir_all(&kept);
        disks::run(Command::new("cp").arg("-a").arg(mount.path()).arg(&kept));
        kept
    }

    fn print(&self) {
        let done: Vec<String> =
            self.done.iter().map(|(what, count)| format!("{count} {what}")).collect();
        println!(
            "power loss on {}: {} images of {} lives in {} s: {} lost, {} with holes, {} broken; {} \
             checkpoints in them whole; under way: {}; seed {}",
            self.file_system,
            self.images,
            self.lives,
            self.start.elapsed().as_secs(),
            self.lost,
            self.holes,
            self.broken,
            self.checkpoints,
            done.join(", "),
            self.seed,
        );
    }
}
