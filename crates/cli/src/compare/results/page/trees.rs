//! Draws, for the page of a comparison, the LSM tree of each filter policy, level by level. The
//! trees are copies of one tree, with other filters.
//!
//! ```text
//! L0  ▌                      width: the logarithm of the level's bytes
//! L4  ▌███▌                  divided into its files; the width of the dark bar below is the
//! L6  ▌███████▌███████▌      logarithm of the filters' bytes
//! ```

use std::fmt::Write;

use super::super::{LevelRow, Results};
use super::colors::Colors;
use crate::show::html::{escape, figures};
use crate::show::svg::Canvas;
use crate::show::text::{counted, percent, size};

/// The width of a drawing, in its own units.
const WIDTH: f64 = 600.0;
/// A level with more files than this is drawn as one bar, because the bars of single files would be
/// too narrow to be told apart.
const MAX_FILES: u64 = 40;
/// Up to this many bytes, a bar has the least width.
const MIN_BYTES: f64 = 256.0;

pub fn all(results: &Results, colors: &Colors) -> String {
    let most = results.levels.iter().map(|level| level.file_bytes).max().unwrap_or(0);
    let mut html = String::from("<div class=\"panels trees\">\n");
    for (policy, color) in colors.shown() {
        let levels: Vec<&LevelRow> =
            results.levels.iter().filter(|level| level.policy == policy).collect();
        if levels.is_empty() {
            continue;
        }
        let _ = writeln!(html, "<figure><h3 class=\"c{color}\">{}</h3>", escape(policy));
        for level in levels {
            let _ = write!(html, "{}", drawn(level, color, most as f64));
        }
        html.push_str("</figure>\n");
    }
    html + "</div>\n" + &figures(&results.levels)
}

/// The width of a bar for `bytes`, on a logarithmic scale.
fn width(bytes: f64, most: f64) -> f64 {
    let part = (bytes / MIN_BYTES).max(1.0).ln() / (most / MIN_BYTES).max(2.0).ln();
    (part * WIDTH).clamp(2.0, WIDTH)
}

fn drawn(level: &LevelRow, color: usize, most: f64) -> String {
    let bar = width(level.file_bytes as f64, most);
    let files = if level.files <= MAX_FILES { level.files.max(1) } else { 1 };
    let part = bar / files as f64;
    let mut svg = Canvas::default();
    for n in 0..files {
        svg.rect("file", (part * n as f64, 0.0), ((part - 1.5).max(0.8), 14.0));
    }
    if level.filter_bytes > 0 {
        svg.rect("filter", (0.0, 9.0), (width(level.filter_bytes as f64, most), 5.0));
    }
    let files = counted(level.files, "file");
    let rate = |rate: Option<f64>| rate.map_or("–".into(), percent);
    let filters = match level.filter_bytes {
        0 => "no filters".to_string(),
        bytes => format!(
            "filters {}, {:.2} bits/key · observed {}, predicted {}",
            size(bytes),
            level.bits_per_key,
            rate(level.observed_fpr),
            rate(level.predicted_fpr)
        ),
    };
    format!(
        "<div class=\"level c{color}\"><b>L{}</b><svg viewBox=\"0 0 {WIDTH} 14\" \
         preserveAspectRatio=\"none\" aria-hidden=\"true\">{}</svg>\
         <span class=\"what\">{files}, {} · {filters}</span></div>\n",
        level.level,
        svg.body,
        size(level.file_bytes)
    )
}
