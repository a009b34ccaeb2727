//! Runs a program, in a thread that may panic or hang.

use std::any::Any;
use std::cell::RefCell;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once, mpsc};
use std::time::Duration;
use std::{panic, thread};

use super::operation::Program;
use super::patience::Patience;
use super::store::{Store, Tally};

/// How a run failed.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The number of the operation that failed; the number of all operations if the comparisons
    /// after the last one failed.
    pub at: usize,
    pub message: String,
}

/// A run takes about a second.
const LIMIT: Duration = Duration::from_secs(150);

thread_local! {
    /// What a panic of a run said, and where.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The name of threads whose panics are results, and are not printed.
const RUN: &str = "metamorphic-run";

fn keep_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |info| match thread::current().name() {
            Some(RUN) => PANIC.with_borrow_mut(|kept| {
                let place = info.location().map_or(String::new(), |at| format!(" ({at})"));
                let text = message_of(info.payload());
                *kept = Some(format!("{text}{place}"));
            }),
            _ => print(info),
        }));
    });
}

fn message_of(payload: &dyn Any) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or(payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic")
}

/// Runs a part of a run in a thread of its own. A panic in it becomes one of the caller, who gets the
/// result from the returned function.
pub fn spawn<'s, T: Send + 's>(
    scope: &'s thread::Scope<'s, '_>,
    part: impl FnOnce() -> T + Send + 's,
) -> impl FnOnce() -> T {
    let thread = thread::Builder::new().name(RUN.into()).spawn_scoped(scope, || caught(part));
    let thread = thread.expect("a thread can be started");
    || {
        let done = thread.join().expect("it has caught its panics");
        done.unwrap_or_else(|message| panic!("{message}"))
    }
}

/// The result, or what a panic said.
fn caught<T>(body: impl FnOnce() -> T) -> Result<T, String> {
    let done = panic::catch_unwind(AssertUnwindSafe(body));
    done.map_err(|_| PANIC.take().unwrap_or_else(|| "a panic".into()))
}

/// Runs the program from beginning to end.
pub fn run(program: &Program) -> Result<Tally, Failure> {
    keep_panics();
    let (sender, receiver) = mpsc::channel();
    let reached = Arc::new(AtomicUsize::new(0));
    let spawned = thread::Builder::new().name(RUN.into()).spawn({
        let (program, reached) = (program.clone(), Arc::clone(&reached));
        move || {
            let done = caught(|| execute(&program, &reached));
            // If nobody receives it, the run took too long.
            drop(sender.send(done));
        }
    });
    let thread = spawned.expect("a thread can be started");
    let at = || reached.load(Ordering::SeqCst);
    let patience = Patience::new(LIMIT);
    loop {
        if let Ok(done) = receiver.recv_timeout(Duration::from_millis(500)) {
            thread.join().expect("it has caught its panics");
            return done.map_err(|message| Failure { at: at(), message });
        }
        if patience.is_over() {
            // The thread stays where it hangs.
            let message = format!("the run does not end within {:.0?}", patience.elapsed());
            return Err(Failure { at: at(), message });
        }
    }
}

fn execute(program: &Program, reached: &AtomicUsize) -> Tally {
    let mut store = Store::new(program);
    for (number, operation) in program.operations.iter().enumerate() {
        reached.store(number, Ordering::SeqCst);
        store.execute(operation);
    }
    reached.store(program.operations.len(), Ordering::SeqCst);
    store.finish();
    store.tally
}
