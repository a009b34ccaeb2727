//! `compare`: what each filter policy saves, and what it costs, on the same keys.
//!
//! ```text
//! options      the options of the command line
//! policies     reads lists of policies, in which BITS stands for several numbers
//! keys/        which keys are loaded, and which are looked up
//! tree         one tree, and a copy of it with the filters of each policy
//! measure      looks the keys up, the policies taking turns
//! throughput   lookups with other caches and other shares of absent keys
//! forms        lookups where filters are larger than the cache: whole, in parts, always read
//! rounds       how the policies take turns, and what the repetitions say
//! lab          filters without a tree
//! sweep        many policies, one after the other
//!
//! rows         from counters to figures
//! results/     every figure of a run, and where it goes: terminal, words, page, JSON, CSV
//! ```
//!
//! The rows are comparable, because every policy gets a copy of the same tree and the same lookups.
//! In the copy, each table has the filter that the policy defines for the table's level, so the
//! trees differ only in their filters. Every policy gets a turn in each round of lookups, so that
//! other work of the machine affects all policies equally. A sweep, however, measures its policies
//! one after the other, each in rounds of its own, and a note in its results says so.

mod forms;
mod keys;
pub mod lab;
mod measure;
mod options;
mod plan;
mod policies;
pub mod results;
mod rounds;
mod rows;
mod setup;
mod sweep;
mod throughput;
mod tree;

use std::io::Write;

use maypole::FilterPolicy;
use maypole::table::MetadataForm;

use crate::failure::Result;
use crate::scratch::{self, Scratch};
use crate::show::about::{self, Origin};
use crate::show::files;
use crate::show::record;
use crate::show::sheet::Screen;
use crate::show::text::size;
use crate::{clock, output, space};
use keys::KeySet;
use plan::Plan;
use results::{About, MAKER, PolicyRow, ReadCost, Results, report, save, verdict};
use setup::Setup;
use throughput::Grid;
use tree::Tree;

pub use keys::{KeyList, file};
pub use lab::FilterSpeed;
pub use options::Compare;
pub use rounds::Repeated;

impl Compare {
    pub fn run(self, out: &mut dyn Write) -> Result {
        let policies = self.policies()?;
        self.check_streams()?;
        let setup = self.setup()?;
        // Whether to measure the points that only the plots of the page show: other caches, other
        // shares of absent keys, and forms of filters. With `--cold`, each point would take
        // minutes, because files are read from a device. A sweep measures caches and shares of its
        // own.
        let more = self.out.is_some() && !self.cold && !self.sweep && setup.has_both_kinds();
        let open = if self.sweep { 2 } else { policies.len() as u64 + 1 };
        let each = setup.plan.memory_bytes().saturating_add(setup.cache_bytes as u64);
        let [mut memory_bytes, mut disk_bytes] =
            [each.saturating_mul(open), setup.plan.disk_bytes(&policies, self.sweep)];
        if more {
            // The forms of filters and indexes are measured one policy after the other, so only the
            // databases of one policy are added. Their caches are small and not counted.
            memory_bytes += forms::DATABASES * setup.plan.memory_bytes();
            disk_bytes += setup.plan.disk_bytes(&policies, true);
        }
        space::check_databases(open, memory_bytes)?;
        let parent = self.dir.clone().unwrap_or_else(scratch::temporary);
        space::announce(&parent, disk_bytes, "and removed at the end")?;
        if let Some(dir) = &self.out {
            files::prepare(dir, MAKER, &save::NAMES)?;
        }
        let scratch = Scratch::new(&parent, "maypole-compare-")?;
        let mut results = match (&self.out, self.sweep) {
            (Some(dir), true) => {
                let state = sweep::state_file(dir);
                sweep::run(&setup, &policies, scratch.path(), &state, &self.settings(&setup))?
            }
            _ => measure(&setup, &policies, &scratch, more)?,
        };
        scratch.close()?;
        if self.out.is_some() {
            let queries = 2 * setup.keys.queries.absent.len() as u64;
            results.accuracy = lab::accuracy(setup.keys.present.len() as u64, queries, self.seed)?;
            results.speed = lab::speed(setup.keys.present.len() as u64, self.seed)?;
        }
        results.about = self.about(&setup, &results);

        if let Some(dir) = &self.out {
            save::all(&results, dir)?;
            if self.sweep {
                sweep::finish(&sweep::state_file(dir))?;
            }
        }
        self.print(&results, out)
    }

    fn setup(&self) -> Result<Setup> {
        let keys = KeySet::new(&self.request())?;
        let plan = Plan::new(&keys, self.value_bytes, self.compression, self.seed);
        let cache_bytes = self.cache.unwrap_or(if self.cold {
            plan.data_bytes / 10 + (8 << 20)
        } else {
            // The cache has more than the bytes of the data, because blocks in the cache carry
            // search structures, which take memory too.
            plan.data_bytes.saturating_mul(2) + (64 << 20)
        });
        Ok(Setup { keys, plan, cache_bytes, cold: self.cold, seed: self.seed })
    }

    /// Everything that the figures of a sweep depend on, except the policies. An interrupted sweep
    /// continues only if this text is still the same.
    fn settings(&self, setup: &Setup) -> String {
        let Setup { keys, plan, cache_bytes, cold, seed } = setup;
        format!(
            "{}; {} keys, {} bytes, {:?}; {}, {} absent; cache {cache_bytes}; cold {cold}; seed {seed}",
            about::build(),
            keys.present.len(),
            plan.data_bytes,
            self.compression,
            keys.queries.about,
            keys.queries.absent.len(),
        )
    }

    fn about(&self, setup: &Setup, results: &Results) -> About {
        let mut notes = setup.keys.notes.clone();
        if results.policies.iter().any(|row| row.levels < 3) {
            notes.push(
                "too little data for three levels: fewer filters are queried per lookup".into(),
            );
        }
        if results.policies.iter().any(|row| row.reads_are_unseen()) {
            notes.push(format!(
                "reads from the device could not be observed: a block cache of {} holds everything; give more \
                 keys or a smaller --cache",
                size(setup.cache_bytes as u64)
            ));
        }
        let is_warm = |row: &PolicyRow| row.cold == Some(false) && !row.reads_are_unseen();
        if results.policies.iter().any(is_warm) {
            notes.push(
                "a row that is not cold: the device gave less than 0.9 of the bytes read".into(),
            );
        }
        if self.sweep {
            notes.push(
                "a sweep: the policies were measured one after the other, each in ten rounds of its own, not \
                 in turns; an interval holds what varied meanwhile, not what changed from policy to policy"
                    .into(),
            );
        }
        notes.extend(results.noise().map(|noise| format!("WARNING: {noise}")));
        notes.extend(results.surprises());
        if self.zipf.is_some() {
            notes.push(
                "hot keys are queried repeatedly: intervals are of rates among lookups".into(),
            );
        }
        About {
            origin: Origin::now(self.seed),
            keys: setup.keys.present.len() as u64,
            data_bytes: setup.plan.data_bytes as u64,
            read_cost: self.read_cost(&results.policies),
            share_absent: setup.keys.queries.share_absent,
            workload: setup.keys.queries.about.clone(),
            clock_ns: clock::clock_ns(),
            notes,
        }
    }

    /// The given cost; else the cost that `--cold` has measured; else the usual cost.
    fn read_cost(&self, rows: &[PolicyRow]) -> ReadCost {
        match (self.read_cost, self.cold) {
            (Some(micros), _) => ReadCost::Given(micros),
            (None, true) => ReadCost::measured(rows),
            (None, false) => ReadCost::Usual,
        }
    }

    fn print(&self, results: &Results, out: &mut dyn Write) -> Result {
        let Results { about, policies, .. } = results;
        if self.json {
            about.notes.iter().for_each(|note| output::tell(format_args!("note: {note}")));
            let (policies, verdict) =
                (output::json_lines(policies.iter().map(record::to_json)), verdict::json(results));
            let schema = output::SCHEMA;
            writeln!(
                out,
                "{{\n\"schema\": {schema},\n\"policies\": {policies},\n\"verdict\": {verdict}\n}}"
            )?;
            return Ok(());
        }
        let screen = Screen::stdout();
        report::tables(policies, &screen, out)?;
        report::verdict(results, &screen, out)?;
        writeln!(out)?;
        let clock = format!(
            "reading the clock took {} ns, taken off every lookup; {}, one thread",
            about.clock_ns, about.origin.machine
        );
        for note in about.notes.iter().chain([&clock]) {
            let kind = if note.starts_with("WARNING") { "" } else { "Note: " };
            writeln!(out, "{}", screen.wrap(&format!("{kind}{note}.")))?;
        }
        if let Some(dir) = &self.out {
            let page = dir.join("index.html");
            writeln!(out, "{}", screen.wrap(&format!("Page: {}.", page.display())))?;
        }
        Ok(())
    }
}

/// Measures all policies in turns; with `more` also with other caches, other shares of absent keys
/// and other forms of filters and indexes.
fn measure(
    setup: &Setup,
    policies: &[FilterPolicy],
    scratch: &Scratch,
    more: bool,
) -> Result<Results> {
    let Setup { plan, cache_bytes, .. } = setup;
    let base = Tree::base(scratch.path().join("base"), setup, MetadataForm::Whole)?;
    let tree = |(i, policy): (usize, &FilterPolicy)| {
        base.with_filters(policy, scratch.path().join(i.to_string()), plan, *cache_bytes)
    };
    let mut trees: Vec<Tree> = policies.iter().enumerate().map(tree).collect::<Result<_>>()?;
    base.remove()?;
    let mut results = rows::of(setup, &trees)?;
    if more {
        for grid in Grid::cross(plan, *cache_bytes as u64) {
            let (opened, rows) = throughput::run(trees, setup, &grid)?;
            trees = opened;
            results.throughput.extend(rows);
        }
        (trees, results.forms) = forms::run(trees, setup, scratch.path())?;
    }
    for tree in trees {
        tree.db.close()?;
    }
    Ok(results)
}
