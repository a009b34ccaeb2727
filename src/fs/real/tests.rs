//! Tests of what `RealFs` promises beyond the contract of every file system.

use std::fs;

use super::*;
use crate::fs::WRITE_BUFFER_BYTES;

/// A program once closed a database while another of its threads started a child process. Between
/// fork and exec the child has a copy of every descriptor, so the lock outlived the database, and
/// opening the database again failed with "already open elsewhere". Now closing the database
/// unlocks the file before it closes the descriptor.
#[test]
fn a_lock_is_given_back_although_a_child_still_has_its_descriptor() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let held = lock_file(None, &path).unwrap();
    // A second descriptor of the same open file, like the one that a forked child has.
    let of_the_child = held.file.try_clone().unwrap();
    assert!(matches!(lock_file(None, &path), Err(Error::Locked { .. })));
    drop(held);
    lock_file(None, &path).unwrap();
    drop(of_the_child);
}

#[test]
fn reading_a_table_is_not_noted_as_access() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, [7; 100]).unwrap();
    // The last access is so long ago that the usual mount option, `relatime`, would note the next
    // read.
    let long_ago = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1 << 30);
    let times = fs::FileTimes::new().set_accessed(long_ago);
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_times(times).unwrap();
    let mut buffer = [0; 100];
    RealFs.open(&path).unwrap().read_exact_at(0, &mut buffer).unwrap();
    assert_eq!(buffer, [7; 100]);
    let accessed = fs::metadata(&path).unwrap().accessed().unwrap();
    assert!(accessed == long_ago || cfg!(not(target_os = "linux")), "{accessed:?}");
}

#[test]
fn what_is_handed_on_ends_at_multiples_of_the_buffer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let mut file = RealWritableFile::create(None, &path).unwrap();
    let mut all = Vec::new();
    for (i, bytes) in [1000, 300_000, 7, 0, 262_144, 1 << 20, 600_000].into_iter().enumerate() {
        if i == 3 {
            // After an early flush, later pieces still end at multiples of the buffer's size.
            file.flush().unwrap();
        }
        let piece: Vec<u8> = (0..bytes).map(|at| (at / 7 + i) as u8).collect();
        file.append(&piece).unwrap();
        all.extend(piece);
        assert_eq!(file.len(), all.len() as u64);
        if i != 3 {
            assert_eq!(file.written_bytes % WRITE_BUFFER_BYTES as u64, 0, "piece {i}");
        }
        assert!(file.buffer.len() < WRITE_BUFFER_BYTES);
    }
    file.sync().unwrap();
    assert!(fs::read(&path).unwrap() == all);
}
