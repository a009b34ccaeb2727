//! The building blocks of data that threads share. Under `cfg(loom)` the mutexes, condition
//! variables and atomics that this module exports are loom's, and under `cfg(shuttle)` they, the
//! threads, thread locals and clocks are those of a schedule, so that models and schedules check the
//! code that runs. No other room uses the standard library's, except for statics and thread locals
//! that no decision depends on.
//!
//! - [`reclaim`]: one [`pin`] for each lookup keeps everything alive that the lookup reaches. User
//!   code may read a found value after the pin is gone: the thread announces the address of this
//!   value, and the value is not freed until the user code returns.
//! - [`arc_cell`]: an `Arc` that is read under a pin and replaced as a whole.
//! - [`combining`]: a mutex whose holder also does the work of waiting threads.
//! - [`process`]: the identity of this process, and the state that a forked child creates again.
//! - [`mutex`]: the mutex and the condition variable of the whole crate, and [`lock`].
//! - [`rank`]: the order of all locks, which debug builds check.
//! - [`thread`], [`time`]: threads and clocks.
//! - `schedules`, `world`: threads that run in an order which a seed chooses.
//!
//! Absent on purpose: sequentially consistent *accesses*. loom does not model them, but treats them
//! as acquire and release. It does model sequentially consistent *fences*, so the code uses fences.
//!
//! Run the models with `RUSTFLAGS="--cfg loom" cargo test --profile loom --lib loom_`, and the
//! schedules with `RUSTFLAGS="--cfg shuttle" cargo test --profile shuttle --test schedules`.

pub(crate) mod arc_cell;
mod barrier;
pub(crate) mod combining;
mod mutex;
pub(crate) mod process;
pub(crate) mod rank;
pub(crate) mod reclaim;
#[cfg(shuttle)]
pub mod schedules;
pub(crate) mod thread;
pub(crate) mod time;
#[cfg(shuttle)]
mod world;

pub(crate) use arc_cell::{ArcCell, Held};
pub(crate) use combining::{CombiningLock, Leading, Waiting};
pub(crate) use mutex::{Condvar, Mutex, MutexGuard, lock, try_lock};
pub(crate) use process::{OpenIn, PerProcess, Process};
pub(crate) use reclaim::{
    Guard, OwnedMemory, Retired, assert_no_guard, before_reading, collect, drain, drop_at_once,
    held_by_readers, pin, retire, thread_index,
};

#[cfg(loom)]
pub(crate) use loom::sync::atomic;
#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic;
#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::sync::atomic;

#[cfg(shuttle)]
pub(crate) use shuttle::{hint::spin_loop, sync::mpsc, thread_local};
#[cfg(not(shuttle))]
pub(crate) use std::{hint::spin_loop, sync::mpsc, thread_local};

/// A value alone on its cache lines, so that writers of neighbouring values do not slow its readers
/// down. The alignment is 128 bytes because processors fetch lines in pairs.
#[repr(align(128))]
pub(crate) struct Padded<T>(pub T);

/// Runs `model` with every interleaving that preempts threads at most three times, and with every
/// value that each load may return.
#[cfg(all(test, loom))]
pub(crate) fn check_model(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// A test value that detects two faults: a read after its drop, and a read that is not ordered
/// before the drop. loom reports either in a model. Without loom an assertion detects the read
/// after the drop.
#[cfg(test)]
pub(crate) mod canary {
    use std::sync::Arc;

    #[cfg(loom)]
    use loom::cell::UnsafeCell;

    #[cfg(loom)]
    pub type Alive = UnsafeCell<bool>;
    #[cfg(not(loom))]
    pub type Alive = std::sync::atomic::AtomicBool;

    impl super::Retired for Canary {}

    pub struct Canary {
        pub id: u64,
        alive: Arc<Alive>,
    }

    // SAFETY: loom's cell checks every access; elsewhere the flag is atomic.
    #[cfg(loom)]
    unsafe impl Send for Canary {}
    // SAFETY: as above.
    #[cfg(loom)]
    unsafe impl Sync for Canary {}

    impl Canary {
        pub fn new(id: u64) -> Canary {
            Canary { id, alive: Arc::new(Alive::new(true)) }
        }

        /// Asserts that the value was not dropped.
        pub fn touch(&self) {
            #[cfg(loom)]
            // SAFETY: loom reports any unordered access.
            self.alive.with(|alive| assert!(unsafe { *alive }, "used after its drop"));
            #[cfg(not(loom))]
            assert!(self.alive.load(std::sync::atomic::Ordering::Relaxed), "used after its drop");
        }
    }

    impl Drop for Canary {
        fn drop(&mut self) {
            self.touch();
            #[cfg(loom)]
            // SAFETY: loom reports any unordered access.
            self.alive.with_mut(|alive| unsafe { *alive = false });
            #[cfg(not(loom))]
            self.alive.store(false, std::sync::atomic::Ordering::Relaxed);
        }
    }
}
