//! Schedules by seed: everything that threads do, in an order that one number chooses.
//!
//! Under `cfg(shuttle)` the threads of the crate are coroutines of one thread of the system
//! (`shuttle`), and its mutexes, condition variables, atomics, clocks and random numbers are those
//! of [`super::world`] or of shuttle. Before each access to what threads share, the world chooses the
//! thread that goes on. So one seed replays a run, whatever the machine does.
//!
//! ```text
//!   thread 1   put ─ locks ─────────────┐ sleeps 3 s                      ┌ goes on
//!   thread 2           └ flush ─ waits ┐│                                 │
//!   thread 3                           └┴ stalls ┄┄┄ goes on ─ waits ┐    │
//!   time       0 1 2 3 4 ...  a microsecond for each step            └ 3 s: all sleep, so it jumps
//! ```
//!
//! Time is the number of steps, so a wait of seconds costs nothing. Each run begins as a forked child
//! does ([`super::process`]): what the process has is made anew.
//!
//! It sees sequentially consistent executions only. What depends on weaker orders is for loom's
//! models.

use std::mem::replace;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};

use super::world::{World, world};
pub use super::world::{random, sleep, steps};

/// The stack of a thread, in bytes.
const STACK_BYTES: usize = 1 << 20;
/// A run with more steps has no end.
const MAX_STEPS: usize = 20_000_000;

/// What the process has belongs to one run at a time.
static RUNNING: Mutex<()> = Mutex::new(());

/// Chooses by the [`World`], in one run.
struct Chooser {
    seed: u64,
    is_over: bool,
}

impl Scheduler for Chooser {
    fn new_execution(&mut self) -> Option<Schedule> {
        if replace(&mut self.is_over, true) {
            return None;
        }
        world(|world| *world = World::new(self.seed));
        Some(Schedule::new(self.seed))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        let ids: Vec<usize> = runnable.iter().map(|task| task.id().into()).collect();
        let chosen = world(|world| world.choose(&ids, current.map(usize::from), is_yielding))?;
        runnable.iter().map(|task| task.id()).find(|&id| usize::from(id) == chosen)
    }

    fn next_u64(&mut self) -> u64 {
        world(World::random)
    }
}

/// Runs `model` in the schedule of `seed`, and returns the number of its steps.
///
/// # Panics
///
/// If `model` or one of its threads panics, if all threads wait for each other, or if a run has no
/// end. If `repeat` is set, the run is made twice, and it panics too if the two differ.
pub fn run(seed: u64, repeat: bool, model: impl Fn() + Send + Sync + 'static) -> u64 {
    let _alone = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut config = shuttle::Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = shuttle::MaxSteps::FailAfter(MAX_STEPS);
    config.failure_persistence = shuttle::FailurePersistence::None;
    config.silence_warnings = true;
    let model = Arc::new(model);
    let mut traces = Vec::new();
    for _ in 0..=usize::from(repeat) {
        let (model, chooser) = (Arc::clone(&model), Chooser { seed, is_over: false });
        let runner = shuttle::Runner::new(chooser, config.clone());
        let run = AssertUnwindSafe(|| {
            runner.run(move || {
                super::process::begin_another();
                super::reclaim::begin_another();
                model();
            })
        });
        if let Err(panic) = catch_unwind(run) {
            eprintln!("the schedule of seed {seed} failed");
            resume_unwind(panic);
        }
        let (steps, trace, is_stuck) = world(|world| (world.steps, world.trace, world.is_stuck));
        assert!(!is_stuck, "seed {seed}: all threads wait for each other");
        traces.push((steps, trace));
    }
    assert!(
        traces.iter().all(|trace| *trace == traces[0]),
        "seed {seed}: two runs differ: {traces:?}"
    );
    traces[0].0
}
