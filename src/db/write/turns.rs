//! [`Turns`]: the updates of one key take turns, so that they rarely have to start again.
//!
//! An update reads its key, and the leader of the writers writes it only if nobody has changed the
//! key since (`write/mod.rs`). So turns are not needed for correctness: without them, of several
//! updates that read one key at the same time one would succeed, and the others would read again.
//!
//! An update waits at most [`PATIENCE`] for its turn, and then goes on without one. So an update in
//! the closure of another one does not wait for ever, whatever their keys are, and neither does one
//! whose predecessor has a slow closure.

use std::time::Duration;

use crate::filter::hash64;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::time::Instant;
use crate::sync::{Padded, spin_loop, thread};

/// How long an update waits for its turn. An update takes some microseconds, so this is time for
/// many of them.
const PATIENCE: Duration = Duration::from_millis(1);

/// Keys are distributed over this many places by their hashes. The keys of one place take turns.
const PLACES: usize = 32;

/// How many times an update looks at its place before it yields to other threads.
const SPINS: usize = if cfg!(shuttle) { 0 } else { 100 };

/// See the module. Each place holds whether an update has the turn there.
pub(crate) struct Turns([Padded<AtomicBool>; PLACES]);

impl Turns {
    pub fn new() -> Turns {
        Turns(std::array::from_fn(|_| Padded(AtomicBool::new(false))))
    }

    /// Waits for the turn of `key`, at most [`PATIENCE`].
    pub fn take(&self, key: &[u8]) -> Turn<'_> {
        let place = &self.0[hash64(key) as usize % PLACES].0;
        Turn(wait_for(place).then_some(place))
    }
}

/// The turn of an update, if it got one. The drop passes it on, also when a closure panics.
pub(crate) struct Turn<'a>(Option<&'a AtomicBool>);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.0 {
            place.store(false, Ordering::Release);
        }
    }
}

/// Whether the place became free.
fn wait_for(place: &AtomicBool) -> bool {
    let take = || !place.load(Ordering::Relaxed) && !place.swap(true, Ordering::Acquire);
    let soon = (0..SPINS).any(|_| {
        let is_taken = take();
        if !is_taken {
            spin_loop();
        }
        is_taken
    });
    if soon {
        return true;
    }
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        thread::yield_now();
        if take() {
            return true;
        }
    }
    false
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_had_by_one_and_passed_on_by_its_drop() {
        let turns = Turns::new();
        let first = turns.take(b"key");
        assert!(first.0.is_some());
        assert!(turns.take(b"key").0.is_none(), "the first has the turn, and does not end");
        drop(first);
        assert!(turns.take(b"key").0.is_some());
    }
}
