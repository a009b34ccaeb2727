//! [`Scope`]: what every stage of a lookup runs with.

use crate::stats::ThreadTickers;
use crate::sync::Guard;

use super::observer::Observer;

/// The guard under which stages run, where they count, and whom they tell what they did. Stages get
/// it by reference, because a reference takes one register.
pub(crate) struct Scope<'g> {
    pub guard: &'g Guard,
    pub tickers: ThreadTickers<'g>,
    pub observer: Observer<'g>,
}

impl<'g> Scope<'g> {
    /// A scope without an observer.
    pub fn new(guard: &'g Guard, tickers: ThreadTickers<'g>) -> Scope<'g> {
        Scope { guard, tickers, observer: Observer::NONE }
    }
}
