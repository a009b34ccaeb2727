//! A ribbon of a few keys, with every step of its solution. A real row is too wide to be drawn, so
//! this is the ribbon of the book's chapters, with rows of 8 coefficients and fingerprints of 4
//! bits.
//!
//! A *band* is one attempt to solve the equations of keys. A plain ribbon makes attempts with one
//! seed after another, until one works. A bumped ribbon makes one attempt in each layer, and keys
//! that contradict others there are *bumped*: the next layer takes them.

use maypole_filter::hash64;

use super::{Keys, list, number};
use crate::figures::ribbon::{Row, WIDTH, picked, row, solve};

/// The most keys and slots that can be drawn.
const MOST: usize = 16;
/// The number of seeds that are tried. The format allows 256 seeds. But if the slots are too few,
/// every seed fails, and 8 failures are enough to show that.
const SEEDS: u64 = 8;
/// The number of start positions in one bucket. The keys of a bucket are kept or bumped together.
const BUCKET: u32 = 2;

/// One step of a band.
enum Step {
    /// The index of a key; its row, followed by the forms that the row takes as other rows are
    /// added to it.
    Key(usize, Vec<Row>),
    /// This bucket, which has these keys, is bumped: the rows of these keys are removed, and their
    /// slots are free again.
    Bumped(u32, Vec<usize>),
}

struct Band {
    seed: u64,
    slots: u32,
    steps: Vec<Step>,
    bumped_buckets: Vec<u32>,
    /// `None`: the keys contradict each other.
    solution: Option<Vec<u32>>,
}

pub fn answer(slots: &str, bumping: bool, keys: &Keys) -> Result<String, String> {
    let slots = number(slots, u64::from(WIDTH), MOST as u64)? as u32;
    if keys.added.is_empty() || keys.added.len() > MOST {
        return Err(format!("give 1 to {MOST} keys"));
    }
    let (bands, tags) =
        if bumping { layers(slots, &keys.added) } else { (seeds(slots, &keys.added), Vec::new()) };
    Ok(format!(
        "{{\"bands\":{},\"tags\":{},\"asked\":{}}}",
        list(&bands, draw),
        list(&tags, usize::to_string),
        list(&keys.asked, |key| ask(key, &bands, bumping, &keys.added, &tags)),
    ))
}

/// The bands of a plain ribbon: the same keys with one seed after another, until a seed works.
fn seeds(slots: u32, keys: &[&str]) -> Vec<Band> {
    let mut bands = Vec::new();
    for seed in 0..SEEDS {
        let mut band = Band { seed, slots, steps: vec![], bumped_buckets: vec![], solution: None };
        let mut rows = vec![None; slots as usize];
        let solved = (0..keys.len()).all(|key| band.add(&mut rows, key, keys[key]));
        band.solution = solved.then(|| solve(&rows));
        bands.push(band);
        if solved {
            break;
        }
    }
    bands
}

/// The bands of a bumped ribbon: each layer takes the keys that the layer before bumped. If one or
/// two keys are left, or if a layer bumped all of its keys, the keys that are left become tags: the
/// filter stores their hashes in a list.
fn layers(slots: u32, keys: &[&str]) -> (Vec<Band>, Vec<usize>) {
    let mut left: Vec<usize> = (0..keys.len()).collect();
    let (mut bands, mut slots) = (Vec::new(), slots);
    while left.len() > 2 || bands.is_empty() {
        let seed = bands.len() as u64;
        let mut band = Band { seed, slots, steps: vec![], bumped_buckets: vec![], solution: None };
        let (mut rows, mut bumped) = (vec![None; slots as usize], Vec::new());
        // When the rows of a bucket are eliminated, some of them move right, into slots of the next
        // bucket. So buckets are handled from left to right.
        for bucket in 0..(slots - WIDTH + 1).div_ceil(BUCKET) {
            let here = |key: &usize| row(keys[*key], slots, seed).start / BUCKET == bucket;
            let of_bucket: Vec<usize> = left.iter().copied().filter(here).collect();
            let mut trial = rows.clone();
            if of_bucket.iter().all(|&key| band.add(&mut trial, key, keys[key])) {
                rows = trial;
            } else {
                bumped.extend(&of_bucket);
                band.bumped_buckets.push(bucket);
                band.steps.push(Step::Bumped(bucket, of_bucket));
            }
        }
        band.solution = Some(solve(&rows));
        bands.push(band);
        let stuck = bumped.len() == left.len();
        left = bumped;
        if stuck {
            break;
        }
        slots = (left.len() as u32).saturating_sub(1).max(WIDTH);
    }
    (bands, left)
}

impl Band {
    /// Adds the row of a key to `rows` by elimination. Returns `false` if the row contradicts other
    /// rows.
    fn add(&mut self, rows: &mut [Option<Row>], index: usize, key: &str) -> bool {
        let mut row = row(key, self.slots, self.seed);
        let mut way = vec![row];
        while let Some(there) = rows[row.start as usize].filter(|_| row.coefficients != 0) {
            row.coefficients ^= there.coefficients;
            row.fingerprint ^= there.fingerprint;
            if row.coefficients != 0 {
                let zeros = row.coefficients.trailing_zeros();
                row.coefficients >>= zeros;
                row.start += zeros;
            }
            way.push(row);
        }
        self.steps.push(Step::Key(index, way));
        if row.coefficients != 0 {
            rows[row.start as usize] = Some(row);
        }
        row.coefficients != 0 || row.fingerprint == 0
    }
}

/// The answer for a key: the band that holds it, the key's row in this band, and the XOR of the
/// slots that the row picks.
fn ask(key: &str, bands: &[Band], bumping: bool, keys: &[&str], tags: &[usize]) -> String {
    for (i, band) in bands.iter().enumerate() {
        let row = row(key, band.slots, band.seed);
        let passed_on = if bumping {
            band.bumped_buckets.contains(&(row.start / BUCKET))
        } else {
            band.solution.is_none()
        };
        if let Some(solution) = band.solution.as_ref().filter(|_| !passed_on) {
            let sum = picked(solution, &row);
            let (row, maybe) = (draw_row(&row), sum == row.fingerprint);
            return format!("{{\"band\":{i},\"row\":{row},\"sum\":{sum},\"maybe\":{maybe}}}");
        }
    }
    // No band decides. Without bumping, no seed works, so there is no filter, and the answer is
    // "maybe". With bumping, the list of tags decides. Here a tag is the whole hash of its key.
    let same = |&tag: &usize| hash64(keys[tag].as_bytes()) == hash64(key.as_bytes());
    format!("{{\"band\":null,\"maybe\":{}}}", !bumping || tags.iter().any(same))
}

fn draw_row(row: &Row) -> String {
    format!("[{},{},{}]", row.start, row.coefficients, row.fingerprint)
}

fn draw(band: &Band) -> String {
    let step = |step: &Step| match step {
        Step::Key(key, way) => format!("{{\"key\":{key},\"rows\":{}}}", list(way, draw_row)),
        Step::Bumped(bucket, keys) => {
            format!("{{\"bucket\":{bucket},\"bumped\":{}}}", list(keys, usize::to_string))
        }
    };
    let solution = match &band.solution {
        Some(slots) => list(slots, u32::to_string),
        None => "null".into(),
    };
    format!(
        "{{\"seed\":{},\"slots\":{},\"steps\":{},\"solution\":{solution}}}",
        band.seed,
        band.slots,
        list(&band.steps, step),
    )
}
