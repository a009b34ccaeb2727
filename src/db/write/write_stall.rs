//! Write stalls: when writers must slow down or stop, so that flushes and compactions keep up. The
//! stall is a pure function of the tree.
//!
//! ```text
//!   what grows                           slows from           stops at
//!   frozen memtables                     -                    2
//!   files in level 0                     20                   36
//!   compaction debt / level_base_bytes   256                  1024
//!
//!   allowed bytes a second   64 MiB ┤▔▔▔╲
//!                                   │     ╲___            halves every eighth of the way
//!                           512 KiB ┤          ▔▔▔▔─ stop
//!                                   └───┴────────┴──►
//!                                     slow      stop
//! ```
//!
//! The delay is graded, so that writers slow down to the speed of flushes and compactions before
//! they must stop, and have many short waits rather than one long wait. Level 0 is limited because
//! a lookup may have to search each of its files. The *debt* is the bytes that compaction must
//! still rewrite. It is limited because a growing debt fills the disk with data that compaction
//! would have dropped, and later fills level 0 too.
//!
//! RocksDB has the same three limits. Its 64 and 256 GiB of debt are 256 and 1024 times its
//! `max_bytes_for_level_base` of 256 MiB.
//!
//! This module uses no clock and does not sleep. Its caller waits.

use std::fmt;
use std::time::Duration;

use crate::compaction;
use crate::compaction::{Planner, TreeShape, Unavailable};
use crate::db::stats::size::bytes;
use crate::version::Version;

/// How many full memtables may wait for their flush. If there are as many, and the memtable in use
/// is full too, writers stop.
const MAX_FROZEN: usize = 2;

/// How many files in level 0 slow writers down, and how many stop them.
const L0_SLOW: u64 = 20;
const L0_STOP: u64 = 36;

/// How much compaction debt slows writers down, and how much stops them, in units of
/// `level_base_bytes`.
const DEBT_SLOW: u64 = 256;
const DEBT_STOP: u64 = 1024;

/// The rate of all delayed writers together when the delay starts. The pressure at which the delay
/// starts and the pressure at which writers stop are `HALVINGS` equal steps apart. The rate halves
/// at each step.
const FASTEST_BYTES_PER_SECOND: u64 = 64 << 20;
const HALVINGS: u64 = 8;

/// Whether, and how much, writers are held back until flushes and compactions catch up.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = maypole::Db::open(dir.path())?;
/// use maypole::WriteStall;
///
/// match db.stats().write_stall {
///     WriteStall::Delay { bytes_per_second, .. } => println!("{bytes_per_second} bytes a second"),
///     stall => println!("{stall}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum WriteStall {
    /// Writers are not held back.
    #[default]
    None,
    /// Writers may write this many bytes a second.
    Delay {
        /// The rate of all writers together.
        bytes_per_second: u64,
        /// Why.
        cause: WriteStallCause,
    },
    /// Writers wait for flushes or compactions.
    Stop(WriteStallCause),
}

/// The background work that cannot keep up with the writers, as the cause of a [`WriteStall`].
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = maypole::Db::open(dir.path())?;
/// use maypole::{WriteStall, WriteStallCause};
///
/// let waits_for_flush = db.stats().write_stall == WriteStall::Stop(WriteStallCause::Memtables);
/// # assert!(!waits_for_flush);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteStallCause {
    /// Flushes: full memtables wait for them.
    Memtables,
    /// Compactions of level 0.
    Level0,
    /// All compactions: too many bytes are to be rewritten.
    Debt,
}

impl fmt::Display for WriteStall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = |cause| match cause {
            WriteStallCause::Memtables => "flushes",
            WriteStallCause::Level0 => "compactions of level 0",
            WriteStallCause::Debt => "compactions",
        };
        match *self {
            WriteStall::None => write!(f, "unhindered"),
            WriteStall::Delay { bytes_per_second, cause } => {
                write!(f, "slowed by {} to {}/s", why(cause), bytes(bytes_per_second))
            }
            WriteStall::Stop(cause) => write!(f, "stopped by {}", why(cause)),
        }
    }
}

/// What a stall depends on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pressure {
    pub l0_files: u64,
    pub debt_bytes: u64,
    pub level_base_bytes: u64,
    pub frozen_memtables: usize,
    /// Whether the memtable that writers use is full.
    pub memtable_is_full: bool,
}

impl Pressure {
    /// The pressure of a tree, without its memtables. Data that damaged files block from compaction
    /// does not count, because writers would wait for ever for its compaction.
    pub fn of_tree(version: &Version, shape: &TreeShape, unavailable: &Unavailable) -> Pressure {
        let levels = version.metas();
        let levels = Planner::new(&levels, shape, unavailable).without_blocked();
        Pressure {
            l0_files: levels[0].len() as u64,
            debt_bytes: compaction::debt_bytes(&levels, shape),
            level_base_bytes: shape.level_base_bytes,
            ..Pressure::default()
        }
    }
}

/// Whether a tree may stall its writers, depending on how full its memtable is.
pub(crate) fn may_stall(pressure: Pressure, frozen_memtables: usize) -> bool {
    let full = Pressure { frozen_memtables, memtable_is_full: true, ..pressure };
    write_stall_for(full) != WriteStall::None
}

/// Whether a full memtable may join those that wait for their flush.
pub(crate) fn may_freeze(frozen_memtables: usize) -> bool {
    frozen_memtables < MAX_FROZEN
}

pub(crate) fn write_stall_for(pressure: Pressure) -> WriteStall {
    if pressure.memtable_is_full && pressure.frozen_memtables >= MAX_FROZEN {
        return WriteStall::Stop(WriteStallCause::Memtables);
    }
    let base = pressure.level_base_bytes;
    let l0 = graded(pressure.l0_files, L0_SLOW, L0_STOP, WriteStallCause::Level0);
    let (slow, stop) = (base.saturating_mul(DEBT_SLOW), base.saturating_mul(DEBT_STOP));
    let debt = graded(pressure.debt_bytes, slow, stop, WriteStallCause::Debt);
    match (l0, debt) {
        (WriteStall::Stop(_), _) | (_, WriteStall::None) => l0,
        (
            WriteStall::Delay { bytes_per_second: by_l0, .. },
            WriteStall::Delay { bytes_per_second: by_debt, .. },
        ) if by_l0 <= by_debt => l0,
        _ => debt,
    }
}

fn graded(value: u64, slow: u64, stop: u64, cause: WriteStallCause) -> WriteStall {
    if value >= stop {
        return WriteStall::Stop(cause);
    }
    let Some(beyond) = value.checked_sub(slow) else { return WriteStall::None };
    let eighths = (u128::from(beyond) * u128::from(HALVINGS) / u128::from(stop - slow)) as u64;
    WriteStall::Delay { bytes_per_second: FASTEST_BYTES_PER_SECOND >> eighths, cause }
}

/// How long writing `bytes` takes at this speed, which is not 0.
pub(crate) fn wait_for(bytes: u64, bytes_per_second: u64) -> Duration {
    let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_second.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 1 << 20;

    fn pressure(l0_files: u64, debt_bytes: u64) -> Pressure {
        Pressure { l0_files, debt_bytes, level_base_bytes: BASE, ..Pressure::default() }
    }

    fn rate(stall: WriteStall) -> u64 {
        match stall {
            WriteStall::None => u64::MAX,
            WriteStall::Delay { bytes_per_second, .. } => bytes_per_second,
            WriteStall::Stop(_) => 0,
        }
    }

    #[test]
    fn a_tree_that_keeps_up_slows_nobody() {
        assert_eq!(write_stall_for(pressure(0, 0)), WriteStall::None);
        assert_eq!(write_stall_for(pressure(L0_SLOW - 1, DEBT_SLOW * BASE - 1)), WriteStall::None);
    }

    #[test]
    fn more_pressure_never_means_less_delay_and_ends_in_a_stop() {
        for of in [|i| pressure(i, 0), |i| pressure(0, i * 30 * BASE)] {
            let rates: Vec<u64> = (0..40).map(|i| rate(write_stall_for(of(i)))).collect();
            assert!(rates.is_sorted_by(|a, b| a >= b), "{rates:?}");
            assert_eq!((rates[0], rates[39]), (u64::MAX, 0));
            let mut distinct = rates.clone();
            distinct.dedup();
            assert!(distinct.len() > 8, "the delay is not graded: {rates:?}");
            assert!(rates.iter().all(|&rate| rate == 0 || rate >= 256 << 10), "{rates:?}");
        }
    }

    #[test]
    fn the_harder_stall_wins_and_says_why() {
        let cause = |l0_files, debt_bytes| match write_stall_for(pressure(l0_files, debt_bytes)) {
            WriteStall::None => None,
            WriteStall::Delay { cause, .. } | WriteStall::Stop(cause) => Some(cause),
        };
        assert_eq!(cause(L0_STOP, DEBT_SLOW * BASE), Some(WriteStallCause::Level0));
        assert_eq!(cause(L0_SLOW, DEBT_STOP * BASE), Some(WriteStallCause::Debt));
        assert_eq!(cause(L0_STOP - 1, DEBT_SLOW * BASE), Some(WriteStallCause::Level0));
        assert_eq!(cause(L0_SLOW, DEBT_STOP * BASE - 1), Some(WriteStallCause::Debt));
    }

    #[test]
    fn memtables_stop_writers_only_when_the_next_one_is_full_too() {
        let with = |frozen_memtables, memtable_is_full| {
            write_stall_for(Pressure { frozen_memtables, memtable_is_full, ..pressure(0, 0) })
        };
        assert_eq!(with(2, false), WriteStall::None);
        assert_eq!(with(1, true), WriteStall::None);
        assert_eq!(with(2, true), WriteStall::Stop(WriteStallCause::Memtables));
    }

    #[test]
    fn a_wait_is_bytes_over_speed() {
        assert_eq!(wait_for(1 << 20, 1 << 20), Duration::from_secs(1));
        assert_eq!(wait_for(64, 64 << 20), Duration::from_nanos(953));
        assert_eq!(wait_for(u64::MAX, 1), Duration::from_nanos(u64::MAX));
    }

    #[test]
    fn limits_of_the_largest_base_do_not_overflow() {
        let largest =
            Pressure { level_base_bytes: u64::MAX, debt_bytes: 1 << 60, ..pressure(0, 0) };
        assert_eq!(write_stall_for(largest), WriteStall::None);
    }
}
