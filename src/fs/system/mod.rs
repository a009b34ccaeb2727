//! Where operating systems differ: `unix.rs` and `windows.rs` define the same items.
//!
//! ```text
//!                     Linux            macOS            FreeBSD, …    Windows
//! sync of a file      fdatasync        F_FULLFSYNC      fdatasync     FlushFileBuffers
//! sync of a directory fsync            F_FULLFSYNC      fsync         FlushFileBuffers if accepted
//! read at an offset   pread            pread            pread         ReadFile with an offset
//! identity of a file  device, inode    device, inode    device, inode times of creation and change
//! open a table or log openat           openat           openat         by name
//! lock                flock            flock            flock         LockFileEx
//! many reads at once  io_uring         threads          threads       threads
//! log by a mapping    yes (mapped.rs)  no               no            no
//! ```
//!
//! The documentation of [`super`] states what the store needs of each system, and the documentation
//! of `windows.rs` states what Windows does not promise.
//!
//! Here and in [`super::descriptors`], a *descriptor* is a file descriptor of Unix or a handle of
//! Windows.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(super) use unix::*;
#[cfg(windows)]
pub(super) use windows::*;
