//! The page of `--out`: a section for each column family, with advice, filters, and a plot of reads
//! against memory.

use std::fmt::Write;
use std::path::Path;

use maypole::wilson_interval_95;

use super::findings::{Findings, NOW, PolicyRow};
use super::options::Advise;
use super::report;
use super::source::{Engine, Source};
use crate::failure::{Failure, Result};
use crate::show::about::Origin;
use crate::show::files;
use crate::show::grouped;
use crate::show::html::{self, escape};
use crate::show::plot::ticks::decimal;
use crate::show::plot::{Axis, Dot, Look, OTHERS, Plot, Point, Series, Spread, color_of_family};
use crate::show::text::{size, small};

/// The command that a page names as its maker. A page of another maker is never replaced.
pub const MAKER: &str = "maypole advise";
/// The file with the figures, next to the page.
const JSON: &str = "advise.json";

/// Prepares the output directory `dir`. Fails if `dir` is the directory of the database or inside
/// it, or if `dir` holds a page or a file of figures that `advise` did not make.
pub fn prepare(dir: &Path, database: &Path) -> Result {
    let absolute = |path: &Path| {
        let there = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
        let there = if there.as_os_str().is_empty() { Path::new(".") } else { there };
        there.canonicalize().unwrap_or_else(|_| path.to_owned())
    };
    if absolute(dir).starts_with(absolute(database)) {
        return Err(Failure::Call(format!(
            "--out {}: nothing is written into the database's directory; take another one",
            dir.display()
        )));
    }
    files::prepare(dir, MAKER, &[JSON])
}

pub fn write(found: &[Findings], source: &Source, asked: &Advise, dir: &Path) -> Result {
    let mut json = Vec::new();
    report::json(found, source, asked, &mut json)?;
    files::write(dir, files::PAGE, &page(found, source.engine, asked))?;
    files::write(dir, JSON, &String::from_utf8_lossy(&json))
}

fn page(found: &[Findings], engine: Engine, asked: &Advise) -> String {
    let name = escape(&asked.dir.display().to_string());
    let origin = Origin::now(asked.seed);
    let mut body = format!(
        "<header><h1>Filters of {name}</h1>\n<p class=\"soft\">{}</p></header>\n<main>\n",
        escape(&origin.date)
    );
    for (n, family) in found.iter().enumerate() {
        body.push_str(&section(family, n, engine));
    }
    let cost = format!("{} µs", asked.read_cost);
    body.push_str(
        &origin.to_html(
            &[("a read costs", &cost)],
            "All figures are in advise.json next to this file.",
        ),
    );
    body.push_str("</main>\n");
    html::page(MAKER, &format!("Maypole: filters of {name}"), &body, "")
}

fn section(found: &Findings, n: usize, engine: Engine) -> String {
    let mut html = format!("<p class=\"soft\">{}</p>\n", report::extent(found));
    html.push_str("<ol class=\"verdict\">\n");
    for advice in &found.advice {
        let _ = write!(html, "<li>{}, unless {}.", escape(&advice.action), escape(&advice.unless));
        if !advice.options.is_empty() {
            let _ = write!(html, "<pre>{}</pre>", escape(&advice.options.join("\n")));
        }
        for (name, text) in [("When", &advice.when), ("Worth", &advice.worth)] {
            if !text.is_empty() {
                let _ = write!(html, "<br><span class=\"soft\">{name}: {}.</span>", escape(text));
            }
        }
        html.push_str("</li>\n");
    }
    html.push_str("</ol>\n");
    html.push_str(&html::verdict(&report::sentences(found, engine)));
    html.push_str("<h3>Filters as they are stored</h3>\n");
    html.push_str(&html::figures(&found.filters));
    if !found.policies.is_empty() {
        html.push_str(&html::figure(
            "Reads against memory",
            "Other policies on the same keys: down and left is better.",
            &plot(found, n).to_svg(),
            &html::figures(&found.policies),
        ));
    }
    let title = match engine {
        Engine::RocksDb => format!("Column family {}", found.name),
        Engine::Maypole if found.name == "default" => "Database".into(),
        Engine::Maypole => format!("Keyspace {}", found.name),
    };
    html::section(&title, &html)
}

/// The color of what there is, which no family has.
const NOW_COLOR: usize = 5;

/// Plots reads against memory: a curve for each filter family, and separate points for the policies
/// whose names have a space, such as `bloom:10, last none`. What there is stands out.
fn plot(found: &Findings, n: usize) -> Plot {
    let is_curve = |row: &PolicyRow| !row.policy.contains(' ');
    let name = |row: &PolicyRow| match is_curve(row) {
        true => row.policy.split([':', '(']).next().unwrap_or_default().to_owned(),
        false => row.policy.clone(),
    };
    let has_absent = found.measured.absent.count > 0;
    let lookup = if has_absent { "an absent lookup" } else { "a present lookup" };
    let point = |row: &PolicyRow| {
        let blocks = row.blocks_per_absent_get.or(row.blocks_per_present_get).unwrap_or(0.0);
        let says = format!(
            "{}\n{} of filters, {:.2} bits a key\n{} data blocks {lookup}",
            row.policy,
            size(row.filter_bytes),
            row.bits_per_key,
            small(blocks)
        );
        let at_most = wilson_interval_95(0, found.measured.absent.count).filter(|_| blocks == 0.0);
        let point = Point::observed(row.filter_bytes as f64, blocks, at_most, says);
        match row.policy == NOW && point.dot == Dot::Seen {
            true => Point { dot: Dot::Here, ..point },
            false => point,
        }
    };
    let rows = found.policies.iter().filter(|row| row.policy != "none");
    let curves = grouped(rows.map(|row| ((name(row), is_curve(row)), point(row))));
    let series = curves.into_iter().map(|((name, is_curve), points)| Series {
        color: match name == NOW {
            true => NOW_COLOR,
            false => color_of_family(&name).filter(|_| is_curve).unwrap_or(OTHERS),
        },
        look: if is_curve { Look::Joined } else { Look::Points },
        name,
        points,
    });
    Plot {
        id: format!("memory{n}"),
        title: "Reads against memory".into(),
        x: Axis::bytes("memory of all filters", Spread::Bytes),
        y: Axis::new(&format!("data blocks of {lookup}"), Spread::Log, decimal),
        series: series.collect(),
    }
}
