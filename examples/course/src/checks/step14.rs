use super::super::step07_memtable::Memtable;
use super::super::step08_levels::Db;
use super::super::step12_cursors::MemtableCursor;
use super::super::step14_snapshots::*;
use crate::check::{Check, Scratch};
use crate::given::{Entry, split_key};

pub const CHECKS: &[Check] = &[
    Check { says: "a snapshot is there until it is dropped", run: taken_and_dropped },
    Check { says: "a snapshot sees what was there", run: sees_what_was },
    Check { says: "a scan of a snapshot sees it too", run: scans_what_was },
    Check { says: "is_needed() keeps what a reader sees, and no more", run: the_rule },
    Check { says: "needed() keeps the needed versions of each key", run: of_each_key },
];

fn taken_and_dropped() {
    let snapshots = Snapshots::default();
    assert_eq!(snapshots.sequences(), [0; 0], "the snapshots before the first");
    let later = snapshots.take(9);
    let early = snapshots.take(4);
    let again = snapshots.take(9);
    assert_eq!((later.sequence, early.sequence), (9, 4), "the numbers of two snapshots");
    assert_eq!(snapshots.sequences(), [4, 9], "the snapshots 9, 4 and 9 again");
    drop(again);
    assert_eq!(snapshots.sequences(), [4, 9], "one of two snapshots 9 was dropped: one is left");
    drop(later);
    assert_eq!(snapshots.sequences(), [4], "both snapshots 9 were dropped");
    drop(early);
    assert_eq!(snapshots.sequences(), [0; 0], "all snapshots were dropped");
}

fn sees_what_was() {
    let scratch = Scratch::new("was");
    let mut db = Db::open(&scratch.0).expect("open");
    let snapshots = Snapshots::default();
    let empty = snapshots.take(db.last_sequence);
    db.put(b"plum", b"blue").expect("put");
    db.put(b"pear", b"green").expect("put");
    let first = snapshots.take(db.last_sequence);
    db.put(b"plum", b"red").expect("put");
    db.delete(b"pear").expect("delete");
    db.put(b"fig", b"new").expect("put");
    for place in ["the memtable", "level 0"] {
        for (snapshot, name, expected) in [
            (&empty, "before the first write", [None, None, None]),
            (&first, "after two writes", [Some(&b"blue"[..]), Some(b"green"), None]),
        ] {
            for (key, expected) in [&b"plum"[..], b"pear", b"fig"].into_iter().zip(expected) {
                let found = snapshot.get(&db, key).expect("get");
                assert_eq!(
                    found.as_deref().map(|value| value.escape_ascii().to_string()),
                    expected.map(|value| value.escape_ascii().to_string()),
                    "`{}` in a snapshot {name}; the versions are in {place}",
                    key.escape_ascii()
                );
            }
        }
        db.flush().expect("flush");
    }
}

fn scans_what_was() {
    let scratch = Scratch::new("scans");
    let mut db = Db::open(&scratch.0).expect("open");
    db.put(b"a", b"1").expect("put");
    db.put(b"b", b"2").expect("put");
    let snapshot = Snapshots::default().take(db.last_sequence);
    db.delete(b"a").expect("delete");
    db.put(b"b", b"3").expect("put");
    db.put(b"c", b"4").expect("put");
    db.flush().expect("flush");
    let scan = |from: &[u8]| -> Vec<String> {
        let scan = snapshot.scan(&db, from).expect("a scan");
        let show = |(key, value): (Vec<u8>, Vec<u8>)| {
            format!("{} {}", key.escape_ascii(), value.escape_ascii())
        };
        scan.map(|entry| show(entry.expect("an entry"))).collect()
    };
    assert_eq!(scan(b""), ["a 1", "b 2"], "a scan of a snapshot, after three later writes");
    assert_eq!(scan(b"b"), ["b 2"], "the same from `b` on");
}

/// The newest of some versions that is not newer than a snapshot.
fn seen(versions: &[u64], snapshot: u64) -> Option<u64> {
    versions.iter().copied().filter(|&version| version <= snapshot).max()
}

/// The numbers from 1 to 6 whose bits are set.
fn subset(bits: u32) -> Vec<u64> {
    (0..6).filter(|i| bits >> i & 1 == 1).map(|i| i + 1).collect()
}

fn the_rule() {
    for (sequence, newer, snapshots, expected, why) in [
        (5, None, &[][..], true, "it is the newest version"),
        (5, None, &[3], true, "it is the newest version, and newer than all snapshots"),
        (5, Some(9), &[], false, "there is a newer version, and no snapshot"),
        (5, Some(9), &[7], true, "the snapshot 7 sees it"),
        (5, Some(9), &[5], true, "the snapshot 5 sees it: it was taken right after write 5"),
        (5, Some(9), &[9], false, "the snapshot 9 sees version 9"),
        (5, Some(9), &[4], false, "it was written after the snapshot 4"),
        (5, Some(9), &[2, 8, 20], true, "the snapshot 8 sees it"),
        (
            5,
            Some(9),
            &[2, 20],
            false,
            "the snapshot 2 is before it, and 20 sees version 9 or newer",
        ),
    ] {
        let newer_text =
            newer.map_or("no newer one".into(), |n| format!("the next newer one is {n}"));
        assert_eq!(
            is_needed(sequence, newer, snapshots),
            expected,
            "version {sequence}, {newer_text}, snapshots {snapshots:?}: {why}"
        );
    }
    // Every set of versions with every set of snapshots.
    for versions in (1..64).map(subset) {
        for snapshots in (0..64).map(subset) {
            let seen_by_some =
                |version| snapshots.iter().any(|&s| seen(&versions, s) == Some(version));
            for (i, &version) in versions.iter().enumerate() {
                let newer = versions.get(i + 1).copied();
                assert_eq!(
                    is_needed(version, newer, &snapshots),
                    newer.is_none() || seen_by_some(version),
                    "version {version} of {versions:?}, with snapshots {snapshots:?}"
                );
            }
        }
    }
}

fn of_each_key() {
    let mut memtable = Memtable::default();
    let versions: [(&[u8], &[u64]); 5] =
        [(b"", &[20, 1]), (b"a", &[12, 6, 4, 1]), (b"b", &[9]), (b"c", &[11, 5, 2]), (b"d", &[8])];
    for (key, sequences) in versions {
        for &sequence in sequences {
            // 11 and 8 are tombstones.
            let value = (sequence != 11 && sequence != 8).then(|| b"x".to_vec());
            memtable.insert(key, Entry { sequence, value });
        }
    }
    let kept = |snapshots: &[u64]| -> Vec<String> {
        let kept = needed(MemtableCursor::new(&memtable), snapshots).expect("needed");
        let show = |key: &[u8]| {
            let (user_key, sequence, _) = split_key(key);
            format!("{}{sequence}", user_key.escape_ascii())
        };
        kept.iter().map(|(key, _)| show(key)).collect()
    };
    assert_eq!(
        kept(&[]),
        ["20", "a12", "b9", "c11", "d8"],
        "without snapshots: the newest version of each key, also if it is a tombstone. \
         The first key is empty. Left: yours; right: expected"
    );
    assert_eq!(
        kept(&[5, 7]),
        ["20", "1", "a12", "a6", "a4", "b9", "c11", "c5", "d8"],
        "with snapshots 5 and 7. Versions of a: 12, 6, 4, 1; of b: 9; of c: 11, 5, 2; of d: 8. \
         Left: yours; right: expected"
    );
}
