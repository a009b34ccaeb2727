//! [`ArcCell`]: an `Arc` that readers follow with one load and that a writer replaces as a whole.
//!
//! The cell owns one strong count of its value. A replaced value keeps that count until every guard
//! is gone under which a reader could have loaded it ([`super::reclaim`]). So a reader under a
//! guard may use the value and may add a count of its own. A cell is never empty, so readers need
//! no check.

use std::marker::PhantomData;
use std::sync::Arc;

use super::atomic::{AtomicPtr, Ordering};
use super::reclaim::{Guard, Retired, retire};

/// An atomic `Arc<T>`, read under a [`Guard`].
pub(crate) struct ArcCell<T: Retired> {
    /// A pointer from `Arc::into_raw`.
    pointer: AtomicPtr<T>,
}

// SAFETY: the cell hands out `&T` and `Arc<T>` on any thread and drops `Arc<T>` on any thread,
// which `T: Send + Sync` (by `Retired`) allows; the pointer itself is atomic.
unsafe impl<T: Retired> Send for ArcCell<T> {}
// SAFETY: as above.
unsafe impl<T: Retired> Sync for ArcCell<T> {}

impl<T: Retired> ArcCell<T> {
    /// A cell that holds `value`.
    pub fn new(value: Arc<T>) -> ArcCell<T> {
        ArcCell { pointer: AtomicPtr::new(Arc::into_raw(value).cast_mut()) }
    }

    /// The current value, valid while the guard is held.
    #[inline]
    pub fn load<'g>(&'g self, guard: &'g Guard) -> &'g T {
        self.load_held(guard).get()
    }

    /// The current value, which may outlive the guard.
    pub fn load_arc(&self, guard: &Guard) -> Arc<T> {
        self.load_held(guard).to_arc()
    }

    /// The current value as a [`Held`], which gives a reference as well as an `Arc`.
    #[inline]
    pub fn load_held<'g>(&'g self, _guard: &'g Guard) -> Held<'g, T> {
        Held { pointer: self.pointer.load(Ordering::Acquire), _guard: PhantomData }
    }

    /// Whether the cell still has this value. Compares the addresses, which is enough, because no
    /// other value can get the same address while the guard is held.
    #[inline]
    pub fn holds(&self, held: &Held<'_, T>) -> bool {
        std::ptr::eq(self.pointer.load(Ordering::Acquire), held.pointer)
    }

    /// Replaces the value and retires the old one. The old value is not dropped here, so the caller
    /// may hold a lock. Call [`drain`](super::drain) after releasing the lock; otherwise the old
    /// value stays until the next collection.
    pub fn replace(&self, value: Arc<T>) {
        let old = self.pointer.swap(Arc::into_raw(value).cast_mut(), Ordering::AcqRel);
        // SAFETY: the pointer came from `Arc::into_raw`, and the swap took its count out of the
        // cell, so no other thread takes it.
        retire(unsafe { Arc::from_raw(old) }, 0, usize::MAX);
    }
}

/// A value that was in an [`ArcCell`] when it was loaded.
pub(crate) struct Held<'g, T: Retired> {
    /// A pointer from `Arc::into_raw`, whose value lives for `'g`, because the cell gives up its
    /// count of the value in two places only. `ArcCell::replace` first unlinks the value and then
    /// retires the count, so the value lives until the guard is gone. The cell's drop needs
    /// exclusive access to the cell, which `'g` borrows. The field is not a reference, because a
    /// reference to the value could not reach the counts of the `Arc`, which are outside the value.
    pointer: *const T,
    _guard: PhantomData<&'g T>,
}

impl<'g, T: Retired> Held<'g, T> {
    /// The value, valid under the guard.
    #[inline]
    pub fn get(&self) -> &'g T {
        // SAFETY: the value is alive for `'g`, as the field says.
        unsafe { &*self.pointer }
    }

    /// The value, which may outlive the guard.
    pub fn to_arc(&self) -> Arc<T> {
        // SAFETY: the pointer is an `Arc`'s and the strong count is above 0 for `'g`, as the field
        // says; the count that is added here belongs to the new `Arc`.
        unsafe {
            Arc::increment_strong_count(self.pointer);
            Arc::from_raw(self.pointer)
        }
    }
}

impl<T: Retired> Drop for ArcCell<T> {
    fn drop(&mut self) {
        // SAFETY: the cell owns one count of its last value, and the drop has exclusive access to
        // the cell.
        drop(unsafe { Arc::from_raw(self.pointer.load(Ordering::Relaxed)) });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::canary::Canary;
    use super::super::{collect, pin};
    use super::*;

    #[test]
    fn an_arc_taken_under_the_guard_outlives_the_cell() {
        let cell = ArcCell::new(Arc::new(Canary::new(7)));
        let kept = cell.load_arc(&pin());
        cell.replace(Arc::new(Canary::new(8)));
        assert_eq!(cell.load(&pin()).id, 8);
        drop(cell);
        collect();
        kept.touch();
        assert_eq!(kept.id, 7);
    }

    #[test]
    fn readers_meet_only_live_values_while_a_writer_replaces_them() {
        let cell = ArcCell::new(Arc::new(Canary::new(0)));
        let rounds = if cfg!(miri) { 20 } else { 20_000 };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut newest = 0;
                    while newest < rounds {
                        let guard = pin();
                        let canary = cell.load(&guard);
                        canary.touch();
                        assert!(canary.id >= newest);
                        newest = canary.id;
                        cell.load_arc(&guard).touch();
                    }
                });
            }
            for id in 1..=rounds {
                cell.replace(Arc::new(Canary::new(id)));
                collect();
            }
        });
    }
}

#[cfg(all(test, loom))]
mod models {
    use loom::thread;

    use super::super::canary::Canary;
    use super::super::{check_model, collect, pin};
    use super::*;

    #[test]
    fn loom_an_arc_taken_under_the_guard_keeps_the_value() {
        check_model(|| {
            collect();
            let cell = Arc::new(ArcCell::new(Arc::new(Canary::new(0))));
            let reader = thread::spawn({
                let cell = cell.clone();
                move || {
                    let kept = cell.load_arc(&pin());
                    kept.touch();
                    kept
                }
            });
            cell.replace(Arc::new(Canary::new(1)));
            collect();
            // The value that the reader kept is dropped here. loom does not see the counts of the
            // `Arc`, but the join orders this drop after the reader's reads.
            reader.join().unwrap().touch();
        });
    }
}
