//! Tests of the database's promises, through its public API.
//!
//! The environment variables below set how long some tests run, and other quantities of these
//! tests. The column SHORT has the defaults. Each of these tests prints its figures, which
//! `--nocapture` shows.
//!
//! | VARIABLE | SHORT | MEANING |
//! |---|---:|---|
//! | `MAYPOLE_MODEL_OPERATIONS` | 150,000 | random operations against a `BTreeMap`, over all option sets |
//! | `MAYPOLE_MODEL_SEED` | 0 | the seed of these operations |
//! | `MAYPOLE_QUEUE_SEEDS` | 24 | histories of queues against a `BTreeMap` |
//! | `MAYPOLE_HISTORIES` | 40 | histories of transactions of several threads |
//! | `MAYPOLE_KILL_CYCLES` | 12 | processes killed by SIGKILL while they write |
//! | `MAYPOLE_CRASH_SEEDS` | 60 | histories of the ignored test of power loss at random points |
//! | `MAYPOLE_OPENING_SEEDS` | 2 | histories that lose power in an opening and in the next |
//! | `MAYPOLE_OPENINGS` | 10,000 | read-only openings of the ignored test during writes |
//! | `MAYPOLE_FAULT_STEP` | 4 | one in this many calls is made to fail; 1: each of them |
//! | `MAYPOLE_SOAK_SECONDS` | 600 | length of the ignored soak |
//! | `MAYPOLE_LIVING_SECONDS` | 180 | length of the ignored soak in which data dies all the time |
//! | `MAYPOLE_VALUE_MIB` | 8 | size of large values |
//! | `MAYPOLE_SOAK_READERS`, `MAYPOLE_SOAK_WRITERS` | 2, 2 | threads of the ignored soak |
//! | `MAYPOLE_FILTER_QUERIES` | 1,000,000,000 | queries, ignored test of `crates/filter/src/tests.rs` |

mod all_keyspaces;
mod apply_filters;
mod background;
mod bounds;
mod budget;
mod by_hand;
mod calls;
mod careless;
mod closing;
mod cold;
mod compaction;
mod concurrent;
mod copies;
mod copy_filters;
mod crash;
mod dead_data;
mod descriptors;
mod destroy;
mod device;
mod durability;
mod edges;
mod events;
mod explain;
mod faults;
// These tests need loop devices.
#[cfg(target_os = "linux")]
mod file_systems;
// Windows has no fork.
#[cfg(unix)]
mod fork;
mod hidden;
mod history;
mod ingest;
mod interleaved;
mod kept;
mod keyspace_crashes;
mod keyspaces;
mod kill;
// These tests set a `ulimit`, which Windows does not have.
#[cfg(unix)]
mod learned;
mod limits;
mod living;
mod lookups;
mod meanwhile;
mod model;
// Windows renames no directory with open files.
#[cfg(unix)]
mod moved;
mod moving;
mod open_ends;
mod order;
mod parts;
mod paths;
mod prefix;
mod publish;
mod queues;
mod range_del;
mod read_only;
mod reads;
mod recording;
mod recovery;
mod repair;
mod repair_keyspaces;
mod rocksdb;
#[path = "../rocksdb_dirs/mod.rs"]
mod rocksdb_dirs;
mod rocksdb_tools;
mod serializable;
mod small;
mod soak;
mod still;
mod tidying;
mod transactions;
mod trouble;
mod updates;
mod writers;

#[path = "../../examples/from_async.rs"]
mod from_async;

use std::fs;
use std::path::{Path, PathBuf};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Bytes that do not compress, different for each seed.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut noise = vec![0; bytes];
    StdRng::seed_from_u64(seed).fill(&mut noise[..]);
    noise
}

/// The files of a directory whose names end in `end`, in order.
fn files(dir: &Path, end: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        entries.filter(|path| path.to_str().unwrap().ends_with(end)).collect();
    paths.sort();
    paths
}

/// Copies the files of a directory into another one.
fn copy_files(from: &Path, to: &Path) {
    for path in files(from, "").iter().filter(|path| path.is_file()) {
        fs::copy(path, to.join(path.file_name().unwrap())).unwrap();
    }
}

/// A number from the environment. See the table above.
fn env(name: &str, otherwise: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.replace('_', "").parse().unwrap_or_else(|_| panic!("{name} is {text}")),
        Err(_) => otherwise,
    }
}
