//! Draws the program of a seed.
//!
//! A program is a row of *motifs*: short passages of operations that bring the tree into a form
//! where rules of flushes and compactions apply, for example a flush of many deletions, which
//! becomes several tables, or an ingestion of files that delete what others write. Each run draws a
//! weight for each motif, often 0, so that some runs consist of few kinds of calls, and reach states
//! that a uniform mixture never reaches (Groce et al., *Swarm Testing*, ISSTA 2012).

use maypole::fs::{Fault, Operation as Call};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::disks::Kind;
use super::keys::{Form, Key, Value};
use super::model::Write;
use super::operation::{Act, Leave, Operation, Program, Steps};
use super::settings::Settings;

/// So many keys, at equal distances, and the last one are written again and again. They are not in
/// the base. A merge drops deletions of keys that are in the range of no older table, so most of
/// them are the first and the last key.
const HOT: u32 = 6;

/// A run has about this many operations, those within a fill and within a batch not counted.
const LENGTH: usize = 160;

type Motif = fn(&mut Draw);

const MOTIFS: [(&str, Motif); 21] = [
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
    ("reads", Draw::reads),
    ("hold", Draw::hold),
    ("read_beside", Draw::read_beside),
    ("copies", Draw::copies),
    ("reopen", Draw::reopen),
    ("close_twice", Draw::close_twice),
    ("lose_power", Draw::lose_power),
    ("repair", Draw::repair),
    ("faults", Draw::faults),
];

/// How trees of a run look.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mood {
    /// As the options fall.
    Wild,
    /// A large last level under a few small tables of level 0, which are merged among themselves.
    /// Only explicit flushes make them, so each has what a motif writes.
    LevelZero,
}

impl Mood {
    fn settings(self, rng: &mut StdRng) -> Settings {
        let drawn = Settings::draw(rng);
        match self {
            Mood::Wild => drawn,
            Mood::LevelZero => Settings {
                memtable_bytes: 16 << 20,
                // A table that is rewritten for a sixteenth of this is cheap.
                table_bytes: [16 << 10, 16 << 10, 64 << 10, 1 << 20][rng.random_range(0..4)],
                level_base_bytes: 64 << 20,
                block_bytes: drawn.block_bytes.min(4096),
                ..drawn
            },
        }
    }

    /// The usual lengths of values.
    fn lengths(self) -> [u32; 5] {
        match self {
            Mood::Wild => [0, 10, 40, 40, 300],
            // The last level must be large in comparison with tables of a few entries, each of
            // which takes a kilobyte.
            Mood::LevelZero => [100, 100, 100, 200, 300],
        }
    }

    /// The weight of a motif, of which `drawn` is drawn.
    fn weight(self, name: &str, drawn: u32) -> u32 {
        const OF_LEVEL_0: [&str; 6] = [
            "at_an_edge",
            "small_flush",
            "range_over_old_and_new",
            "deletions",
            "toggle",
            "ingest",
        ];
        match self {
            Mood::LevelZero if OF_LEVEL_0.contains(&name) => 4 * drawn + 2,
            Mood::LevelZero => drawn.min(1),
            Mood::Wild => drawn,
        }
    }
}

/// The place of the last motif.
const FAULTS: usize = MOTIFS.len() - 1;

struct Draw {
    rng: StdRng,
    mood: Mood,
    /// The number of keys.
    keys: u32,
    /// The usual length of a value.
    length: u32,
    /// Writes of one passage are near this key.
    here: Key,
    /// The last keys that were overwritten: the first one, the distance and the number.
    recent: (Key, u32, u32),
    values: u32,
    weights: [u32; MOTIFS.len()],
    operations: Vec<Operation>,
}

/// The program of a seed: always the same one. It has none of the motifs that `without` names.
pub fn program(seed: u64, without: &str) -> Program {
    let mut rng = StdRng::seed_from_u64(seed);
    let form = Form::ALL[rng.random_range(0..Form::ALL.len())];
    let mood = [Mood::Wild, Mood::LevelZero][rng.random_range(0..2)];
    let keys = match form {
        form if mood == Mood::LevelZero && form != Form::Huge => 3000,
        Form::Huge => [5, 20, 40][rng.random_range(0..3)],
        _ => [8, 100, 600, 2000, 3000][rng.random_range(0..5)],
    };
    let disk = match rng.random_range(0..80) {
        0..72 => Kind::Memory,
        72..78 => Kind::Tmpfs,
        78 => Kind::Disk,
        _ => Kind::Direct,
    };
    let is_calm = rng.random_bool(0.3);
    let settings = mood.settings(&mut rng);
    let length = mood.lengths()[rng.random_range(0..5)];
    let is_left_out = |name| without.split(',').any(|other| other == name);
    let weights = MOTIFS.map(|(name, _)| {
        let weight = mood.weight(name, [0, 0, 1, 3, 9][rng.random_range(0..5)]);
        if is_left_out(name) { 0 } else { weight }
    });
    let (values, operations) = (0, Vec::new());
    let (here, recent) = (0, (0, 1, 1));
    let mut draw = Draw { rng, mood, keys, length, here, recent, values, weights, operations };
    if mood == Mood::LevelZero || draw.rng.random_bool(0.8) {
        draw.base();
    }
    while draw.operations.len() < LENGTH {
        draw.passage();
        draw.pause();
    }
    Program { seed, disk, form, keys, is_calm, settings, operations: draw.operations }
}

impl Draw {
    fn push(&mut self, operation: Operation) {
        self.operations.push(operation);
    }

    /// A motif, at a place of its own or at that of the last one.
    fn passage(&mut self) {
        if self.one_in(2) {
            self.here = self.key();
        }
        let total: u32 = self.weights.iter().sum();
        let mut ticket = self.rng.random_range(0..total.max(1));
        for ((_, motif), weight) in MOTIFS.iter().zip(self.weights) {
            if ticket < weight {
                return motif(self);
            }
            ticket -= weight;
        }
        // All weights are 0.
        self.some_writes();
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.rng.random_range(0..n) == 0
    }

    fn key(&mut self) -> Key {
        self.rng.random_range(0..self.keys)
    }

    /// A key near those of this passage.
    fn near(&mut self) -> Key {
        if self.one_in(8) {
            return self.key();
        }
        (self.here + self.rng.random_range(0..40)) % self.keys
    }

    fn hot(&mut self) -> Key {
        let step = self.keys.div_ceil(HOT);
        match self.rng.random_range(0..4) {
            0 => 0,
            1 => self.keys - 1,
            _ => (step * self.rng.random_range(0..HOT)) % self.keys,
        }
    }

    /// A range of at most `most` keys near here; rarely a wide one.
    fn range(&mut self, most: u32) -> (Key, Key) {
        let from = self.near();
        let to = if self.one_in(25) { self.keys } else { from + self.rng.random_range(0..=most) };
        (from, to.min(self.keys))
    }

    fn value(&mut self) -> Value {
        let length = match self.rng.random_range(0..40) {
            0 => 0,
            1 => self.rng.random_range(0..5000),
            2 => self.rng.random_range(0..40_000),
            _ => self.length + self.rng.random_range(0..10),
        };
        self.value_of(length)
    }

    fn value_of(&mut self, length: u32) -> Value {
        self.values += 1;
        Value { number: self.values, length, is_noise: self.rng.random_bool(0.7) }
    }

    /// Values of the usual length, whose numbers follow each other.
    fn values(&mut self, count: u32) -> Value {
        let value = self.value_of(self.length);
        self.values += count;
        value
    }

    fn write(&mut self) -> Write {
        match self.rng.random_range(0..10) {
            0..6 => Write::Put(self.near(), self.value()),
            6..9 => Write::Delete(self.near()),
            _ => {
                let (from, to) = self.range(20);
                Write::DeleteRange(from, to)
            }
        }
    }

    fn steps(&mut self, most: usize) -> Steps {
        let forward = [0.1, 0.5, 0.9][self.rng.random_range(0..3)];
        (0..self.rng.random_range(1..most)).map(|_| self.rng.random_bool(forward)).collect()
    }

    fn snapshot(&mut self) -> Option<usize> {
        self.rng.random_bool(0.3).then(|| self.rng.random_range(0..8))
    }

    /// Between two passages: often nothing, sometimes a wait or a comparison of the whole content.
    fn pause(&mut self) {
        match self.rng.random_range(0..18) {
            16..18 if self.mood == Mood::LevelZero => self.push(Operation::Check),
            0..3 => self.push(Operation::Wait),
            3..5 => self.push(Operation::Check),
            5 => self.push(Operation::Verify),
            6 => self.push(Operation::Release(0)),
            7 => self.push(Operation::DropCursor(0)),
            8 => self.push(Operation::DropReader(0)),
            _ => {}
        }
    }

    /// In one passage of two, waits for compactions and compares all.
    fn settle_and_check(&mut self) {
        if self.one_in(2) {
            self.push(Operation::Wait);
            self.push(Operation::Check);
        }
    }

    // -- the motifs ---------------------------------------------------------------------------

    /// Most keys, in the last level: level 0 is small in comparison, and merges within itself.
    fn base(&mut self) {
        let mut value = self.values(self.keys);
        value.is_noise |= self.mood == Mood::LevelZero;
        self.push(Operation::Fill { first: 0, step: 1, count: self.keys, value });
        let step = self.keys.div_ceil(HOT);
        self.push(Operation::DeleteEach { first: 0, step, count: self.keys / step });
        self.push(Operation::Delete(self.keys - 1));
        self.push(Operation::CompactAll);
    }

    fn some_writes(&mut self) {
        for _ in 0..self.rng.random_range(1..12) {
            let operation = match self.write() {
                Write::Put(key, value) => Operation::Put(key, value),
                Write::Delete(key) => Operation::Delete(key),
                Write::DeleteRange(from, to) => Operation::DeleteRange(from, to),
            };
            self.push(operation);
        }
    }

    fn batches(&mut self) {
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
    fn small_flush(&mut self) {
        let (first, count) = (self.here, self.rng.random_range(1..30));
        let value = self.values(count);
        let step = [1, 1, 7, 101][self.rng.random_range(0..4)];
        self.recent = (first, step, count);
        self.push(Operation::Fill { first, step, count, value });
        self.push(Operation::Flush);
    }

    /// New keys and a range deletion over them and over older keys, with a snapshot in between: the
    /// flush keeps both, and cuts them into several tables where older tables start.
    fn range_over_old_and_new(&mut self) {
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
    fn deletions(&mut self) {
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
    fn at_an_edge(&mut self) {
        let (hot, few, between) = match self.one_in(2) {
            true => (0, 1, 60),
            false => (self.keys - 1, self.keys.saturating_sub(31), self.keys.saturating_sub(60)),
        };
        let count = self.rng.random_range(1..30.min(self.keys));
        for _ in 0..self.rng.random_range(1..4) {
            let value = self.values(count);
            self.push(Operation::Fill { first: few, step: 1, count, value });
            self.push(Operation::Flush);
        }
        self.push(Operation::DeleteEach { first: few, step: 1, count });
        if !self.one_in(4) {
            // So that the deletions are two runs.
            let value = self.value();
            self.push(Operation::Put(between % self.keys, value));
        }
        let run = [70, 200, 600, 900][self.rng.random_range(0..4)].min(self.keys);
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
    fn toggle(&mut self) {
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
    fn ingest(&mut self) {
        let mut files = Vec::new();
        let mut start = self.here;
        for _ in 0..self.rng.random_range(1..5) {
            let room = [3, 30, 120, 400][self.rng.random_range(0..4)];
            let end = (start + room).min(self.keys);
            let (mut file, mut key) = (Vec::new(), start);
            let deletes = [0.1, 0.5, 1.0][self.rng.random_range(0..3)];
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
        for _ in 0..self.rng.random_range(0..4) {
            let count = [10, 60, 200][self.rng.random_range(0..3)];
            let (value, step) = (self.values(count), self.rng.random_range(1..6));
            self.push(Operation::Fill { first: self.here, step, count, value });
            self.push(Operation::Flush);
        }
        self.push(Operation::Ingest(files));
        self.settle_and_check();
    }

    /// Values larger than blocks and tables; most compress to little.
    fn large_values(&mut self) {
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

    fn fill(&mut self) {
        let count = self.rng.random_range(1..=self.keys);
        let value = self.values(count);
        let step = [1, 1, 3][self.rng.random_range(0..3)];
        self.push(Operation::Fill { first: self.here, step, count, value });
    }

    fn compact(&mut self) {
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

    fn queue(&mut self) {
        for _ in 0..self.rng.random_range(1..15) {
            self.push(Operation::PopFirst);
            if self.one_in(3) {
                let (key, value) = (self.keys - 1 - self.key() / 4, self.value());
                self.push(Operation::Put(key, value));
            }
        }
    }

    fn reads(&mut self) {
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

    /// Snapshots and cursors that see what later operations change.
    fn hold(&mut self) {
        match self.rng.random_range(0..4) {
            0..2 => self.push(Operation::Snapshot),
            2 => {
                let start = self.near();
                self.push(Operation::HoldCursor { start });
            }
            _ => {
                let which = self.rng.random_range(0..8);
                let steps = self.steps(60);
                self.push(Operation::MoveCursor { which, steps });
            }
        }
    }

    /// What a writer does while something else is going on.
    fn acts(&mut self) -> Vec<Act> {
        (0..self.rng.random_range(0..5))
            .map(|_| match self.rng.random_range(0..4) {
                0..2 => Act::Write(self.write()),
                2 => Act::Flush,
                _ if self.one_in(3) => Act::CompactAll,
                _ => Act::Flush,
            })
            .collect()
    }

    /// A reader opens the directory while the writer writes, flushes and compacts.
    fn read_beside(&mut self) {
        self.some_writes();
        let calls = [12, 16, 60][self.rng.random_range(0..3)];
        let mut acts: Vec<(u32, Act)> =
            (self.acts().into_iter()).map(|act| (self.rng.random_range(0..calls), act)).collect();
        acts.sort_by_key(|&(call, _)| call);
        let settings = self.mood.settings(&mut self.rng);
        let hold = self.one_in(3);
        self.push(Operation::Read { acts, hold, settings });
    }

    fn copies(&mut self) {
        let settings = self.mood.settings(&mut self.rng);
        let operation = match self.rng.random_range(0..4) {
            0..2 => Operation::Checkpoint { acts: self.acts(), settings },
            2 => Operation::CopyWithFilters(settings.filter),
            _ => Operation::Export,
        };
        self.push(operation);
    }

    fn leave(&mut self, leave: Leave) {
        let settings = self.mood.settings(&mut self.rng);
        self.push(Operation::Reopen(leave, settings));
    }

    fn reopen(&mut self) {
        let leave = [Leave::Close, Leave::Drop, Leave::Kill][self.rng.random_range(0..3)];
        self.leave(leave);
    }

    fn close_twice(&mut self) {
        self.some_writes();
        self.leave(Leave::CloseTwice);
    }

    fn lose_power(&mut self) {
        self.some_writes();
        let (seed, again) = (self.rng.random(), self.one_in(3));
        self.leave(Leave::LosePower { seed, again });
    }

    fn repair(&mut self) {
        let (loses_current, loses_manifest) = (self.one_in(2), self.one_in(3));
        self.leave(Leave::Repair { loses_current, loses_manifest });
    }

    /// A call fails, or all from one on; other passages follow, and then the disk works again.
    fn faults(&mut self) {
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
        let fault = [Fault::Io, Fault::NoSpace, Fault::ShortWrite][self.rng.random_range(0..3)];
        let nth = self.rng.random_range(0..12);
        let forever = self.one_in(3);
        self.push(Operation::Fail { call, nth, fault, forever });
        // No faults during the faults.
        let weights = std::mem::replace(&mut self.weights[FAULTS], 0);
        for _ in 0..self.rng.random_range(1..5) {
            self.passage();
        }
        self.weights[FAULTS] = weights;
        if self.one_in(3) {
            self.push(Operation::Check);
        }
        self.push(Operation::Heal);
        self.some_writes();
        if self.one_in(2) {
            self.reopen();
        }
    }
}
