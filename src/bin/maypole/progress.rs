//! Progress bars: on standard error, and only when that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

const HOW: &str = "the template is well formed";

/// A bar over `total` units of work, named by `what`.
pub fn bar(total: u64, what: impl Into<String>) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:32} {wide_bar} {percent:>3} %  {eta:>4} left");
    started(ProgressBar::new(total).with_style(style.expect(HOW)), what)
}

/// As [`bar`], for work whose end is not known.
pub fn spinner(what: impl Into<String>) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {msg}  {elapsed}");
    started(ProgressBar::new_spinner().with_style(style.expect(HOW)), what)
}

fn started(bar: ProgressBar, what: impl Into<String>) -> ProgressBar {
    bar.set_message(what.into());
    // Draws without being told: the work may be one long call.
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
