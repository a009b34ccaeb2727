//! The options of a run, and its file systems.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use maypole::fs::{Fault, FaultFs, Fs, MemFs, Target};
use maypole::{Builder, Db, Durability, schedules};
use rand::RngExt;
use rand::rngs::StdRng;

pub const PATH: &str = "/db";

/// The file systems and options of one run.
pub struct Setting {
    pub disk: MemFs,
    pub fs: Arc<FaultFs>,
    /// Whether a call of the file system may fail.
    pub has_faults: bool,
    memtable_bytes: usize,
    block_cache_bytes: usize,
    filter: &'static str,
    durability: Durability,
    threads: usize,
    publishes: bool,
}

/// One call in so many takes up to 16 ms: the time of 16,384 steps.
fn wait_for_the_device(one_in: u64) {
    if schedules::random().is_multiple_of(one_in) {
        schedules::sleep(Duration::from_micros(1 << (schedules::random() % 15)));
    }
}

impl Setting {
    pub fn draw(rng: &mut StdRng) -> Setting {
        let disk = MemFs::new();
        let fs = Arc::new(FaultFs::new(Arc::new(disk.clone())));
        if rng.random_ratio(2, 3) {
            let one_in = 4 << rng.random_range(0..4);
            fs.before_calls(Target::Any, move |_, _, _| wait_for_the_device(one_in));
        }
        Setting {
            fs,
            disk,
            has_faults: rng.random_ratio(1, 4),
            memtable_bytes: [4 << 10, 8 << 10, 64 << 10][rng.random_range(0..3)],
            block_cache_bytes: [0, 8 << 10, 1 << 20][rng.random_range(0..3)],
            filter: ["bloom(10)", "ribbon(7)", "none"][rng.random_range(0..3)],
            durability: [Durability::Buffered, Durability::Sync][rng.random_range(0..2)],
            threads: rng.random_range(1..3),
            publishes: rng.random_ratio(1, 8),
        }
    }

    /// The options, on another file system.
    pub fn builder(&self, fs: Arc<dyn Fs>, path: impl AsRef<Path>) -> Builder {
        let builder = Db::builder(path).fs(fs).memtable_bytes(self.memtable_bytes);
        let builder = builder.table_bytes(4 << 10).level_base_bytes(8 << 10).block_bytes(256);
        let builder = builder.block_cache_bytes(self.block_cache_bytes).filter(self.filter);
        let builder = builder.durability(self.durability).compaction_threads(self.threads);
        match self.publishes {
            true => builder.publish_stats(Duration::from_secs(1)),
            false => builder,
        }
    }

    /// The options of the database.
    pub fn of_database(&self) -> Builder {
        self.builder(Arc::clone(&self.fs) as Arc<dyn Fs>, PATH)
    }

    pub fn syncs(&self, durability: Option<Durability>) -> bool {
        durability.unwrap_or(self.durability) == Durability::Sync
    }

    /// Lets one of the next calls of the file system fail.
    pub fn plan_a_fault(&self, rng: &mut StdRng) {
        let faults = [Fault::Io, Fault::NoSpace, Fault::NoDescriptors, Fault::NoMemory];
        let target = [Target::Any, Target::Changes][rng.random_range(0..2)];
        let fault = faults[rng.random_range(0..faults.len())];
        self.fs.fail_once(target, rng.random_range(0..60), fault);
    }

    /// Whether an error is none of the database's.
    pub fn excuses(&self) -> bool {
        self.fs.faults() > 0
    }
}
