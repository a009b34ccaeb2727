//! A trace as JSON. Keys are text as on the command line, hashes and tags are hexadecimal text:
//! numbers of 64 bits lose bits in many programs.

use std::fmt::Display;

use maypole::explain::{
    BlockTrace, FileTrace, FilterTrace, FoundTrace, IndexTrace, LevelTrace, LookupCost,
    LookupTrace, MemtableTrace, TableTrace,
};
use maypole::filter::inspect::{BumpedLayer, ProbedBit, QueryTrace};
use serde_json::Value;

use crate::output::json_object;
use crate::show::text::escape;

/// The steps of a lookup in a database.
pub fn lookup(trace: &LookupTrace) -> String {
    json_object(&[
        ("key", &bytes(&trace.key)),
        ("hash", &hex(trace.hash)),
        ("sequence", &trace.sequence),
        ("outcome", &text(trace.outcome.name())),
        ("value_bytes", &or_null(trace.value.as_ref(), |value| value.len().to_string())),
        ("memtables", &array(&trace.memtables, memtable)),
        ("levels", &array(&trace.levels, level)),
        ("levels_spared", &trace.levels_spared),
        ("nanos", &trace.nanos()),
        ("cost", &cost(trace.cost())),
        ("cost_without_filters", &cost(trace.cost_without_filters())),
    ])
}

/// The steps of a lookup in one table.
pub fn table_lookup(key: &[u8], trace: &TableTrace) -> String {
    json_object(&[("key", &bytes(key)), ("nanos", &trace.nanos()), ("table", &table(trace))])
}

fn memtable(memtable: &MemtableTrace) -> String {
    json_object(&[
        ("entries", &memtable.entries),
        ("bytes", &memtable.bytes),
        ("found_kind", &or_null(memtable.found, |kind| kind.to_string())),
        ("range_deletion", &or_null(memtable.range_deletion, |sequence| sequence.to_string())),
        ("nanos", &memtable.nanos),
    ])
}

fn level(level: &LevelTrace) -> String {
    json_object(&[
        ("level", &level.level),
        ("files", &level.files),
        ("smallest", &bytes(&level.smallest)),
        ("largest", &bytes(&level.largest)),
        ("range_check_nanos", &level.range_check_nanos),
        ("file", &or_null(level.file.as_ref(), file)),
    ])
}

fn file(file: &FileTrace) -> String {
    json_object(&[
        ("number", &file.number),
        ("file_bytes", &file.file_bytes),
        ("entries", &file.entries),
        ("smallest", &bytes(&file.smallest)),
        ("largest", &bytes(&file.largest)),
        ("table", &table(&file.table)),
    ])
}

fn table(table: &TableTrace) -> String {
    json_object(&[
        ("path", &text(&table.path.to_string_lossy())),
        ("range_deletion", &or_null(table.range_deletion, |sequence| sequence.to_string())),
        ("filter", &or_null(table.filter.as_ref(), filter)),
        ("index", &or_null(table.index.as_ref(), index)),
        ("blocks", &array(&table.blocks, block)),
        ("found", &or_null(table.found.as_ref(), found)),
        ("mean_block_bytes", &table.mean_block_bytes),
    ])
}

fn part((part, parts): (usize, usize)) -> String {
    json_object(&[("number", &part), ("of", &parts)])
}

fn filter(filter: &FilterTrace) -> String {
    json_object(&[
        ("family", &or_null(filter.family, |family| text(family.name()))),
        ("prefix", &or_null(filter.prefix.as_ref(), |prefix| bytes(prefix))),
        ("hash", &hex(filter.hash)),
        ("partition", &or_null(filter.partition, part)),
        ("bytes", &filter.bytes),
        ("query", &query(&filter.query)),
        ("verdict", &text(filter.verdict.name())),
        ("predicted_fpr", &or_null(filter.predicted_fpr, |rate| Value::from(rate).to_string())),
        ("nanos", &filter.cost.nanos),
        ("reads", &filter.cost.reads),
        ("read_bytes", &filter.cost.read_bytes),
    ])
}

fn query(query: &QueryTrace) -> String {
    match query {
        QueryTrace::Line { line, lines, line_bytes, bits } => json_object(&[
            ("kind", &text("line")),
            ("line", line),
            ("lines", lines),
            ("line_bytes", line_bytes),
            ("bits", &array(bits, bit)),
        ]),
        QueryTrace::Slots { bumped, start, slots, coefficients, bytes, columns } => json_object(&[
            ("kind", &text("slots")),
            ("bumped", &array(bumped, layer)),
            ("start", start),
            ("slots", slots),
            ("coefficients", &text(&format!("{coefficients:#x}"))),
            ("first_byte", &bytes.start),
            ("end_byte", &bytes.end),
            ("columns", &array(columns, bit)),
        ]),
        QueryTrace::Tags { bumped, tag, tags, found } => json_object(&[
            ("kind", &text("tags")),
            ("bumped", &array(bumped, layer)),
            ("tag", &hex(u64::from(*tag))),
            ("tags", tags),
            ("found", found),
        ]),
        QueryTrace::Fingerprint { slots, of, bits } => json_object(&[
            ("kind", &text("fingerprint")),
            ("slots", &array(slots, u32::to_string)),
            ("of", of),
            ("bits", &array(bits, bit)),
        ]),
        QueryTrace::Untrusted(reason) => {
            json_object(&[("kind", &text("untrusted")), ("reason", &text(reason))])
        }
        // A kind that this program does not know yet.
        other => json_object(&[("kind", &text("other")), ("maybe", &other.says_maybe())]),
    }
}

fn bit(bit: &ProbedBit) -> String {
    json_object(&[
        ("number", &bit.number),
        ("found", &u8::from(bit.found)),
        ("wanted", &u8::from(bit.wanted)),
    ])
}

fn layer(layer: &BumpedLayer) -> String {
    json_object(&[
        ("start", &layer.start),
        ("bucket", &layer.bucket),
        ("class", &layer.class),
        ("threshold", &layer.threshold),
    ])
}

fn index(index: &IndexTrace) -> String {
    json_object(&[
        ("partition", &or_null(index.partition, part)),
        ("blocks", &index.blocks),
        ("block", &or_null(index.block, |block| block.to_string())),
        ("nanos", &index.cost.nanos),
        ("reads", &index.cost.reads),
        ("read_bytes", &index.cost.read_bytes),
    ])
}

fn block(block: &BlockTrace) -> String {
    json_object(&[
        ("number", &block.number),
        ("offset", &block.offset),
        ("stored_bytes", &block.stored_bytes),
        ("bytes", &block.bytes),
        ("nanos", &block.cost.nanos),
        ("reads", &block.cost.reads),
        ("read_bytes", &block.cost.read_bytes),
        ("search_nanos", &block.search_nanos),
        ("found", &block.found),
    ])
}

fn found(found: &FoundTrace) -> String {
    json_object(&[
        ("kind", &found.kind),
        ("sequence", &found.sequence),
        ("value_bytes", &found.value_bytes),
    ])
}

fn cost(cost: LookupCost) -> String {
    json_object(&[
        ("tables", &cost.tables),
        ("blocks", &cost.blocks),
        ("block_bytes", &cost.block_bytes),
    ])
}

fn text(text: &str) -> String {
    Value::from(text).to_string()
}

fn bytes(bytes: &[u8]) -> String {
    text(&escape(bytes))
}

fn hex(number: u64) -> String {
    text(&format!("{number:#x}"))
}

fn array<T>(items: &[T], json: impl Fn(&T) -> String) -> String {
    let items: Vec<String> = items.iter().map(json).collect();
    format!("[{}]", items.join(", "))
}

fn or_null<T>(value: Option<T>, json: impl FnOnce(T) -> String) -> impl Display {
    value.map_or("null".to_string(), json)
}
