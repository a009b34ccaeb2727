//! Tests of the key set: its absent keys are absent, and the queries of a file are used.

use std::fs;

use super::*;

fn sorted(list: &KeyList) -> Vec<&[u8]> {
    let mut keys: Vec<_> = (0..list.len()).map(|i| list.get(i)).collect();
    keys.sort_unstable();
    keys
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(&file, text).unwrap();
    file
}

fn request(source: Source, most: usize) -> Request {
    Request { source, absent_file: None, query_file: None, zipf: None, most, seed: 5 }
}

fn lines_of(path: &Path) -> Source {
    Source::File { path: path.to_owned(), tsv: false }
}

#[test]
fn absent_keys_are_absent_and_inside_the_range() {
    let text: String = (0..1000).map(|i| format!("key {}\n", i * 7919 % 1000)).collect();
    let keys = file(&text);
    let others = file("key 1x\nkey 1\na\nz\nkey 1x\n");
    let absent_file = Some(others.path().to_owned());
    for request in [
        request(Source::Generated(1000), 300),
        request(lines_of(keys.path()), 90),
        Request { absent_file, ..request(lines_of(keys.path()), 90) },
        Request { zipf: Some(0.99), ..request(Source::Generated(1000), 300) },
    ] {
        let set = KeySet::new(&request).unwrap();
        let (present, absent) = (sorted(&set.present), sorted(&set.absent));
        assert!(!absent.is_empty());
        assert!(present.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(absent.windows(2).all(|pair| pair[0] < pair[1]));
        for key in &absent {
            assert!(present.binary_search(key).is_err());
            assert!(present[0] < *key && *key < present[present.len() - 1]);
        }
        assert!(set.queries.present.iter().all(|&i| i < present.len()));
        assert!(set.queries.absent.iter().all(|&i| i < absent.len()));
        assert!(!set.queries.absent.is_empty() && !set.queries.present.is_empty());
    }
}

#[test]
fn a_tenth_is_held_out_and_the_rest_is_loaded() {
    let text: String = (0..1000).map(|i| format!("{i:03}\n")).collect();
    let keys = file(&text);
    let set = KeySet::new(&request(lines_of(keys.path()), 1_000_000)).unwrap();
    assert_eq!((set.present.len(), set.absent.len()), (900, 100));
    assert!(set.notes.is_empty() && set.values.is_none());
}

#[test]
fn a_seed_draws_the_same_keys_again() {
    let of = |seed| {
        let request = Request { seed, ..request(Source::Generated(9), 9) };
        KeySet::new(&request).unwrap()
    };
    let (a, b, c) = (of(1), of(1), of(2));
    assert_eq!((&a.present.bytes, &a.absent.bytes), (&b.present.bytes, &b.absent.bytes));
    assert_ne!(a.present.bytes, c.present.bytes);
}

#[test]
fn an_empty_line_is_the_empty_key_and_equal_lines_count_once() {
    let keys = file("b\n\na\nb\n\n\nc");
    let set = KeySet::new(&request(lines_of(keys.path()), 9)).unwrap();
    assert_eq!(set.present.len() + set.absent.len(), 4);
    assert_eq!(sorted(&set.present)[0], b"");
    assert!(set.notes[0].contains("7 lines, 4 distinct"), "{:?}", set.notes);
}

#[test]
fn values_stay_with_their_keys() {
    let keys = file("a\t1\nb\t2\nc\t3\nd\t4\n");
    let source = Source::File { path: keys.path().to_owned(), tsv: true };
    let set = KeySet::new(&request(source, 1)).unwrap();
    let values = set.values.unwrap();
    assert_eq!(set.present.len(), 3);
    for i in 0..3 {
        assert_eq!(values.get(i)[0] - b'1', set.present.get(i)[0] - b'a');
    }
}

#[test]
fn queries_of_a_file_are_asked_in_its_order_present_or_not() {
    let keys = file("b\nd\nf\n");
    let queries = file("d\nc\nd\nz\nb\nc\n");
    let query_file = Some(queries.path().to_owned());
    let with = Request { query_file, ..request(lines_of(keys.path()), 9) };
    let set = KeySet::new(&with).unwrap();
    let asked = |list: &KeyList, order: &[usize]| -> String {
        order.iter().map(|&i| list.get(i)[0] as char).collect()
    };
    assert_eq!(asked(&set.present, &set.queries.present), "ddb");
    assert_eq!(asked(&set.absent, &set.queries.absent), "czc");
    assert!(set.queries.about.contains("50.0 % of absent"), "{}", set.queries.about);
    assert!(set.queries.about.contains("16.7 % outside"), "{}", set.queries.about);
    // What a memtable answered searches no table.
    std::fs::write(queries.path(), "d\tmemtable\nb\tL6\nz\tabsent\nd\tmemtable\n").unwrap();
    let set = KeySet::new(&with).unwrap();
    assert_eq!(asked(&set.present, &set.queries.present), "b");
    let left_out = "2 lookups that a memtable answered are left out";
    assert_eq!(set.notes.len(), 1);
    assert!(set.notes[0].ends_with(left_out), "{}", set.notes[0]);
    assert_eq!(set.queries.share_absent, Some(0.5));
    std::fs::write(queries.path(), "d\tmemtable\n").unwrap();
    assert!(KeySet::new(&with).is_err());
}

#[test]
fn what_cannot_be_compared_is_refused_with_a_reason() {
    for (text, reason) in [("", "no keys"), ("a\nb\nb\n", "2 distinct keys")] {
        let keys = file(text);
        let error = KeySet::new(&request(lines_of(keys.path()), 9)).err().unwrap();
        let Failure::Message(message) = error else { panic!() };
        assert!(message.contains(reason), "{message}");
    }
}
