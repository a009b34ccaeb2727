//! One descriptor that is opened and closed, and the number of its users, in one atomic word.
//!
//! ```text
//!   63      62 … 32        31 … 0
//!   open  | pins         | descriptor
//!
//!   pin         word + one pin; if it was not open: − one pin again, and no descriptor
//!   unpin       word − one pin
//!   install     closed, any pins ─► open, descriptor, one pin more
//!   take_idle   open, no pins    ─► 0, and the descriptor is the caller's
//! ```
//!
//! Why a pinned descriptor stays open: only `take_idle` takes it out. `take_idle` compares the
//! whole word, so it succeeds only while the word counts no pin. A later pin finds the word closed.
//! The word may be closed and opened again before the comparison, even with the same number: what
//! is taken is what the word holds at that moment.
//!
//! A pin costs two additions to a line that few threads write, and no lock. It does not use a guard
//! of [`crate::sync`]: nothing else must wait while a pinned descriptor waits for its device.

use crate::fs::system::{self, Borrowed};
use crate::sync::atomic::{AtomicU64, Ordering};

const OPEN: u64 = 1 << 63;
const ONE_PIN: u64 = 1 << 32;
/// Closed words have pins too: of threads that are about to find out.
const PINS: u64 = OPEN - ONE_PIN;

/// The word. It knows a descriptor by its number.
struct Word(AtomicU64);

impl Word {
    fn closed() -> Word {
        Word(AtomicU64::new(0))
    }

    /// The descriptor, which stays open until [`Word::unpin`]. `None`, and no pin, if there is
    /// none.
    #[inline]
    fn pin(&self) -> Option<u32> {
        // Acquire: whoever opened the descriptor did so before.
        let before = self.0.fetch_add(ONE_PIN, Ordering::Acquire);
        if before & OPEN != 0 {
            return Some(before as u32);
        }
        self.unpin();
        None
    }

    #[inline]
    fn unpin(&self) {
        // Release: the use of the descriptor comes before whoever closes it.
        self.0.fetch_sub(ONE_PIN, Ordering::Release);
    }

    /// Takes `descriptor` in and pins it. `false` if the word has one already.
    fn install(&self, descriptor: u32) -> bool {
        self.0
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |word| {
                (word & OPEN == 0).then(|| (word + ONE_PIN) | OPEN | u64::from(descriptor))
            })
            .is_ok()
    }

    /// Takes the descriptor out, if there is one and nobody has pinned it.
    fn take_idle(&self) -> Option<u32> {
        let word = self.0.load(Ordering::Relaxed);
        if word & OPEN == 0 || word & PINS != 0 {
            return None;
        }
        // Acquire: everybody's use of the descriptor comes before its closing.
        let taken = self.0.compare_exchange(word, 0, Ordering::Acquire, Ordering::Relaxed);
        taken.ok().map(|word| word as u32)
    }

    fn is_open(&self) -> bool {
        self.0.load(Ordering::Relaxed) & OPEN != 0
    }
}

/// A descriptor that may be open or closed.
///
/// Invariant: an open word holds the number of a descriptor that this value owns.
pub(super) struct Descriptor(Word);

/// Keeps a descriptor open.
pub(super) struct Pinned<'a> {
    word: &'a Word,
    descriptor: Borrowed<'a>,
}

impl Descriptor {
    pub fn closed() -> Descriptor {
        Descriptor(Word::closed())
    }

    pub fn is_open(&self) -> bool {
        self.0.is_open()
    }

    #[inline]
    pub fn pin(&self) -> Option<Pinned<'_>> {
        self.0.pin().map(|number| self.pinned(number))
    }

    /// Takes `descriptor` in and pins it. Gives it back if there is one already.
    pub fn install(
        &self,
        descriptor: system::Descriptor,
    ) -> Result<Pinned<'_>, system::Descriptor> {
        match self.0.install(system::number_of(&descriptor)) {
            true => Ok(self.pinned(system::into_number(descriptor))),
            false => Err(descriptor),
        }
    }

    /// Takes the descriptor out if nobody uses it. The caller closes it.
    pub fn take_idle(&self) -> Option<system::Descriptor> {
        // SAFETY: by the invariant the number is of a descriptor that this value owned, and with
        // `take_idle` the word has forgotten it.
        self.0.take_idle().map(|number| unsafe { system::own(number) })
    }

    /// The word counts a pin for the answer.
    fn pinned(&self, number: u32) -> Pinned<'_> {
        // SAFETY: by the invariant the number is of an open descriptor. It stays open while its pin
        // is counted, which is given up when the answer is dropped; and the answer lends it no
        // longer than it lives itself (`descriptor`).
        Pinned { word: &self.0, descriptor: unsafe { system::lend(number) } }
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // Only a pin that was never given up keeps it here (`Pinned::forever`): nobody can have any
        // other, since each borrows this value.
        let word = self.0.0.load(Ordering::Relaxed);
        if word & OPEN != 0 {
            // SAFETY: by the invariant the number is of a descriptor that this value owns, and the
            // value ends here.
            drop(unsafe { system::own(word as u32) });
        }
    }
}

impl Pinned<'_> {
    /// Leaves the descriptor open until its [`Descriptor`] is dropped.
    pub fn forever(self) {
        std::mem::forget(self);
    }

    /// For as long as this value is borrowed, not longer.
    #[inline]
    pub fn descriptor(&self) -> Borrowed<'_> {
        self.descriptor
    }
}

impl Drop for Pinned<'_> {
    #[inline]
    fn drop(&mut self) {
        self.word.unpin();
    }
}

#[cfg(all(test, loom))]
mod models {
    use std::sync::Arc;

    use loom::cell::UnsafeCell;
    use loom::thread;

    use super::*;
    use crate::sync::check_model;

    /// Descriptors of a model by number: whether each is open. Loom reports a use that no order
    /// puts before the closing.
    struct Table(Vec<UnsafeCell<bool>>);

    // SAFETY: loom checks every access.
    unsafe impl Send for Table {}
    // SAFETY: as above.
    unsafe impl Sync for Table {}

    impl Table {
        fn set(&self, number: u32, open: bool) {
            self.0[number as usize].with_mut(|state| {
                // SAFETY: loom reports any unordered access.
                unsafe {
                    assert_ne!(*state, open, "opened or closed twice");
                    *state = open;
                }
            });
        }

        fn read_from(&self, number: u32) {
            // SAFETY: loom reports any unordered access.
            self.0[number as usize].with(|state| assert!(unsafe { *state }, "used when closed"));
        }
    }

    struct Model {
        word: Word,
        table: Table,
    }

    impl Model {
        fn new(descriptors: usize) -> Arc<Model> {
            let table = Table((0..descriptors).map(|_| UnsafeCell::new(false)).collect());
            Arc::new(Model { word: Word::closed(), table })
        }

        /// A read, which opens descriptor `own` if it finds none.
        fn read(&self, own: u32) {
            if let Some(number) = self.word.pin() {
                self.table.read_from(number);
                self.word.unpin();
                return;
            }
            self.table.set(own, true);
            match self.word.install(own) {
                true => {
                    self.table.read_from(own);
                    self.word.unpin();
                }
                false => self.table.set(own, false),
            }
        }

        fn evict(&self) {
            if let Some(number) = self.word.take_idle() {
                self.table.set(number, false);
            }
        }
    }

    #[test]
    fn loom_a_descriptor_is_closed_when_nobody_uses_it_and_opened_again() {
        check_model(|| {
            let model = Model::new(3);
            model.read(0);
            let reader = model.clone();
            let reader = thread::spawn(move || reader.read(1));
            let evictor = model.clone();
            let evictor = thread::spawn(move || evictor.evict());
            model.read(2);
            reader.join().unwrap();
            evictor.join().unwrap();
            // No pin was lost: what is open can be closed.
            model.evict();
            assert!(!model.word.is_open());
            assert_eq!(model.word.0.load(Ordering::Relaxed), 0);
        });
    }

    #[test]
    fn loom_two_that_close_the_same_close_it_once() {
        check_model(|| {
            let model = Model::new(2);
            model.read(0);
            let threads = [(); 2].map(|()| {
                let model = model.clone();
                thread::spawn(move || model.evict())
            });
            model.read(1);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            model.evict();
            assert!(!model.word.is_open());
        });
    }

    #[test]
    fn loom_a_pin_that_is_never_given_up_keeps_the_descriptor() {
        check_model(|| {
            let model = Model::new(1);
            model.read(0);
            let keeper = model.clone();
            let keeper = thread::spawn(move || keeper.word.pin().is_some());
            let evictor = model.clone();
            let evictor = thread::spawn(move || evictor.evict());
            let kept = keeper.join().unwrap();
            evictor.join().unwrap();
            assert_eq!(model.word.is_open(), kept);
        });
    }
}
