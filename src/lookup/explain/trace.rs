//! [`TableTrace`]: what one lookup did in one table.
//!
//! ```text
//! TableTrace
//!   filter    FilterTrace    family, part, bits that were compared, verdict
//!   index     IndexTrace     which data block can hold the key
//!   blocks    BlockTrace     each data block that was searched
//!   found     FoundTrace     the entry
//! ```

use std::path::PathBuf;

use crate::encoding::key::SequenceNumber;
use crate::filter::inspect::QueryTrace;
use crate::filter::{Family, KeyHash};

/// What one lookup did in one table; see [`SstReader::explain`](crate::table::SstReader::explain).
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("fruit.sst");
/// # let mut writer = maypole::table::SstWriter::create(&path, Default::default())?;
/// # writer.put(b"apple", b"red")?;
/// # writer.finish()?;
/// use maypole::table::SstReader;
/// use maypole::explain::FilterVerdict;
///
/// let trace = SstReader::open(&path)?.explain(b"apple")?;
/// assert_eq!(trace.filter.unwrap().verdict, FilterVerdict::TruePositive);
/// assert_eq!(trace.blocks.len(), 1);
/// assert_eq!(trace.found.unwrap().value_bytes, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TableTrace {
    /// The file.
    pub path: PathBuf,
    /// The sequence number of the newest range deletion in the table that covers the key. `None`:
    /// no range deletion covers it.
    pub range_deletion: Option<SequenceNumber>,
    /// `None`: the table has no filter that can be queried for the key.
    pub filter: Option<FilterTrace>,
    /// `None`: the filter said no, or no part of the index leads to the key.
    pub index: Option<IndexTrace>,
    /// The data blocks that were searched: at most one, unless versions of one key fill several.
    pub blocks: Vec<BlockTrace>,
    /// The newest entry of the key that the lookup sees.
    pub found: Option<FoundTrace>,
    /// Stored bytes of a data block of this table, on average.
    pub mean_block_bytes: u64,
}

/// What one step of a lookup took: time, and reads of the file.
///
/// ```
/// use maypole::explain::StepCost;
///
/// let step = StepCost { nanos: 40, reads: 0, read_bytes: 0 };
/// assert!(step.was_in_memory());
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StepCost {
    /// Nanoseconds, including those of one reading of the clock, which takes tens of nanoseconds.
    pub nanos: u64,
    /// Reads from the file.
    pub reads: u64,
    /// Bytes read from the file.
    pub read_bytes: u64,
}

impl StepCost {
    /// Whether the step made no read of the file, because all that it needed was in memory or was
    /// being read by another thread.
    pub fn was_in_memory(&self) -> bool {
        self.reads == 0
    }
}

/// What a table's filter said, and why; see [`TableTrace`].
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("fruit.sst");
/// # let mut writer = maypole::table::SstWriter::create(&path, Default::default())?;
/// # writer.put(b"apple", b"red")?;
/// # writer.finish()?;
/// # let table = maypole::table::SstReader::open(&path)?;
/// let filter = table.explain(b"plum")?.filter.expect("the default is a Bloom filter");
/// println!("{:?}: {:?}, by {:?}", filter.family, filter.verdict, filter.query);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FilterTrace {
    /// The filter's family. `None`: the filter cannot be used, or the lookup passed it by
    /// ([`FilterVerdict::PassedBy`]).
    pub family: Option<Family>,
    /// The prefix for which the filter was queried. `None`: it was queried for the whole key, or
    /// not at all.
    pub prefix: Option<Vec<u8>>,
    /// The hash of the key or prefix for which the filter was queried; 0 if it was not queried.
    pub hash: KeyHash,
    /// If the filter is in parts: the number of the part that was queried, from 0 on, and how many
    /// there are.
    pub partition: Option<(usize, usize)>,
    /// Bytes of the filter, or of the part that was queried.
    pub bytes: usize,
    /// The bits that decided the answer, or the reason why the filter did not answer.
    pub query: QueryTrace,
    /// What the filter said, and whether that was true.
    pub verdict: FilterVerdict,
    /// The predicted false-positive rate, from 0 to 1. `None`: the filter was not queried, or
    /// cannot be used.
    pub predicted_fpr: Option<f64>,
    /// The cost of loading the filter, if it was not in memory, and of querying it.
    pub cost: StepCost,
}

/// What a filter said, and whether that was true.
///
/// ```
/// use maypole::explain::FilterVerdict;
///
/// assert!(!FilterVerdict::No.is_maybe());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterVerdict {
    /// No, which is certain: the table was skipped.
    No,
    /// Maybe, and the table holds an entry of the key.
    TruePositive,
    /// Maybe, and the table was searched in vain: it holds no entry of the key, or none that the
    /// lookup sees.
    FalsePositive,
    /// The filter could not be read or could not be trusted, so the table was searched.
    Untrusted,
    /// The filter was not in memory, and was not worth a read, so the lookup searched the table
    /// without a query of the filter.
    PassedBy,
}

impl FilterVerdict {
    /// Whether the table was searched.
    pub fn is_maybe(self) -> bool {
        self != FilterVerdict::No
    }

    /// The word for the verdict in reports.
    pub fn name(self) -> &'static str {
        match self {
            FilterVerdict::No => "no",
            FilterVerdict::TruePositive => "true positive",
            FilterVerdict::FalsePositive => "false positive",
            FilterVerdict::Untrusted => "untrusted",
            FilterVerdict::PassedBy => "passed by",
        }
    }
}

/// The step from a key to a data block; see [`TableTrace`].
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("fruit.sst");
/// # let mut writer = maypole::table::SstWriter::create(&path, Default::default())?;
/// # writer.put(b"apple", b"red")?;
/// # writer.finish()?;
/// # let table = maypole::table::SstReader::open(&path)?;
/// let index = table.explain(b"apple")?.index.unwrap();
/// assert_eq!((index.block, index.blocks), (Some(0), 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexTrace {
    /// If the index is in parts: the number of the part that was searched, from 0 on, and how many
    /// there are.
    pub partition: Option<(usize, usize)>,
    /// The number of data blocks to which the index leads, or to which the part leads that was
    /// searched ([`Self::partition`]).
    pub blocks: usize,
    /// The number of the data block that can hold the key: from 0 on, among the [`Self::blocks`]
    /// data blocks. `None`: the key is after the last of them.
    pub block: Option<usize>,
    /// The cost of loading the index, if it was not in memory, and of searching it.
    pub cost: StepCost,
}

/// A data block that was searched; see [`TableTrace`].
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("fruit.sst");
/// # let mut writer = maypole::table::SstWriter::create(&path, Default::default())?;
/// # writer.put(b"apple", b"red")?;
/// # writer.finish()?;
/// # let table = maypole::table::SstReader::open(&path)?;
/// let blocks = table.explain(b"apple")?.blocks;
/// assert!(blocks[0].found && blocks[0].cost.read_bytes > 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockTrace {
    /// The block's number, from 0 on, among the data blocks to which the table's index, or the part
    /// of the index that was searched, leads.
    pub number: usize,
    /// Where the block begins in the file.
    pub offset: u64,
    /// Bytes in the file, trailer included.
    pub stored_bytes: u64,
    /// Bytes in memory, uncompressed.
    pub bytes: usize,
    /// The cost of loading the block, if it was not in memory.
    pub cost: StepCost,
    /// Nanoseconds that the search in the block took.
    pub search_nanos: u64,
    /// Whether the block holds the entry that was found.
    pub found: bool,
}

/// The entry that a lookup found; see [`TableTrace`].
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("fruit.sst");
/// # let mut writer = maypole::table::SstWriter::create(&path, Default::default())?;
/// # writer.put(b"apple", b"red")?;
/// # writer.finish()?;
/// # let table = maypole::table::SstReader::open(&path)?;
/// assert_eq!(table.explain(b"apple")?.found.unwrap().kind, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoundTrace {
    /// RocksDB's type byte: 0 deletion, 1 value, 2 merge operand, 7 single deletion, …
    pub kind: u8,
    /// The entry's sequence number: its position in the order of all writes.
    pub sequence: SequenceNumber,
    /// Bytes of the value.
    pub value_bytes: usize,
}

impl TableTrace {
    /// Whether the lookup skipped the table because the filter said no.
    pub fn was_skipped(&self) -> bool {
        self.filter.as_ref().is_some_and(|filter| !filter.verdict.is_maybe())
    }

    /// Nanoseconds of all steps.
    pub fn nanos(&self) -> u64 {
        let filter = self.filter.as_ref().map(|filter| filter.cost.nanos);
        let index = self.index.map(|index| index.cost.nanos);
        let blocks = self.blocks.iter().map(|block| block.cost.nanos + block.search_nanos);
        filter.into_iter().chain(index).chain(blocks).sum()
    }
}
