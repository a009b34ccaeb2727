//! The trace of a lookup as JSON. Keys are text as on the command line. Hashes and tags are
//! hexadecimal text, because many programs lose bits of 64-bit numbers.

use std::fmt::Display;

use maypole::explain::{
    BlockTrace, FileTrace, FilterTrace, FoundTrace, IndexTrace, LevelTrace, LookupCost,
    LookupTrace, MemtableTrace, TableTrace,
};
use maypole::filter::inspect::{BumpedLayer, ProbedBit, QueryTrace};
use serde_json::json;

use crate::output::{json_list, object};
use crate::show::text::escape;

pub fn lookup(trace: &LookupTrace) -> String {
    object! { trace =>
        key = bytes(&trace.key), hash = hex(trace.hash), sequence,
        outcome = json!(trace.outcome.name()),
        value_bytes = json!(trace.value.as_ref().map(|value| value.len())),
        memtables = json_list(trace.memtables.iter().map(memtable)), levels = json_list(trace.levels.iter().map(level)),
        levels_spared, nanos = trace.nanos(), cost = cost(trace.cost()),
        cost_without_filters = cost(trace.cost_without_filters())
    }
}

pub fn table_lookup(key: &[u8], trace: &TableTrace) -> String {
    object! { key = bytes(key), nanos = trace.nanos(), table = table(trace) }
}

fn memtable(memtable: &MemtableTrace) -> String {
    object! { memtable =>
        entries, bytes, found_kind = json!(memtable.found), range_deletion, nanos
    }
}

fn level(level: &LevelTrace) -> String {
    object! { level =>
        level, files, smallest = bytes(&level.smallest), largest = bytes(&level.largest),
        range_check_nanos, file = or_null(level.file.as_ref(), file)
    }
}

fn file(file: &FileTrace) -> String {
    object! { file =>
        number, file_bytes, entries, smallest = bytes(&file.smallest),
        largest = bytes(&file.largest), table = table(&file.table)
    }
}

fn table(table: &TableTrace) -> String {
    object! { table =>
        path = json!(table.path.to_string_lossy()), range_deletion,
        filter = or_null(table.filter.as_ref(), filter),
        index = or_null(table.index.as_ref(), index), blocks = json_list(table.blocks.iter().map(block)),
        found = or_null(table.found.as_ref(), found), mean_block_bytes
    }
}

fn part((number, of): (usize, usize)) -> String {
    object! { number, of }
}

fn filter(filter: &FilterTrace) -> String {
    object! {
        filter =>
            family = or_null(filter.family, |family| json!(family.name()).to_string()),
            prefix = or_null(filter.prefix.as_ref(), |prefix| bytes(prefix)),
            hash = hex(filter.hash), partition = or_null(filter.partition, part), bytes,
            query = query(&filter.query), verdict = json!(filter.verdict.name()), predicted_fpr;
        filter.cost => nanos, reads, read_bytes
    }
}

fn query(query: &QueryTrace) -> String {
    match query {
        QueryTrace::Line { line, lines, line_bytes, bits } => object! {
            kind = json!("line"), line, lines, line_bytes, bits = json_list(bits.iter().map(bit))
        },
        QueryTrace::Slots { bumped, start, slots, coefficients, bytes, columns } => object! {
            kind = json!("slots"), bumped = json_list(bumped.iter().map(layer)), start, slots,
            coefficients = json!(format!("{coefficients:#x}")), first_byte = bytes.start,
            end_byte = bytes.end, columns = json_list(columns.iter().map(bit))
        },
        QueryTrace::Tags { bumped, tag, tags, found } => object! {
            kind = json!("tags"), bumped = json_list(bumped.iter().map(layer)),
            tag = hex(u64::from(*tag)), tags, found
        },
        QueryTrace::Fingerprint { slots, of, bits } => object! {
            kind = json!("fingerprint"), slots = json_list(slots.iter().map(u32::to_string)), of,
            bits = json_list(bits.iter().map(bit))
        },
        QueryTrace::Untrusted(reason) => object! { kind = json!("untrusted"), reason },
        other => object! { kind = json!("other"), maybe = other.is_maybe() },
    }
}

fn bit(bit: &ProbedBit) -> String {
    object! { bit =>
        number, found = u8::from(bit.found), wanted = u8::from(bit.wanted)
    }
}

fn layer(layer: &BumpedLayer) -> String {
    object! { layer => start, bucket, class, threshold }
}

fn index(index: &IndexTrace) -> String {
    object! {
        index =>
            partition = or_null(index.partition, part), blocks, block;
        index.cost => nanos, reads, read_bytes
    }
}

fn block(block: &BlockTrace) -> String {
    object! {
        block => number, offset, stored_bytes, bytes;
        block.cost => nanos, reads, read_bytes;
        block => search_nanos, found
    }
}

fn found(found: &FoundTrace) -> String {
    object! { found => kind, sequence, value_bytes }
}

fn cost(cost: LookupCost) -> String {
    object! { cost => tables, blocks, block_bytes }
}

fn bytes(bytes: &[u8]) -> String {
    json!(escape(bytes)).to_string()
}

fn hex(number: u64) -> String {
    json!(format!("{number:#x}")).to_string()
}

fn or_null<T>(value: Option<T>, json: impl FnOnce(T) -> String) -> impl Display {
    value.map_or("null".to_string(), json)
}
