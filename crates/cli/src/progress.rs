//! Progress bars: on standard error, and only when that is a terminal that can draw them.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::show::sheet;

const HOW: &str = "the template is well formed";

/// The text before the name of every bar. If the bars show single steps of a longer work, such as
/// the measurement of many policies, the text tells how far the whole work is.
static WHOLE: Mutex<String> = Mutex::new(String::new());

/// Sets the text that shows the progress of the whole work; an empty text removes it.
pub fn set_whole(text: impl Into<String>) {
    *WHOLE.lock().unwrap_or_else(PoisonError::into_inner) = text.into();
}

/// A bar over `total` units of work, named by `what`. It is removed from the screen when it is
/// dropped.
pub fn bar(total: u64, what: impl Into<String>) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:32} {wide_bar} {percent:>3} %  {left:>4} left");
    let write_left = |state: &ProgressState, out: &mut dyn std::fmt::Write| {
        let text = left(state.elapsed(), state.pos(), state.len().unwrap_or(0));
        // A bar is written to a string, which cannot fail.
        let _ = out.write_str(&text);
    };
    let style = style.expect(HOW).with_key("left", write_left);
    started(ProgressBar::new(total).with_style(style), what)
}

/// The time that the remaining units of `total` will take at the mean pace of the `done` ones. It
/// is never `0s` while more than one unit is left, because `0s` would say that the work is done.
fn left(elapsed: Duration, done: u64, total: u64) -> String {
    let to_do = total.saturating_sub(done);
    if done == 0 {
        return "?".into();
    }
    let seconds = (elapsed.as_secs_f64() * to_do as f64 / done as f64).round() as u64;
    match seconds.max(u64::from(to_do > 1)) {
        seconds @ 0..100 => format!("{seconds}s"),
        seconds @ 100..6000 => format!("{}m", seconds.div_ceil(60)),
        seconds => format!("{}h", seconds.div_ceil(3600)),
    }
}

/// Like [`bar`], for work whose end is not known.
pub fn spinner(what: impl Into<String>) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {msg}  {elapsed}");
    started(ProgressBar::new_spinner().with_style(style.expect(HOW)), what)
}

/// Shows a [`spinner`] while `work` runs.
pub fn during<T>(what: impl Into<String>, work: impl FnOnce() -> T) -> T {
    let _spinner = spinner(what);
    work()
}

fn started(bar: ProgressBar, what: impl Into<String>) -> ProgressBar {
    if sheet::is_dumb() {
        // A dumb terminal cannot move its cursor back to redraw.
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let whole = WHOLE.lock().unwrap_or_else(PoisonError::into_inner).clone();
    bar.set_message(whole + &what.into());
    // Draws on a timer, because the work may be one long call.
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bar once showed "0s left" for 14 seconds, because the estimate followed only the last
    /// steps, which were quick, and was rounded down. Now the estimate follows all steps, and "0s"
    /// is shown only for the last unit of work.
    #[test]
    fn while_more_than_one_unit_is_left_there_is_time_left() {
        for total in 1..200 {
            for done in 1..total {
                let text = left(Duration::from_millis(done), done, total);
                assert_eq!(text == "0s", total - done == 1, "{done} of {total}: {text}");
            }
            assert_eq!(left(Duration::from_secs(9), total, total), "0s");
        }
        assert_eq!(left(Duration::from_secs(9), 0, 10), "?");
        let at = |seconds, done, total| left(Duration::from_secs(seconds), done, total);
        assert_eq!([at(10, 1, 2), at(10, 1, 11), at(3600, 1, 3)], ["10s", "2m", "2h"]);
        assert_eq!(at(u64::MAX, 1, u64::MAX).chars().last(), Some('h'));
    }
}
