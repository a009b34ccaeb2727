//! Progress bars: on standard error, and only when that is a terminal that can draw them.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::show::sheet;

const HOW: &str = "the template is well formed";

/// What stands before the name of every bar: how far the work is that the bars are parts of.
static WHOLE: Mutex<String> = Mutex::new(String::new());

/// Says how far the whole work is; nothing where it is empty.
pub fn set_whole(text: impl Into<String>) {
    *WHOLE.lock().unwrap_or_else(PoisonError::into_inner) = text.into();
}

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
    if sheet::is_dumb() {
        // It cannot move back to draw again.
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let whole = WHOLE.lock().unwrap_or_else(PoisonError::into_inner).clone();
    bar.set_message(whole + &what.into());
    // Draws without being told: the work may be one long call.
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
