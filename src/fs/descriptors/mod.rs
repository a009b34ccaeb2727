//! The descriptors of table files. Each pool keeps a bounded number of them open: those of the
//! files that were read most recently.
//!
//! ```text
//!   PooledFile   path, length and identity of the first opening            any number   (file.rs)
//!     └─ Slot    a descriptor, or none                                            (pool.rs)
//!   DescriptorPool
//!     └─ Ring    the open slots, swept by a clock's hand             at most `capacity`
//!          └─ Urings   rings of the kernel for overlapped reads      at most an eighth (urings.rs)
//!   HeldDescriptor   of any file, open until it is dropped                        (held.rs)
//! ```
//!
//! * A read locks its file only while it takes the descriptor. A read of a closed file opens it again. While the system
//!   opens the file, the read holds only a lock of that file.
//! * Before a file is opened, the pool makes room: the clock's hand closes the first descriptor
//!   that is not in use and was not used since the hand last passed it. If all are in use, the file
//!   is opened nevertheless, because a read never waits for another read. So the pool exceeds its
//!   capacity by at most the number of reading threads. A thread that reads many files at once does
//!   not break this bound: when the pool exceeds its capacity, the thread lets its reads in flight
//!   end before it opens another file.
//! * When a file is opened again, its device, inode and length (on Windows: its times and length)
//!   must be the same as at the first opening. Otherwise the read returns an error.
//! * [`keep_open`](super::RandomAccessFile::keep_open) takes a file, with its descriptor, out of
//!   the pool's ring for good. The descriptor no longer counts towards the capacity.
//!
//! If the process or the system has no descriptor left, opening a file closes idle descriptors of
//! every pool and tries again ([`with_descriptor`]). The opening fails only if no pool has an idle
//! descriptor, or if other threads take all descriptors that become free.
//!
//! No call waits until a descriptor becomes free, and nothing here knows what the files contain.

mod file;
mod held;
mod pool;
mod urings;

use std::io;
use std::sync::Weak;

use crate::error::lacks_descriptors;
use crate::sync::lock;
pub(super) use file::PooledFile;
pub use held::HeldDescriptor;
pub use pool::DescriptorPool;
use pool::POOLS;
pub(super) use urings::MakeUring;

/// When the process or the system has no descriptor left, each pool closes up to this many idle
/// descriptors before the next attempt to open the file.
const CLOSED_AT_ONCE: usize = 16;
/// Descriptors are closed at most this many times to open one file. Once may not be enough, because
/// other threads may take the descriptors that become free.
const ATTEMPTS: usize = 64;

/// Runs `open`, which takes a descriptor. If the process or the system has none left, closes idle
/// descriptors of every pool (of kernel rings, and of table files that are not being read), and
/// runs `open` again.
pub(super) fn with_descriptor<T>(open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    retry_after_closing(open, || {
        let pools: Vec<_> = lock(POOLS.get()).iter().filter_map(Weak::upgrade).collect();
        pools.iter().map(|pool| pool.close_idle(CLOSED_AT_ONCE)).sum::<usize>() > 0
    })
}

fn retry_after_closing<T>(
    mut open: impl FnMut() -> io::Result<T>,
    close_others: impl Fn() -> bool,
) -> io::Result<T> {
    for _ in 0..ATTEMPTS {
        match open() {
            Err(error) if lacks_descriptors(&error) && close_others() => {}
            done => return done,
        }
    }
    open()
}

#[cfg(all(test, not(loom)))]
mod tests;
