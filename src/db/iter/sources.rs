//! The sources of a cursor: one for each memtable, each file of level 0, and each deeper level.

use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;

use super::bounds::Bounds;
use crate::cursor::{Cursor, Fetch, Step};
use crate::db::read_state::ReadPoint;
use crate::encoding::key::SequenceNumber;
use crate::error::Result;
use crate::memtable::{Memtable, MemtableCursor};
use crate::slice::Slice;
use crate::table::ScanOptions;
use crate::version::{LevelCursor, TableFile, Version};

/// One sorted run of entries.
#[expect(
    clippy::large_enum_variant,
    reason = "sources are few, and a box would add a load to each step"
)]
pub(crate) enum SourceCursor {
    Memtable(MemtableCursor),
    Level(LevelCursor<LevelFiles>),
}

/// Adjacent files of a level. The version keeps them alive, which takes one reference count rather
/// than one for each file.
pub(crate) struct LevelFiles {
    version: Arc<Version>,
    level: usize,
    range: Range<usize>,
}

impl Deref for LevelFiles {
    type Target = [Arc<TableFile>];

    fn deref(&self) -> &[Arc<TableFile>] {
        &self.version.levels[self.level][self.range.clone()]
    }
}

impl SourceCursor {
    /// Whether all entries have smaller sequence numbers than `sequence`. Returns false for every
    /// memtable: writers may still add entries with larger numbers to the active one, and a source
    /// does not know whether its memtable is the active one.
    pub fn is_older_than(&self, sequence: SequenceNumber) -> bool {
        match self {
            SourceCursor::Memtable(_) => false,
            SourceCursor::Level(cursor) => cursor.newest_sequence() < sequence,
        }
    }

    /// Sets whether blocks that are read from now on enter the block cache. By default they do.
    pub fn set_fill_cache(&mut self, fill_cache: bool) {
        match self {
            SourceCursor::Memtable(_) => {}
            SourceCursor::Level(cursor) => cursor.set_fill_cache(fill_cache),
        }
    }
}

macro_rules! each_source {
    ($self:ident, $cursor:ident => $body:expr) => {
        match $self {
            SourceCursor::Memtable($cursor) => $body,
            SourceCursor::Level($cursor) => $body,
        }
    };
}

impl Cursor for SourceCursor {
    #[inline]
    fn valid(&self) -> bool {
        each_source!(self, cursor => cursor.valid())
    }
    fn seek_to_first(&mut self) -> Result<()> {
        each_source!(self, cursor => cursor.seek_to_first())
    }
    fn seek_to_last(&mut self) -> Result<()> {
        each_source!(self, cursor => cursor.seek_to_last())
    }
    fn seek(&mut self, target: &[u8]) -> Result<()> {
        each_source!(self, cursor => cursor.seek(target))
    }
    fn fetch_for_seek(&mut self, target: &[u8], fetch: Fetch) {
        each_source!(self, cursor => cursor.fetch_for_seek(target, fetch))
    }
    fn seek_before(&mut self, target: &[u8]) -> Result<()> {
        each_source!(self, cursor => cursor.seek_before(target))
    }
    #[inline]
    fn next(&mut self) -> Result<()> {
        each_source!(self, cursor => cursor.next())
    }
    #[inline(always)]
    fn step(&mut self) -> Option<Step> {
        each_source!(self, cursor => cursor.step())
    }
    fn prev(&mut self) -> Result<()> {
        each_source!(self, cursor => cursor.prev())
    }
    #[inline]
    fn key(&self) -> &[u8] {
        each_source!(self, cursor => cursor.key())
    }
    #[inline]
    fn value(&self) -> &[u8] {
        each_source!(self, cursor => cursor.value())
    }
    #[inline]
    fn value_slice(&self) -> Slice {
        each_source!(self, cursor => cursor.value_slice())
    }
    fn file(&self) -> Option<&Path> {
        each_source!(self, cursor => cursor.file())
    }
}

/// The sources that may hold entries within the bounds and up to the sequence number.
pub(crate) fn sources(
    ReadPoint { state, sequence, .. }: &ReadPoint,
    bounds: &Bounds,
) -> Vec<SourceCursor> {
    let sequence = *sequence;
    // A memtable whose smallest sequence number is larger than the cursor's has nothing to show,
    // because whatever is added to it later has even larger numbers.
    let memtables = state.sources.memtables();
    let seen = |memtable: &&Arc<Memtable>| memtable.smallest_sequence() <= sequence;
    let version = &state.sources.version;
    let deeper = version.levels[1..].iter().filter(|files| !files.is_empty()).count();
    let most = memtables.clone().filter(seen).count() + version.levels[0].len() + deeper;
    let bytes = (bounds.lower().map(Arc::from), bounds.upper().map(Arc::from));
    // `true`: the scan fills the cache. Then `for_runs` also lets reads ahead begin small, because
    // the scan may end before its bounds: the user may stop at any entry.
    let options = ScanOptions::for_runs(version.levels[0].len() + deeper, true, bytes);
    let mut sources = Vec::with_capacity(most);
    let memtables = memtables.filter(seen);
    sources.extend(memtables.map(|memtable| SourceCursor::Memtable(memtable.cursor())));
    for (level, files) in version.levels.iter().enumerate() {
        let mut add = |range: Range<usize>| {
            if !range.is_empty() {
                let files = LevelFiles { version: Arc::clone(version), level, range };
                sources.push(SourceCursor::Level(LevelCursor::new(files, options.clone())));
            }
        };
        let may_match = |i: usize| {
            let lower = bounds.lower();
            lower.is_none_or(|lower| files[i].range_may_match(lower, bounds.upper()))
        };
        if level == 0 {
            for (i, file) in files.iter().enumerate() {
                if file.overlaps(bounds.lower(), bounds.upper()) && may_match(i) {
                    add(i..i + 1);
                }
            }
            continue;
        }
        // If the range overlaps several files of a level, no filter is queried, because a filter
        // answers only for a range that lies within its file.
        let range = version.overlapping_range(level, bounds.lower(), bounds.upper());
        if range.len() != 1 || may_match(range.start) {
            add(range);
        }
    }
    sources
}
