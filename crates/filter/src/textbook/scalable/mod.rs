//! The scalable Bloom filter: it grows, and its rate stays bounded.
//!
//! Literature: P. S. Almeida, C. Baquero, N. Preguiça, D. Hutchison, "Scalable Bloom filters",
//! IPL 2007.
//!
//! A standard filter that gets more keys than planned is soon useless, and it cannot be made
//! larger, because its keys are gone. So the scalable filter leaves a full layer as it is, and adds
//! a larger layer for the next keys.
//!
//! ```text
//!           capacity   rate        expansion 2, rate 1 %
//! layer 0      100     0.5   %     ████            full
//! layer 1      200     0.25  %     ████████        full
//! layer 2      400     0.125 %     ██████░░░░░░░░  takes the next key
//!                      --------
//!           at most    1     %     a query tests every layer; each may be wrong
//! ```
//!
//! Each layer has half the rate of the layer before it, so the sum of the rates never reaches the
//! requested rate. The price: each halving costs 1.44 bits a key, and an absent key is queried in
//! every layer.
//!
//! A layer counts only keys that did not look present, and each of these sets at least one new bit.
//! So when the count reaches the capacity, the layer is fuller than a standard filter of as many
//! random keys. Therefore the layer's array has `1 / (1 - rate)` times the bits of the standard
//! filter. With one hash each key sets exactly one new bit, so `capacity / rate` bits are enough;
//! such an array is used if it is smaller.
//!
//! Invariants: all layers but the last are filled to their capacity. A key is added only if no
//! layer answers "maybe", so `items` counts keys that looked new. The shapes of the layers follow
//! from the [`Options`] and the version, 1 or 2, alone, so a saved filter does not contain them.
//!
//! New filters have version 2. A filter that was saved as version 1, `SBF1`, keeps that version
//! when it is loaded: its new layers are of version 1 too, and it is saved as `SBF1`. Layers of
//! version 1 are sized by the usual formula and probed by two hashes ([`bloom`](super::bloom)). So
//! the rate of the filter exceeds its bound if a layer holds few keys or has a low rate.
//!
//! ```text
//! header    offset  size     meaning
//!           0       4        "SBF2"; "SBF1" in the first version
//!           4       4        expansion, 0 if the filter does not grow (little endian, as all)
//!           8       8        capacity of layer 0
//!           16      8        rate, an IEEE double
//!           24      8        checksum of the header's other words and of the payload
//!           32      8 each   items of each layer
//! payload   the words of layer 0, of layer 1, …
//! ```

use alloc::vec;
use alloc::vec::Vec;

pub mod loading;

use super::bloom::{BloomFilter, Layout, MAX_HASHES, Probes};
use super::formulas;
use super::shared::{Full, TooLarge, checksum};
use crate::math::{ceil, powi};

/// The parameters of a new filter. The defaults are those of Redis.
///
/// ```
/// use maypole_filter::textbook::scalable::Options;
///
/// let options = Options { capacity: 1000, ..Options::default() };
/// assert_eq!((options.rate, options.expansion), (0.01, Some(2)));
/// assert!(options.fault().is_none());
/// assert!(Options { rate: 1.0, ..options }.fault().is_some());
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Keys of the first layer: 1 to 2^30.
    pub capacity: u64,
    /// The bound on the rate of all layers together, in the mean over all sets of keys: above 0 and
    /// below 1.
    pub rate: f64,
    /// The factor by which a layer is larger than the one before: 1 to 32768. `None`: the filter
    /// does not grow, and is full at its capacity. A filter that grows is full when the next layer
    /// would be the 65th, or would take more than 2^40 keys, or does not fit into memory. So with a
    /// factor of 1 it is full at 64 times its capacity.
    pub expansion: Option<u32>,
}

impl Default for Options {
    fn default() -> Options {
        Options { capacity: 100, rate: 0.01, expansion: Some(2) }
    }
}

/// The most layers. The last layer's rate is the rate of the whole filter divided by 2^64.
const MAX_LAYERS: usize = 64;
/// The most keys of one layer.
const MAX_KEYS: u64 = 1 << 40;

impl Options {
    /// The error in the options, if any.
    pub fn fault(&self) -> Option<&'static str> {
        match self {
            Options { capacity, .. } if !(1..=1 << 30).contains(capacity) => {
                Some("the capacity must be 1 to 2^30")
            }
            Options { rate, .. } if !(*rate > 0.0 && *rate < 1.0) => {
                Some("the rate must be between 0 and 1")
            }
            Options { expansion: Some(0 | 32_769..), .. } => {
                Some("the expansion must be 1 to 32768")
            }
            _ => None,
        }
    }

    /// Capacity and rate of the layer with this index. `None` if the filter does not grow that far:
    /// see [`Options::expansion`].
    fn layer(&self, index: usize) -> Option<(u64, f64)> {
        let Some(expansion) = self.expansion else {
            return (index == 0).then_some((self.capacity, self.rate));
        };
        let growth = u64::from(expansion).checked_pow(index.try_into().ok()?)?;
        let capacity = self.capacity.checked_mul(growth)?;
        let rate = self.rate * powi(0.5, index as u32 + 1);
        (index < MAX_LAYERS && capacity <= MAX_KEYS).then_some((capacity, rate))
    }
}

/// How the layers of a filter are made. A dump records it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    /// `SBF1`: sized by the usual formula, probed by two hashes.
    One,
    /// `SBF2`: sized so that the bound holds for any number of keys, with independent probes.
    Two,
}

impl Version {
    fn magic(self) -> [u8; 4] {
        match self {
            Version::One => *b"SBF1",
            Version::Two => *b"SBF2",
        }
    }

    /// Bits and hashes of a layer that takes in `capacity` keys.
    fn shape(self, capacity: u64, rate: f64) -> (usize, u32) {
        // The rate of a late layer may be rounded to 0, which no filter reaches.
        let rate = rate.max(f64::MIN_POSITIVE);
        match self {
            Version::One => {
                let (bits, hashes) = formulas::classical_shape(capacity as usize, rate);
                (bits, hashes.min(MAX_HASHES))
            }
            Version::Two => {
                let one_hash = (ceil(capacity as f64 / rate) as usize, 1);
                let (bits, hashes) = formulas::whole_shape(capacity as usize, rate);
                (ceil(bits as f64 / (1.0 - rate)) as usize, hashes).min(one_hash)
            }
        }
    }

    fn filter(self, capacity: u64, rate: f64) -> Result<BloomFilter, TooLarge> {
        let (bits, hashes) = self.shape(capacity, rate);
        let probes = match self {
            Version::One => Probes::TwoHashes,
            Version::Two => Probes::Independent,
        };
        BloomFilter::with_probes(probes, Layout::Shared, bits, hashes)
    }
}

#[derive(Clone)]
struct Layer {
    filter: BloomFilter,
    capacity: u64,
    items: u64,
}

/// A Bloom filter that grows.
///
/// ```
/// use maypole_filter::textbook::scalable::{Options, ScalableBloom};
/// use maypole_filter::hash64;
///
/// let mut filter = ScalableBloom::new(Options::default()).expect("the defaults are lawful");
/// for i in 0u64..1000 {
///     filter.add(hash64(&i.to_le_bytes())).expect("it grows");
/// }
/// // Planned for 100 keys: layers of 100, 200, 400 and 800.
/// assert_eq!(filter.layers(), 4);
/// assert!((0u64..1000).all(|i| filter.contains(hash64(&i.to_le_bytes()))));
/// ```
#[derive(Clone)]
pub struct ScalableBloom {
    options: Options,
    version: Version,
    layers: Vec<Layer>,
}

impl ScalableBloom {
    /// An empty filter of one layer.
    ///
    /// # Errors
    ///
    /// A text that names the invalid option, or says that the first layer does not fit into memory.
    pub fn new(options: Options) -> Result<ScalableBloom, &'static str> {
        if let Some(fault) = options.fault() {
            return Err(fault);
        }
        let mut filter = ScalableBloom { options, version: Version::Two, layers: Vec::new() };
        filter.grow().map_err(|Full| "a filter of this size does not fit into memory")?;
        Ok(filter)
    }

    fn grow(&mut self) -> Result<(), Full> {
        let (capacity, rate) = self.options.layer(self.layers.len()).ok_or(Full)?;
        let filter = self.version.filter(capacity, rate).map_err(|TooLarge| Full)?;
        self.layers.push(Layer { filter, capacity, items: 0 });
        Ok(())
    }

    /// Adds a key. Returns `Ok(false)`, without a change, if the key was present or looked present.
    ///
    /// # Errors
    ///
    /// [`Full`] if the key needs another layer, and the filter cannot have one: see
    /// [`Options::expansion`].
    pub fn add(&mut self, hash: u64) -> Result<bool, Full> {
        if self.contains(hash) {
            return Ok(false);
        }
        if self.layers.last().is_none_or(|last| last.items >= last.capacity) {
            self.grow()?;
        }
        let last = self.layers.last_mut().ok_or(Full)?;
        last.filter.insert(hash);
        last.items += 1;
        Ok(true)
    }

    /// Whether the key may have been added; `false` is certain. The newest layer is queried first,
    /// because it usually has the largest capacity.
    pub fn contains(&self, hash: u64) -> bool {
        self.layers.iter().rev().any(|layer| layer.filter.contains(hash))
    }

    /// Keys that looked new when they were added.
    pub fn items(&self) -> u64 {
        self.layers.iter().map(|layer| layer.items).sum()
    }

    /// The capacity of all layers: the number of keys after which the filter needs another layer.
    pub fn capacity(&self) -> u64 {
        self.layers.iter().map(|layer| layer.capacity).sum()
    }

    /// Layers so far.
    pub fn layers(&self) -> usize {
        self.layers.len()
    }

    /// The options with which the filter was made.
    pub fn options(&self) -> Options {
        self.options
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.layers.iter().map(|layer| layer.filter.bytes()).sum()
    }

    /// The bits of all layers as words, in the order of saving.
    fn words(&self) -> impl Iterator<Item = u64> {
        self.layers.iter().flat_map(|layer| layer.filter.words()).copied()
    }

    /// The first piece of a saved filter: everything except the bits.
    pub fn save_header(&self) -> Vec<u8> {
        let Options { capacity, rate, expansion } = self.options;
        let first = u64::from(u32::from_le_bytes(self.version.magic()))
            | u64::from(expansion.unwrap_or(0)) << 32;
        let mut words = vec![first, capacity, rate.to_bits()];
        words.extend(self.layers.iter().map(|layer| layer.items));
        let header_words = words.len();
        words.extend(self.words());
        let sum = checksum(&words);
        words.truncate(header_words);
        words.insert(3, sum);
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// A piece of the payload: at most `most` bytes of it, beginning at `offset`, which is a
    /// multiple of 8. Empty at the end.
    pub fn save_piece(&self, offset: usize, most: usize) -> Vec<u8> {
        self.words().skip(offset / 8).take(most / 8).flat_map(u64::to_le_bytes).collect()
    }
}

const HEADER_BYTES: usize = 32;

#[cfg(test)]
mod tests;
