//! What threads share is built from this module: under `cfg(loom)` every name here is loom's, so
//! that the models check the very code that runs.
//!
//! - [`reclaim`]: one [`pin`] per lookup keeps alive whatever the lookup reaches.
//! - [`arc_cell`]: an `Arc` that is read under a pin and replaced whole.
//!
//! Absent on purpose: sequentially consistent *accesses*. loom does not model them (it treats them
//! as acquire and release); sequentially consistent *fences* it does, so those are used.
//!
//! Run the models with `RUSTFLAGS="--cfg loom" cargo test --release --lib loom_`.

pub(crate) mod arc_cell;
mod barrier;
pub(crate) mod reclaim;

pub(crate) use arc_cell::ArcCell;
pub(crate) use reclaim::{Guard, collect, pin, retire, thread_index};

#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard, atomic};
#[cfg(not(loom))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};

/// Locks `mutex`, also when a thread panicked while it held it. For data that every critical
/// section leaves whole at each point where it can panic.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A value alone on its cache lines: its neighbours' writers do not take it from its readers.
/// 128 bytes, since processors fetch lines in pairs.
#[repr(align(128))]
pub(crate) struct Padded<T>(pub T);
