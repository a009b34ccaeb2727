//! The clocks. Under `cfg(shuttle)` they show the time of the schedule (`schedules.rs`).

use std::time::SystemTime;

#[cfg(shuttle)]
pub(crate) use super::world::Instant;
#[cfg(not(shuttle))]
pub(crate) use std::time::Instant;

/// The time of day.
pub(crate) fn system_time() -> SystemTime {
    #[cfg(not(shuttle))]
    return SystemTime::now();

    #[cfg(shuttle)]
    return super::world::system_time();
}
