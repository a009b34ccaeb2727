//! The metamorphic test: random programs of all calls, with options drawn anew at each opening,
//! compared with maps.
//!
//! Whatever the options, the calls and their order are, a reader sees the last value of each key, a
//! snapshot sees its moment, nothing that was acknowledged is lost, and compaction ends. The options
//! change how the store works and never what it shows: hence the name (Pebble's test of the same
//! kind is its model).
//!
//! ```text
//!   seed ──► draw.rs ──► Program ──► run.rs ──► store.rs, looking.rs, opening.rs, …
//!                          ▲   │                   │ the same call to both
//!              shorten.rs ─┘   │          ┌────────┴─────────┐
//!                              ▼          ▼                  ▼
//!                            printed    the store          model.rs
//! ```
//!
//! | file | what it has |
//! |---|---|
//! | `keys.rs` | the keys and values of a run |
//! | `model.rs` | maps, and the states that a crash may leave |
//! | `settings.rs` | the options of an opening |
//! | `operation.rs` | the calls, as data |
//! | `text.rs` | programs as text |
//! | `draw.rs`, `shapes.rs`, `motifs.rs` | the program of a seed, and the passages that it consists of |
//! | `store.rs` | executes a program |
//! | `looking.rs`, `reading.rs` | reads, copies and readers, compared |
//! | `held.rs` | cursors and iterators over earlier states |
//! | `together.rs` | threads that write and read at the same time |
//! | `transacting.rs` | transactions |
//! | `space.rs` | a disk that has space again |
//! | `spaces.rs` | keyspaces, and their keys in the model |
//! | `opening.rs` | closing, killing, losing power, repairing, going on in a copy |
//! | `disks.rs`, `between.rs` | file systems |
//! | `run.rs`, `patience.rs`, `shorten.rs` | a run in its thread; the shortest failing program |
//!
//! | VARIABLE | DEFAULT | MEANING |
//! |---|---:|---|
//! | `MAYPOLE_METAMORPHIC_SECONDS` | 4 | how long new seeds are run |
//! | `MAYPOLE_METAMORPHIC_FIRST` | 1 | the first of these seeds |
//! | `MAYPOLE_METAMORPHIC_SEED` | | runs this seed alone |
//! | `MAYPOLE_METAMORPHIC_SHORTEN` | 60 | for how many seconds a failing program is shortened |
//! | `MAYPOLE_METAMORPHIC_FAILURES` | 1 | new seeds are run until so many of them have failed |
//! | `MAYPOLE_METAMORPHIC_WITHOUT` | | motifs (`motifs.rs`) to leave out, such as `repair,faults` |
//! | `MAYPOLE_METAMORPHIC_DISK` | | the file system of all runs: `memory`, `small`, `tmpfs`, `disk` or `direct` (`disks.rs`) |
//!
//! ```sh
//! MAYPOLE_METAMORPHIC_SECONDS=3600 cargo test --release --test metamorphic -- --nocapture
//! MAYPOLE_METAMORPHIC_SEED=17 cargo test --test metamorphic
//! ```

mod between;
mod disks;
mod draw;
mod held;
mod keys;
mod looking;
mod model;
mod motifs;
mod opening;
mod operation;
mod patience;
mod reading;
mod run;
mod settings;
mod shapes;
mod shorten;
mod space;
mod spaces;
mod store;
mod text;
mod together;
mod transacting;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use store::Tally;

/// A number from the environment. See the table above.
fn env(name: &str) -> Option<u64> {
    let text = std::env::var(format!("MAYPOLE_METAMORPHIC_{name}")).ok()?;
    let number = text.replace('_', "").parse();
    Some(number.unwrap_or_else(|_| panic!("MAYPOLE_METAMORPHIC_{name} is {text}")))
}

/// Runs the program of a seed. If it fails, shortens it and returns the report.
fn run_seed(seed: u64) -> Result<Tally, String> {
    let without = std::env::var("MAYPOLE_METAMORPHIC_WITHOUT").unwrap_or_default();
    let program = draw::program(seed, &without, disks::Kind::wanted());
    let start = Instant::now();
    run::run(&program).map_err(|failure| {
        let first = failure.message.clone();
        let ran = start.elapsed();
        let time = Duration::from_secs(env("SHORTEN").unwrap_or(60));
        let (shortest, failure) = shorten::shorten(&program, failure, time);
        format!(
            "seed {seed} fails after {:.1} s: {first}\n\nshortened from {} to {} operations \
             ({:.0} s):\n\n{shortest}\n// {}\n\nMAYPOLE_METAMORPHIC_SEED={seed} runs all of it.\n",
            ran.as_secs_f64(),
            program.operations.len(),
            shortest.operations.len(),
            start.elapsed().as_secs_f64(),
            failure.message
        )
    })
}

/// Runs new seeds until the time is over, or until as many as allowed have failed.
fn run_seeds(first: u64, time: Duration) {
    let most_failures = env("FAILURES").unwrap_or(1);
    let (next, failures) = (AtomicU64::new(first), AtomicU64::new(0));
    let total: Mutex<(u64, Tally)> = Mutex::default();
    let start = Instant::now();
    let run_one = || match run_seed(next.fetch_add(1, Ordering::SeqCst)) {
        Ok(tally) => {
            let mut total = total.lock().unwrap();
            total.0 += 1;
            total.1.operations += tally.operations;
            total.1.comparisons += tally.comparisons;
        }
        Err(report) => {
            failures.fetch_add(1, Ordering::SeqCst);
            println!("after {:.0} s, {report}", start.elapsed().as_secs_f64());
        }
    };
    let is_over = || start.elapsed() >= time || failures.load(Ordering::SeqCst) >= most_failures;
    let threads = thread::available_parallelism().map_or(2, usize::from).min(8);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !is_over() {
                    run_one();
                }
            });
        }
    });
    let (seeds, tally) = *total.lock().unwrap();
    println!(
        "metamorphic: {seeds} seeds from {first} on, {} operations, {} comparisons in {:.0} s",
        with_commas(tally.operations),
        with_commas(tally.comparisons),
        start.elapsed().as_secs_f64()
    );
    assert_eq!(failures.into_inner(), 0, "seeds failed; the programs are printed above");
}

fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[test]
fn whatever_the_options_are_the_store_shows_what_was_written() {
    match env("SEED") {
        Some(seed) => {
            let tally = run_seed(seed).unwrap_or_else(|report| panic!("{report}"));
            println!(
                "metamorphic: seed {seed}, {} operations, {} comparisons",
                tally.operations, tally.comparisons
            );
        }
        None => {
            let time = Duration::from_secs(env("SECONDS").unwrap_or(4));
            run_seeds(env("FIRST").unwrap_or(1), time);
        }
    }
}
