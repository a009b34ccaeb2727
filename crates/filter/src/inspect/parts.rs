//! The parts of a ribbon filter. Each ribbon family computes them, and [`inspect`](super) gives
//! them to programs that draw the filter.

use alloc::vec::Vec;

/// The parts of a ribbon filter.
///
/// ```
/// use maypole_filter::{FilterBuilder, FilterReader, FilterSpec, hash64};
///
/// let mut builder = FilterBuilder::new(FilterSpec::burr(7.0)?);
/// let hashes: Vec<u64> = (0u64..10_000).map(|i| hash64(&i.to_be_bytes())).collect();
/// hashes.iter().for_each(|&hash| builder.add(hash));
/// let block = builder.finish().expect("there are keys");
///
/// let filter = FilterReader::from_bytes(block.bytes(), block.encoding());
/// let parts = filter.band().expect("a ribbon");
/// let first = hashes.iter().filter(|&&hash| parts.equation(hash).is_some_and(|e| e.layer == 0));
/// assert!(first.count() > 9000, "most keys stay in the first layer");
/// # Ok::<(), maypole_filter::SpecError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BandParts {
    /// The number of coefficients of an equation, and also of slots of a block: 32, 64 or 128. A
    /// block is a run of slots that are stored together, one column of bits after the other.
    pub width: u32,
    /// The most bits of a slot: see [`BandLayer::low_blocks`]. A query compares one bit for each
    /// column.
    pub columns: u32,
    /// At least one layer. A key that a layer bumps is looked up in the next layer.
    pub layers: Vec<BandLayer>,
    /// The number of keys that no layer keeps. The filter stores a tag for each of them: 16 or 32
    /// bits that are computed from the key's hash.
    pub tags: usize,
    /// The number of start positions in a bucket, all of which share one threshold. 0 in a filter
    /// that never bumps a key.
    pub bucket_starts: u32,
    /// For each threshold, 0 to 3: how many start positions of a bucket are kept, counted from the
    /// bucket's right end.
    pub kept_starts: [u32; 4],
    pub(crate) rows: Rows,
}

/// One layer of a ribbon filter.
///
/// ```
/// # use maypole_filter::{FilterBuilder, FilterReader, FilterSpec};
/// # let mut builder = FilterBuilder::new(FilterSpec::burr(7.0)?);
/// # let hashes: Vec<u64> = (0u64..10_000).map(|i| maypole_filter::hash64(&i.to_le_bytes())).collect();
/// # hashes.iter().for_each(|&hash| builder.add(hash));
/// # let filter = builder.finish().expect("there are keys").into_reader();
/// let parts = filter.band().expect("a ribbon");
///
/// // Each layer takes what the one before has bumped: about a tenth.
/// let slots: Vec<u32> = parts.layers.iter().map(|layer| layer.slots).collect();
/// assert!(slots.len() > 1 && slots[1] < slots[0] / 5, "{slots:?}");
/// assert!(parts.layers.iter().all(|layer| layer.slots % parts.width == 0));
/// # Ok::<(), maypole_filter::SpecError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BandLayer {
    /// The number of slots: a multiple of the width.
    pub slots: u32,
    /// The number of slots at which an equation can start, from the first on.
    pub starts: u32,
    /// The number of blocks, from the first on, that have one column fewer than
    /// [`BandParts::columns`].
    pub low_blocks: u32,
    /// The threshold of each bucket, 0 to 3. It tells how many of the bucket's start positions are
    /// kept: see [`BandParts::kept_starts`]. Empty if no key is ever bumped.
    pub thresholds: Vec<u8>,
}

/// The equation of one key in a ribbon filter: the exclusive or of the slots whose coefficients are
/// 1 is the fingerprint.
///
/// ```
/// # use maypole_filter::{FilterBuilder, FilterReader, FilterSpec};
/// # let mut builder = FilterBuilder::new(FilterSpec::burr(7.0)?);
/// # let hashes: Vec<u64> = (0u64..10_000).map(|i| maypole_filter::hash64(&i.to_le_bytes())).collect();
/// # hashes.iter().for_each(|&hash| builder.add(hash));
/// # let filter = builder.finish().expect("there are keys").into_reader();
/// let parts = filter.band().expect("a ribbon");
///
/// let equation = hashes.iter().find_map(|&hash| parts.equation(hash)).expect("a key");
/// assert_eq!(equation.coefficients & 1, 1, "the first coefficient is 1");
/// assert!(equation.start < parts.layers[equation.layer].starts);
/// assert!(equation.fingerprint < 1 << parts.columns);
/// # Ok::<(), maypole_filter::SpecError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyEquation {
    /// The layer that has the key.
    pub layer: usize,
    /// The first slot with a coefficient.
    pub start: u32,
    /// Bit i belongs to slot `start + i`. Bit 0 is set.
    pub coefficients: u128,
    /// Bit j belongs to column j.
    pub fingerprint: u32,
}

/// Computes the equations of a filter from hashes, by functions of the filter's family.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows {
    /// The second argument of `row`: the seed of a ribbon, or the width of a bumped ribbon.
    pub parameter: u32,
    /// Computes start, coefficients and fingerprint of a key from its hash, the filter's
    /// `parameter` and the number of start positions. The fingerprint is not yet cut to the number
    /// of columns.
    pub row: fn(u64, u32, u32) -> (u32, u128, u32),
    /// The hash of a bumped key in the next layer.
    pub next: fn(u64) -> u64,
}

impl Rows {
    pub fn of(&self, hash: u64, starts: u32) -> (u32, u128, u32) {
        (self.row)(hash, self.parameter, starts)
    }

    pub fn next_hash(&self, hash: u64) -> u64 {
        (self.next)(hash)
    }
}

/// Compares only the parameter, because function pointers cannot be compared reliably. For
/// [`BandParts`] this is enough: it compares the width too, and filters of the same width are of
/// the same family, so their functions are the same.
impl PartialEq for Rows {
    fn eq(&self, other: &Rows) -> bool {
        self.parameter == other.parameter
    }
}

impl Eq for Rows {}
