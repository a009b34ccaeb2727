//! Filters that hold prefixes, alone or together with whole keys.

use super::parts::{layout_of, opened};
use super::*;
use crate::encoding::key::MAX_SEQUENCE;
use crate::stats::Ticker;
use crate::table::format::properties::names;
use crate::table::{FilterKeys, PrefixExtractor};

fn extractor(text: &str) -> PrefixExtractor {
    text.parse().unwrap()
}

/// The first key after all that start with `prefix`.
fn after(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
    Some([&prefix[..last], &[prefix[last] + 1]].concat())
}

#[test]
fn no_key_and_no_prefix_that_is_there_is_denied() {
    let entries = mixed_entries(600);
    for text in ["fixed(4)", "fixed(9)", "capped(7)", "delimiter(0x2f, 1)", "delimiter(0xff, 3)"] {
        let extractor = extractor(text);
        for filter_keys in [FilterKeys::Prefix(extractor), FilterKeys::Both(extractor)] {
            for filter in ["bloom(10)", "ribbon(7)", "burr(7)"] {
                let options = TableOptions {
                    filter: filter.parse().unwrap(),
                    filter_keys,
                    ..options(Compression::None)
                };
                let table = table(&entries, options, &context(1 << 20));
                assert_eq!(table.verify().unwrap().filter_misses, 0, "{text} {filter}");
                for (internal_key, _) in &entries {
                    let user_key = key::user_key(internal_key);
                    let lookup = LookupKey::new(user_key, MAX_SEQUENCE);
                    assert!(get(&table, &lookup).unwrap().is_some(), "{text} {filter}");
                    for length in 0..=user_key.len().min(12) {
                        let lower = &user_key[..length];
                        let upper = after(lower);
                        assert!(table.range_may_match(lower, upper.as_deref()), "{lower:?}");
                        assert!(table.range_may_match(lower, Some(&[user_key, &[0]].concat())));
                    }
                }
            }
        }
    }
}

#[test]
fn the_properties_say_what_the_filter_holds() {
    let stored = |filter_keys| {
        let options = TableOptions { filter_keys, ..options(Compression::None) };
        let table = table(&mixed_entries(50), options, &context(0));
        let text = |name| table.properties().text(name).unwrap().to_owned();
        let whole = text(names::WHOLE_KEY_FILTERING);
        (whole + &text(names::PREFIX_FILTERING), text(names::PREFIX_EXTRACTOR))
    };
    let capped = extractor("capped(5)");
    assert_eq!(stored(FilterKeys::Whole), ("10".into(), "nullptr".into()));
    assert_eq!(stored(FilterKeys::Prefix(capped)), ("01".into(), "rocksdb.CappedPrefix.5".into()));
    assert_eq!(stored(FilterKeys::Both(capped)), ("11".into(), "rocksdb.CappedPrefix.5".into()));
}

#[test]
fn without_a_key_in_the_domain_there_is_no_filter_and_no_denial() {
    let entries = sorted(vec![
        (internal_key(b"a", 1, 1), b"1".to_vec()),
        (internal_key(b"b", 2, 1), b"2".to_vec()),
    ]);
    let filter_keys = FilterKeys::Prefix(extractor("fixed(3)"));
    let options = TableOptions { filter_keys, ..options(Compression::None) };
    let context = context(1 << 20);
    let table = table(&entries, options, &context);
    assert!(table.filter_info().is_none());
    assert!(table.range_may_match(b"abc", Some(b"abd")));
    assert!(get(&table, &LookupKey::new(b"a", MAX_SEQUENCE)).unwrap().is_some());
    assert!(get(&table, &LookupKey::new(b"abc", MAX_SEQUENCE)).unwrap().is_none());
    assert_eq!(context.counters.sums().get(Ticker::BloomPrefixChecked), 0);
}

#[test]
fn a_damaged_filter_of_prefixes_says_maybe_and_is_counted() {
    let entries = mixed_entries(200);
    let filter_keys = FilterKeys::Prefix(extractor("fixed(4)"));
    let mem = MemFs::new();
    write(&mem, "t.sst", &entries, TableOptions { filter_keys, ..options(Compression::None) });
    let mut bytes = mem.read(Path::new("t.sst")).unwrap();
    let handle = layout_of(&bytes).filter();
    bytes[handle.offset as usize] ^= 1;
    let context = context(1 << 20);
    let table = opened(&bytes, &context);
    assert!(table.range_may_match(b"none", Some(b"nonf")));
    assert!(get(&table, &LookupKey::new(b"none", MAX_SEQUENCE)).unwrap().is_none());
    let sums = context.counters.sums();
    assert_eq!(sums.get(Ticker::BloomPrefixChecked), 2);
    assert_eq!(sums.get(Ticker::BloomPrefixUseful), 0);
    assert_eq!(sums.get(Ticker::BloomUntrusted), 1);
    let counts = table.block_file().file_counters.sums().filter;
    assert_eq!((counts.full_positive, counts.untrusted), (1, 1));
}
