//! [`CombiningLock`]: a mutex whose holder, the *leader*, also does the work of waiting threads.
//!
//! ```text
//!   try_lead ──► the lock is free and the queue empty: the caller does its own work
//!   submit ────► queue ──► the holder takes work from the front, and answers each
//!                          the holder unlocks ─► the front of the queue becomes the leader
//! ```
//!
//! Doing the work of other threads is called combining (Hendler, Incze, Shavit, Tzafrir: "Flat
//! combining and the synchronization-parallelism tradeoff", SPAA 2010). Here it lets many writes
//! share one log record and one sync.
//!
//! Waiters do not block on the mutex. Otherwise each would in turn wake, get the mutex and find
//! that its work was done long ago, while the next leader waits behind them. Instead each waiter
//! has a flag: the waiter spins on its flag for some microseconds, then yields to other threads,
//! then sleeps. A waiter that is chosen to lead does not block on the mutex either: if another
//! thread got the lock first, that thread does the waiter's work, or chooses a leader when it
//! unlocks.
//!
//! # Why no thread waits for ever
//!
//! 1. A thread that unlocks looks at the queue afterwards and chooses the waiter at its front to
//!    lead.
//! 2. A thread that queues its work tries to lock afterwards.
//! 3. A thread that is chosen to lead sets its state back to waiting, takes the mutex of the queue
//!    for a moment, and tries to lock afterwards.
//!
//! Each step takes the mutex of the queue, which therefore orders any step 1 with any step 2 or 3.
//! If step 1 comes first, step 2 or 3 finds the lock free, or held by a thread that will reach its
//! own step 1 later. If step 2 comes first, step 1 sees the queued work. If step 3 comes first,
//! step 1 sees a waiter that can be chosen again. If another thread does a chosen waiter's work in
//! the meantime, the waiter need not lead, because that thread reaches step 1 too.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::atomic::{AtomicU8, AtomicUsize, Ordering};
use super::{Condvar, Mutex, MutexGuard, lock, rank, spin_loop, thread, try_lock};
use crate::error::Result;

/// How many times a waiter checks for its answer before it yields. The checks take some
/// microseconds, which is about the time that a small group of writes takes. Models and schedules do
/// not spin.
const SPINS: usize = if cfg!(any(loom, shuttle)) { 0 } else { 200 };
/// How many times a waiter then yields to other threads before it sleeps.
const YIELDS: usize = if cfg!(any(loom, shuttle)) { 0 } else { 20 };

/// The waiter has no answer and is not chosen to lead.
const WAITS: u8 = 0;
/// The waiter is chosen to lead: it tries to lock.
const LEADS: u8 = 1;
/// The waiter's work is done.
const DONE: u8 = 2;

/// Guards `L`. The holder can do the work `W` of waiting threads, and gives each piece of work its
/// result.
pub(crate) struct CombiningLock<L, W> {
    leader: Mutex<L, rank::Writer>,
    queue: Mutex<VecDeque<Arc<Waiting<W>>>, rank::WriteQueue>,
    /// Length of the queue, readable without a lock.
    queued: AtomicUsize,
}

/// Work that waits for a leader.
pub(crate) struct Waiting<W> {
    pub work: W,
    told: AtomicU8,
    sleeper: Mutex<Sleeper, rank::WriteAnswer>,
    wakes: Condvar,
}

struct Sleeper {
    sleeps: bool,
    answer: Option<Result<()>>,
}

/// The lock, held. Dropping it chooses the next leader.
pub(crate) struct Leading<'a, L, W> {
    lock: &'a CombiningLock<L, W>,
    /// `None` only during the drop.
    leader: Option<MutexGuard<'a, L, rank::Writer>>,
}

impl<L, W> CombiningLock<L, W> {
    pub fn new(leader: L) -> CombiningLock<L, W> {
        let (leader, queue) = (Mutex::new(leader), Mutex::new(VecDeque::new()));
        CombiningLock { leader, queue, queued: AtomicUsize::new(0) }
    }

    /// Waits for the lock without entering the queue.
    pub fn lock(&self) -> Leading<'_, L, W> {
        Leading { lock: self, leader: Some(lock(&self.leader)) }
    }

    /// The lock, if it is free and the queue is empty.
    #[inline]
    pub fn try_lead(&self) -> Option<Leading<'_, L, W>> {
        // Without this check a new thread would overtake all waiters while they wake. A stale value
        // does no harm, because only fairness depends on it.
        if self.queued.load(Ordering::Relaxed) > 0 { None } else { self.try_lock() }
    }

    fn try_lock(&self) -> Option<Leading<'_, L, W>> {
        try_lock(&self.leader).map(|leader| Leading { lock: self, leader: Some(leader) })
    }

    /// Queues `work`, waits until a leader has done it, and returns the answer. If this thread gets
    /// the lock before that, it is the leader and calls `lead`, which must take at least the front
    /// of the queue, and answer each piece of work that it took.
    pub fn submit(&self, work: W, mut lead: impl FnMut(&mut Leading<'_, L, W>)) -> Result<()> {
        let waiting = self.enqueue(work);
        loop {
            if let Some(mut leading) = self.try_lock()
                && waiting.told.load(Ordering::Relaxed) != DONE
            {
                lead(&mut leading);
            }
            match waiting.wait() {
                Some(answer) => return answer,
                // Step 3 of the module's proof.
                None => drop(lock(&self.queue)),
            }
        }
    }

    fn enqueue(&self, work: W) -> Arc<Waiting<W>> {
        let waiting = Arc::new(Waiting::new(work));
        let mut queue = lock(&self.queue);
        queue.push_back(Arc::clone(&waiting));
        self.queued.store(queue.len(), Ordering::Relaxed);
        waiting
    }

    /// Chooses the front of the queue to lead.
    fn hand_over(&self) {
        let front = lock(&self.queue).front().cloned();
        if let Some(front) = front {
            front.tell_to_lead();
        }
    }
}

impl<L, W> Leading<'_, L, W> {
    /// Takes work from the front of the queue while `wants` holds. The caller must answer each
    /// piece.
    pub fn take_while(&self, mut wants: impl FnMut(&W) -> bool) -> Vec<Arc<Waiting<W>>> {
        let mut queue = lock(&self.lock.queue);
        let unwanted = queue.iter().position(|waiting| !wants(&waiting.work));
        let count = unwanted.unwrap_or(queue.len());
        let taken = queue.drain(..count).collect();
        self.lock.queued.store(queue.len(), Ordering::Relaxed);
        taken
    }
}

impl<L, W> Deref for Leading<'_, L, W> {
    type Target = L;

    #[inline]
    fn deref(&self) -> &L {
        self.leader.as_ref().expect("held until the drop")
    }
}

impl<L, W> DerefMut for Leading<'_, L, W> {
    #[inline]
    fn deref_mut(&mut self) -> &mut L {
        self.leader.as_mut().expect("held until the drop")
    }
}

impl<L, W> Drop for Leading<'_, L, W> {
    fn drop(&mut self) {
        self.leader = None;
        self.lock.hand_over();
    }
}

impl<W> Waiting<W> {
    fn new(work: W) -> Waiting<W> {
        let sleeper = Mutex::new(Sleeper { sleeps: false, answer: None });
        Waiting { work, told: AtomicU8::new(WAITS), sleeper, wakes: Condvar::new() }
    }

    /// Tells the waiter that its work is done.
    pub fn answer(&self, answer: Result<()>) {
        let mut sleeper = lock(&self.sleeper);
        sleeper.answer = Some(answer);
        self.told.store(DONE, Ordering::Release);
        if sleeper.sleeps {
            self.wakes.notify_one();
        }
    }

    fn tell_to_lead(&self) {
        // An answer or an earlier choice is not overwritten.
        let told = self.told.compare_exchange(WAITS, LEADS, Ordering::Relaxed, Ordering::Relaxed);
        if told.is_ok() && lock(&self.sleeper).sleeps {
            self.wakes.notify_one();
        }
    }

    /// The answer, or `None` if this thread is chosen to lead.
    fn wait(&self) -> Option<Result<()>> {
        let is_told = || self.told.load(Ordering::Relaxed) != WAITS;
        let soon = (0..SPINS).any(|_| {
            spin_loop();
            is_told()
        }) || (0..YIELDS).any(|_| {
            thread::yield_now();
            is_told()
        });
        let mut sleeper = lock(&self.sleeper);
        if !soon {
            // A thread that answers or chooses this waiter first changes `told`, and then reads
            // `sleeps` under this mutex. So either this loop sees the change, or that thread sees
            // `sleeps` and wakes this one.
            sleeper.sleeps = true;
            while !is_told() {
                sleeper = self.wakes.wait(sleeper);
            }
            sleeper.sleeps = false;
        }
        let _ = self.told.compare_exchange(LEADS, WAITS, Ordering::Relaxed, Ordering::Relaxed);
        sleeper.answer.take()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;

    type Lock = CombiningLock<u64, u64>;

    /// Adds the waiting numbers, at most three at a time.
    fn add(leading: &mut Leading<'_, u64, u64>) {
        let mut left = 3;
        for waiting in leading.take_while(|_| {
            left -= 1;
            left >= 0
        }) {
            **leading += waiting.work;
            waiting.answer(Ok(()));
        }
    }

    #[test]
    fn every_work_is_done_once_whoever_leads() {
        let (threads, each) = (8, 2_000);
        let lock = Lock::new(0);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for _ in 0..each {
                        match lock.try_lead() {
                            Some(mut leading) => *leading += 1,
                            None => lock.submit(1, add).unwrap(),
                        }
                    }
                });
            }
        });
        assert_eq!(*lock.lock(), threads * each);
        assert_eq!(lock.queued.load(Ordering::Relaxed), 0);
    }

    /// A thread that never queues, such as a flush, holds the lock while others queue. The others
    /// have stopped spinning and sleep. The holder unlocks, and no other thread comes, so this
    /// unlock must wake a sleeper.
    #[test]
    fn sleepers_wake_when_a_holder_leaves_that_did_nothing_for_them() {
        let lock = Lock::new(0);
        let held = lock.lock();
        std::thread::scope(|scope| {
            let sleepers: Vec<_> = (0..5).map(|_| scope.spawn(|| lock.submit(1, add))).collect();
            while lock.queued.load(Ordering::Relaxed) < 5 {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_millis(20));
            assert!(lock.try_lead().is_none());
            drop(held);
            sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap().unwrap());
        });
        assert_eq!(*lock.lock(), 5);
    }

    /// A waiter is chosen to lead, but another thread gets the lock first and does the waiter's
    /// work. In an earlier version, the waiter slept until that thread had unlocked. Now it gets
    /// its answer as soon as its work is done.
    #[test]
    fn one_that_lost_the_lead_hears_its_answer_while_the_leader_still_leads() {
        let lock = Lock::new(0);
        let mut leading = lock.lock();
        std::thread::scope(|scope| {
            let (answered, answer) = std::sync::mpsc::channel();
            let lock = &lock;
            scope.spawn(move || answered.send(lock.submit(5, add)));
            while lock.queued.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_millis(20));
            lock.hand_over();
            std::thread::sleep(Duration::from_millis(20));
            add(&mut leading);
            let heard = answer.recv_timeout(Duration::from_secs(10));
            // Lets the waiter end even if no answer was received, so that the scope ends.
            drop(leading);
            assert!(matches!(heard, Ok(Ok(()))), "{heard:?}");
        });
    }

    #[test]
    fn a_newcomer_does_not_overtake_those_who_wait() {
        let lock = Lock::new(0);
        // The lock is free, but the waiter has not woken yet.
        let waiting = lock.enqueue(1);
        assert!(lock.try_lead().is_none());
        add(&mut lock.lock());
        assert!(matches!(waiting.wait(), Some(Ok(()))));
        assert!(lock.try_lead().is_some());
    }
}

#[cfg(all(test, loom))]
mod models {
    use loom::thread;

    use super::super::check_model;
    use super::*;

    type Lock = CombiningLock<u64, u64>;

    fn add_one(leading: &mut Leading<'_, u64, u64>) {
        let mut left = 1;
        for waiting in leading.take_while(|_| std::mem::take(&mut left) == 1) {
            **leading += waiting.work;
            waiting.answer(Ok(()));
        }
    }

    /// loom fails when a thread waits and no other thread can wake it. It cannot show why step 3
    /// needs the mutex of the queue, because it keeps all read-modify-write operations in one
    /// order, whatever mutex they touch.
    #[test]
    fn loom_nobody_waits_for_ever() {
        check_model(|| {
            let lock = Arc::new(Lock::new(0));
            let writers: Vec<_> = (0..2)
                .map(|_| {
                    let lock = Arc::clone(&lock);
                    thread::spawn(move || lock.submit(1, add_one))
                })
                .collect();
            // A holder that is not a writer.
            *lock.lock() += 10;
            for writer in writers {
                writer.join().unwrap().unwrap();
            }
            assert_eq!(*lock.lock(), 12);
        });
    }
}
