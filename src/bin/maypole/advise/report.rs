//! What is printed: tables and sentences, or JSON.

use std::fmt::Display;
use std::io::Write;

use serde_json::json;

use super::Advise;
use super::findings::{FileRow, FilterRow, Findings, PolicyRow};
use super::lookups::Lookups;
use super::policies::BY_LEVEL;
use super::rules::Advice;
use super::source::{Engine, Source};
use crate::failure::Result;
use crate::output::{json_list, json_object, printable};
use crate::show::record;
use crate::show::sheet::{Cell, Screen, Sheet, short_count};
use crate::show::text::{count, counted, percent, size};

/// The most files of a finding that are named.
const FILES_NAMED: usize = 5;

pub fn text(
    found: &Findings,
    engine: Engine,
    asked: &Advise,
    screen: &Screen,
    out: &mut dyn Write,
) -> Result {
    let mut say = |text: &str| writeln!(out, "{}", screen.drawn(&screen.wrap(text)));
    let name = printable(&found.name);
    say(&screen.bold(&format!(
        "{}: {} in {}, {}, {}",
        if engine == Engine::RocksDb { format!("Column family {name}") } else { "Database".into() },
        counted(found.tables, "table"),
        counted(found.levels, "level"),
        size(found.file_bytes),
        counted(found.entries, "entry"),
    )))?;
    if engine == Engine::RocksDb {
        say(&wanted(found))?;
    }
    if found.tables == 0 {
        writeln!(out)?;
        return advice(&found.advice, screen, out);
    }
    if found.tables_read < found.tables || found.bytes_read < found.file_bytes {
        say(&format!(
            "A sample: {} of {} read, {} of {}.",
            count(found.tables_read),
            counted(found.tables, "table"),
            size(found.bytes_read),
            size(found.file_bytes)
        ))?;
    }
    writeln!(out, "\n{}", screen.bold("Filters as they are stored"))?;
    writeln!(out, "{}", filters(&found.filters).to_text(screen))?;
    if asked.files {
        writeln!(out, "\n{}", screen.bold("Tables"))?;
        writeln!(out, "{}", files(&found.files).to_text(screen))?;
    }
    let mut say = |text: &str| writeln!(out, "{}", screen.drawn(&screen.wrap(text)));
    for line in sentences(found, engine) {
        say(&line)?;
    }
    if !found.policies.is_empty() {
        let heading = format!(
            "Other policies on the same keys; saved: µs of an absent lookup at {} µs a read",
            asked.read_cost
        );
        writeln!(out, "\n{}", screen.drawn(&screen.bold(&screen.wrap(&heading))))?;
        writeln!(out, "{}", policies(&found.policies).to_text(screen))?;
        let by_level = found.policies.iter().filter(|row| row.policy.ends_with(BY_LEVEL));
        let by_level: Vec<&str> = by_level.filter_map(|row| row.maypole.as_deref()).collect();
        let by_level = match by_level.is_empty() {
            true => String::new(),
            false => format!(" By level: {}.", by_level.join("; ")),
        };
        let own = match engine {
            Engine::RocksDb => {
                " burr and fuse are Maypole's alone (maypole import). RocksDB gives levels their own \
                 bits only through a FilterPolicy in C++."
            }
            Engine::Maypole => "",
        };
        let text = "ribbon:10 is RocksDB's number, for the rate of bloom:10; bits/key are those \
                    stored.";
        writeln!(out, "{}", screen.wrap(&format!("{text}{own}{by_level}")))?;
    }
    writeln!(out)?;
    advice(&found.advice, screen, out)?;
    writeln!(out)?;
    Ok(())
}

/// The sentences on findings, memory and lookups.
pub fn sentences(found: &Findings, engine: Engine) -> Vec<String> {
    let mut lines = Vec::new();
    for (text, files) in &found.findings {
        let mut named: Vec<String> =
            files.iter().take(FILES_NAMED).map(|number| format!("{number:06}")).collect();
        named.extend((files.len() > FILES_NAMED).then(|| "…".into()));
        let tables = counted(files.len() as u64, "table");
        lines.push(format!("! {tables}: {} ({})", printable(text), named.join(", ")));
    }
    lines.push(memory(found, engine));
    lines.extend(lookups(found));
    lines.extend(found.notes.iter().map(|note| format!("Note: {note}.")));
    lines
}

/// What OPTIONS ask for, in a sentence.
fn wanted(found: &Findings) -> String {
    let wanted = &found.wanted;
    let Some(policy) = &wanted.policy_text else {
        return "No OPTIONS, or none that name a filter policy: nothing to compare with.".into();
    };
    let mut text = format!("OPTIONS ask for filter_policy={}", printable(policy));
    let has_bits = wanted.policy.is_some_and(|policy| policy.stored_bits(1_000_000).is_some());
    if !has_bits && policy != "nullptr" {
        text += " without bits, so that sizes are not judged";
    }
    if let Some(extractor) = wanted.extractor.as_ref().filter(|name| !name.is_empty()) {
        text += &format!(", prefix_extractor={}", printable(extractor));
    }
    for (name, value) in [
        ("whole_key_filtering=false", wanted.whole_keys.map(|whole| !whole)),
        ("optimize_filters_for_hits=true", wanted.for_hits),
        ("optimize_filters_for_memory=true", wanted.for_memory),
        ("partition_filters=true", wanted.partitioned),
    ] {
        if value == Some(true) {
            text += ", ";
            text += name;
        }
    }
    text + "."
}

fn filters(rows: &[FilterRow]) -> Sheet {
    // Whole keys are usual, so a column for them would say nothing.
    let tells_keys = rows.iter().any(|row| row.holds.as_ref().is_some_and(|holds| holds != "keys"));
    let row = |row: &FilterRow| {
        let interval = match (row.fpr_low, row.fpr_high) {
            (Some(low), Some(high)) => {
                format!("{}-{}", percent(low).trim_end_matches(" %"), percent(high))
            }
            _ => "-".into(),
        };
        let probes = match (row.probes, row.most_probes) {
            (Some(fewest), Some(most)) if fewest < most => Some(format!("{fewest}-{most}")),
            (fewest, _) => fewest.map(|fewest| fewest.to_string()),
        };
        let mut cells = vec![
            Cell::from(row.level.to_string()),
            if row.partitioned { format!("{}, parts", row.filter) } else { row.filter.clone() }
                .into(),
            count(row.tables).into(),
            or_dash(row.bits_per_key.map(|bits| format!("{bits:.2}"))),
            or_dash(probes),
            size(row.filter_bytes).into(),
            or_dash(row.measured_fpr.map(percent)),
            interval.into(),
        ];
        if tells_keys {
            cells.insert(2, or_dash(row.holds.as_ref()));
        }
        cells
    };
    let mut columns = vec![
        "level",
        "filter",
        "tables",
        "bits/key",
        "probes",
        "memory",
        "measured\nrate",
        "95 %\ninterval",
    ];
    if tells_keys {
        columns.insert(2, "holds");
    }
    Sheet { columns, rows: rows.iter().map(row).collect() }
}

fn files(rows: &[FileRow]) -> Sheet {
    let row = |row: &FileRow| {
        vec![
            Cell::from(format!("{:06}", row.file)),
            row.level.to_string().into(),
            Cell::new(count(row.entries), short_count(row.entries)),
            size(row.file_bytes).into(),
            row.filter.clone().into(),
            or_dash(row.bits_per_key.map(|bits| format!("{bits:.2}"))),
            size(row.filter_bytes).into(),
            or_dash(row.measured_fpr.map(percent)),
            if row.finding.is_some() { "!" } else { "" }.to_string().into(),
        ]
    };
    Sheet {
        columns: vec![
            "file", "level", "entries", "size", "filter", "bits/key", "memory", "rate", "",
        ],
        rows: rows.iter().map(row).collect(),
    }
}

fn policies(rows: &[PolicyRow]) -> Sheet {
    let row = |row: &PolicyRow| {
        vec![
            Cell::from(row.policy.clone()),
            format!("{:.2}", row.bits_per_key).into(),
            size(row.filter_bytes).into(),
            or_dash(row.build_seconds.map(|seconds| format!("{seconds:.2} s"))),
            format!("{:.4}", row.blocks_per_absent_get).into(),
            or_dash(row.blocks_per_present_get.map(|blocks| format!("{blocks:.4}"))),
            format!("{:+.1}", row.saved_micros_per_absent_get).into(),
        ]
    };
    Sheet {
        columns: vec![
            "policy",
            "bits/key",
            "memory",
            "build",
            "blocks\nabsent",
            "\npresent",
            "saved",
        ],
        rows: rows.iter().map(row).collect(),
    }
}

fn memory(found: &Findings, engine: Engine) -> String {
    let mut text = format!(
        "Memory: filters {}, indexes {}; the largest filter block {}, index block {}. Building the \
         largest filter takes about {}.",
        size(found.filter_bytes),
        size(found.index_bytes),
        or_parts(found.largest_filter),
        or_parts(found.largest_index),
        size(found.peak_build_bytes)
    );
    if engine == Engine::RocksDb {
        text += &match found.cache_bytes {
            Some(bytes) => format!(" The block cache has {}", size(bytes)),
            None => " The block cache is of unknown size (--cache)".into(),
        };
        text += match found.wanted.charged {
            Some(true) => "; filters and indexes are charged to it.",
            Some(false) => "; open tables hold filters and indexes outside of it.",
            None => ".",
        };
    }
    text
}

/// 0 stands for a block in parts, whose sizes were not read.
fn or_parts(bytes: u64) -> String {
    if bytes == 0 { "-".into() } else { size(bytes) }
}

fn lookups(found: &Findings) -> Vec<String> {
    let line = |what: &str, of: &Lookups| match of.count {
        0 => format!("No {what} key could be looked up."),
        lookups => format!(
            "A lookup of {what} keys reads {:.4} data blocks, {:.2} without filters (of {}).",
            of.blocks,
            of.blocks_without_filters,
            count(lookups)
        ),
    };
    let mut lines =
        vec![line("absent", &found.measured.absent), line("present", &found.measured.present)];
    if let Some(share) = found.share_absent {
        lines.push(format!("Of the recorded lookups, {} are of absent keys.", percent(share)));
    }
    if let Some(counters) = found.counters
        && let Some(rate) = counters.observed_fpr()
    {
        lines.push(format!(
            "RocksDB counted a rate of {} itself, in {} (LOG).",
            percent(rate),
            counted(counters.absent_queries(), "query")
        ));
    }
    lines
}

fn advice(all: &[Advice], screen: &Screen, out: &mut dyn Write) -> Result {
    writeln!(out, "{}", screen.bold("Advice"))?;
    for (n, advice) in all.iter().enumerate() {
        let label = format!("{}.", n + 1);
        let sentence = format!("{}, unless {}.", advice.action, advice.unless);
        writeln!(out, "{}", screen.drawn(&screen.wrap_beside(&label, &sentence)))?;
        for option in &advice.options {
            writeln!(out, "      {option}")?;
        }
        for (label, text) in [("    When:", &advice.when), ("    Worth:", &advice.worth)] {
            if !text.is_empty() {
                let line = screen.wrap_beside(label, &format!("{text}."));
                writeln!(out, "{}", screen.drawn(&line))?;
            }
        }
    }
    Ok(())
}

pub fn json(found: &[Findings], source: &Source, asked: &Advise, out: &mut dyn Write) -> Result {
    let engine = if source.engine == Engine::RocksDb { "rocksdb" } else { "maypole" };
    let families = json_list(found.iter().map(|found| family(found, asked)));
    let refused = source
        .refused
        .iter()
        .map(|(name, why)| json_object(&[("column_family", &json!(name)), ("why", &json!(why))]));
    let object = json_object(&[
        ("engine", &json!(engine)),
        ("read_cost_micros", &json!(asked.read_cost)),
        ("families", &families),
        ("refused", &json_list(refused)),
    ]);
    writeln!(out, "{object}")?;
    Ok(())
}

fn family(found: &Findings, asked: &Advise) -> String {
    let lookups = |of: &Lookups| {
        json_object(&[
            ("lookups", &of.count),
            ("blocks", &json!(of.blocks)),
            ("blocks_without_filters", &json!(of.blocks_without_filters)),
            ("tables_in_vain_by_level", &json!(of.tables_in_vain)),
        ])
    };
    let advice = |advice: &Advice| {
        json_object(&[
            ("action", &json!(advice.action)),
            ("unless", &json!(advice.unless)),
            ("options", &json!(advice.options)),
            ("when", &json!(advice.when)),
            ("worth", &json!(advice.worth)),
        ])
    };
    let findings = found
        .findings
        .iter()
        .map(|(text, files)| json_object(&[("finding", &json!(text)), ("files", &json!(files))]));
    let counters = found.counters.map_or("null".to_string(), |counters| {
        json_object(&[
            ("useful", &counters.useful),
            ("full_positive", &counters.full_positive),
            ("full_true_positive", &counters.full_true_positive),
        ])
    });
    let wanted = &found.wanted;
    let fields: Vec<(&str, String)> = vec![
        ("column_family", json!(found.name).to_string()),
        ("filter_policy", json!(wanted.policy_text).to_string()),
        ("tables", found.tables.to_string()),
        ("levels", found.levels.to_string()),
        ("file_bytes", found.file_bytes.to_string()),
        ("entries", found.entries.to_string()),
        ("tables_read", found.tables_read.to_string()),
        ("bytes_read", found.bytes_read.to_string()),
        ("filters", json_list(found.filters.iter().map(record::to_json))),
        ("findings", json_list(findings)),
        ("filter_bytes", found.filter_bytes.to_string()),
        ("index_bytes", found.index_bytes.to_string()),
        ("largest_filter_bytes", found.largest_filter.to_string()),
        ("largest_index_bytes", found.largest_index.to_string()),
        ("peak_build_bytes", found.peak_build_bytes.to_string()),
        ("cache_bytes", json!(found.cache_bytes).to_string()),
        ("charged_to_cache", json!(wanted.charged).to_string()),
        ("absent", lookups(&found.measured.absent)),
        ("present", lookups(&found.measured.present)),
        ("share_absent", json!(found.share_absent).to_string()),
        ("not_read", found.measured.not_read.to_string()),
        ("rocksdb_counters", counters),
        ("policies", json_list(found.policies.iter().map(record::to_json))),
        ("advice", json_list(found.advice.iter().map(advice))),
        ("notes", json!(found.notes).to_string()),
    ];
    let mut fields: Vec<(&str, &dyn Display)> =
        fields.iter().map(|(name, value)| (*name, value as &dyn Display)).collect();
    let files = json_list(found.files.iter().map(record::to_json));
    if asked.files {
        fields.push(("files", &files));
    }
    json_object(&fields)
}

fn or_dash(value: Option<impl Display>) -> Cell {
    value.map_or("-".to_string(), |value| value.to_string()).into()
}
