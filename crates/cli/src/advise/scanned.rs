//! What reading a table showed: its keys, and how filters answered queries.

use maypole::filter::Family;

/// How filters answered queries for keys that the table does not hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Asked {
    pub queries: u64,
    /// How often the answer was "maybe", which is wrong for these keys.
    pub wrong: u64,
}

impl std::ops::AddAssign for Asked {
    fn add_assign(&mut self, other: Asked) {
        self.queries += other.queries;
        self.wrong += other.wrong;
    }
}

/// The figures of one filter that was built from a table's keys, or of the filters of one kind that
/// were built for several tables, added up.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Built {
    pub keys: u64,
    pub bytes: u64,
    /// Nanoseconds per key. The fastest build counts, because other programs slow some builds down.
    pub key_nanos: f64,
    /// The rate that the built filter predicts of itself.
    pub predicted: f64,
    pub asked: Asked,
}

/// Whether a number of wrong answers is within two standard deviations of the mean that is expected.
pub fn agrees(wrong: u64, expected: f64) -> bool {
    (wrong as f64 - expected).abs() <= 2.0 * expected.sqrt() + 2.0
}

impl Built {
    /// The false-positive rate; NaN if there were no queries. It is the predicted rate, because
    /// 60,000 queries of a filter of 1 % measure its rate to 8 % only. But if the queries contradict
    /// it, as those of filters of few keys and of prefixes alone may do, it is the measured one.
    pub fn rate(&self) -> f64 {
        let queries = self.asked.queries as f64;
        match agrees(self.asked.wrong, self.predicted * queries) && queries > 0.0 {
            true => self.predicted,
            false => self.asked.wrong as f64 / queries,
        }
    }

    pub fn add(&mut self, other: &Built) {
        self.key_nanos = match (self.keys, other.keys) {
            (0, _) => other.key_nanos,
            (_, 0) => self.key_nanos,
            _ => self.key_nanos.min(other.key_nanos),
        };
        let keys = (self.keys + other.keys).max(1) as f64;
        let sum = self.predicted * self.keys as f64 + other.predicted * other.keys as f64;
        self.predicted = sum / keys;
        self.keys += other.keys;
        self.bytes += other.bytes;
        self.asked += other.asked;
    }
}

#[derive(Debug, Clone, Default)]
pub struct Scanned {
    pub filter: Option<ReadFilter>,
    pub entries: u64,
    /// The number of distinct user keys that were read.
    pub keys: u64,
    /// About how many bytes of the file were read.
    pub bytes: u64,
    /// Whether the whole table was read.
    pub is_whole: bool,
    /// Queries for keys of other tables, and for made-up keys of the shape that the table's keys
    /// have.
    pub asked: Asked,
    /// Queries for made-up keys whose last bytes are any bytes.
    pub asked_of_any_bytes: Asked,
    /// The filters that were built, in the order of the kinds.
    pub built: Vec<Built>,
    /// Why the reading ended early.
    pub damage: Option<String>,
}

/// If there are fewer queries of the keys' own shape than this for each one of any bytes, nearly all
/// keys of this shape exist, and the others say too little.
const FEW_OF_OWN_SHAPE: f64 = 0.05;

/// The queries by which a rate is judged: those of the keys' own shape, unless they are few.
pub fn judged(own: Asked, of_any_bytes: Asked) -> Asked {
    let mut both = own;
    both += of_any_bytes;
    let is_enough = own.queries as f64 >= FEW_OF_OWN_SHAPE * of_any_bytes.queries as f64;
    if is_enough { own } else { both }
}

impl Scanned {
    pub fn judged(&self) -> Asked {
        judged(self.asked, self.asked_of_any_bytes)
    }
}

/// What the stored bytes of a filter say, in contrast to the properties of its table.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReadFilter {
    pub family: Option<Family>,
    pub probes: Option<u32>,
    /// The number of partitions; 1 if the filter is one block.
    pub parts: usize,
    /// Stored bytes of the largest partition, or of the whole filter if it is not partitioned.
    pub largest_part: u64,
    /// Why the filter cannot be used; it then answers "maybe" to every query.
    pub damaged: Option<String>,
}
