//! The [`World`] of a [schedule](super::schedules): which thread goes on, what time it is, and which
//! random numbers there are. And the mutexes and condition variables of its threads.
//!
//! - **Time is the number of steps**, a microsecond each. If every thread sleeps, it jumps to the
//!   moment at which the first one wakes, so a wait of seconds costs nothing. Now and then it jumps
//!   although threads could run, as on a machine that is busy with something else.
//! - **Stalls.** Any thread may stall between two steps, for up to 8,192 of them.
//! - **Waits** end by a notification or when their time has come. shuttle's own never time out.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::{Add, Deref, DerefMut, Sub};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time of one step, in nanoseconds.
const STEP: u64 = 1_000;
/// The time of day at which each run begins.
const START: u64 = 1_800_000_000_000_000_000;
/// Of a thread that waits without a limit.
const NEVER: u64 = u64::MAX;

/// The threads and the clock of the run.
pub(super) struct World {
    /// State of the random numbers.
    numbers: u64,
    /// In nanoseconds since the run began.
    now: u64,
    /// When each thread that sleeps, waits or stalls wakes.
    asleep: BTreeMap<usize, u64>,
    /// Of 64 steps, how many the running thread keeps to itself.
    keeps: u64,
    pub steps: u64,
    /// A hash of all choices.
    pub trace: u64,
    /// All threads wait for each other.
    pub is_stuck: bool,
}

thread_local! {
    static WORLD: RefCell<World> = RefCell::new(World::new(0));
}

pub(super) fn world<T>(act: impl FnOnce(&mut World) -> T) -> T {
    WORLD.with_borrow_mut(act)
}

impl World {
    pub fn new(seed: u64) -> World {
        let mut world = World {
            numbers: seed,
            now: 0,
            asleep: BTreeMap::new(),
            keeps: 0,
            steps: 0,
            trace: 0,
            is_stuck: false,
        };
        world.keeps = [0, 32, 56, 63][world.below(4) as usize];
        world
    }

    /// A random number (SplitMix64: Steele, Lea, Flood, OOPSLA 2014).
    pub fn random(&mut self) -> u64 {
        self.numbers = self.numbers.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.numbers;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.random()) * u128::from(bound)) >> 64) as u64
    }

    /// The thread that goes on, or `None` if none can.
    pub fn choose(
        &mut self,
        runnable: &[usize],
        current: Option<usize>,
        yields: bool,
    ) -> Option<usize> {
        self.steps += 1;
        self.now += STEP;
        match (self.below(1024), current) {
            (0, Some(current)) => {
                let stall = STEP << self.below(14);
                self.asleep.entry(current).or_insert(self.now + stall);
            }
            (1, _) if self.below(4) == 0 => self.jump(),
            _ => {}
        }
        loop {
            let now = self.now;
            self.asleep.retain(|_, wakes| *wakes > now);
            let awake: Vec<usize> =
                runnable.iter().copied().filter(|id| !self.asleep.contains_key(id)).collect();
            if awake.is_empty() {
                if self.asleep.values().all(|&wakes| wakes == NEVER) {
                    self.is_stuck = true;
                    return None;
                }
                self.jump();
                continue;
            }
            let keeps = !yields && self.below(64) < self.keeps;
            let chosen = match current {
                Some(current) if keeps && awake.contains(&current) => current,
                _ => awake[self.below(awake.len() as u64) as usize],
            };
            self.trace = (self.trace ^ (chosen as u64) << 32 ^ awake.len() as u64)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29);
            return Some(chosen);
        }
    }

    /// Lets the time pass until a thread wakes.
    fn jump(&mut self) {
        let next = self.asleep.values().copied().min();
        self.now = next.filter(|&wakes| wakes != NEVER).unwrap_or(0).max(self.now);
    }
}

/// A random number of the run.
pub fn random() -> u64 {
    world(World::random)
}

/// The number of the step.
pub fn steps() -> u64 {
    world(|world| world.steps)
}

/// Lets this thread sleep.
pub fn sleep(most: Duration) {
    sleep_until(Instant::now() + most);
}

fn sleep_until(wakes: Instant) {
    let me = usize::from(shuttle::current::me());
    world(|world| world.asleep.insert(me, wakes.0));
    shuttle::thread::yield_now();
}

/// A moment of the run, in nanoseconds since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant(u64);

impl Instant {
    pub fn now() -> Instant {
        Instant(world(|world| world.now))
    }

    pub fn elapsed(self) -> Duration {
        Instant::now() - self
    }

    pub fn saturating_duration_since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, wait: Duration) -> Instant {
        Instant(self.0.saturating_add(wait.as_nanos().min(NEVER.into()) as u64))
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

pub(crate) fn system_time() -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(START + world(|world| world.now))
}

/// shuttle's mutex, whose guards know it.
#[derive(Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

pub(crate) struct MutexGuard<'a, T> {
    of: &'a Mutex<T>,
    guard: shuttle::sync::MutexGuard<'a, T>,
}

impl<T> Mutex<T> {
    pub fn new(value: T) -> Mutex<T> {
        Mutex(shuttle::sync::Mutex::new(value))
    }

    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        Ok(self.guard())
    }

    /// The guard, even if a thread panicked while holding it.
    fn guard(&self) -> MutexGuard<'_, T> {
        let guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        MutexGuard { of: self, guard }
    }

    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        let guard = match self.0.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(TryLockError::WouldBlock),
        };
        Ok(MutexGuard { of: self, guard })
    }

    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.0.get_mut()
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// A condition variable whose waits end when their time has come. shuttle's never do.
#[derive(Default)]
pub(crate) struct Condvar {
    /// The threads that no notification has woken. No thread is switched while this is locked.
    waiting: std::sync::Mutex<Vec<usize>>,
}

/// Whether the time of a wait is over.
pub(crate) struct Timeout(bool);

impl Timeout {
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    pub fn new() -> Condvar {
        Condvar::default()
    }

    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        Ok(self.wait_until(guard, Instant(NEVER)).0)
    }

    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        most: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, Timeout)> {
        Ok(self.wait_until(guard, Instant::now() + most))
    }

    fn wait_until<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        end: Instant,
    ) -> (MutexGuard<'a, T>, Timeout) {
        let (of, me) = (guard.of, usize::from(shuttle::current::me()));
        // shuttle switches threads before it unlocks, and not after it. So no notification comes
        // between the two.
        drop(guard);
        self.waiting().push(me);
        sleep_until(end);
        let is_late = self.take(|waiting| waiting.iter().position(|&id| id == me)).is_some();
        (of.guard(), Timeout(is_late))
    }

    pub fn notify_one(&self) {
        shuttle::thread::yield_now();
        let any = |waiting: &[usize]| match waiting.len() as u64 {
            0 => None,
            count => Some(world(|world| world.below(count)) as usize),
        };
        if let Some(woken) = self.take(any) {
            world(|world| world.asleep.remove(&woken));
        }
    }

    pub fn notify_all(&self) {
        shuttle::thread::yield_now();
        while let Some(woken) = self.take(|waiting| waiting.len().checked_sub(1)) {
            world(|world| world.asleep.remove(&woken));
        }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Vec<usize>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, which: impl FnOnce(&[usize]) -> Option<usize>) -> Option<usize> {
        let mut waiting = self.waiting();
        which(&waiting).map(|at| waiting.remove(at))
    }
}
