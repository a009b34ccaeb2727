//! [`Patience`]: a time limit that a busy machine does not use up.

use std::time::{Duration, Instant};

/// A limit for what should take a small part of it. It is over when the time has passed and this
/// process has used a third of it on a processor: then something does not end. If the process gets
/// little of the processors, or waits for ever, it is over after ten times the time.
pub struct Patience {
    limit: Duration,
    start: Instant,
    used: Duration,
}

impl Patience {
    pub fn new(limit: Duration) -> Patience {
        Patience { limit, start: Instant::now(), used: processor_time() }
    }

    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    pub fn is_over(&self) -> bool {
        let elapsed = self.elapsed();
        let is_busy = processor_time().saturating_sub(self.used) > self.limit / 3;
        elapsed > if is_busy { self.limit } else { 4 * self.limit }
    }
}

/// The time that this process has had on processors, of all its threads. On systems that do not tell
/// it, the time since the first call.
fn processor_time() -> Duration {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let start = START.get_or_init(Instant::now);
    of_proc().unwrap_or_else(|| start.elapsed())
}

/// The fields 14 and 15 of `/proc/self/stat`, in hundredths of a second (proc(5)).
fn of_proc() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the name of the program, in parentheses, which may have spaces.
    let mut fields = stat.rsplit(')').next()?.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis(10 * (user + system)))
}
