//! [`Mutex`], [`MutexGuard`] and [`Condvar`]: those of the standard library, of loom under
//! `cfg(loom)`, or of a schedule under `cfg(shuttle)`, with the mutex's place in the order of locks
//! ([`super::rank`]) in its type. None of them is poisoned by a panic.

use std::ops::{Deref, DerefMut};
use std::sync::{PoisonError, TryLockError};
use std::time::Duration;
use std::{fmt, marker};

#[cfg(shuttle)]
use super::world as plain;
#[cfg(loom)]
use loom::sync as plain;
#[cfg(not(any(loom, shuttle)))]
use std::sync as plain;

use super::rank::{Held, Rank};

/// Guards `T`. `R` is its rank.
pub(crate) struct Mutex<T, R: Rank> {
    plain: plain::Mutex<T>,
    rank: marker::PhantomData<R>,
}

/// The rank costs no bytes, in the mutex or in the guard.
const _: () = {
    use super::rank::Pops;
    assert!(size_of::<Mutex<u64, Pops>>() == size_of::<plain::Mutex<u64>>());
    assert!(
        size_of::<MutexGuard<'static, u64, Pops>>() == size_of::<plain::MutexGuard<'static, u64>>()
    );
};

pub(crate) struct MutexGuard<'a, T, R: Rank> {
    plain: plain::MutexGuard<'a, T>,
    held: Held<R>,
}

/// Locks `mutex`, even if a thread panicked while holding it. Correct only for data that is
/// consistent at every point where a critical section can panic.
#[inline]
#[track_caller]
pub(crate) fn lock<T, R: Rank>(mutex: &Mutex<T, R>) -> MutexGuard<'_, T, R> {
    let held = Held::begin();
    MutexGuard { plain: mutex.plain.lock().unwrap_or_else(PoisonError::into_inner), held }
}

/// Locks `mutex` if it is free, even if a thread panicked while holding it.
#[inline]
#[track_caller]
pub(crate) fn try_lock<T, R: Rank>(mutex: &Mutex<T, R>) -> Option<MutexGuard<'_, T, R>> {
    let held = Held::begin();
    let plain = match mutex.plain.try_lock() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return None,
    };
    Some(MutexGuard { plain, held })
}

impl<T, R: Rank> Mutex<T, R> {
    pub fn new(value: T) -> Mutex<T, R> {
        Mutex { plain: plain::Mutex::new(value), rank: marker::PhantomData }
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.plain.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Default, R: Rank> Default for Mutex<T, R> {
    fn default() -> Mutex<T, R> {
        Mutex::new(T::default())
    }
}

impl<T, R: Rank> fmt::Debug for Mutex<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}

impl<T, R: Rank> Deref for MutexGuard<'_, T, R> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.plain
    }
}

impl<T, R: Rank> DerefMut for MutexGuard<'_, T, R> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.plain
    }
}

/// Wakes threads that wait for a change of what a mutex guards.
#[derive(Default)]
pub(crate) struct Condvar(plain::Condvar);

impl Condvar {
    pub fn new() -> Condvar {
        Condvar(plain::Condvar::new())
    }

    /// Waits for a notification. The guard's lock must be the last one that the thread has taken,
    /// because the thread takes it again.
    pub fn wait<'a, T, R: Rank>(&self, guard: MutexGuard<'a, T, R>) -> MutexGuard<'a, T, R> {
        let MutexGuard { plain, held } = guard;
        drop(held);
        let held = Held::begin();
        MutexGuard { plain: self.0.wait(plain).unwrap_or_else(PoisonError::into_inner), held }
    }

    /// Like [`Condvar::wait`], but no longer than `most`. Returns whether the time is over.
    pub fn wait_timeout<'a, T, R: Rank>(
        &self,
        guard: MutexGuard<'a, T, R>,
        most: Duration,
    ) -> (MutexGuard<'a, T, R>, bool) {
        let MutexGuard { plain, held } = guard;
        drop(held);
        let held = Held::begin();
        let waited = self.0.wait_timeout(plain, most);
        let (plain, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        (MutexGuard { plain, held }, timeout.timed_out())
    }

    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
