//! What the crate uses of [`std::thread`]. Under `cfg(shuttle)` the threads are those of a
//! schedule (`schedules.rs`). loom's models start threads of their own.

use std::io;

#[cfg(shuttle)]
pub(crate) use super::world::sleep;
#[cfg(shuttle)]
pub(crate) use shuttle::thread::{
    JoinHandle, Result, Scope, ScopedJoinHandle, ThreadId, current, scope, yield_now,
};
#[cfg(not(shuttle))]
pub(crate) use std::thread::{
    JoinHandle, Result, Scope, ScopedJoinHandle, ThreadId, current, scope, sleep, yield_now,
};

/// Starts a thread with this name.
pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    #[cfg(not(shuttle))]
    use std::thread::Builder;

    #[cfg(shuttle)]
    use shuttle::thread::Builder;
    Builder::new().name(name.into()).spawn(work)
}

/// Starts a thread with this name, which ends before `scope` does.
pub(crate) fn spawn_scoped<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    #[cfg(not(shuttle))]
    return std::thread::Builder::new().name(name.into()).spawn_scoped(scope, work);

    #[cfg(shuttle)]
    {
        // shuttle's threads of a scope have no names.
        let _ = name;
        Ok(scope.spawn(work))
    }
}
