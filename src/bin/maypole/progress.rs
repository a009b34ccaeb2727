//! Progress bars: on standard error, and only when that is a terminal that can draw them.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::show::sheet;

const HOW: &str = "the template is well formed";

/// The text before the name of every bar: the progress of the work of which the bars are parts.
static WHOLE: Mutex<String> = Mutex::new(String::new());

/// Sets the text that tells the progress of the whole work; an empty text removes it.
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
        // Such a terminal cannot move back to redraw.
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let whole = WHOLE.lock().unwrap_or_else(PoisonError::into_inner).clone();
    bar.set_message(whole + &what.into());
    // Draws on a timer, because the work may be one long call.
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
