//! loom models of one writer and one reader. loom tries every interleaving with at most three
//! preemptions, and every value that each load may return. The models choose the heights of nodes,
//! so that links of two levels are published.
//!
//! loom also tracks the bytes of a node: a read that is not ordered after the write of the bytes
//! fails the model, whatever the bytes are.

use std::sync::Arc;

use loom::thread;

use super::skiplist::{SkipList, SkipListCursor, SkipListWriter};
use crate::cursor::Cursor;
use crate::encoding::key::{SEEK_KIND, pack, user_key};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::check_model;

/// Runs `read` while a writer inserts "a" (height 2) and then "c" (height 1) around an existing "b"
/// (height 2). `read` gets the list and how many of the two writes were published before it
/// started.
fn beside_two_inserts(read: fn(&Arc<SkipList>, u64)) {
    check_model(move || {
        let (list, mut writer) = SkipListWriter::new(0);
        writer.insert_with_height(2, b"b", pack(1, 1), b"B");
        let published = Arc::new(AtomicU64::new(0));
        let writing = thread::spawn({
            let published = Arc::clone(&published);
            move || {
                writer.insert_with_height(2, b"a", pack(2, 1), b"A");
                published.store(1, Ordering::Release);
                writer.insert_with_height(1, b"c", pack(3, 1), b"C");
                published.store(2, Ordering::Release);
            }
        });
        read(&list, published.load(Ordering::Acquire));
        writing.join().unwrap();
        assert_eq!(found(list.get(b"a", u64::MAX)), Some(b'A'));
        assert_eq!(found(list.get(b"c", u64::MAX)), Some(b'C'));
    });
}

fn found(answer: Option<(u64, &[u8])>) -> Option<u8> {
    answer.map(|(_, value)| value[0])
}

/// `keys` must be in order and hold "b" and the published keys. They may hold "a" and "c" even
/// before these are published.
fn assert_holds(keys: &[u8], published: u64) {
    assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
    assert!(keys.contains(&b'b'));
    assert!(published < 1 || keys.contains(&b'a'), "{keys:?}");
    assert!(published < 2 || keys.contains(&b'c'), "{keys:?}");
}

#[test]
fn loom_a_get_finds_what_was_published_and_only_whole_entries() {
    beside_two_inserts(|list, published| {
        let at = |key: &[u8]| found(list.get(key, pack(9, SEEK_KIND)));
        assert_eq!(at(b"b"), Some(b'B'));
        let a = at(b"a");
        assert!(a == Some(b'A') || (a.is_none() && published < 1));
        let c = at(b"c");
        assert!(c == Some(b'C') || (c.is_none() && published < 2));
    });
}

#[test]
fn loom_a_walk_forward_is_sorted_and_has_what_was_published() {
    beside_two_inserts(|list, published| {
        let mut cursor = SkipListCursor::new(Arc::clone(list));
        let mut keys = Vec::new();
        cursor.seek_to_first().unwrap();
        while cursor.valid() {
            assert_eq!(cursor.value(), user_key(cursor.key()).to_ascii_uppercase());
            keys.push(cursor.key()[0]);
            cursor.next().unwrap();
        }
        assert_holds(&keys, published);
    });
}

#[test]
fn loom_a_walk_back_is_sorted_and_has_what_was_published() {
    beside_two_inserts(|list, published| {
        let mut cursor = SkipListCursor::new(Arc::clone(list));
        let mut keys = Vec::new();
        cursor.seek_to_last().unwrap();
        while cursor.valid() {
            assert_eq!(cursor.value(), user_key(cursor.key()).to_ascii_uppercase());
            keys.insert(0, cursor.key()[0]);
            cursor.prev().unwrap();
        }
        assert_holds(&keys, published);
    });
}
