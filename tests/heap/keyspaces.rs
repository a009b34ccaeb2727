//! Many keyspaces in one database take little memory each.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use maypole::Db;
use maypole::fs::{Fs, MemFs};

use super::{LIVE_BYTES, alone};

const KEYSPACES: usize = 300;

/// The bytes that an open database of so many keyspaces has more than one with `default` alone, for
/// each of them.
fn bytes_each(has_table: bool) -> usize {
    let open_bytes = |keyspaces: usize| {
        let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
        let open = || Db::builder("/db").fs(Arc::clone(&fs)).open().unwrap();
        let db = open();
        for i in 0..keyspaces {
            let keyspace = db.keyspace(format!("keyspace-{i:06}")).unwrap();
            if has_table {
                keyspace.put(format!("key-{i}"), "value").unwrap();
                keyspace.flush().unwrap();
            }
        }
        db.close().unwrap();
        let before = LIVE_BYTES.load(Relaxed);
        let db = open();
        let bytes = LIVE_BYTES.load(Relaxed).saturating_sub(before);
        assert_eq!(db.keyspaces().len(), 1 + keyspaces);
        db.close().unwrap();
        bytes
    };
    (open_bytes(KEYSPACES) - open_bytes(0)) / KEYSPACES
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_keyspace_takes_a_kilobyte_until_it_is_written_to_and_eight_with_a_table() {
    let _alone = alone();
    let (empty, with_table) = (bytes_each(false), bytes_each(true));
    println!("bytes of a keyspace: {empty}, with a table: {with_table}");
    assert!((50..1_000).contains(&empty), "{empty}");
    assert!((1_000..8_000).contains(&with_table), "{with_table}");
}
