//! Checks what the documents say about the settings of other engines. The table in
//! `docs/book/src/knobs.md` gives the equivalent of each setting in Maypole. `tests/knobs.rs`
//! compares that table with the library. The test here checks that no other document contradicts
//! the table.

use std::collections::{BTreeMap, BTreeSet};

use maypole::FilterPolicy;

use super::markdown::{Document, read, root};
use super::text::documents;

/// The code between backticks.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Whether this is a setting of Maypole.
fn is_setting(code: &str) -> bool {
    let types = ["PinMetadata::", "FilterKeys::", "PrefixExtractor::", "MetadataForm::"];
    types.iter().any(|start| code.starts_with(start)) || code.parse::<FilterPolicy>().is_ok()
}

/// Reads the table: each setting of another engine, with its equivalents in Maypole. A setting has
/// several rows if its equivalent depends on the value of a second setting.
fn table() -> BTreeMap<String, BTreeSet<String>> {
    let mut equals: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let knobs = read(root().join("docs/book/src/knobs.md"));
    for row in knobs.prose().into_iter().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.split('|').collect();
        let Some(knob) = code(cells[1]).next() else { continue };
        let ours = code(cells[2]).filter(|code| is_setting(code)).map(String::from);
        equals.entry(knob.into()).or_default().extend(ours);
    }
    equals.retain(|_, ours| !ours.is_empty());
    equals
}

/// The passages of a document: its paragraphs, items of lists and rows of tables.
fn passages(document: &Document) -> Vec<String> {
    let starts = |line: &str| line.starts_with(['|', '-']) || line.starts_with(char::is_numeric);
    let mut passages = vec![String::new()];
    for line in document.prose() {
        if line.is_empty() || starts(line) {
            passages.push(String::new());
        }
        passages.last_mut().unwrap().push_str(&format!("{line}\n"));
    }
    passages
}

/// The statements about knobs in a passage that contradict the table.
fn contradictions(passage: &str, table: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let ours: BTreeSet<String> =
        code(passage).filter(|c| is_setting(c)).map(String::from).collect();
    let named = code(passage).filter_map(|code| Some((code, table.get(code)?)));
    named
        .filter(|(_, equals)| !ours.is_empty() && ours.is_disjoint(equals))
        .map(|(knob, equals)| format!("{knob} is {equals:?}, not {ours:?}"))
        .collect()
}

/// Two chapters once had tables of RocksDB's settings that contradicted each other. For a Ribbon
/// policy that makes Bloom filters for flushes, one table gave `ribbon_like_bloom(10)` for all
/// levels, the other a list with a filter for each level. Now documents must agree with one table.
#[test]
fn other_documents_say_of_a_knob_what_the_table_says() {
    let table = table();
    assert!(table.len() > 15, "{table:?}");
    let wrong = "| `NewRibbonFilterPolicy(10)` | `ribbon_like_bloom(10)`: the same bytes |";
    assert_eq!(contradictions(wrong, &table).len(), 1);
    assert!(contradictions("`NewBloomFilterPolicy(10)` is `bloom(10)`", &table).is_empty());
    for document in documents().iter().filter(|document| !document.is_dated()) {
        for passage in passages(document) {
            let wrong = contradictions(&passage, &table);
            assert!(wrong.is_empty(), "{}: {wrong:?}\n{passage}", document.name());
        }
    }
}
