//! loom's model of how the leader of the writers hands marks over to readers, under every
//! interleaving. A mark is an interval of keys in which cursors show nothing ([`super`]).

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::{Keeper, Marks, Proposal};
use crate::sync::{check_model, collect};

/// The leader cuts a mark, then publishes a put into it. A reader that sees the put's number finds
/// the mark cut. Any other reader may find it whole.
#[test]
fn loom_who_sees_a_put_sees_that_its_mark_was_cut() {
    check_model(|| {
        collect();
        let marks = Arc::new(Marks::new());
        let visible = Arc::new(AtomicU64::new(1));
        let mut keeper = Keeper::default();
        keeper.consider(Proposal::new(b"a", Some(b"z"), 1).unwrap(), 1);
        keeper.publish(&marks);
        let reader = thread::spawn({
            let (marks, visible) = (Arc::clone(&marks), Arc::clone(&visible));
            move || {
                let sequence = visible.load(Ordering::Acquire);
                let interval = marks.around(b"k", sequence);
                assert!(sequence == 1 || interval.is_none());
            }
        });
        keeper.wrote(b"k", b"k");
        keeper.publish(&marks);
        visible.store(2, Ordering::Release);
        reader.join().unwrap();
    });
}
