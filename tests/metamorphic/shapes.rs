//! The motifs that write, flush and compact: those that give the tree its form.

use rand::RngExt;

use super::draw::{Draw, HOT, Mood};
use super::keys::Key;
use super::model::Write;
use super::operation::{Act, Leave, Operation, Step, Turn};

/// The keys of one of several threads: the first one, the distance and the number.
#[derive(Clone, Copy)]
struct Lane {
    first: Key,
    step: u32,
    room: u32,
}

impl Draw {
    /// Most keys, in the last level: level 0 is small in comparison, and merges within itself.
    pub(super) fn base(&mut self) {
        let mut value = self.values(self.keys);
        value.is_noise |= self.mood == Mood::LevelZero;
        self.push(Operation::Fill { first: 0, step: 1, count: self.keys, value });
        let step = self.keys.div_ceil(HOT);
        self.push(Operation::DeleteEach { first: 0, step, count: self.keys / step });
        self.push(Operation::Delete(self.keys - 1));
        self.push(Operation::CompactAll);
    }

    pub(super) fn some_writes(&mut self) {
        for _ in 0..self.rng.random_range(1..12) {
            let operation = match self.write() {
                Write::Put(key, value) => Operation::Put(key, value),
                Write::Delete(key) => Operation::Delete(key),
                Write::DeleteRange(from, to) => Operation::DeleteRange(from, to),
            };
            self.push(operation);
        }
    }

    pub(super) fn batches(&mut self) {
        for _ in 0..self.rng.random_range(1..4) {
            let writes = (0..self.rng.random_range(0..20)).map(|_| self.write()).collect();
            let sync = self.one_in(4);
            self.push(Operation::Batch { writes, sync });
        }
        if self.one_in(6) {
            self.push(Operation::Persist);
        }
    }

    /// A table of a few entries.
    pub(super) fn small_flush(&mut self) {
        let (first, count) = (self.here, self.rng.random_range(1..30));
        let value = self.values(count);
        let step = [1, 1, 7, 101][self.rng.random_range(0..4)];
        self.recent = (first, step, count);
        self.push(Operation::Fill { first, step, count, value });
        self.push(Operation::Flush);
    }

    /// New keys and a range deletion over them and over older keys, with a snapshot in between: the
    /// flush keeps both, and cuts them into several tables where older tables start.
    pub(super) fn range_over_old_and_new(&mut self) {
        let here = self.here;
        for _ in 0..self.rng.random_range(0..4) {
            self.here = self.key();
            self.small_flush();
        }
        self.here = here;
        let count = self.rng.random_range(1..60);
        let value = self.values(count);
        self.push(Operation::Fill { first: here, step: 1, count, value });
        if !self.one_in(4) {
            self.push(Operation::Snapshot);
        }
        let most = [30, 100, 300][self.rng.random_range(0..3)];
        let (before, after) = (self.rng.random_range(0..most), self.rng.random_range(0..most));
        let to = (here + count + after).min(self.keys);
        self.push(Operation::DeleteRange(here.saturating_sub(before), to));
        self.push(Operation::Flush);
        if !self.one_in(4) {
            self.push(Operation::Wait);
            self.push(Operation::Check);
        }
    }

    /// A long run of deletions, which becomes tables of its own, among other writes.
    pub(super) fn deletions(&mut self) {
        let (first, step, count) = self.recent;
        if self.one_in(2) {
            self.push(Operation::DeleteEach { first, step, count });
        }
        let count = [1, 10, 70, 200, 600][self.rng.random_range(0..5)].min(self.keys);
        self.push(Operation::DeleteEach { first: self.here, step: 1, count });
        if self.one_in(2) {
            self.some_writes();
        }
        self.push(Operation::Flush);
        self.settle_and_check();
    }

    /// A few keys beside the first or the last key are overwritten and deleted, next to a long run of
    /// deletions. The first or last key itself, which is in the range of no older table, is written
    /// last. Then it is written and deleted again, so that merges drop the newest entry of a table.
    pub(super) fn at_an_edge(&mut self) {
        let (hot, few, between) = match self.one_in(2) {
            true => (0, 1, 60),
            false => (self.keys - 1, self.keys.saturating_sub(31), self.keys.saturating_sub(60)),
        };
        let count = self.rng.random_range(1..30.min(self.keys));
        for _ in 0..self.rng.random_range(2..4) {
            let value = self.values(count);
            self.push(Operation::Fill { first: few, step: 1, count, value });
            self.push(Operation::Flush);
        }
        self.push(Operation::DeleteEach { first: few, step: 1, count });
        if !self.one_in(8) {
            // So that the deletions are two runs.
            let value = self.value();
            self.push(Operation::Put(between % self.keys, value));
        }
        let run = [70, 400, 600, 900][self.rng.random_range(0..4)].min(self.keys);
        self.push(Operation::DeleteEach { first: self.here, step: 1, count: run });
        let value = self.value();
        self.push(Operation::Put(hot, value));
        self.push(Operation::Flush);
        self.settle_and_check();
        for _ in 0..self.rng.random_range(1..4) {
            let value = self.value();
            self.push(Operation::Put(hot, value));
            self.push(Operation::Flush);
            self.push(Operation::Delete(hot));
            self.push(Operation::Flush);
        }
        self.push(Operation::Wait);
        self.push(Operation::Check);
    }

    /// One key is written and deleted, with a flush after each.
    pub(super) fn toggle(&mut self) {
        let key = if self.one_in(3) { self.near() } else { self.hot() };
        for _ in 0..self.rng.random_range(1..3) {
            let value = self.value();
            self.push(Operation::Put(key, value));
            self.push(Operation::Flush);
            self.push(Operation::Delete(key));
            self.push(Operation::Flush);
        }
    }

    /// Files of different sizes that enter together, over what the tree has in the same range. Their
    /// ranges do not overlap each other, and their order is any.
    pub(super) fn ingest(&mut self) {
        let mut files = Vec::new();
        let mut start = self.here;
        for _ in 0..[1, 2, 2, 2, 4][self.rng.random_range(0..5)] {
            let room = [3, 30, 100, 300][self.rng.random_range(0..4)];
            let end = (start + room).min(self.keys);
            let (mut file, mut key) = (Vec::new(), start);
            let deletes = [0.0, 0.2, 1.0, 1.0][self.rng.random_range(0..4)];
            let most_step = [1, 1, 5][self.rng.random_range(0..3)];
            while key < end {
                file.push(match self.rng.random_bool(deletes) {
                    true => Write::Delete(key),
                    false => Write::Put(key, self.value()),
                });
                key += self.rng.random_range(1..=most_step);
            }
            if end > start && self.one_in(3) {
                let from = self.rng.random_range(start..end);
                let to = self.rng.random_range(from..end) + 1;
                file.push(Write::DeleteRange(from, to));
            }
            files.insert(self.rng.random_range(0..=files.len()), file);
            start = end + self.rng.random_range(0..20);
        }
        // What they change is in level 0, so that they enter there too.
        for _ in 0..self.rng.random_range(0..4) {
            let step = self.rng.random_range(1..6);
            let count = (start.saturating_sub(self.here) / step).max(1);
            let value = self.values(count);
            self.push(Operation::Fill { first: self.here, step, count, value });
            self.push(Operation::Flush);
        }
        self.push(Operation::Ingest(files));
        for _ in 0..self.rng.random_range(0..3) {
            self.small_flush();
        }
        self.push(Operation::Wait);
        self.push(Operation::Check);
    }

    /// Values larger than blocks and tables; most compress to little.
    pub(super) fn large_values(&mut self) {
        let length = [1000, 5_000, 20_000, 100_000][self.rng.random_range(0..4)];
        let count = self.rng.random_range(1..40_u32).min(4_000_000 / length);
        let mut value = self.value_of(length);
        value.is_noise = self.one_in(5);
        self.values += count;
        let step = [1, 3][self.rng.random_range(0..2)];
        self.push(Operation::Fill { first: self.here, step, count, value });
        self.push(Operation::Flush);
        self.push(Operation::Wait);
    }

    pub(super) fn fill(&mut self) {
        let count = self.rng.random_range(1..=self.keys);
        let value = self.values(count);
        let step = [1, 1, 3][self.rng.random_range(0..3)];
        self.push(Operation::Fill { first: self.here, step, count, value });
    }

    pub(super) fn compact(&mut self) {
        let (from, to) = self.range(self.keys);
        let operation = match self.rng.random_range(0..5) {
            4 => Operation::WarmUp,
            0 => Operation::CompactAll,
            1 => Operation::CompactRange(from, to),
            2 => Operation::Flush,
            _ => Operation::Wait,
        };
        self.push(operation);
    }

    /// Two to four threads write, flush, compact and look at the same time. Each thread has keys of
    /// its own: neighbours of each other, or of those of the other threads.
    pub(super) fn together(&mut self) {
        let threads = self.rng.random_range(2..5);
        let room = (self.keys / threads).min([20, 20, 1000][self.rng.random_range(0..3)]);
        let step = [1, threads][self.rng.random_range(0..2)];
        let lanes = (0..threads).map(|thread| {
            let first = self.here + if step == 1 { thread * room } else { thread };
            let lane = Lane { first, step, room };
            (0..self.rng.random_range(1..20)).map(|_| self.turn(lane)).collect()
        });
        let lanes = lanes.collect();
        self.push(Operation::Together(lanes));
        if self.one_in(3) {
            let (seed, again) = (self.rng.random(), self.one_in(3));
            self.leave(Leave::LosePower { seed, again });
        }
    }

    fn turn(&mut self, lane: Lane) -> Turn {
        Turn::Act(match self.rng.random_range(0..20) {
            0..8 => Act::Write(self.write_in(lane)),
            8..15 => {
                let writes =
                    (0..self.rng.random_range(1..8)).map(|_| self.write_in(lane)).collect();
                Act::Batch { writes, sync: self.one_in(4) }
            }
            15 => Act::Flush,
            16 if self.one_in(2) => Act::CompactAll,
            17 if self.one_in(2) => Act::ApplyFilters,
            _ => return Turn::Look,
        })
    }

    fn write_in(&mut self, lane: Lane) -> Write {
        let index = self.rng.random_range(0..lane.room);
        let key = (lane.first + lane.step * index) % self.keys;
        match self.rng.random_range(0..10) {
            0..6 => Write::Put(key, self.value()),
            6..9 => Write::Delete(key),
            _ if lane.step > 1 => Write::DeleteRange(key, key + 1),
            _ => {
                let most = (lane.room - index).min(self.keys - key);
                Write::DeleteRange(key, key + self.rng.random_range(0..=most))
            }
        }
    }

    /// Updates of single keys, in a tree that changes.
    pub(super) fn updates(&mut self) {
        for _ in 0..self.rng.random_range(1..15) {
            let key = self.near();
            let new = (!self.one_in(4)).then(|| self.value());
            let operation = match self.rng.random_range(0..5) {
                0 => Operation::Flush,
                1 | 2 => Operation::Swap { key, new, expects_current: !self.one_in(4) },
                _ => {
                    let near = [key, self.near()][self.rng.random_range(0..2)];
                    let write = match self.rng.random_range(0..6) {
                        0 | 1 => Some(Write::Put(near, self.value())),
                        2 => Some(Write::Delete(near)),
                        3 => Some(Write::DeleteRange(near, (near + 2).min(self.keys))),
                        _ => None,
                    };
                    Operation::Update { key, new, meanwhile: write }
                }
            };
            self.push(operation);
        }
    }

    /// Transactions with other writes between their steps.
    pub(super) fn transactions(&mut self) {
        for _ in 0..self.rng.random_range(1..8) {
            let steps = (0..self.rng.random_range(1..8)).map(|_| self.step_of_transaction());
            let mut steps: Vec<Step> = steps.collect();
            if self.spaces > 1 && self.one_in(2) {
                steps.insert(0, Step::Turn(self.rng.random_range(0..4)));
            }
            self.push(Operation::Transact(steps));
        }
    }

    fn step_of_transaction(&mut self) -> Step {
        match self.rng.random_range(0..13) {
            0 if self.spaces > 1 => Step::Turn(self.rng.random_range(0..4)),
            0..3 => Step::Get(self.near()),
            3..5 => {
                let (from, to) = self.range(20);
                let most = self.rng.random_range(1..6);
                Step::Scan { from, to, most, backward: self.rng.random_bool(0.5) }
            }
            5..9 => Step::Write(self.write()),
            9 => Step::Pop { last: self.rng.random_bool(0.5) },
            10 | 11 => Step::Meanwhile(Act::Write(self.write())),
            _ => Step::Meanwhile(match self.rng.random_range(0..3) {
                0 => Act::CompactAll,
                1 => Act::Flush,
                _ => {
                    let writes = (0..self.rng.random_range(1..4)).map(|_| self.write()).collect();
                    Act::Batch { writes, sync: false }
                }
            }),
        }
    }

    pub(super) fn use_space(&mut self) {
        let space = self.rng.random_range(0..self.spaces);
        let settings = self.mood.settings(&mut self.rng);
        self.push(Operation::Use { space, settings });
    }

    /// Keyspaces are created, opened with other options, dropped and created again, between batches
    /// across them.
    pub(super) fn keyspaces(&mut self) {
        for _ in 0..self.rng.random_range(1..8) {
            match self.rng.random_range(0..9) {
                0..3 => self.use_space(),
                3 => {
                    let space = self.rng.random_range(0..self.spaces);
                    self.push(Operation::DropSpace(space));
                    if self.one_in(2) {
                        let settings = self.mood.settings(&mut self.rng);
                        self.push(Operation::Use { space, settings });
                    }
                }
                4 => self.some_writes(),
                5 => self.push(Operation::Flush),
                _ => {
                    let count = self.rng.random_range(1..12);
                    let writes = (0..count).map(|_| (self.rng.random_range(0..4), self.write()));
                    let writes = writes.collect();
                    let sync = self.one_in(6);
                    self.push(Operation::Across { writes, sync });
                }
            }
        }
    }

    pub(super) fn queue(&mut self) {
        for _ in 0..self.rng.random_range(1..15) {
            let last = self.one_in(4);
            self.push(if last { Operation::PopLast } else { Operation::PopFirst });
            if self.one_in(3) {
                let (key, value) = (self.keys - 1 - self.key() / 4, self.value());
                self.push(Operation::Put(key, value));
            }
        }
    }
}
