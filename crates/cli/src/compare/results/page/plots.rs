//! The plots of a page: which figures are on which axes.

use super::super::{AccuracyRow, LatencyRow, PolicyRow, Results, SpeedRow, ThroughputRow, verdict};
use super::colors::{Colors, group};
use maypole::filter::Family;

use crate::compare::lab::SPEED_FPR;
use crate::compare::throughput::MIXED;
use crate::show::html::with_code;
use crate::show::plot::ticks::{decimal, plain, rate, time};
use crate::show::plot::{Axis, Dot, Look, OTHERS, Plot, Point, Series, Spread, color_of_family};
use crate::show::text::{count, percent, size, small};
use crate::show::{grouped, html};

/// A plot, and the text about it.
pub struct Shown {
    pub plot: Plot,
    pub about: &'static str,
    /// The rows from which the plot is drawn, as an HTML table.
    pub figures: String,
    /// The text that replaces the plot if this run has no figures for it.
    pub missing: &'static str,
}

/// The plots, side by side.
pub fn panels(shown: &[Shown]) -> String {
    let figures =
        shown.iter().map(|Shown { plot, about, figures, missing }| match plot.is_empty() {
            true => {
                let missing = format!("<p class=\"left-out\">{}</p>", with_code(missing));
                html::figure(&plot.title, "", &missing, "")
            }
            false => html::figure(&plot.title, &with_code(about), &plot.to_svg(), figures),
        });
    format!("<div class=\"panels\">\n{}</div>\n", figures.collect::<String>())
}

/// The plots by which a reader chooses a policy.
pub fn choice(results: &Results, colors: &Colors) -> Vec<Shown> {
    vec![memory(results, colors), accuracy(results)]
}

/// The plots of what lookups cost.
pub fn lookups(results: &Results, colors: &Colors) -> Vec<Shown> {
    vec![
        latency(results, colors, "absent", "How long an absent lookup takes"),
        latency(results, colors, "present", "How long a present lookup takes"),
        by_cache(results, colors),
        by_share(results, colors),
    ]
}

/// The plots of what filters cost without a tree.
pub fn filters(results: &Results) -> Vec<Shown> {
    let of =
        |id: &str, title: &str, x: Axis, y: Axis, point: &dyn Fn(&SpeedRow) -> Option<Point>| {
            let series = families(|family| {
                results.speed.iter().filter(|row| row.family == family).filter_map(point).collect()
            });
            Plot { id: id.into(), title: title.into(), x, y, series }
        };
    let keys = || Axis::new("keys in the filter", Spread::Log, plain);
    let bytes = || Axis::bytes("size of the filter", Spread::LogBytes);
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
            Some(Point::new(row.filter_bytes as f64, ns(row), says))
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
            Some(Point::new(row.keys as f64, ns, says))
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
            Some(Point::new(row.keys as f64, per_key, says))
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

/// A series for each filter family that has points.
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
    let mut series = families(|family| {
        of(family).iter().map(|row| bare(row.bits_per_key, row.predicted_fpr)).collect()
    });
    for theory in &mut series {
        // The curve has no name, because the measured points next to it have the family's name.
        (theory.name, theory.look) = (String::new(), Look::Theory);
    }
    let measured = families(|family| {
        of(family)
            .iter()
            .map(|row| {
                let interval = (row.fpr_low, row.fpr_high);
                let says = format!(
                    "{}, {:.2} bits a key\n{} observed, {} predicted\n95 %: {} to {}\n{} queries",
                    row.family,
                    row.bits_per_key,
                    percent(row.observed_fpr),
                    percent(row.predicted_fpr),
                    percent(row.fpr_low),
                    percent(row.fpr_high),
                    count(row.queries)
                );
                Point::observed(row.bits_per_key, row.observed_fpr, Some(interval), says)
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
        about: "Each filter by itself, asked for keys that it does not hold. Bars: 95 % intervals. Arrows: \
                no false positive was observed, and the rate is at most this. Dashed: theory. No filter \
                can be left of the bound log2(1/ε).",
        figures: html::figures(rows),
        missing: "Single filters were not measured in this run.",
    }
}

/// How to draw a point, and the text that is added to its figures. `others` are the series whose
/// intervals overlap the point's interval. If there are any, the point is hollow, and the text is
/// "not distinguishable from …".
pub fn tie<'a>(others: impl Iterator<Item = &'a str>) -> (Dot, String) {
    let others: Vec<&str> = others.collect();
    match others.is_empty() {
        true => (Dot::Seen, String::new()),
        false => (Dot::Tied, format!("\nnot distinguishable from {}", others.join(", "))),
    }
}

/// A point of a curve that is computed and not measured; it has no text on hover.
fn bare(x: f64, y: f64) -> Point {
    Point::new(x, y, String::new())
}

fn memory(results: &Results, colors: &Colors) -> Shown {
    let aside = match verdict::leaves_out_tables(results) {
        true => ", tables of few keys aside",
        false => "",
    };
    let point = |(row, (reads, interval)): (&PolicyRow, (f64, (f64, f64)))| {
        let says = format!(
            "{}\n{} of filters, {:.2} bits a key\n{} data blocks an absent lookup{aside}",
            row.policy,
            size(row.filter_bytes),
            row.bits_per_key,
            small(reads)
        );
        Point::observed(row.filter_bytes as f64, reads, Some(interval), says)
    };
    let rows = || results.policies.iter().zip(verdict::absent_reads(results));
    let kinds = grouped(rows().map(|row| (group(&row.0.policy), point(row))));
    let kinds_shown: Vec<String> = kinds.iter().map(|(kind, _)| kind.clone()).collect();
    let are_curves = kinds.len() < results.policies.len() && results.policies.len() > 8;
    let curve = |(name, mut points): (String, Vec<Point>)| {
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        Series { color: colors.of_group(&name), name, look: Look::Joined, points }
    };
    let series: Vec<Series> = match are_curves {
        true => kinds.into_iter().map(curve).collect(),
        false => rows()
            .map(|row| Series {
                name: row.0.policy.clone(),
                color: colors.of(&row.0.policy),
                look: Look::Points,
                points: vec![point(row)],
            })
            .collect(),
    };
    let curves =
        computed(results).into_iter().map(|curve| match kinds_shown.contains(&curve.name) {
            // The measured points on the curve have the family's name.
            true => Series { name: String::new(), ..curve },
            false => curve,
        });
    let series = curves.chain(series).collect();
    let reads = format!("data blocks of an absent lookup{aside}");
    Shown {
        plot: Plot {
            id: "memory".into(),
            title: "Reads against memory".into(),
            x: Axis::bytes("memory of all filters", Spread::Bytes),
            y: Axis::new(&reads, Spread::Log, decimal),
            series,
        },
        about: "The curve to choose by: down and left is better. Points are measured, with bars for 95 % \
                intervals. Dashed: each family with 2 to 18 bits a key, computed for large tables. Tables \
                of few keys are left out, as in the verdict, which names them.",
        figures: html::figures(&results.policies),
        missing: "No policy was measured.",
    }
}

/// The curves of all families: the reads with the predicted rates of filters of 2 to 18 bits a key, if
/// all tables that a lookup reaches have such a filter.
fn computed(results: &Results) -> Vec<Series> {
    let tables = verdict::situation(results).without.absent.value;
    let keys = results.about.keys as f64;
    families(|family| {
        let rows = results.accuracy.iter().filter(|row| row.family == family);
        rows.map(|row| bare(keys * row.bits_per_key / 8.0, tables * row.predicted_fpr)).collect()
    })
    .into_iter()
    .map(|curve| Series { look: Look::Theory, ..curve })
    .collect()
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
                .map(|row| {
                    let says = format!("{policy}, {} %: {} ns", row.percentile, count(row.ns));
                    Point::new(100.0 / (100.0 - row.percentile), row.ns as f64, says)
                })
                .collect(),
        })
        .collect();
    Shown {
        plot: Plot {
            id: format!("latency-{lookups}"),
            title: title.into(),
            x: Axis::new("share of the lookups that are as fast", Spread::Log, as_fast),
            y: Axis::new("time of a lookup", Spread::Log, time),
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
            x: Axis::bytes("block cache", Spread::LogBytes),
            y: Axis::new("lookups a second", Spread::Linear, plain),
            series: curves(&rows, colors, |row| row.cache_bytes as f64),
        },
        about: "Half of the lookups are of absent keys; one thread. Left of the knee the filters push \
                each other out of the cache. Medians of ten rounds with their 95 % intervals. Hollow: not \
                distinguishable from another policy, as the intervals overlap.",
        figures: html::figures(&rows),
        missing: "Throughput with other caches was not measured: it needs lookups of both kinds, \
                  and with `--cold` files would have to come from a device for it.",
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
                right none is. Bars and hollow points as in the plot before.",
        figures: html::figures(&rows),
        missing: "Throughput was not measured: it needs lookups of both kinds, and with `--cold` files \
                  would have to come from a device for it.",
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
    let is_shown = |row: &&ThroughputRow| colors.shown().any(|(policy, _)| policy == row.policy);
    let series = colors.shown().map(|(policy, color)| {
        let points = rows.iter().filter(|row| row.policy == policy).map(|row| {
            let tied = rows.iter().filter(is_shown).filter(|other| row.is_tied_with(other));
            let (dot, said) = tie(tied.map(|other| &*other.policy));
            let whole = |figure: f64| count(figure.round() as u64);
            let says = format!(
                "{policy}\ncache {}, {:.0} % absent\n{} lookups a second, 95 %: {} to {}\n{:.3} reads from \
                 files each{said}",
                size(row.cache_bytes),
                row.share_absent * 100.0,
                whole(row.lookups_per_second),
                whole(row.lookups_per_second_low),
                whole(row.lookups_per_second_high),
                row.file_reads_per_get
            );
            let interval = Some((row.lookups_per_second_low, row.lookups_per_second_high));
            Point { interval, dot, ..Point::new(x(row), row.lookups_per_second, says) }
        });
        let mut points: Vec<Point> = points.collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        Series { name: policy.to_string(), color, look: Look::Joined, points }
    });
    series.filter(|series| !series.points.is_empty()).collect()
}

/// The label of a tick on the x axis of a latency curve. One in `one_in` lookups takes longer than
/// the latency that the curve shows there. The label is the share of the other lookups, such as
/// 99 % if `one_in` is 100.
fn as_fast(one_in: f64) -> String {
    format!("{} %", decimal(100.0 - 100.0 / one_in))
}
