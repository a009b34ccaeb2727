//! Everything that `advise` finds about a column family. The terminal, JSON and the page show these
//! figures.

use maypole::filter::Family as FilterFamily;
use maypole::{FilterCounts, wilson_interval_95};

use super::lookups::Measured;
use super::policies::{Kind, Level, Row, position, rates_of_tables};
use super::rules::{Advice, Situation};
use super::scan;
use super::scanned::{Asked, Scanned, judged};
use super::searches::Searches;
use super::source::{Engine, Family};
use super::tables::{Form, Table};
use crate::failure::Result;
use crate::recommend::Estimate;
use crate::show::grouped;
use crate::show::record::record;
use crate::show::text::percent;

/// Bits of memory per key while RocksDB builds a Bloom filter: 64 for the hash, the rest for the
/// filter.
const BLOOM_PEAK_BITS: u64 = 75;
/// Bits of memory per key while RocksDB builds a Ribbon filter: three times those of Bloom,
/// according to `filter_policy.h`.
const RIBBON_PEAK_BITS: u64 = 3 * BLOOM_PEAK_BITS;

record! {
    /// The tables of a level whose filters have the same family (`filter`), the same contents
    /// (`holds`) and the same partitioning.
    pub struct FilterRow {
        level: u64,
        /// The family, such as `bloom`; else `none`, `damaged`, `obsolete` or `unknown`.
        filter: String,
        tables: u64,
        entries: u64,
        bits_per_key: Option<f64>,
        /// The fewest and, in the next field, the most probes per key among the Bloom filters of
        /// these tables.
        probes: Option<u64>,
        most_probes: Option<u64>,
        /// `keys`, `prefixes` or `keys and prefixes`.
        holds: Option<String>,
        /// Whether the filters are partitioned.
        partitioned: bool,
        filter_bytes: u64,
        index_bytes: u64,
        /// The number of these tables that were read.
        read: u64,
        /// The number of queries for keys that the queried table does not hold.
        queries: u64,
        measured_fpr: Option<f64>,
        /// The bounds of the 95 % confidence interval of `measured_fpr`.
        fpr_low: Option<f64>,
        fpr_high: Option<f64>,
    }
}

record! {
    pub struct FileRow {
        file: u64,
        level: u64,
        file_bytes: u64,
        entries: u64,
        filter: String,
        bits_per_key: Option<f64>,
        filter_bytes: u64,
        index_bytes: u64,
        queries: u64,
        measured_fpr: Option<f64>,
        /// What is wrong with the filter ([`Table::finding`]), or else how the data of the table is
        /// damaged. `None` if both are in order.
        finding: Option<String>,
    }
}

record! {
    /// The memory and the reads with the stored filters, or with another policy.
    pub struct PolicyRow {
        policy: String,
        /// `filter_policy` in RocksDB's OPTIONS.
        rocksdb: Option<String>,
        /// The policy as Maypole writes it.
        maypole: Option<String>,
        /// Whether filters are partitioned, as with RocksDB's `partition_filters`.
        partitioned: bool,
        filter_bytes: u64,
        bits_per_key: f64,
        build_seconds: Option<f64>,
        blocks_per_absent_get: Option<f64>,
        blocks_per_present_get: Option<f64>,
        /// The microseconds by which an absent lookup is faster than with the stored filters, if
        /// each read of a data block takes `--read-cost`.
        saved_micros_per_absent_get: Option<f64>,
        /// The data blocks that a mean lookup of `--query-file` searches in vain, and the bounds of
        /// the 95 % confidence interval.
        in_vain_per_get: Option<f64>,
        in_vain_low: Option<f64>,
        in_vain_high: Option<f64>,
    }
}

/// The name of the row of the stored filters.
pub const NOW: &str = "NOW, as stored";

pub struct Findings {
    pub name: String,
    pub situation: Situation,
    pub levels: u64,
    pub entries: u64,
    /// The number of tables that were read, in whole or in part, and about how many bytes were
    /// read.
    pub tables_read: u64,
    pub bytes_read: u64,
    pub filters: Vec<FilterRow>,
    pub files: Vec<FileRow>,
    /// Findings in words, each with the numbers of the files that it is about.
    pub findings: Vec<(String, Vec<u64>)>,
    /// The estimated peak of memory, in bytes, while the database builds its largest filter.
    pub peak_build_bytes: u64,
    pub measured: Measured,
    pub counters: Option<FilterCounts>,
    pub policies: Vec<PolicyRow>,
    pub advice: Vec<Advice>,
    /// The recommended filter, as JSON.
    pub verdict: String,
    pub notes: Vec<String>,
}

/// What was read of a column family.
pub struct Seen<'a> {
    pub engine: Engine,
    pub family: &'a Family,
    pub tables: &'a [Table],
    pub levels: &'a [Level],
    pub rows: Vec<Row>,
    pub measured: Measured,
    pub kinds: &'a [Kind],
    /// The searches of the lookups of `--query-file`.
    pub recorded: Option<Searches>,
    pub cache_bytes: Option<u64>,
    pub counters: Option<FilterCounts>,
    /// The cost of a read, in microseconds.
    pub read_cost: f64,
}

impl Findings {
    pub fn of(seen: Seen) -> Result<Findings> {
        let Seen { family, tables, levels, .. } = &seen;
        let scanned = || tables.iter().filter_map(|table| table.scanned.as_ref());
        let files = seen.files();
        let mut situation = seen.situation();
        let advice = super::rules::advise(&situation);
        seen.query_advised(&mut situation)?;
        let policies = seen.policies(&situation);
        let largest = tables.iter().max_by_key(|table| table.keys);
        let peak_bits = |table: &Table| match table.family().1 {
            Some(FilterFamily::Bloom | FilterFamily::LegacyBloom) => BLOOM_PEAK_BITS,
            _ => RIBBON_PEAK_BITS,
        };
        Ok(Findings {
            name: family.name.clone(),
            levels: levels.len() as u64,
            entries: tables.iter().map(|table| table.entries).sum(),
            tables_read: scanned().count() as u64,
            bytes_read: scanned().map(|scanned| scanned.bytes).sum(),
            filters: seen.filters(),
            findings: grouped(
                files.iter().filter_map(|row| Some((row.finding.clone()?, row.file))),
            ),
            peak_build_bytes: largest.map_or(0, |table| table.keys * peak_bits(table) / 8),
            counters: seen.counters,
            policies,
            advice,
            verdict: super::rules::verdict(&situation),
            situation,
            notes: seen.notes(),
            files,
            measured: seen.measured,
        })
    }
}

impl Seen<'_> {
    /// Predicts the searches in vain with the recommended filter from filters that are built for it.
    fn query_advised(&self, situation: &mut Situation) -> Result {
        let take = super::rules::recommended(situation);
        let row = situation.rows.iter_mut().find(|row| Some(&row.name) == take.as_ref());
        let (Some(searches), Some(row)) = (&self.recorded, row) else { return Ok(()) };
        // RocksDB's Ribbon filters of the same keys let other keys through.
        let is_ours = self.engine == Engine::Maypole || row.family == Some(FilterFamily::Bloom);
        let rates = rates_of_tables(self.levels, self.tables, &row.kinds);
        if let (Some(rates), true) = (rates, is_ours) {
            let answers = |table: &Table, keys: &[&[u8]]| match row.kinds
                [position(self.levels, table.level)]
            {
                Some(kind) => scan::answers(table, &self.kinds[kind], keys),
                None => Ok(None),
            };
            let scanned = self.tables.iter().filter_map(|table| table.scanned.as_ref());
            let bytes = scanned.map(|scanned| scanned.bytes).sum();
            row.in_vain = Some(searches.query_built(self.tables, answers, &rates, bytes)?);
        }
        Ok(())
    }

    /// The deepest level that has tables: that of the last table, because tables are in the order
    /// of their levels.
    fn last_level(&self) -> usize {
        self.tables.last().map_or(0, |table| table.level)
    }

    /// What is wrong with a table's filter, such as a difference from what OPTIONS ask for.
    fn finding(&self, table: &Table) -> Option<String> {
        table.finding(&self.family.wanted, self.engine, table.level == self.last_level())
    }

    fn files(&self) -> Vec<FileRow> {
        let row = |table: &Table| {
            let scanned = table.scanned.as_ref();
            let asked = scanned.map(Scanned::judged).unwrap_or_default();
            let damage = scanned.and_then(|scanned| scanned.damage.as_ref());
            FileRow {
                file: table.number,
                level: table.level as u64,
                file_bytes: table.file_bytes,
                entries: table.entries,
                filter: table.family().0,
                bits_per_key: table.form.map(|_| table.bits_per_key()),
                filter_bytes: table.filter_bytes,
                index_bytes: table.index_bytes,
                queries: asked.queries,
                measured_fpr: rate(asked),
                finding: self.finding(table).or_else(|| Some(format!("data damaged: {}", damage?))),
            }
        };
        self.tables.iter().map(row).collect()
    }

    fn filters(&self) -> Vec<FilterRow> {
        let kind = |table: &Table| {
            let is_partitioned = table.form == Some(Form::Partitioned);
            (table.level as u64, table.family().0, table.holds(), is_partitioned)
        };
        let row = |((level, filter, holds, partitioned), tables): (_, Vec<&Table>)| {
            let sum = |of: fn(&Table) -> u64| tables.iter().map(|table| of(table)).sum::<u64>();
            let filters = || tables.iter().filter_map(|table| table.filter());
            let probes = || filters().filter_map(|filter| filter.probes).map(u64::from);
            let scanned = || tables.iter().filter_map(|table| table.scanned.as_ref());
            let mut asked = Asked::default();
            scanned().for_each(|scanned| asked += scanned.judged());
            let interval = wilson_interval_95(asked.wrong, asked.queries);
            let (keys, bytes) = (sum(|table| table.keys), sum(|table| table.filter_bytes));
            FilterRow {
                level,
                filter,
                tables: tables.len() as u64,
                entries: sum(|table| table.entries),
                bits_per_key: (bytes > 0).then(|| bytes as f64 * 8.0 / keys.max(1) as f64),
                probes: probes().min(),
                most_probes: probes().max(),
                holds,
                partitioned,
                filter_bytes: bytes,
                index_bytes: sum(|table| table.index_bytes),
                read: scanned().count() as u64,
                queries: asked.queries,
                measured_fpr: rate(asked),
                fpr_low: interval.map(|(low, _)| low),
                fpr_high: interval.map(|(_, high)| high),
            }
        };
        let kinds = grouped(self.tables.iter().map(|table| (kind(table), table)));
        kinds.into_iter().map(row).collect()
    }

    fn situation(&self) -> Situation {
        let last = self.last_level();
        let tables = || self.tables.iter();
        let keys_of = |tables: &[&Table]| tables.iter().map(|table| table.keys).sum::<u64>();
        let keys: u64 = tables().map(|table| table.keys).sum();
        let differs = |table: &&Table| self.finding(table).is_some() && !table.is_damaged();
        let families = grouped(tables().filter_map(|table| Some((table.family().1?, table))));
        let usual = families.iter().max_by_key(|(_, tables)| keys_of(tables));
        let of_family = usual.map_or(&[][..], |(_, tables)| tables);
        let bits: u64 = of_family.iter().map(|table| table.filter_bytes * 8).sum();
        let filter_block = |table: &Table| match table.filter() {
            Some(filter) if filter.largest_part > 0 => filter.largest_part,
            // The partitions of a filter that was not read have an unknown size. It counts as 0,
            // because it is usually small: about that of a data block.
            _ if table.form == Some(Form::Partitioned) => 0,
            _ => table.filter_bytes,
        };
        let index_block =
            |table: &Table| if table.index_is_partitioned { 0 } else { table.index_bytes };
        let level_0 = tables().filter(|table| table.level == 0);
        let mut last_asked = Asked::default();
        let last_levels = self.levels.iter().filter(|level| level.level == last);
        last_levels.for_each(|level| last_asked += judged(level.asked, level.asked_of_any_bytes));
        Situation {
            engine: self.engine,
            wanted: self.family.wanted.clone(),
            tables: self.tables.len(),
            file_bytes: tables().map(|table| table.file_bytes).sum(),
            damaged: tables().filter(|table| table.is_damaged()).count(),
            differing: tables().filter(differs).count(),
            family: usual.map(|(family, _)| *family),
            bits_per_key: bits as f64 / keys_of(of_family).max(1) as f64,
            filter_bytes: tables().map(|table| table.filter_bytes).sum(),
            index_bytes: tables().map(|table| table.index_bytes).sum(),
            level_0_bytes: level_0.map(|table| table.filter_bytes + table.index_bytes).sum(),
            largest_filter: tables().map(filter_block).max().unwrap_or(0),
            largest_index: tables().map(index_block).max().unwrap_or(0),
            are_partitioned: tables().any(|table| table.form == Some(Form::Partitioned)),
            cache_bytes: self.cache_bytes,
            absent: self.measured.absent.clone(),
            present: self.measured.present.clone(),
            of_prefixes_alone: tables().any(|table| table.feed.is_of_prefixes_alone()),
            keys: keys as f64,
            share_absent: self.recorded.is_some().then(|| {
                let (absent, present) = (self.measured.absent.count, self.measured.present.count);
                absent as f64 / (absent + present).max(1) as f64
            }),
            rate: rate(last_asked),
            read_cost: self.read_cost,
            rows: self.rows.clone(),
        }
    }

    fn policies(&self, now: &Situation) -> Vec<PolicyRow> {
        let keys: f64 = self.levels.iter().map(|level| level.keys).sum();
        let Measured { absent, present, .. } = &self.measured;
        let of_absent = |figure: f64| (absent.count > 0).then_some(figure);
        let with = |row: PolicyRow, in_vain: Option<Estimate>| PolicyRow {
            in_vain_per_get: in_vain.map(|blocks| blocks.value),
            in_vain_low: in_vain.map(|blocks| blocks.low),
            in_vain_high: in_vain.map(|blocks| blocks.high),
            ..row
        };
        let current = PolicyRow {
            policy: NOW.into(),
            partitioned: now.are_partitioned,
            filter_bytes: now.filter_bytes,
            bits_per_key: now.filter_bytes as f64 * 8.0 / keys.max(1.0),
            blocks_per_absent_get: of_absent(absent.blocks),
            saved_micros_per_absent_get: of_absent(0.0),
            blocks_per_present_get: (present.count > 0).then_some(present.blocks),
            ..PolicyRow::default()
        };
        let row = |row: &Row| PolicyRow {
            policy: row.name.clone(),
            rocksdb: row.rocksdb.clone(),
            maypole: Some(row.maypole.clone()),
            partitioned: row.partitioned,
            filter_bytes: row.filter_bytes as u64,
            bits_per_key: row.bits_per_key,
            build_seconds: Some(row.build_seconds),
            blocks_per_absent_get: of_absent(row.absent_blocks),
            blocks_per_present_get: row.present_blocks,
            saved_micros_per_absent_get: of_absent(
                (absent.blocks - row.absent_blocks) * self.read_cost,
            ),
            ..PolicyRow::default()
        };
        match self.rows.is_empty() {
            true => Vec::new(),
            false => {
                let stored = self.recorded.as_ref().map(|searches| searches.stored(self.tables));
                let others = now.rows.iter().map(|of| with(row(of), of.in_vain));
                std::iter::once(with(current, stored)).chain(others).collect()
            }
        }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.measured.not_read > 0 {
            notes.push(format!(
                "{} lookups met entries that only RocksDB reads, such as merge operands; they are not \
                 counted",
                self.measured.not_read
            ));
        }
        for level in self.levels {
            let Level { asked, asked_of_any_bytes, .. } = level;
            let interval = |asked: &Asked| wilson_interval_95(asked.wrong, asked.queries);
            if let (Some(own), Some(any)) = (interval(asked), interval(asked_of_any_bytes))
                && (own.0 > any.1 || own.1 < any.0)
            {
                let [own, any] =
                    [asked, asked_of_any_bytes].map(|asked| rate(*asked).unwrap_or(0.0));
                notes.push(format!(
                    "level {}: {} of absent keys of the stored keys' own shape get through, and {} of keys \
                     with any bytes at their end; a lookup has the first rate if its keys look like \
                     these",
                    level.level,
                    percent(own),
                    percent(any)
                ));
            }
        }
        if self.measured.absent.count == 0 && self.measured.present.count > 0 {
            notes.push("no absent lookups were measured: the queries have none".into());
        }
        if self.measured.present.count == 0 && self.measured.absent.count > 0 {
            notes.push("no present lookups were measured: the queries have none".into());
        }
        if self.tables.iter().any(|table| table.feed.is_of_prefixes_alone()) {
            notes.push(
                "filters of prefixes alone let every key through whose prefix is there; the rates count \
                 these as wrong"
                    .into(),
            );
        }
        notes
    }
}

fn rate(asked: Asked) -> Option<f64> {
    (asked.queries > 0).then(|| asked.wrong as f64 / asked.queries as f64)
}
