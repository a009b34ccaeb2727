//! [`Recorder`]: the observer that writes down what a lookup does in a table.
//!
//! A `Look` is a reading of the clock and of the thread's read counters. The cost of a step is the
//! difference between two looks. The recorder works between the second look of a step and the first
//! look of the next step, so its own work is not counted.

use std::cell::{Cell, RefCell};

use crate::encoding::key::SequenceNumber;
use crate::filter::FilterReader;
use crate::filter::inspect::QueryTrace;
use crate::stats::{Counters, Ticker};
use crate::sync::time::Instant;
use crate::table::block::Block;
use crate::table::filter::info;
use crate::table::filter::source::{FilterAnswer, filter_hash};
use crate::table::format::footer::BLOCK_TRAILER_BYTES;
use crate::table::format::properties::names;
use crate::table::table_index::TableIndex;
use crate::table::{LookupKey, Table};

use super::trace::{
    BlockTrace, FilterTrace, FilterVerdict, FoundTrace, IndexTrace, StepCost, TableTrace,
};
use crate::lookup::stage::{Found, Observe};

/// Writes one [`TableTrace`] after another: [`Recorder::begin`], the lookup, [`Recorder::finish`].
pub(crate) struct Recorder<'a> {
    counters: &'a Counters,
    since: Cell<Look>,
    current: RefCell<TableTrace>,
    /// What the prediction of a filter's false-positive rate needs.
    whole_filter: Cell<WholeFilter>,
}

/// The clock, and what this thread has read so far.
#[derive(Clone, Copy)]
struct Look {
    at: Instant,
    reads: u64,
    read_bytes: u64,
}

/// What a table's properties state of its filter; of all parts together if the filter is in parts.
#[derive(Clone, Copy, Default)]
struct WholeFilter {
    predicted_fpr: Option<f64>,
    keys: u64,
    /// 0: not known.
    bytes: u64,
}

impl<'a> Recorder<'a> {
    /// `counters`: the counters that count the reads of the tables to be searched.
    pub fn new(counters: &'a Counters) -> Recorder<'a> {
        Recorder {
            counters,
            since: Cell::new(Look::now(counters)),
            current: RefCell::new(TableTrace::new(None, 0)),
            whole_filter: Cell::default(),
        }
    }

    /// Begins the trace of a lookup in `table`. `range_deletion`: the sequence number of the newest
    /// range deletion that covers the key, or 0.
    pub fn begin(&self, table: &Table, range_deletion: SequenceNumber) {
        self.current.replace(TableTrace::new(Some(table), range_deletion));
        let properties = table.properties();
        self.whole_filter.set(WholeFilter {
            predicted_fpr: table.filter_info().and_then(|filter| filter.predicted_fpr),
            keys: info::keys(properties),
            bytes: properties.number(names::FILTER_BYTES).unwrap_or(0),
        });
        self.restart();
    }

    /// Ends the trace. `found` is the entry that the lookup has found.
    pub fn finish(&self, found: Option<&Found<'_>>) -> TableTrace {
        let mut trace = self.current.replace(TableTrace::new(None, 0));
        trace.found = found.map(|found| FoundTrace {
            kind: found.kind,
            sequence: found.sequence,
            value_bytes: found.value().len(),
        });
        if let Some(filter) = &mut trace.filter
            && filter.verdict == FilterVerdict::FalsePositive
            && found.is_some()
        {
            filter.verdict = FilterVerdict::TruePositive;
        }
        self.restart();
        trace
    }

    /// The cost of the step that ends now: the time and the reads since the latest look.
    pub fn step(&self) -> StepCost {
        let now = Instant::now();
        let Look { at, reads, read_bytes } = self.since.get();
        let counted = |ticker, before| self.counters.of_thread(ticker).saturating_sub(before);
        StepCost {
            nanos: (now - at).as_nanos() as u64,
            reads: counted(Ticker::FileReads, reads),
            read_bytes: counted(Ticker::FileReadBytes, read_bytes),
        }
    }

    /// Begins a step.
    pub fn restart(&self) {
        self.since.set(Look::now(self.counters));
    }

    /// Records that the filter was not queried.
    fn record_no_filter(&self, verdict: FilterVerdict, reason: &'static str) {
        let cost = self.step();
        self.current.borrow_mut().filter = Some(FilterTrace {
            family: None,
            prefix: None,
            hash: 0,
            partition: None,
            bytes: 0,
            query: QueryTrace::Untrusted(reason),
            verdict,
            predicted_fpr: None,
            cost,
        });
        self.restart();
    }

    fn record_filter(
        &self,
        filter: &FilterReader,
        partition: Option<(usize, usize)>,
        filter_key: &LookupKey<'_>,
        prefix: Option<&[u8]>,
        answer: FilterAnswer,
        cost: StepCost,
    ) {
        let hash = filter_hash(filter, filter_key);
        let WholeFilter { predicted_fpr, keys, bytes } = self.whole_filter.get();
        let share = if partition.is_some() { info::share_of_keys(filter, bytes) } else { 1.0 };
        let predict = || info::predicted_fpr(filter, keys, share);
        self.current.borrow_mut().filter = Some(FilterTrace {
            family: filter.family(),
            prefix: prefix.map(<[u8]>::to_vec),
            hash,
            partition,
            bytes: filter.bytes().len(),
            query: filter.trace(hash),
            // A "maybe" counts as a false positive until `finish` is called with an entry.
            verdict: match answer {
                FilterAnswer::No => FilterVerdict::No,
                FilterAnswer::Maybe => FilterVerdict::FalsePositive,
                FilterAnswer::Untrusted => FilterVerdict::Untrusted,
            },
            predicted_fpr: filter.family().map(|_| predicted_fpr.unwrap_or_else(predict)),
            cost,
        });
        self.restart();
    }
}

impl Observe for Recorder<'_> {
    fn filter_answered(
        &self,
        table: &Table,
        filter: &FilterReader,
        key: &LookupKey<'_>,
        is_prefix: bool,
        answer: FilterAnswer,
    ) {
        let cost = self.step();
        let prefix = table.filter.prefix_of(key).filter(|_| is_prefix);
        let filter_key = prefix.map_or(*key, |prefix| LookupKey::new(prefix, key.sequence));
        let parts = table.filter.parts.parts();
        let partition = (parts > 1).then(|| (table.filter.locate(key), parts));
        self.record_filter(filter, partition, &filter_key, prefix, answer, cost);
    }

    fn filter_failed(&self) {
        self.record_no_filter(FilterVerdict::Untrusted, "it could not be read");
    }

    fn filter_passed_by(&self) {
        let reason = "it is not in memory, and not worth a read";
        self.record_no_filter(FilterVerdict::PassedBy, reason);
    }

    fn index_searched(&self, index: &TableIndex, block: usize) {
        // Versions of the key continue in the next part of the index. The trace keeps the part
        // where the search began, and the cost of the next part belongs to its first block.
        if self.current.borrow().index.is_some() {
            return;
        }
        let cost = self.step();
        let blocks = index.index.len();
        let block = (block < blocks).then_some(block);
        let partition = (index.parts > 1).then_some((index.part, index.parts));
        self.current.borrow_mut().index = Some(IndexTrace { partition, blocks, block, cost });
        self.restart();
    }

    fn block_reached(&self, index: &TableIndex, i: usize, block: &Block) {
        let cost = self.step();
        let handle = index.index.handle(i);
        self.current.borrow_mut().blocks.push(BlockTrace {
            number: i,
            offset: handle.offset,
            stored_bytes: handle.bytes + BLOCK_TRAILER_BYTES as u64,
            bytes: block.bytes().len(),
            cost,
            search_nanos: 0,
            found: false,
        });
        self.restart();
    }

    fn block_searched(&self, found: bool) {
        let cost = self.step();
        if let Some(block) = self.current.borrow_mut().blocks.last_mut() {
            (block.search_nanos, block.found) = (cost.nanos, found);
        }
        self.restart();
    }
}

impl Look {
    fn now(counters: &Counters) -> Look {
        Look {
            reads: counters.of_thread(Ticker::FileReads),
            read_bytes: counters.of_thread(Ticker::FileReadBytes),
            // The next step begins here. The clock is read after the counters, so that the time
            // that reading them takes does not belong to the step.
            at: Instant::now(),
        }
    }
}

impl TableTrace {
    fn new(table: Option<&Table>, range_deletion: SequenceNumber) -> TableTrace {
        let number = |name| table.and_then(|table| table.properties().number(name)).unwrap_or(0);
        TableTrace {
            path: table.map(|table| table.block_file().path().to_owned()).unwrap_or_default(),
            range_deletion: (range_deletion > 0).then_some(range_deletion),
            filter: None,
            index: None,
            blocks: Vec::new(),
            found: None,
            mean_block_bytes: number(names::DATA_BYTES) / number(names::DATA_BLOCKS).max(1),
        }
    }
}
