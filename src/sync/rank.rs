//! The order of all locks of the crate, in one table: the *ranks*. A thread takes locks from the
//! top of the table to the bottom, and may leave some out, so threads never wait for each other in
//! a circle.
//!
//! Each [`Mutex`](super::Mutex) has its rank in its type. In debug builds each lock asserts that the
//! thread holds no lock of this rank or of a later one ([`Held::begin`]). In other builds, and in
//! loom's models, the check is no code, and locks and guards have no additional bytes.
//!
//! **Locks of one rank**, such as those of all files in memory: a thread holds at most one of them.
//! No code needs two.
//!
//! **Waiting for a device.** Writers, new snapshots and cursors wait for the locks from
//! [`TreeState`] to [`JobPool`], so a thread that holds one of them may not wait for a device, nor
//! call a user's [`Fs`](crate::fs::Fs), which may take long ([`assert_may_wait`]).
//!
//! **Drops that call a user's `Fs`** are the special case. The last reference to an obsolete table
//! deletes its file. Any thread may drop this reference, because a collection ([`super::reclaim`])
//! runs on the thread that inserts a block into the cache or replaces a read state, and it drops
//! what other databases have retired too. So the thread may hold locks that have nothing to do with
//! the table, and the `Fs` may close the database of the table, or use a database of its own. The
//! order of these databases' locks says nothing about such a call. Therefore each deletion of an
//! obsolete file (`ObsoleteFiles::remove`) runs [`apart`]: the locks that the thread holds are set
//! aside, and what the `Fs` locks is checked by itself. [`apart`] also asserts that the thread may
//! wait for a device. No other call of an `Fs` is set apart: these run where the code says, under
//! locks that the table lists. If such a call uses the database or another one, it may take only
//! later locks, as the call of `close` in a job does.
//!
//! What is no lock here: a `OnceLock`, whose initialisers take none of these locks, and the lock of
//! a directory, which excludes other processes and fails instead of waiting.

use std::cell::Cell;
use std::marker::PhantomData;

use super::thread_local;

/// The place of a lock in the order. The types in the table implement it.
pub(crate) trait Rank: Send + 'static {
    const PLACE: Place;
}

/// Declares the ranks, first to last: a [`Place`] and a type of the same name for each.
macro_rules! ranks {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The ranks in their order.
        #[derive(Debug, Clone, Copy)]
        pub(crate) enum Place { $($name,)* }

        const PLACES: &[Place] = &[$(Place::$name,)*];

        $(
            $(#[$doc])*
            pub(crate) enum $name {}

            impl Rank for $name {
                const PLACE: Place = Place::$name;
            }
        )*
    };
}

ranks! {
    // Calls. A thread may wait for a device under each of these.
    /// `db/db.rs`: one `pop_first` or `pop_last` at a time. Held while it reads and deletes.
    Pops,
    /// `db/inner/trees.rs`: one keyspace at a time is created, opened or dropped. Held while the
    /// MANIFEST is written.
    Keyspaces,
    /// `db/recording/recorder.rs`: the file of recorded lookups. Held while lines are written.
    Recording,
    /// `db/recording/recorder.rs`: the lines of a group of threads.
    RecordedLines,
    /// `db/asked.rs`: what tables are asked. Held while this is counted and `ASKED` is written.
    Asking,
    /// `db/stats/published.rs`: one write of `STATS` at a time. Held while the statistics are
    /// gathered and written.
    PublishedStats,

    // Writes.
    /// `db/inner/writing.rs`: keeps ingestions out. Held by an ingestion while it enters the tree.
    Ingesting,
    /// `sync/combining.rs`: the leader of the writers. Held while a group is written, and by calls
    /// that keep writers out.
    Writer,
    /// `sync/combining.rs`: the writes that wait for a leader. The leader takes from it.
    WriteQueue,
    /// `sync/combining.rs`: the answer to one waiting write. The leader sets it.
    WriteAnswer,
    /// `db/iter/marks/shared.rs`: the marks that cursors propose. The leader takes them in.
    Proposals,
    /// `db/inner/writing.rs`: the take-over of the directory that waits for space. Held while it is
    /// tried again.
    PendingTakeOver,
    /// `db/inner/writing.rs`: the WALs that get no more records. Held while they are synced.
    SealedWals,

    // Changes of the tree.
    /// `db/inner/catalog.rs`: the MANIFEST. Held while a record is written and synced.
    Manifest,
    /// `db/inner/catalog.rs`: which writes are in tables. Locked only while the MANIFEST is locked.
    Progress,
    /// `db/inner/wals.rs`: which WALs a replay needs. Asked while the MANIFEST is locked.
    NeededWals,
    /// `db/inner/trees.rs`: the keyspaces. Asked while the MANIFEST is locked.
    Trees,
    /// `db/inner/trees.rs`: the dropped keyspaces. Noted while the MANIFEST is locked.
    DroppedTrees,
    /// `db/background/timer.rs`: the turns of all databases. Held while a turn becomes a job.
    Timer,

    // From here to `JobPool`: no thread waits for a device.
    /// `db/inner/tree.rs`: memtables, tables, and the work on them.
    TreeState,
    /// `db/inner/tree.rs`: the ranges that cursors want compacted. Planned with the state.
    Cleanups,
    /// `db/inner/tree.rs`: until when delayed writers wait. Nobody sleeps under it.
    PaidUntil,
    /// `db/inner/tree.rs`: the options of one tree. Asked under the state.
    TreeOptions,
    /// `db/snapshots.rs`: the live snapshots. Read while the state changes.
    Snapshots,
    /// `db/inner/reading.rs`: the read states that readers may hold. Extended while the state
    /// changes.
    ReadStates,
    /// `db/inner/jobs.rs`: the idle threads of a database. Taken under the state.
    Threads,
    /// `db/inner/jobs.rs`: how many jobs a database has. A job is counted under the state or under
    /// the timer's lock.
    Jobs,
    /// `db/background/pool.rs`: the threads and jobs of one pool. A job starts under the state.
    JobPool,

    // Tables and files. They are opened, read and dropped under many of the above.
    /// `db/inner/database.rs`: the lock file of the directory, until it is released.
    Directory,
    /// `version/table_file.rs`: the running deletions. Not held during a deletion.
    Removals,
    /// `version/table_file.rs`: the counts of obsolete tables.
    ObsoleteCounts,
    /// `fs/overlapped/threads.rs`: the threads of one reader.
    ReadThreads,
    /// `fs/overlapped/threads.rs`: the reads of one batch that no thread has begun.
    ReadJobs,
    /// `fs/descriptors/file.rs`: one thread opens a file again. Held while the system opens it.
    FileOpening,
    /// `fs/real/lock.rs`: the lock files of this process. Held while one is opened.
    HeldLocks,
    /// `fs/descriptors/pool.rs`: all pools of the process.
    DescriptorPools,
    /// `fs/descriptors/pool.rs`: the open files of one pool.
    DescriptorRing,
    /// `fs/descriptors/pool.rs`: the descriptor of one file. Taken under the ring's lock.
    DescriptorSlot,
    /// `fs/fault/rules.rs`: the planned faults. Not held while a hook runs.
    Faults,
    /// `fs/mem/tree.rs`: the directories in memory.
    MemTree,
    /// `fs/mem/tree.rs`: one file in memory.
    MemFile,

    // Memory.
    /// `cache/mod.rs`: where threads wait until another one has loaded a block.
    BlockWaits,
    /// `cache/miss_buffers.rs`: the new and the spare blocks of a group of threads. A spare block
    /// may be dropped under it.
    MissBuffer,
    /// `cache/pool.rs`: the large pages of a cache. Whether they may grow is asked under it.
    CachePages,
    /// `cache/mod.rs`: the rings of a cache.
    CacheRings,
    /// `memtable/arena.rs`: the chunks of one arena.
    ArenaChunks,
    /// `sync/reclaim/collector.rs`: what waits for its drop. Nothing is dropped under it.
    Bags,
    /// `sync/reclaim/collector.rs`: the records of all threads. A thread enters at its first pin.
    Registry,
}

/// Whether the order is checked. loom runs its threads on one thread of the system, so the check
/// would confuse their locks.
const IS_CHECKED: bool = cfg!(all(debug_assertions, not(loom)));

/// The places of the locks that a thread holds, one bit each.
type Places = u64;

const _: () = assert!(PLACES.len() <= Places::BITS as usize);

thread_local! {
    /// Has no destructor, so that the destructors of other thread locals may lock.
    static HELD: Cell<Places> = const { Cell::new(0) };
}

fn held() -> Places {
    HELD.try_with(Cell::get).unwrap_or(0)
}

/// Returns the places before. Does nothing in the destructors of shuttle's thread locals, which may
/// come after this one's.
fn set_held(places: Places) -> Places {
    HELD.try_with(|held| held.replace(places)).unwrap_or(0)
}

/// While this value lives, its thread holds a lock of rank `R`, or waits for it.
pub(super) struct Held<R: Rank>(PhantomData<R>);

impl<R: Rank> Held<R> {
    /// Call this before the thread waits for the lock, so that a wrong order panics instead of
    /// blocking for ever. While another panic unwinds, a wrong order is ignored, because a second
    /// panic would end the process without a message about the first.
    #[inline(always)]
    #[track_caller]
    pub fn begin() -> Held<R> {
        if IS_CHECKED {
            let (held, place) = (held(), R::PLACE);
            assert!(
                held >> place as u32 == 0 || std::thread::panicking(),
                "{place:?} must not be locked after {:?}",
                PLACES[held.ilog2() as usize]
            );
            set_held(held | bit(place));
        }
        Held(PhantomData)
    }
}

impl<R: Rank> Drop for Held<R> {
    #[inline(always)]
    fn drop(&mut self) {
        if IS_CHECKED {
            set_held(held() & !bit(R::PLACE));
        }
    }
}

const fn bit(place: Place) -> Places {
    1 << place as u32
}

/// Call this before the thread waits for a device. In debug builds, it panics if the thread holds a
/// lock under which it may not wait.
#[inline(always)]
#[track_caller]
pub(crate) fn assert_may_wait() {
    if IS_CHECKED {
        let no_wait = (bit(Place::JobPool) << 1) - bit(Place::TreeState);
        let held = held() & no_wait;
        let may_wait = held == 0 || std::thread::panicking();
        assert!(may_wait, "{:?} is held while a device works", PLACES[held.ilog2() as usize]);
    }
}

/// Calls a user's `Fs` in a drop, with the locks of the thread set aside. See the module.
#[inline(always)]
#[track_caller]
pub(crate) fn apart<T>(call: impl FnOnce() -> T) -> T {
    assert_may_wait();
    let _aside = Aside(if IS_CHECKED { set_held(0) } else { 0 });
    call()
}

/// The places of the locks that are set aside until this value is dropped.
struct Aside(Places);

impl Drop for Aside {
    #[inline(always)]
    fn drop(&mut self) {
        if IS_CHECKED {
            set_held(self.0);
        }
    }
}

#[cfg(all(test, debug_assertions, not(loom)))]
mod tests {
    use super::super::{Mutex, lock};
    use super::*;

    /// Whether a thread may lock `A`, and then `B`.
    fn may_follow<A: Rank, B: Rank>() -> bool {
        let (first, second) = (Mutex::<(), A>::new(()), Mutex::<(), B>::new(()));
        let both = move || {
            let _first = lock(&first);
            drop(lock(&second));
        };
        std::thread::spawn(both).join().is_ok()
    }

    #[test]
    fn a_lock_that_comes_earlier_in_the_table_panics() {
        assert!(may_follow::<Writer, TreeState>() && may_follow::<Pops, Registry>());
        assert!(!may_follow::<TreeState, Writer>() && !may_follow::<Registry, Pops>());
        assert!(!may_follow::<MemFile, MemFile>(), "a thread holds one lock of a rank");
    }

    #[test]
    fn a_lock_that_was_released_does_not_count() {
        let (early, late) = (Mutex::<(), Manifest>::new(()), Mutex::<(), TreeState>::new(()));
        let (first, second) = (lock(&early), lock(&late));
        drop(first);
        drop(second);
        drop(lock(&early));
    }

    #[test]
    fn a_lock_that_another_thread_took_does_not_count() {
        let (early, late) = (Mutex::<(), Manifest>::new(()), Mutex::<(), TreeState>::new(()));
        let _late = lock(&late);
        std::thread::scope(|scope| scope.spawn(|| drop(lock(&early))).join()).unwrap();
    }

    #[test]
    fn a_call_that_is_set_apart_is_checked_by_itself() {
        let (early, late) = (Mutex::<(), Pops>::new(()), Mutex::<(), Manifest>::new(()));
        let state = Mutex::<(), TreeState>::new(());
        let _late = lock(&late);
        apart(|| drop(lock(&early)));
        let inverted = || {
            apart(|| {
                let _state = lock(&state);
                drop(lock(&early));
            });
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(inverted)).is_err());
        // The locks that were set aside count again.
        let early = std::panic::AssertUnwindSafe(&early);
        assert!(std::panic::catch_unwind(|| drop(lock(&early))).is_err());
    }

    #[test]
    fn no_device_is_waited_for_under_the_state() {
        let (manifest, state) = (Mutex::<(), Manifest>::new(()), Mutex::<(), TreeState>::new(()));
        let _manifest = lock(&manifest);
        assert_may_wait();
        let _state = lock(&state);
        assert!(std::panic::catch_unwind(assert_may_wait).is_err());
    }
}
