//! The plots of a page: which figures stand on which axes.

use super::super::{AccuracyRow, LatencyRow, PolicyRow, Results, SpeedRow, ThroughputRow};
use super::colors::{Colors, group};
use maypole::filter::Family;

use crate::compare::lab::SPEED_FPR;
use crate::compare::throughput::MIXED;
use crate::show::html;
use crate::show::plot::{Axis, Look, OTHERS, Plot, Point, Series, Spread, color_of_family};
use crate::show::sheet::short_count;
use crate::show::text::{count, percent, size};

/// A plot with what is said about it.
pub struct Shown {
    pub plot: Plot,
    pub about: &'static str,
    /// The rows behind it.
    pub figures: String,
    /// What is said in its place when this run has no figures for it.
    pub missing: &'static str,
}

/// Those that let a reader choose.
pub fn choice(results: &Results, colors: &Colors) -> Vec<Shown> {
    vec![memory(results, colors), accuracy(results)]
}

/// What lookups cost.
pub fn time(results: &Results, colors: &Colors) -> Vec<Shown> {
    vec![
        latency(results, colors, "absent", "How long an absent lookup takes"),
        latency(results, colors, "present", "How long a present lookup takes"),
        by_cache(results, colors),
        by_share(results, colors),
    ]
}

/// What filters cost without a tree.
pub fn filters(results: &Results) -> Vec<Shown> {
    let of =
        |id: &str, title: &str, x: Axis, y: Axis, point: &dyn Fn(&SpeedRow) -> Option<Point>| {
            let series = families(|family| {
                results.speed.iter().filter(|row| row.family == family).filter_map(point).collect()
            });
            Plot { id: id.into(), title: title.into(), x, y, series }
        };
    let keys = || Axis::new("keys in the filter", Spread::Log, plain);
    let bytes = || Axis::new("bytes of the filter", Spread::Log, bytes_tick);
    let figures = html::figures(&results.speed);
    let query = |id: &str, title: &str, ns: fn(&SpeedRow) -> f64| {
        let y = Axis::new("ns a query", Spread::Linear, decimal);
        of(id, title, bytes(), y, &move |row| {
            let says = format!(
                "{}, {}: {:.1} ns a query\n{} keys",
                row.family,
                size(row.filter_bytes),
                ns(row),
                count(row.keys)
            );
            Some(Point { x: row.filter_bytes as f64, y: ns(row), interval: None, says })
        })
    };
    let build = of(
        "build",
        "Time to build a filter",
        keys(),
        Axis::new("ns a key", Spread::Linear, decimal),
        &|row| {
            let (keys, ns) = (count(row.keys), row.build_ns_per_key);
            let says = format!("{}, {keys} keys: {ns:.1} ns a key", row.family);
            Some(Point { x: row.keys as f64, y: ns, interval: None, says })
        },
    );
    let peak = of(
        "peak",
        "Memory to build a filter",
        keys(),
        Axis::new("bytes a key, at the peak", Spread::Linear, decimal),
        &|row| {
            let bytes = row.peak_bytes?;
            let per_key = bytes as f64 / row.keys as f64;
            let (keys, all) = (count(row.keys), size(bytes));
            let says =
                format!("{}, {keys} keys: {all} at the peak, {per_key:.1} bytes a key", row.family);
            Some(Point { x: row.keys as f64, y: per_key, interval: None, says })
        },
    );
    const NO_SPEED: &str = "Single filters were not measured in this run.";
    let shown = |plot, about, missing| Shown { plot, about, figures: figures.clone(), missing };
    debug_assert_eq!(SPEED_FPR, 0.01, "the sentences below say so");
    vec![
        shown(
            build,
            "Filters of 1 %, from key hashes to the finished block, each key queried once. One thread.",
            NO_SPEED,
        ),
        shown(
            peak,
            "What the process grew by while it held key hashes (8 bytes each), work space and filter.",
            "Memory was not measured in this run: the filters are below a mebibyte, or the system \
             does not tell. More `--keys` make it.",
        ),
        shown(
            query("query-absent", "Query of an absent key", |row| row.query_absent_ns),
            "Filters of 1 %. Each query waits for the answer before it, as in a lookup. To the right the \
             filter outgrows one processor cache after the other.",
            NO_SPEED,
        ),
        shown(
            query("query-present", "Query of a present key", |row| row.query_present_ns),
            "The same filters, asked for keys that they hold: every probe is made.",
            NO_SPEED,
        ),
    ]
}

/// A series for each filter family, where it has points.
fn families(points: impl Fn(&str) -> Vec<Point>) -> Vec<Series> {
    let all = Family::written().map(|family| Series {
        name: family.name().to_string(),
        color: color_of_family(family.name()).unwrap_or(OTHERS),
        look: Look::Joined,
        points: points(family.name()),
    });
    all.filter(|series| !series.points.is_empty()).collect()
}

fn accuracy(results: &Results) -> Shown {
    let rows = &results.accuracy;
    let of = |family: &str| -> Vec<&AccuracyRow> {
        rows.iter().filter(|row| row.family == family).collect()
    };
    let mut series = Vec::new();
    // No name, because the measured points next to it have the family's.
    for theory in families(|family| {
        of(family).iter().map(|row| bare(row.bits_per_key, row.predicted_fpr)).collect()
    }) {
        series.push(Series { name: String::new(), look: Look::Theory, ..theory });
    }
    let measured = families(|family| {
        of(family)
            .iter()
            .filter(|row| row.observed_fpr > 0.0)
            .map(|row| Point {
                x: row.bits_per_key,
                y: row.observed_fpr,
                interval: Some((row.fpr_low, row.fpr_high)),
                says: format!(
                    "{}, {:.2} bits a key\n{} observed, {} predicted\n95 %: {} to {}\n{} queries",
                    row.family,
                    row.bits_per_key,
                    percent(row.observed_fpr),
                    percent(row.predicted_fpr),
                    percent(row.fpr_low),
                    percent(row.fpr_high),
                    count(row.queries)
                ),
            })
            .collect()
    });
    series.extend(measured.into_iter().map(|s| Series { look: Look::Points, ..s }));
    if !rows.is_empty() {
        let lowest = rows.iter().map(|row| row.predicted_fpr).fold(1.0, f64::min);
        let bound = |bits: f64| bare(bits, (-bits).exp2());
        series.push(Series {
            name: "bound".into(),
            color: 0,
            look: Look::Theory,
            points: vec![bound(1.5), bound(-lowest.log2())],
        });
    }
    Shown {
        plot: Plot {
            id: "accuracy".into(),
            title: "False positives against bits".into(),
            x: Axis::new("stored bits per key", Spread::Linear, plain),
            y: Axis::new("false-positive rate", Spread::Log, rate),
            series,
        },
        about: "Each filter by itself, asked for keys that it does not hold. Bars: 95 % intervals. Dashed: \
                theory. No filter can be left of the bound log2(1/ε).",
        figures: html::figures(rows),
        missing: "Single filters were not measured in this run.",
    }
}

/// A point of a curve that is not measured.
fn bare(x: f64, y: f64) -> Point {
    Point { x, y, interval: None, says: String::new() }
}

fn memory(results: &Results, colors: &Colors) -> Shown {
    let mut groups: Vec<String> = Vec::new();
    for row in &results.policies {
        if !groups.contains(&group(&row.policy)) {
            groups.push(group(&row.policy));
        }
    }
    let are_curves = groups.len() < results.policies.len() && results.policies.len() > 8;
    let point = |row: &PolicyRow| {
        let says = format!(
            "{}\n{} of filters, {:.2} bits a key\n{:.4} data blocks an absent lookup",
            row.policy,
            size(row.filter_bytes),
            row.bits_per_key,
            row.blocks_per_absent_get
        );
        Point { x: row.filter_bytes as f64, y: row.blocks_per_absent_get, interval: None, says }
    };
    let series: Vec<Series> = match are_curves {
        true => groups
            .iter()
            .map(|name| {
                let rows = results.policies.iter().filter(|row| group(&row.policy) == *name);
                let mut points: Vec<Point> = rows.map(point).collect();
                points.sort_by(|a, b| a.x.total_cmp(&b.x));
                Series {
                    name: name.clone(),
                    color: colors.of_group(name),
                    look: Look::Joined,
                    points,
                }
            })
            .collect(),
        false => results
            .policies
            .iter()
            .map(|row| Series {
                name: row.policy.clone(),
                color: colors.of(&row.policy),
                look: Look::Points,
                points: vec![point(row)],
            })
            .collect(),
    };
    Shown {
        plot: Plot {
            id: "memory".into(),
            title: "Reads against memory".into(),
            x: Axis::new("memory of all filters", Spread::Linear, bytes_tick),
            y: Axis::new("data blocks read per absent lookup", Spread::Log, decimal),
            series,
        },
        about: "The curve to choose by: down and left is better. With `--sweep` each kind of policy \
                becomes a curve.",
        figures: html::figures(&results.policies),
        missing: "No policy was measured.",
    }
}

fn latency(results: &Results, colors: &Colors, lookups: &str, title: &str) -> Shown {
    let rows: Vec<LatencyRow> =
        results.latency.iter().filter(|row| row.lookups == lookups).cloned().collect();
    let series = colors
        .shown()
        .map(|(policy, color)| Series {
            name: policy.to_string(),
            color,
            look: Look::Joined,
            points: rows
                .iter()
                .filter(|row| row.policy == policy)
                .map(|row| Point {
                    x: 100.0 / (100.0 - row.percentile),
                    y: row.ns as f64,
                    interval: None,
                    says: format!("{policy}, {} %: {} ns", row.percentile, count(row.ns)),
                })
                .collect(),
        })
        .collect();
    Shown {
        plot: Plot {
            id: format!("latency-{lookups}"),
            title: title.into(),
            x: Axis::new("share of the lookups that are as fast", Spread::Log, as_fast),
            y: Axis::new("time of a lookup", Spread::Log, time_tick),
            series,
        },
        about: "Single lookups by one thread, in percentiles.",
        figures: html::figures(&rows),
        missing: "No lookup was timed.",
    }
}

fn by_cache(results: &Results, colors: &Colors) -> Shown {
    let rows = throughput(results, |row| row.share_absent == MIXED);
    Shown {
        plot: Plot {
            id: "cache".into(),
            title: "Throughput against the size of the cache".into(),
            x: Axis::new("block cache", Spread::Log, bytes_tick),
            y: Axis::new("lookups a second", Spread::Linear, plain),
            series: curves(&rows, colors, |row| row.cache_bytes as f64),
        },
        about: "Half of the lookups are of absent keys; one thread. Left of the knee the filters push \
                each other out of the cache.",
        figures: html::figures(&rows),
        missing: "Throughput with other caches was not measured: files would have to come from a device \
                  for it. Leave out `--cold`.",
    }
}

fn by_share(results: &Results, colors: &Colors) -> Shown {
    let largest = results.throughput.iter().map(|row| row.cache_bytes).max();
    let rows = throughput(results, |row| Some(row.cache_bytes) == largest);
    let percent_of = |row: &ThroughputRow| row.share_absent * 100.0;
    Shown {
        plot: Plot {
            id: "share".into(),
            title: "Throughput against absent lookups".into(),
            x: Axis::new("absent lookups, % of all", Spread::Linear, plain).with_ends(0.0, 100.0),
            y: Axis::new("lookups a second", Spread::Linear, plain),
            series: curves(&rows, colors, percent_of),
        },
        about: "With the largest cache. At the left every key is there, and filters only cost; at the \
                right none is.",
        figures: html::figures(&rows),
        missing: "Throughput was not measured: files would have to come from a device for it. Leave out \
                  `--cold`.",
    }
}

fn throughput(results: &Results, keep: impl Fn(&ThroughputRow) -> bool) -> Vec<ThroughputRow> {
    results.throughput.iter().filter(|row| keep(row)).cloned().collect()
}

fn curves(
    rows: &[ThroughputRow],
    colors: &Colors,
    x: impl Fn(&ThroughputRow) -> f64,
) -> Vec<Series> {
    let series = colors.shown().map(|(policy, color)| {
        let rows = rows.iter().filter(|row| row.policy == policy);
        let points = rows.map(|row| Point {
            x: x(row),
            y: row.lookups_per_second,
            interval: None,
            says: format!(
                "{policy}\ncache {}, {:.0} % absent\n{} lookups a second\n{:.3} reads from files each",
                size(row.cache_bytes),
                row.share_absent * 100.0,
                count(row.lookups_per_second.round() as u64),
                row.file_reads_per_get
            ),
        });
        let mut points: Vec<Point> = points.collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        Series { name: policy.to_string(), color, look: Look::Joined, points }
    });
    series.filter(|series| !series.points.is_empty()).collect()
}

// How ticks are written.

fn decimal(figure: f64) -> String {
    // Ticks are sums of steps: 0.30000000000000004.
    format!("{}", (figure * 1e9).round() / 1e9)
}

fn plain(figure: f64) -> String {
    match figure {
        f if f >= 1000.0 => {
            let text = short_count(f.round() as u64);
            match text.split_at(text.len() - 1) {
                (digits, unit) if digits.contains('.') => {
                    digits.trim_end_matches('0').trim_end_matches('.').to_string() + unit
                }
                _ => text,
            }
        }
        f => decimal(f),
    }
}

/// Bytes: ticks are round in decimal, so these are decimal units.
fn bytes_tick(bytes: f64) -> String {
    const UNITS: [(&str, f64); 4] = [("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0)];
    let (unit, size) = UNITS.into_iter().find(|(_, size)| bytes >= *size).unwrap_or(("B", 1.0));
    format!("{} {unit}", decimal(bytes / size))
}

fn time_tick(ns: f64) -> String {
    const UNITS: [(&str, f64); 4] = [("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0)];
    let (unit, size) = UNITS.into_iter().find(|(_, size)| ns >= *size).unwrap_or(("ns", 1.0));
    format!("{} {unit}", decimal(ns / size))
}

fn rate(rate: f64) -> String {
    format!("{} %", decimal(rate * 100.0))
}

/// Of one in so many.
fn as_fast(one_in: f64) -> String {
    format!("{} %", decimal(100.0 - 100.0 / one_in))
}
