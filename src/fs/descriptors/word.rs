//! A descriptor that is opened and closed, and the number of its *pins*: each user of the
//! descriptor pins it, which keeps it open. Both are stored in several words, each of which serves
//! some of the threads.
//!
//! ```text
//!   63      62 … 32        31 … 0
//!   open  | pins         | descriptor
//!
//!   pin         the thread's word + one pin; if it was not open: − one pin again, and a second
//!               attempt under the lock
//!   unpin       the word − one pin
//!
//!   under the lock
//!   install     each word: closed, any pins ─► open, descriptor
//!   take_idle   each word: open, no pins    ─► 0, and the descriptor is the caller's
//!               if a word has pins: the words before it are opened again
//! ```
//!
//! Invariant: while the lock is free, all words are open with one descriptor, or all are closed.
//!
//! Why a pinned descriptor stays open: only `take_idle` takes the descriptor out, and it must close
//! every word first. It compares the whole word, so it closes a word only while the word counts no
//! pin. A later pin finds the word closed.
//!
//! A pin and its release are two additions to a cache line that few threads write, and take no
//! lock. If all threads used one word, each would fetch its cache line from the processor that had
//! read the same file last (`docs/measurements/small-cache.md`). A pin does not use a
//! guard of [`crate::sync`], because a guard delays the release of all retired memory, and a read
//! may wait long for its device.

use crate::fs::system::{self, Borrowed};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, lock, rank, thread_index};

const OPEN: u64 = 1 << 63;
const ONE_PIN: u64 = 1 << 32;
/// The bits that count the pins of a word. Closed words count pins too: those of threads that are
/// about to find the word closed.
const PINS: u64 = OPEN - ONE_PIN;

/// The number of words of a descriptor. With this many, most threads that use a file at the same
/// time use different words. More words would take more memory for each table.
const WORDS: usize = if cfg!(loom) { 2 } else { 4 };

/// A word that some threads use, alone on its cache line. It stores the number of the descriptor.
#[repr(align(64))]
struct Word(AtomicU64);

impl Word {
    /// Pins the descriptor, which stays open until [`Word::unpin`]. Returns `None`, without a pin,
    /// if the word is closed.
    #[inline]
    fn pin(&self) -> Option<u32> {
        // Acquire: the opening of the descriptor happens before its use.
        let before = self.0.fetch_add(ONE_PIN, Ordering::Acquire);
        if before & OPEN != 0 {
            return Some(before as u32);
        }
        self.unpin();
        None
    }

    #[inline]
    fn unpin(&self) {
        // Release: the use of the descriptor happens before its closing.
        self.0.fetch_sub(ONE_PIN, Ordering::Release);
    }

    /// Opens the word, which is closed.
    fn open(&self, descriptor: u32) {
        // An addition and not a store, because other threads may add pins at the same time.
        let before = self.0.fetch_add(OPEN | u64::from(descriptor), Ordering::Release);
        debug_assert_eq!(before & !PINS, 0);
    }

    /// Closes the word, if it is open and not pinned.
    fn close_idle(&self) -> Option<u32> {
        let word = self.0.load(Ordering::Relaxed);
        if word & OPEN == 0 || word & PINS != 0 {
            return None;
        }
        // Acquire: every use of the descriptor happens before its closing.
        let closed = self.0.compare_exchange(word, 0, Ordering::Acquire, Ordering::Relaxed);
        closed.ok().map(|word| word as u32)
    }

    fn is_open(&self) -> bool {
        self.0.load(Ordering::Relaxed) & OPEN != 0
    }

    fn is_pinned(&self) -> bool {
        self.0.load(Ordering::Relaxed) & PINS != 0
    }
}

struct Words {
    words: [Word; WORDS],
    /// Held while words are opened or closed.
    changes: Mutex<(), rank::DescriptorWords>,
}

impl Words {
    fn closed() -> Words {
        let words = std::array::from_fn(|_| Word(AtomicU64::new(0)));
        Words { words, changes: Mutex::new(()) }
    }

    /// Pins the descriptor in the thread's word. The descriptor stays open until the returned word
    /// is unpinned. Returns `None` if the words hold no descriptor.
    #[inline]
    fn pin(&self, thread: usize) -> Option<(&Word, u32)> {
        let word = &self.words[thread % WORDS];
        let number = word.pin().or_else(|| self.pin_unchanging(word))?;
        Some((word, number))
    }

    /// Tries again under the lock, because `take_idle` may have closed the word only for a moment.
    #[cold]
    fn pin_unchanging(&self, word: &Word) -> Option<u32> {
        let _unchanging = lock(&self.changes);
        word.pin()
    }

    /// Stores `descriptor` and pins it. Returns `None` if the words hold one already.
    fn install(&self, thread: usize, descriptor: u32) -> Option<&Word> {
        let _unchanging = lock(&self.changes);
        if self.is_open() {
            return None;
        }
        self.words.iter().for_each(|word| word.open(descriptor));
        let word = &self.words[thread % WORDS];
        word.pin().map(|_| word)
    }

    /// Takes the descriptor out, if there is one and it is not pinned.
    fn take_idle(&self) -> Option<u32> {
        let _unchanging = lock(&self.changes);
        // The pins of all words are checked before any word is closed, because the threads that use
        // a closed word must wait for the lock, even if the word is soon opened again.
        if self.words.iter().any(|word| word.is_pinned()) {
            return None;
        }
        let number = self.words[0].close_idle()?;
        for (i, word) in self.words.iter().enumerate().skip(1) {
            if word.close_idle().is_none() {
                self.words[..i].iter().for_each(|closed| closed.open(number));
                return None;
            }
        }
        Some(number)
    }

    /// Whether a descriptor is open. The answer is exact only under the lock, because `take_idle`
    /// closes words for a moment.
    fn is_open(&self) -> bool {
        self.words[0].is_open()
    }
}

/// A descriptor that may be open or closed.
///
/// Invariant: open words hold the number of a descriptor that this value owns.
pub(super) struct Descriptor(Words);

/// A pin, which keeps a descriptor open.
pub(super) struct Pinned<'a> {
    word: &'a Word,
    descriptor: Borrowed<'a>,
}

impl Descriptor {
    pub fn closed() -> Descriptor {
        Descriptor(Words::closed())
    }

    pub fn is_open(&self) -> bool {
        self.0.is_open()
    }

    #[inline]
    pub fn pin(&self) -> Option<Pinned<'_>> {
        self.0.pin(thread_index()).map(|(word, number)| self.pinned(word, number))
    }

    /// Stores `descriptor` and pins it. If this value holds one already, returns `descriptor` as
    /// the error.
    pub fn install(
        &self,
        descriptor: system::Descriptor,
    ) -> Result<Pinned<'_>, system::Descriptor> {
        match self.0.install(thread_index(), system::number_of(&descriptor)) {
            Some(word) => Ok(self.pinned(word, system::into_number(descriptor))),
            None => Err(descriptor),
        }
    }

    /// Takes the descriptor out if it is not in use. The caller closes it.
    pub fn take_idle(&self) -> Option<system::Descriptor> {
        // SAFETY: by the invariant the number is that of a descriptor that this value owned, and
        // after `take_idle` no word holds it.
        self.0.take_idle().map(|number| unsafe { system::own(number) })
    }

    /// `word` belongs to this descriptor, and counts a pin for the returned value.
    fn pinned<'a>(&'a self, word: &'a Word, number: u32) -> Pinned<'a> {
        // SAFETY: by the invariant the number is that of an open descriptor. The descriptor stays
        // open while its pin is counted, that is, until the returned value is dropped. That value
        // lends the descriptor only while it is borrowed itself (`descriptor`).
        Pinned { word, descriptor: unsafe { system::lend(number) } }
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // The only pin that can be left is one that was never released (`Pinned::forever`), because
        // every other pin borrows this value. For the same reason no thread is changing a word.
        let word = self.0.words[0].0.load(Ordering::Relaxed);
        if word & OPEN != 0 {
            // SAFETY: by the invariant the number is that of a descriptor that this value owns, and
            // the value ends here.
            drop(unsafe { system::own(word as u32) });
        }
    }
}

impl Pinned<'_> {
    /// Keeps the pin, so that the descriptor is open until its [`Descriptor`] is dropped.
    pub fn forever(self) {
        std::mem::forget(self);
    }

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

    /// The descriptors of a model, indexed by number: whether each is open. Loom reports a use of a
    /// descriptor that is not ordered before its closing.
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
        words: Words,
        table: Table,
    }

    impl Model {
        fn new(descriptors: usize) -> Arc<Model> {
            let table = Table((0..descriptors).map(|_| UnsafeCell::new(false)).collect());
            Arc::new(Model { words: Words::closed(), table })
        }

        /// A read by `thread`, which opens descriptor `own` if it finds none.
        fn read(&self, thread: usize, own: u32) {
            if let Some((word, number)) = self.words.pin(thread) {
                self.table.read_from(number);
                word.unpin();
                return;
            }
            self.table.set(own, true);
            match self.words.install(thread, own) {
                Some(word) => {
                    self.table.read_from(own);
                    word.unpin();
                }
                None => self.table.set(own, false),
            }
        }

        fn evict(&self) {
            if let Some(number) = self.words.take_idle() {
                self.table.set(number, false);
            }
        }
    }

    /// A thread that closes the descriptor if it is not in use.
    fn evictor(model: &Arc<Model>) -> thread::JoinHandle<()> {
        let model = model.clone();
        thread::spawn(move || model.evict())
    }

    #[test]
    fn loom_a_descriptor_is_closed_when_nobody_uses_it_and_opened_again() {
        check_model(|| {
            let model = Model::new(3);
            model.read(0, 0);
            let reader = model.clone();
            let reader = thread::spawn(move || reader.read(1, 1));
            let evictor = evictor(&model);
            model.read(0, 2);
            reader.join().unwrap();
            evictor.join().unwrap();
            // No pin is left, so an open descriptor can be closed.
            model.evict();
            for word in &model.words.words {
                assert_eq!(word.0.load(Ordering::Relaxed), 0);
            }
        });
    }

    #[test]
    fn loom_two_that_close_the_same_close_it_once() {
        check_model(|| {
            let model = Model::new(2);
            model.read(0, 0);
            let threads = [(); 2].map(|()| evictor(&model));
            model.read(1, 1);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            model.evict();
            assert!(!model.words.is_open());
        });
    }

    #[test]
    fn loom_a_pin_that_is_never_given_up_keeps_the_descriptor() {
        check_model(|| {
            let model = Model::new(1);
            model.read(0, 0);
            let keeper = model.clone();
            let keeper = thread::spawn(move || keeper.words.pin(1).is_some());
            let evictor = evictor(&model);
            let kept = keeper.join().unwrap();
            evictor.join().unwrap();
            assert_eq!(model.words.is_open(), kept);
            // Either all words hold the descriptor, or none does.
            assert_eq!(model.words.pin(0).is_some(), kept);
        });
    }

    /// A thread that finds no descriptor opens the file and installs the new descriptor, and panics
    /// if another one is installed already. So an open descriptor must never look closed, not even
    /// while `take_idle` closes words one after the other, and opens them again because one is
    /// pinned.
    #[test]
    fn loom_what_one_word_has_pinned_is_found_by_every_other() {
        check_model(|| {
            let model = Model::new(1);
            model.read(0, 0);
            let evictor = evictor(&model);
            let pinned = model.words.pin(1);
            assert_eq!(model.words.pin(0).is_some(), pinned.is_some());
            evictor.join().unwrap();
        });
    }
}
