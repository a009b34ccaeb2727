//! Draws the program of a seed.
//!
//! A program is a row of *motifs*: short passages of operations that bring the tree into a form
//! where rules of flushes and compactions apply, for example a flush of many deletions, which
//! becomes several tables, or an ingestion of files that delete what others write. Each run draws a
//! weight for each motif, often 0, so that some runs consist of few kinds of calls, and reach states
//! that a uniform mixture never reaches (Groce et al., *Swarm Testing*, ISSTA 2012).

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::disks::Kind;
use super::keys::{Form, Key, Value};
use super::model::Write;
use super::motifs::MOTIFS;
use super::operation::{Operation, Program, Steps};
use super::settings::Settings;
use super::spaces::{SPACES, Space};

/// So many keys, at equal distances, and the last one are written again and again. They are not in
/// the base. A merge drops deletions of keys that are in the range of no older table, so most of
/// them are the first and the last key.
pub const HOT: u32 = 6;

/// A run has about this many operations, those within a fill and within a batch not counted.
const LENGTH: usize = 160;

/// How trees of a run look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mood {
    /// As the options fall.
    Wild,
    /// A large last level under a few small tables of level 0, which are merged among themselves.
    /// Only explicit flushes make them, so each has what a motif writes.
    LevelZero,
}

impl Mood {
    pub fn settings(self, rng: &mut StdRng) -> Settings {
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
            // It is the longest, and rarely goes as far as it should.
            Mood::LevelZero if name == "at_an_edge" => 6 * drawn + 12,
            Mood::LevelZero if OF_LEVEL_0.contains(&name) => 4 * drawn + 2,
            Mood::LevelZero => drawn.min(1),
            Mood::Wild => drawn,
        }
    }
}

pub struct Draw {
    pub(super) rng: StdRng,
    pub(super) mood: Mood,
    /// The number of keyspaces, of which some may be missing at any moment.
    pub(super) spaces: Space,
    /// The number of keys.
    pub(super) keys: u32,
    /// The usual length of a value.
    pub(super) length: u32,
    /// Writes of one passage are near this key.
    pub(super) here: Key,
    /// The last keys that were overwritten: the first one, the distance and the number.
    pub(super) recent: (Key, u32, u32),
    pub(super) values: u32,
    pub(super) weights: [u32; MOTIFS.len()],
    pub(super) operations: Vec<Operation>,
}

/// The program of a seed: always the same one. It has none of the motifs that `without` names, and
/// the disk that is `wanted`.
pub fn program(seed: u64, without: &str, wanted: Option<Kind>) -> Program {
    let mut rng = StdRng::seed_from_u64(seed);
    let form = Form::ALL[rng.random_range(0..Form::ALL.len())];
    let mood = [Mood::Wild, Mood::LevelZero][rng.random_range(0..2)];
    let keys = match form {
        form if mood == Mood::LevelZero && form != Form::Huge => 3000,
        Form::Huge => [5, 20, 40][rng.random_range(0..3)],
        _ => [8, 100, 600, 2000, 3000][rng.random_range(0..5)],
    };
    let drawn = match rng.random_range(0..80) {
        0..52 => Kind::Memory,
        52..72 => Kind::Small,
        72..78 => Kind::Tmpfs,
        78 => Kind::Disk,
        _ => Kind::Direct,
    };
    let disk = wanted.unwrap_or(drawn);
    let is_calm = rng.random_bool(0.3);
    let settings = mood.settings(&mut rng);
    let length = mood.lengths()[rng.random_range(0..5)];
    let is_left_out = |name| without.split(',').any(|other| other == name);
    let spaces = [1, 1, 2, SPACES][rng.random_range(0..4)];
    let spaces = if is_left_out("keyspaces") { 1 } else { spaces };
    let weights = MOTIFS.map(|(name, _)| {
        let weight = mood.weight(name, [0, 0, 1, 3, 9][rng.random_range(0..5)]);
        let is_useless =
            (name == "full_disk" && disk != Kind::Small) || (name == "keyspaces" && spaces == 1);
        if is_useless || is_left_out(name) { 0 } else { weight }
    });
    let (values, operations) = (0, Vec::new());
    let (here, recent) = (0, (0, 1, 1));
    let mut draw =
        Draw { rng, mood, spaces, keys, length, here, recent, values, weights, operations };
    if mood == Mood::LevelZero || draw.rng.random_bool(0.8) {
        draw.base();
    }
    // A sync of a real disk takes as long as a hundred operations.
    let is_slow = matches!(disk, Kind::Disk | Kind::Direct);
    let most = if is_slow { LENGTH / 4 } else { LENGTH };
    while draw.operations.len() < most {
        draw.passage();
        draw.pause();
    }
    Program { seed, disk, form, keys, is_calm, settings, operations: draw.operations }
}

impl Draw {
    pub(super) fn push(&mut self, operation: Operation) {
        self.operations.push(operation);
    }

    /// A motif, at a place of its own or at that of the last one.
    pub(super) fn passage(&mut self) {
        if self.one_in(2) {
            self.here = self.key();
        }
        if self.spaces > 1 && self.one_in(4) {
            self.use_space();
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

    pub(super) fn one_in(&mut self, n: u32) -> bool {
        self.rng.random_range(0..n) == 0
    }

    pub(super) fn key(&mut self) -> Key {
        self.rng.random_range(0..self.keys)
    }

    /// A key near those of this passage.
    pub(super) fn near(&mut self) -> Key {
        if self.one_in(8) {
            return self.key();
        }
        (self.here + self.rng.random_range(0..40)) % self.keys
    }

    pub(super) fn hot(&mut self) -> Key {
        let step = self.keys.div_ceil(HOT);
        match self.rng.random_range(0..4) {
            0 => 0,
            1 => self.keys - 1,
            _ => (step * self.rng.random_range(0..HOT)) % self.keys,
        }
    }

    /// A range of at most `most` keys near here; rarely a wide one.
    pub(super) fn range(&mut self, most: u32) -> (Key, Key) {
        let from = self.near();
        let to = if self.one_in(25) { self.keys } else { from + self.rng.random_range(0..=most) };
        (from, to.min(self.keys))
    }

    pub(super) fn value(&mut self) -> Value {
        let length = match self.rng.random_range(0..40) {
            0 => 0,
            1 => self.rng.random_range(0..5000),
            2 => self.rng.random_range(0..40_000),
            _ => self.length + self.rng.random_range(0..10),
        };
        self.value_of(length)
    }

    pub(super) fn value_of(&mut self, length: u32) -> Value {
        self.values += 1;
        Value { number: self.values, length, is_noise: self.rng.random_bool(0.7) }
    }

    /// Values of the usual length, whose numbers follow each other.
    pub(super) fn values(&mut self, count: u32) -> Value {
        let value = self.value_of(self.length);
        self.values += count;
        value
    }

    pub(super) fn write(&mut self) -> Write {
        match self.rng.random_range(0..10) {
            0..6 => Write::Put(self.near(), self.value()),
            6..9 => Write::Delete(self.near()),
            _ => {
                let (from, to) = self.range(20);
                Write::DeleteRange(from, to)
            }
        }
    }

    pub(super) fn steps(&mut self, most: usize) -> Steps {
        let forward = [0.1, 0.5, 0.9][self.rng.random_range(0..3)];
        (0..self.rng.random_range(1..most)).map(|_| self.rng.random_bool(forward)).collect()
    }

    pub(super) fn snapshot(&mut self) -> Option<usize> {
        self.rng.random_bool(0.3).then(|| self.rng.random_range(0..8))
    }

    /// Between two passages: often nothing, sometimes a wait or a comparison of the whole content.
    pub(super) fn pause(&mut self) {
        match self.rng.random_range(0..18) {
            16..18 if self.mood == Mood::LevelZero => self.push(Operation::Check),
            0..3 => self.push(Operation::Wait),
            3..5 => self.push(Operation::Check),
            5 => self.push(Operation::Verify),
            6 => self.push(Operation::Release(0)),
            7 => self.push(Operation::DropCursor(0)),
            8 => self.push(Operation::DropReader(0)),
            9 => self.push(Operation::DropIterator(0)),
            _ => {}
        }
    }

    /// In one passage of two, waits for compactions and compares all.
    pub(super) fn settle_and_check(&mut self) {
        if self.one_in(2) {
            self.push(Operation::Wait);
            self.push(Operation::Check);
        }
    }
}
