//! A lookup that falls through the levels, with filters and without. The picture has a row for each
//! *run*, which is a table of level 0, or a deeper level. In the drawing below, level 0 stands for
//! two tables.
//!
//! ```text
//!                    absent key               present key, in the last level
//!               no filters  bloom(10)         no filters  bloom(10)
//! level 0            ■          ○                  ■          ○
//! level 1            ■          ○                  ■          ○
//! level 2            ■          ○                  ■          ■ found
//! blocks, mean     4.00       0.04               4.00       1.03
//! ```

use std::sync::Arc;

use maypole::explain::{FileTrace, LookupTrace};
use maypole::fs::MemFs;
use maypole::text::count;
use maypole::{Compression, Db, FilterPolicy, hash64};

use super::svg::{self, Canvas};

const WIDTH: f64 = 760.0;
/// The number of lookups in each of the two groups, absent keys and present keys. The means in the
/// picture are over one group.
const LOOKUPS: usize = 2_000;
const ROUNDS: u32 = 14;
/// Keys of a flush.
const ROUND: u32 = 2_000;

/// What happened to a lookup in a run.
enum Step {
    FilterSaidNo,
    /// A block was searched in vain.
    InVain,
    Found,
}

/// A tree whose tables have filters of the policy `filter`. Every tree has the same writes, which
/// leave two tables in level 0 and two levels below.
fn tree(filter: &str) -> Db {
    let db = Db::builder("/book")
        .fs(Arc::new(MemFs::new()))
        .filter(filter.parse::<FilterPolicy>().expect("a policy"))
        .compression(Compression::None)
        .table_bytes(64 << 10)
        .level_base_bytes(128 << 10)
        .compaction_threads(1)
        .open()
        .unwrap();
    for round in 0..ROUNDS {
        (0..ROUND).for_each(|i| db.put(key(round * ROUND + i), [7; 100]).unwrap());
        db.flush().unwrap();
        db.wait_for_compaction().unwrap();
    }
    db
}

fn key(i: u32) -> [u8; 8] {
    hash64(&i.to_le_bytes()).to_be_bytes()
}

/// What happened in each run that the lookup reached. If no table of the run has a range that
/// includes the key, the step is the same as if a filter had said no.
fn steps(trace: &LookupTrace) -> Vec<Step> {
    let step = |file: &FileTrace| match (&file.table.index, &file.table.found) {
        (None, _) => Step::FilterSaidNo,
        (_, None) => Step::InVain,
        (_, Some(_)) => Step::Found,
    };
    trace.levels.iter().map(|level| level.file.as_ref().map_or(Step::FilterSaidNo, step)).collect()
}

/// A group of lookups. `steps`: what happens in each run to a lookup that searches the median
/// number of blocks. `blocks`: the mean number of blocks that a lookup searches.
struct Fall {
    steps: Vec<Step>,
    blocks: f64,
}

impl Fall {
    fn of(traces: &[LookupTrace]) -> Fall {
        let blocks: u64 = traces.iter().map(|trace| trace.cost().blocks).sum();
        let mut costs: Vec<u64> = traces.iter().map(|trace| trace.cost().blocks).collect();
        costs.sort_unstable();
        let usual = costs[costs.len() / 2];
        let usual = traces.iter().find(|trace| trace.cost().blocks == usual).unwrap();
        Fall { steps: steps(usual), blocks: blocks as f64 / traces.len() as f64 }
    }
}

/// How lookups of absent keys fall through the runs, and how lookups of present keys do. Only
/// lookups count that reach every run and find a table there whose range includes the key. So a
/// present key is in the last run.
fn falls(db: &Db, runs: usize) -> [Fall; 2] {
    let traces = |from: u32| (from..).map(|i| db.explain(key(i)).unwrap());
    // Whether the lookup reaches every run, and each has a table whose range includes the key.
    let reaches_all = |trace: &LookupTrace| {
        trace.levels.len() == runs && trace.levels.iter().all(|level| level.file.is_some())
    };
    let absent = traces(1 << 30).filter(reaches_all).take(LOOKUPS).collect::<Vec<_>>();
    let present = traces(0).filter(reaches_all).take(LOOKUPS).collect::<Vec<_>>();
    assert!(absent.iter().all(|trace| trace.value.is_none()));
    assert!(present.iter().all(|trace| trace.value.is_some()));
    [Fall::of(&absent), Fall::of(&present)]
}

pub fn draw() -> String {
    let plain = tree("none");
    let stats = plain.stats();
    let absent = plain.explain(key(1 << 30)).unwrap();
    let names: Vec<String> = absent
        .levels
        .iter()
        .map(|run| match run.level {
            0 => "level 0, a table".into(),
            level => format!("level {level}"),
        })
        .collect();
    let keys = absent.levels.iter().map(|run| match (run.level, &run.file) {
        (0, Some(file)) => file.entries,
        (level, _) => {
            let files = stats.files.iter().filter(|file| file.level == level);
            files.map(|file| file.entries).sum()
        }
    });
    let keys: Vec<u64> = keys.collect();
    let [absent_plain, present_plain] = falls(&plain, names.len());
    let [absent, present] = falls(&tree("bloom(10)"), names.len());

    let mut canvas = Canvas::default();
    let lanes = [(250.0, absent_plain), (370.0, absent), (530.0, present_plain), (650.0, present)];
    canvas.text("name", (310.0, 26.0), "middle", "an absent key");
    canvas.text("name", (590.0, 26.0), "middle", "a key of the last level");
    for (x, filter) in
        [(250.0, "no filters"), (370.0, "bloom(10)"), (530.0, "no filters"), (650.0, "bloom(10)")]
    {
        canvas.text("soft", (x, 48.0), "middle", filter);
    }
    const TOP: f64 = 84.0;
    const ROW: f64 = 58.0;
    let y = |run: usize| TOP + ROW * run as f64;
    for (run, (name, keys)) in names.iter().zip(&keys).enumerate() {
        canvas.rect("pale", (16.0, y(run) - 18.0), (WIDTH - 32.0, 36.0));
        canvas.text("name", (26.0, y(run) - 2.0), "start", name);
        canvas.text(
            "soft small",
            (26.0, y(run) + 13.0),
            "start",
            &format!("{} keys", count(*keys)),
        );
    }
    let bottom = y(names.len());
    for (x, fall) in &lanes {
        let end = match fall.steps.last() {
            Some(Step::Found) => y(fall.steps.len() - 1),
            _ => bottom - 32.0,
        };
        canvas.path("axis", &format!("M{x} 56V{end:.1}"));
        if end > y(names.len() - 1) {
            canvas.path("axis", &format!("M{:.1} {:.1}l5 7l5 -7", x - 5.0, end - 7.0));
            canvas.text("soft small", (*x, end + 14.0), "middle", "not found");
        }
        for (run, step) in fall.steps.iter().enumerate() {
            mark(&mut canvas, (*x, y(run)), step);
        }
        canvas.text("title", (*x, bottom + 22.0), "middle", &format!("{:.2}", fall.blocks));
    }
    canvas.text("name", (26.0, bottom + 12.0), "start", "blocks searched");
    let mean = format!("a lookup, mean of {}", count(LOOKUPS as u64));
    canvas.text("soft small", (26.0, bottom + 28.0), "start", &mean);
    // Why a lookup without filters is slow, for a reader who looks only at the pictures.
    let why = [
        "A search ends where it finds its key. An absent key is found nowhere: every run is searched.",
        "Each block in vain is a read of 4 KiB from the device, unless it happens to be in memory.",
    ];
    for (line, says) in why.into_iter().enumerate() {
        canvas.text("soft", (26.0, bottom + 56.0 + 19.0 * line as f64), "start", says);
    }
    svg::file(
        "A lookup falls through the levels: without filters it searches a block in each",
        (WIDTH, bottom + 88.0),
        1.0,
        &canvas.body,
    )
}

fn mark(canvas: &mut Canvas, (x, y): (f64, f64), step: &Step) {
    let (class, side, says) = match step {
        Step::FilterSaidNo => ("paper", 7.0, "filter: no"),
        Step::InVain => ("sum", 16.0, "block, in vain"),
        Step::Found => ("good", 16.0, "block, found"),
    };
    canvas.rect(class, (x - side / 2.0, y - side / 2.0), (side, side));
    if matches!(step, Step::FilterSaidNo) {
        canvas.path("axis", &format!("M{:.1} {:.1}h7v7h-7z", x - 3.5, y - 3.5));
    }
    canvas.text("small", (x + 12.0, y + 4.0), "start", says);
}
