//! Prints the findings, as tables and sentences or as JSON.

use std::io::Write;

use serde_json::json;

use super::findings::{FileRow, FilterRow, Findings, NOW, PolicyRow};
use super::lookups::Lookups;
use super::options::Advise;
use super::policies::BY_LEVEL;
use super::rules::Advice;
use super::source::{Engine, Source};
use crate::failure::Result;
use crate::output::{SCHEMA, json_list, object, printable};
use crate::show::record;
use crate::show::sheet::{Cell, Column, Screen, Sheet, or_dash, short_count};
use crate::show::text::{count, counted, percent, size, small};

const FILES_NAMED: usize = 5;

pub fn text(
    found: &Findings,
    engine: Engine,
    asked: &Advise,
    screen: &Screen,
    out: &mut dyn Write,
) -> Result {
    let (tables, file_bytes) = (found.situation.tables as u64, found.situation.file_bytes);
    let title = match engine {
        Engine::RocksDb => format!("Column family {}: {}", found.name, extent(found)),
        Engine::Maypole if found.name == "default" => format!("Database: {}", extent(found)),
        Engine::Maypole => format!("Keyspace {}: {}", found.name, extent(found)),
    };
    screen.say([screen.bold(&title)], out)?;
    if engine == Engine::RocksDb {
        screen.say([wanted(found)], out)?;
    }
    if tables == 0 {
        writeln!(out)?;
        return advice(&found.advice, screen, out);
    }
    if found.tables_read < tables || found.bytes_read < file_bytes {
        let (read, all) = (count(found.tables_read), counted(tables, "table"));
        let (bytes_read, bytes) = (size(found.bytes_read), size(file_bytes));
        screen.say([format!("A sample: {read} of {all} read, {bytes_read} of {bytes}.")], out)?;
    }
    writeln!(out, "\n{}", screen.bold("Filters as they are stored"))?;
    writeln!(out, "{}", filters(&found.filters).to_text(screen))?;
    if asked.files {
        writeln!(out, "\n{}", screen.bold("Tables"))?;
        writeln!(out, "{}", files(&found.files).to_text(screen))?;
    }
    screen.say(sentences(found, engine), out)?;
    if !found.policies.is_empty() {
        let heading = match is_recorded(&found.policies) {
            true => {
                "Other policies on the same keys; in vain: data blocks of a recorded lookup".into()
            }
            false => format!(
                "Other policies on the same keys; saved: µs of an absent lookup at {} µs a read",
                asked.read_cost
            ),
        };
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

/// How large the column family is.
pub fn extent(found: &Findings) -> String {
    let tables = counted(found.situation.tables as u64, "table");
    let (levels, entries) = (counted(found.levels, "level"), counted(found.entries, "entry"));
    format!("{tables} in {levels}, {}, {entries}", size(found.situation.file_bytes))
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
    let wanted = &found.situation.wanted;
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
    // Filters usually hold whole keys, so the column `holds` is shown only if a filter holds
    // anything else.
    let tells_keys = rows.iter().any(|row| row.holds.as_ref().is_some_and(|holds| holds != "keys"));
    let filter = |row: &FilterRow| match row.partitioned {
        true => format!("{}, parts", row.filter),
        false => row.filter.clone(),
    };
    let probes = |row: &FilterRow| match (row.probes, row.most_probes) {
        (Some(fewest), Some(most)) if fewest < most => Some(format!("{fewest}-{most}")),
        (fewest, _) => fewest.map(|fewest| fewest.to_string()),
    };
    let interval = |row: &FilterRow| {
        let (low, high) = (percent(row.fpr_low?), percent(row.fpr_high?));
        Some(format!("{}-{high}", low.trim_end_matches(" %")))
    };
    let columns: &[Column<FilterRow>] = &[
        ("level", &|row| row.level.to_string().into()),
        ("filter", &|row| filter(row).into()),
        ("holds", &|row| or_dash(row.holds.as_ref())),
        ("tables", &|row| count(row.tables).into()),
        ("bits/key", &|row| or_dash(row.bits_per_key.map(|bits| format!("{bits:.2}")))),
        ("probes", &|row| or_dash(probes(row))),
        ("memory", &|row| size(row.filter_bytes).into()),
        ("measured\nrate", &|row| or_dash(row.measured_fpr.map(percent))),
        ("95 %\ninterval", &|row| or_dash(interval(row))),
    ];
    Sheet::of(rows, columns).with_if(tells_keys, "holds")
}

fn files(rows: &[FileRow]) -> Sheet {
    let mark = |row: &FileRow| if row.finding.is_some() { "!" } else { "" };
    let columns: &[Column<FileRow>] = &[
        ("file", &|row| format!("{:06}", row.file).into()),
        ("level", &|row| row.level.to_string().into()),
        ("entries", &|row| Cell::new(count(row.entries), short_count(row.entries))),
        ("size", &|row| size(row.file_bytes).into()),
        ("filter", &|row| row.filter.clone().into()),
        ("bits/key", &|row| or_dash(row.bits_per_key.map(|bits| format!("{bits:.2}")))),
        ("memory", &|row| size(row.filter_bytes).into()),
        ("rate", &|row| or_dash(row.measured_fpr.map(percent))),
        ("", &|row| mark(row).to_string().into()),
    ];
    Sheet::of(rows, columns)
}

fn policies(rows: &[PolicyRow]) -> Sheet {
    let blocks = |blocks: Option<f64>| blocks.map(small);
    let interval =
        |row: &PolicyRow| Some(format!("{}-{}", small(row.in_vain_low?), small(row.in_vain_high?)));
    let saved =
        |row: &PolicyRow| row.saved_micros_per_absent_get.map(|saved| format!("{saved:+.1}"));
    let columns: &[Column<PolicyRow>] = &[
        ("policy", &|row| row.policy.clone().into()),
        ("bits/key", &|row| format!("{:.2}", row.bits_per_key).into()),
        ("memory", &|row| size(row.filter_bytes).into()),
        ("build", &|row| or_dash(row.build_seconds.map(|seconds| format!("{seconds:.2} s")))),
        ("blocks\nabsent", &|row| or_dash(blocks(row.blocks_per_absent_get))),
        ("\npresent", &|row| or_dash(blocks(row.blocks_per_present_get))),
        ("saved", &|row| or_dash(saved(row))),
        ("in vain\na lookup", &|row| or_dash(blocks(row.in_vain_per_get))),
        ("95 %\ninterval", &|row| or_dash(interval(row))),
    ];
    // All together would not fit a terminal.
    let of_recorded = ["in vain\na lookup", "95 %\ninterval"];
    let of_others = ["blocks\nabsent", "\npresent", "saved"];
    let is_recorded = is_recorded(rows);
    let sheet = of_recorded
        .into_iter()
        .fold(Sheet::of(rows, columns), |sheet, name| sheet.with_if(is_recorded, name));
    of_others.into_iter().fold(sheet, |sheet, name| sheet.with_if(!is_recorded, name))
}

fn is_recorded(rows: &[PolicyRow]) -> bool {
    rows.iter().any(|row| row.in_vain_per_get.is_some())
}

fn memory(found: &Findings, engine: Engine) -> String {
    let mut text = format!(
        "Memory: filters {}, indexes {}; the largest filter block {}, index block {}. Building the \
         largest filter takes about {}.",
        size(found.situation.filter_bytes),
        size(found.situation.index_bytes),
        or_parts(found.situation.largest_filter),
        or_parts(found.situation.largest_index),
        size(found.peak_build_bytes)
    );
    if engine == Engine::RocksDb {
        text += &match found.situation.cache_bytes {
            Some(bytes) => format!(" The block cache has {}", size(bytes)),
            None => " The block cache is of unknown size (--cache)".into(),
        };
        text += match found.situation.wanted.charged {
            Some(true) => "; filters and indexes are charged to it.",
            Some(false) => "; open tables hold filters and indexes outside of it.",
            None => ".",
        };
    }
    text
}

/// The size of a block as text, or "-" if the size is 0, which stands for partitions of unknown
/// size.
fn or_parts(bytes: u64) -> String {
    if bytes == 0 { "-".into() } else { size(bytes) }
}

fn lookups(found: &Findings) -> Vec<String> {
    let line = |what: &str, of: &Lookups| match of.count {
        0 => format!("No {what} key could be looked up."),
        lookups => format!(
            "A lookup of {what} keys reads {} data blocks, {:.2} without filters (of {}).",
            small(of.blocks),
            of.blocks_without_filters,
            count(lookups)
        ),
    };
    let mut lines =
        vec![line("absent", &found.measured.absent), line("present", &found.measured.present)];
    if let Some(share) = found.situation.share_absent {
        let lookups = (found.measured.absent.count + found.measured.present.count).max(1);
        let in_memtable = match found.measured.in_memtable {
            0 => String::new(),
            count => {
                format!(", {} were answered by a memtable", percent(count as f64 / lookups as f64))
            }
        };
        lines.push(format!(
            "Of the recorded lookups, {} are of absent keys{in_memtable}.",
            percent(share)
        ));
        lines.extend(in_vain(found));
    }
    if let Some(counters) = found.counters
        && let Some(rate) = counters.observed_fpr()
    {
        lines.push(format!(
            "RocksDB counted a rate of {} itself, in {} (LOG).",
            percent(rate),
            counted(counters.useful + counters.false_positive(), "query")
        ));
    }
    lines
}

/// The searches in vain of a mean recorded lookup, as it is and as it will be after following the
/// advice.
fn in_vain(found: &Findings) -> Option<String> {
    let row = |name: &str| found.policies.iter().find(|row| row.policy == name);
    let of = |row: &PolicyRow| {
        let [low, high] = [row.in_vain_low?, row.in_vain_high?].map(small);
        Some(format!("{} ({low} to {high})", small(row.in_vain_per_get?)))
    };
    let now = of(row(NOW)?)?;
    let advised = super::rules::recommended(&found.situation);
    let then = advised.and_then(|name| Some(format!("; with {name}: {}", of(row(&name)?)?)));
    Some(format!(
        "Predicted data blocks searched in vain by a recorded lookup: {now}{}.",
        then.unwrap_or_default()
    ))
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
    let refused =
        source.refused.iter().map(|(name, why)| object! { column_family = json!(name), why });
    let object = object! {
        schema = SCHEMA, engine, read_cost_micros = json!(asked.read_cost), families = families,
        refused = json_list(refused)
    };
    writeln!(out, "{object}")?;
    Ok(())
}

fn family(found: &Findings, asked: &Advise) -> String {
    let lookups = |of: &Lookups| {
        object! { of =>
            lookups = of.count, blocks, blocks_without_filters,
            tables_in_vain_by_level = json!(of.tables_in_vain)
        }
    };
    let advice = |advice: &Advice| object! { advice => action, unless, options, when, worth };
    let findings =
        found.findings.iter().map(|(text, files)| object! { finding = json!(text), files });
    let counters = found.counters.map_or("null".to_string(), |counters| {
        object! { counters => useful, full_positive, full_true_positive }
    });
    let s = &found.situation;
    let object = object! {
        s => column_family = json!(found.name), filter_policy = json!(s.wanted.policy_text), tables;
        found => levels;
        s => file_bytes;
        found =>
            entries, tables_read, bytes_read,
            filters = json_list(found.filters.iter().map(record::to_json)),
            findings = json_list(findings);
        s =>
            filter_bytes, index_bytes, largest_filter_bytes = s.largest_filter,
            largest_index_bytes = s.largest_index, peak_build_bytes = found.peak_build_bytes,
            cache_bytes, charged_to_cache = json!(s.wanted.charged),
            absent = lookups(&found.measured.absent), present = lookups(&found.measured.present),
            share_absent, in_memtable = found.measured.in_memtable;
        found =>
            not_read = found.measured.not_read, rocksdb_counters = counters,
            policies = json_list(found.policies.iter().map(record::to_json)),
            verdict = found.verdict,
            advice = json_list(found.advice.iter().map(advice)), notes
    };
    if !asked.files {
        return object;
    }
    let files = json_list(found.files.iter().map(record::to_json));
    format!("{}, \"files\": {files}}}", &object[..object.len() - 1])
}
