//! A database used from async code with the standard library alone, without an async runtime. A few
//! threads make the blocking calls, and the tasks await the results.
//!
//! ```text
//!   task ── call(|db| …) ──► queue ──► threads with the Db
//!     ▲                                     │
//!     └──────────── answer, wake ───────────┘
//! ```
//!
//! ```text
//! cargo run --release --example from_async
//! ```

use std::error::Error;
use std::future::Future;
use std::io::{Write, stdout};
use std::pin::{Pin, pin};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use maypole::Db;

type Job = Box<dyn FnOnce(&Db) + Send>;

/// A database whose calls can be awaited. All clones share the same threads, which end when the
/// last clone is dropped.
#[derive(Clone)]
struct AsyncDb {
    jobs: Sender<Job>,
}

impl AsyncDb {
    fn new(db: Db, threads: usize) -> AsyncDb {
        let (jobs, queue) = channel::<Job>();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..threads {
            let (db, queue) = (db.clone(), Arc::clone(&queue));
            thread::spawn(move || {
                while let Some(job) = next_job(&queue) {
                    job(&db)
                }
            });
        }
        AsyncDb { jobs }
    }

    /// Runs `work` on one of the threads. Dropping the future does not cancel `work`, which is in
    /// the queue already.
    fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Db) -> T + Send + 'static,
    ) -> impl Future<Output = T> {
        let answer = Arc::new(Mutex::new(State::default()));
        let promise = Answer(Arc::clone(&answer));
        let job = move |db: &Db| {
            let value = work(db);
            let mut state = answer.lock().unwrap();
            state.value = Some(value);
            if let Some(waker) = state.waker.take() {
                waker.wake();
            }
        };
        // The threads run as long as a sender exists, and `self` has one.
        self.jobs.send(Box::new(job)).expect("a thread that takes jobs");
        promise
    }
}

fn next_job(queue: &Mutex<Receiver<Job>>) -> Option<Job> {
    queue.lock().unwrap().recv().ok()
}

/// The future that [`AsyncDb::call`] returns. It is ready when a thread has run the call.
struct Answer<T>(Arc<Mutex<State<T>>>);

struct State<T> {
    value: Option<T>,
    waker: Option<Waker>,
}

impl<T> Default for State<T> {
    fn default() -> State<T> {
        State { value: None, waker: None }
    }
}

impl<T> Future for Answer<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut state = self.0.lock().unwrap();
        match state.value.take() {
            Some(value) => Poll::Ready(value),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// What a runtime does: polls the future, and sleeps until the future's waker wakes this thread.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(thread::Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

/// A request, as a server would handle it.
async fn visit(db: &AsyncDb, user: &str) -> maypole::Result<u64> {
    let key = format!("visits/{user}");
    db.call(move |db| {
        // Reads and writes in one call, so that a request takes one round trip to the threads. A
        // `get` and a `put` would lose visits, because another thread may put in between.
        let visits = db.update_fetch(&key, |count| {
            let count = count.and_then(|count| count.try_into().ok());
            Some((count.map_or(0, u64::from_be_bytes) + 1).to_be_bytes())
        })?;
        Ok(visits.map_or(0, u64::from_be_bytes))
    })
    .await
}

/// Ada visits `visits` times from each of `clients` at the same time. Returns how many of the visits
/// were counted.
pub fn rush(clients: usize, visits: u64) -> Result<u64, Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let db = AsyncDb::new(Db::open(dir.path())?, clients);
    thread::scope(|scope| {
        let client = || {
            block_on(async {
                for _ in 0..visits {
                    visit(&db, "Ada").await?;
                }
                Ok::<(), maypole::Error>(())
            })
        };
        let clients: Vec<_> = (0..clients).map(|_| scope.spawn(client)).collect();
        clients.into_iter().try_for_each(|client| client.join().expect("a client that ends"))
    })?;
    // The visit after the last one.
    Ok(block_on(visit(&db, "Ada"))? - 1)
}

/// Runs the example, and prints to `out`.
pub fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let db = AsyncDb::new(Db::open(dir.path())?, 2);
    block_on(async {
        for user in ["Ada", "Mary", "Ada"] {
            writeln!(out, "{user}: visit {}", visit(&db, user).await?)?;
        }
        // Both calls are in the queue before the task awaits either, so two threads can run them at
        // once.
        let (count, last) = (db.call(|db| db.len()), db.call(|db| db.last_key_value()));
        let (count, last) = (count.await?, last.await?);
        writeln!(out, "{count} users, the last is {:?}", last.map(|(key, _)| key))?;
        Ok::<(), maypole::Error>(())
    })?;
    writeln!(out, "4 clients visit 250 times each: {} visits", rush(4, 250)?)?;
    Ok(())
}

#[allow(dead_code, reason = "a test runs the example without it")]
fn main() -> Result<(), Box<dyn Error>> {
    run(&mut stdout())
}
