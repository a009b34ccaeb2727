//! Tests of the pool: one thread and many threads read more files than the capacity, and files
//! change after their first opening.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::error::NO_DESCRIPTORS;
use crate::error::{Error, Result};
use crate::fs::system::DEVICE_ERROR;
use crate::fs::{Fs, RandomAccessFile, RealFs};

/// `count` files of one pool, each with 64 bytes whose value is the number of the file.
fn files(dir: &Path, count: usize, pool: &Arc<DescriptorPool>) -> Vec<Arc<dyn RandomAccessFile>> {
    let open = |n: usize| {
        let path = dir.join(n.to_string());
        fs::write(&path, [n as u8; 64]).unwrap();
        RealFs.open_pooled(&path, pool).unwrap()
    };
    (0..count).map(open).collect()
}

fn read(file: &dyn RandomAccessFile) -> Result<[u8; 64]> {
    let mut bytes = [0; 64];
    file.read_exact_at(0, &mut bytes)?;
    Ok(bytes)
}

#[test]
fn files_beyond_the_capacity_are_opened_when_they_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let pool = DescriptorPool::new(3);
    let files = files(dir.path(), 10, &pool);
    assert_eq!(pool.open_files(), 3);
    for _ in 0..3 {
        for (n, file) in files.iter().enumerate() {
            assert_eq!(read(&**file).unwrap(), [n as u8; 64]);
            assert_eq!(pool.open_files(), 3);
        }
    }
    assert!((27..=30).contains(&pool.reopened()), "{}", pool.reopened());
    drop(files);
    assert_eq!(pool.open_files(), 0);
}

#[test]
fn what_is_read_often_keeps_its_descriptor() {
    let dir = tempfile::tempdir().unwrap();
    let pool = DescriptorPool::new(4);
    let files = files(dir.path(), 20, &pool);
    let reopened = || pool.reopened();
    let mut favourite_misses = 0;
    for n in 1..200 {
        read(&*files[1 + n % 19]).unwrap();
        let before = reopened();
        read(&*files[0]).unwrap();
        favourite_misses += reopened() - before;
    }
    assert!(favourite_misses <= 1, "{favourite_misses}");
}

#[test]
fn threads_that_read_and_evict_each_others_files_read_the_right_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let pool = DescriptorPool::new(2);
    let files = files(dir.path(), 7, &pool);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (files, pool) = (&files, &pool);
            scope.spawn(move || {
                for step in 0..3000 {
                    let n = (step * (thread + 2) + step / 7) % files.len();
                    assert_eq!(read(&*files[n]).unwrap(), [n as u8; 64]);
                    // Each of the four reading threads may exceed the capacity by one descriptor.
                    assert!(pool.open_files() <= 2 + 4);
                }
            });
        }
    });
    read(&*files[0]).unwrap();
    read(&*files[1]).unwrap();
    assert!(pool.open_files() <= 2, "no reader is left: {pool:?}");
}

#[test]
fn a_file_that_is_kept_outlives_its_name_and_leaves_its_place_to_others() {
    let dir = tempfile::tempdir().unwrap();
    let pool = DescriptorPool::new(1);
    let files = files(dir.path(), 3, &pool);
    assert!(files[0].keep_open().unwrap() && files[0].keep_open().unwrap());
    assert!(files[1].keep_open().unwrap());
    for n in 0..3 {
        fs::remove_file(dir.path().join(n.to_string())).unwrap();
    }
    assert_eq!(pool.open_files(), 0, "the third lost its descriptor to the second's opening");
    assert_eq!(pool.close_idle(10), 0);
    assert_eq!(read(&*files[0]).unwrap(), [0; 64]);
    assert_eq!(read(&*files[1]).unwrap(), [1; 64]);
    let error = read(&*files[2]).unwrap_err().to_string();
    assert!(error.contains("2: cannot open again"), "{error}");
    assert!(files[2].keep_open().is_err());
}

/// Files are not opened again by name alone. Otherwise, if a table replaced another of the same
/// name, it would be read with the index of the replaced one.
#[test]
fn another_file_in_the_place_of_the_first_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let pool = DescriptorPool::new(1);
    let files = files(dir.path(), 3, &pool);
    let path = |n: usize| dir.path().join(n.to_string());
    // Another file of the same length replaces file 0. File 1 stays the same file, and becomes
    // longer.
    fs::write(dir.path().join("new"), [9; 64]).unwrap();
    fs::rename(dir.path().join("new"), path(0)).unwrap();
    fs::OpenOptions::new().write(true).open(path(1)).unwrap().set_len(65).unwrap();
    for (n, found) in [(0, "64 bytes)"), (1, "65 bytes)")] {
        let error = read(&*files[n]).unwrap_err();
        let Error::Corruption { file, expected, found: is, .. } = error else { panic!("{error}") };
        assert_eq!(file, path(n));
        let identity = if cfg!(unix) { "inode" } else { "created" };
        assert!(expected.contains(identity) && expected.contains("64 bytes"), "{expected}");
        assert!(is.contains(identity) && is.contains(found), "{is}");
    }
    assert_eq!(read(&*files[2]).unwrap(), [2; 64]);
}

/// A failed opening must not keep counting towards the capacity.
#[test]
fn openings_that_fail_take_no_room() {
    let dir = tempfile::tempdir().unwrap();
    let pool = DescriptorPool::new(2);
    let files = files(dir.path(), 3, &pool);
    for _ in 0..10 {
        assert!(RealFs.open_pooled(&dir.path().join("none"), &pool).is_err());
    }
    assert!(files.iter().all(|file| read(&**file).is_ok()));
    assert_eq!(pool.open_files(), 2);
    assert_eq!(lock(&pool.ring).opening, 0);
}

#[test]
fn a_pool_that_gives_way_gives_up_what_nobody_reads() {
    let dir = tempfile::tempdir().unwrap();
    let pool = DescriptorPool::new(40);
    let files = files(dir.path(), 30, &pool);
    assert_eq!(pool.close_idle(CLOSED_AT_ONCE), CLOSED_AT_ONCE);
    assert_eq!(pool.open_files(), 30 - CLOSED_AT_ONCE);
    let close_others = || pool.close_idle(CLOSED_AT_ONCE) > 0;
    let refusal = io::Error::from_raw_os_error;
    let mut attempts = 0;
    let opened = retry_after_closing(
        || {
            attempts += 1;
            if pool.open_files() == 0 { Ok(()) } else { Err(refusal(NO_DESCRIPTORS[0])) }
        },
        close_others,
    );
    assert!(opened.is_ok() && attempts == 2, "{opened:?} after {attempts}");
    for code in [NO_DESCRIPTORS[0], DEVICE_ERROR] {
        let mut failed = 0;
        let refused = || -> io::Result<()> {
            failed += 1;
            Err(refusal(code))
        };
        assert!(retry_after_closing(refused, close_others).is_err());
        assert_eq!(failed, 1, "nothing was left to give up");
    }
    assert!(files.iter().all(|file| read(&**file).is_ok()));
}
