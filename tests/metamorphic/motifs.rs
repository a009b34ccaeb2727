//! The motifs that read, hold, copy, open again and break things; and the list of all motifs.

use maypole::fs::{Fault, Operation as Call};
use rand::RngExt;

use super::draw::Draw;
use super::operation::{Act, Copying, Leave, Operation};

/// Adds a passage to a program.
pub type Motif = fn(&mut Draw);

/// All motifs, by the names that `MAYPOLE_METAMORPHIC_WITHOUT` uses.
pub const MOTIFS: [(&str, Motif); 28] = [
    ("some_writes", Draw::some_writes),
    ("batches", Draw::batches),
    ("small_flush", Draw::small_flush),
    ("range_over_old_and_new", Draw::range_over_old_and_new),
    ("deletions", Draw::deletions),
    ("at_an_edge", Draw::at_an_edge),
    ("toggle", Draw::toggle),
    ("ingest", Draw::ingest),
    ("large_values", Draw::large_values),
    ("fill", Draw::fill),
    ("compact", Draw::compact),
    ("queue", Draw::queue),
    ("updates", Draw::updates),
    ("transactions", Draw::transactions),
    ("together", Draw::together),
    ("keyspaces", Draw::keyspaces),
    ("reads", Draw::reads),
    ("hold", Draw::hold),
    ("read_beside", Draw::read_beside),
    ("copies", Draw::copies),
    ("apply_filters", Draw::apply_filters),
    ("reopen", Draw::reopen),
    ("close_twice", Draw::close_twice),
    ("lose_power", Draw::lose_power),
    ("repair", Draw::repair),
    ("move_to_copy", Draw::move_to_copy),
    ("full_disk", Draw::full_disk),
    ("faults", Draw::faults),
];

/// The place of the last motif but one, and of the last.
const FULL_DISK: usize = MOTIFS.len() - 2;
const FAULTS: usize = MOTIFS.len() - 1;

impl Draw {
    pub(super) fn reads(&mut self) {
        if self.one_in(4) {
            self.push(Operation::Record);
        }
        for _ in 0..self.rng.random_range(1..12) {
            let snapshot = self.snapshot();
            let key = self.near();
            let operation = match self.rng.random_range(0..6) {
                0 => Operation::Get { key, snapshot },
                1 => {
                    let keys = (0..self.rng.random_range(0..30)).map(|_| self.near()).collect();
                    Operation::MultiGet { keys, snapshot }
                }
                2 => Operation::Ends,
                3 => {
                    let (from, to) = self.range(100);
                    let form = self.rng.random_range(0..9);
                    Operation::Range { from, to, form, steps: self.steps(100), snapshot }
                }
                4 => {
                    let length = self.rng.random_range(0..12);
                    Operation::Prefix { key, length, snapshot }
                }
                _ => {
                    let backward = self.rng.random_bool(0.5);
                    Operation::Walk { start: key, backward, steps: self.steps(60), snapshot }
                }
            };
            self.push(operation);
        }
    }

    /// Snapshots, cursors and iterators that see what later operations change.
    pub(super) fn hold(&mut self) {
        match self.rng.random_range(0..7) {
            0..2 => self.push(Operation::Snapshot),
            2 => {
                let start = self.near();
                self.push(Operation::HoldCursor { start });
            }
            3..5 => {
                let ((from, to), form) = (self.range(200), self.rng.random_range(0..9));
                let snapshot = self.snapshot();
                self.push(Operation::HoldIterator { from, to, form, snapshot });
            }
            5 => {
                let which = self.rng.random_range(0..8);
                let steps = self.steps(60);
                self.push(Operation::MoveIterator { which, steps });
            }
            _ => {
                let which = self.rng.random_range(0..8);
                let steps = self.steps(60);
                self.push(Operation::MoveCursor { which, steps });
            }
        }
    }

    /// What a writer does while something else is going on.
    pub(super) fn acts(&mut self) -> Vec<Act> {
        (0..self.rng.random_range(0..5))
            .map(|_| match self.rng.random_range(0..9) {
                0..3 => Act::Write(self.write()),
                3 => {
                    let writes = (0..self.rng.random_range(0..6)).map(|_| self.write()).collect();
                    Act::Batch { writes, sync: self.one_in(3) }
                }
                4..6 => Act::Flush,
                6 => Act::ApplyFilters,
                7 if self.spaces > 1 => {
                    let space = self.rng.random_range(1..self.spaces);
                    if self.one_in(2) { Act::Create(space) } else { Act::Drop(space) }
                }
                _ if self.one_in(3) => Act::CompactAll,
                _ => Act::Flush,
            })
            .collect()
    }

    /// A reader opens the directory while the writer writes, flushes and compacts.
    pub(super) fn read_beside(&mut self) {
        self.some_writes();
        let calls = [12, 16, 60][self.rng.random_range(0..3)];
        let mut acts: Vec<(u32, Act)> =
            (self.acts().into_iter()).map(|act| (self.rng.random_range(0..calls), act)).collect();
        acts.sort_by_key(|&(call, _)| call);
        let settings = self.mood.settings(&mut self.rng);
        let hold = self.one_in(3);
        self.push(Operation::Read { acts, hold, settings });
    }

    pub(super) fn copies(&mut self) {
        let settings = self.mood.settings(&mut self.rng);
        let operation = match self.rng.random_range(0..4) {
            0..2 => Operation::Checkpoint { acts: self.acts(), settings },
            2 => Operation::Copy(Copying::WithFilters(settings.filter)),
            _ => Operation::Copy(Copying::ThroughRocksDb),
        };
        self.push(operation);
    }

    /// Tables from before an opening get the filters of another policy, often while tables of level
    /// 0 overlap.
    pub(super) fn apply_filters(&mut self) {
        self.some_writes();
        if self.one_in(2) {
            self.push(Operation::Flush);
        }
        if !self.one_in(4) {
            self.reopen();
        }
        self.push(Operation::ApplyFilters);
        self.settle_and_check();
    }

    pub(super) fn leave(&mut self, leave: Leave) {
        let settings = self.mood.settings(&mut self.rng);
        self.push(Operation::Reopen(leave, settings));
    }

    pub(super) fn reopen(&mut self) {
        let leave = [Leave::Close, Leave::Drop, Leave::Kill][self.rng.random_range(0..3)];
        self.leave(leave);
    }

    pub(super) fn close_twice(&mut self) {
        self.some_writes();
        self.leave(Leave::CloseTwice);
    }

    pub(super) fn lose_power(&mut self) {
        self.some_writes();
        let (seed, again) = (self.rng.random(), self.one_in(3));
        self.leave(Leave::LosePower { seed, again });
    }

    pub(super) fn repair(&mut self) {
        let (loses_current, loses_manifest) = (self.one_in(2), self.one_in(3));
        self.leave(Leave::Repair { loses_current, loses_manifest });
    }

    /// The run goes on in a copy of the store.
    pub(super) fn move_to_copy(&mut self) {
        self.some_writes();
        let copying = match self.rng.random_range(0..3) {
            0 => Copying::Checkpoint,
            1 => Copying::WithFilters(self.mood.settings(&mut self.rng).filter),
            _ => Copying::ThroughRocksDb,
        };
        self.leave(Leave::Copy(copying));
    }

    /// A call fails, or all from one on; other passages follow, and then the disk works again.
    pub(super) fn faults(&mut self) {
        const CALLS: [Call; 11] = [
            Call::Create,
            Call::Open,
            Call::Rename,
            Call::Remove,
            Call::Exists,
            Call::List,
            Call::SyncDir,
            Call::Append,
            Call::Flush,
            Call::Sync,
            Call::ReadExactAt,
        ];
        let call = (!self.one_in(4)).then(|| CALLS[self.rng.random_range(0..CALLS.len())]);
        const FAULTS: [Fault; 5] =
            [Fault::Io, Fault::NoSpace, Fault::ShortWrite, Fault::NoDescriptors, Fault::NoMemory];
        let fault = FAULTS[self.rng.random_range(0..FAULTS.len())];
        let nth = self.rng.random_range(0..12);
        let forever = self.one_in(3);
        self.push(Operation::Fail { call, nth, fault, forever });
        self.trouble();
        if self.one_in(3) {
            self.push(Operation::Check);
        }
        self.push(Operation::Heal);
        self.some_writes();
        if self.one_in(2) {
            self.reopen();
        }
    }

    /// The disk is full, or almost; other passages follow, sometimes while the space changes; then
    /// there is space again.
    pub(super) fn full_disk(&mut self) {
        for _ in 0..self.rng.random_range(1..3) {
            let kib = [0, 1, 6, 30, 100, 500][self.rng.random_range(0..6)];
            self.push(Operation::LeaveFree(kib << 10));
            self.trouble();
            if self.one_in(3) {
                self.push(Operation::Check);
            }
        }
        self.push(Operation::Heal);
        self.some_writes();
    }

    /// Passages during trouble, without further trouble.
    fn trouble(&mut self) {
        let weights = [FULL_DISK, FAULTS].map(|motif| std::mem::take(&mut self.weights[motif]));
        for _ in 0..self.rng.random_range(1..5) {
            self.passage();
        }
        [self.weights[FULL_DISK], self.weights[FAULTS]] = weights;
    }
}
