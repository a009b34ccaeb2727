//! Each command, compared with Redis' documentation.

use super::super::shared::keys;
use super::*;

const BY_TWO: Growth = Growth::Expansion(2);

fn space() -> Keyspace {
    Keyspace::default()
}

/// Replies as digits: 1 and 0 as Redis prints them, and -1 for an error.
fn digits(replies: Vec<Reply<bool>>) -> Vec<i32> {
    replies.into_iter().map(|reply| reply.map_or(-1, i32::from)).collect()
}

#[test]
fn reserve_makes_an_empty_filter_once() {
    let mut space = space();
    space.reserve("bf", 0.001, 1000, BY_TWO).unwrap();
    assert_eq!(space.reserve("bf", 0.01, 1000, BY_TWO), Err(CommandError::Exists));
    let info = space.info("bf").unwrap();
    assert_eq!((info.capacity, info.filters, info.items, info.expansion), (1000, 1, 0, Some(2)));
    for (rate, capacity, growth) in [
        (0.0, 100, BY_TWO),
        (1.0, 100, BY_TWO),
        (0.01, 0, BY_TWO),
        (0.01, (1 << 30) + 1, BY_TWO),
        (0.01, 100, Growth::Expansion(0)),
    ] {
        let refused = space.reserve("other", rate, capacity, growth);
        assert!(matches!(refused, Err(CommandError::Invalid(_))), "{rate} {capacity} {growth:?}");
    }
    assert_eq!(space.info("other"), Err(CommandError::NotFound));
}

#[test]
fn a_filter_that_scales_gives_one_hash_more_than_one_that_does_not() {
    let mut space = space();
    space.reserve("grows", 0.01, 1000, BY_TWO).unwrap();
    space.reserve("fixed", 0.01, 1000, Growth::NonScaling).unwrap();
    let [grows, fixed] = ["grows", "fixed"].map(|key| space.info(key).unwrap());
    // The first layer of a filter that grows has half the rate, which takes 1.44 more bits a key.
    let more = (grows.size as f64 - fixed.size as f64) * 8.0 / 1000.0;
    assert!((1.3..1.6).contains(&more), "{more}");
    assert_eq!(fixed.expansion, None);
}

#[test]
fn add_makes_the_filter_with_the_defaults_and_tells_new_items() {
    let mut space = space();
    assert_eq!(space.add("bf", 1), Ok(true));
    assert_eq!(space.add("bf", 1), Ok(false));
    let info = space.info("bf").unwrap();
    assert_eq!((info.capacity, info.filters, info.items, info.expansion), (100, 1, 1, Some(2)));
}

#[test]
fn madd_and_mexists_answer_for_each_item() {
    let mut space = space();
    assert_eq!(digits(space.madd("bf", &[1, 2, 2]).unwrap()), [1, 1, 0]);
    assert_eq!(space.mexists("bf", &[1, 2, 3]), Ok(vec![true, true, false]));
    assert_eq!(space.exists("bf", 1), Ok(true));
    assert_eq!(space.exists("missing", 1), Ok(false));
    assert_eq!(space.mexists("missing", &[1, 2]), Ok(vec![false, false]));
}

#[test]
fn a_filter_without_scaling_fails_when_it_is_full_and_another_grows() {
    let items = keys(1, 0..1000);
    let mut space = space();
    space.reserve("fixed", 0.0001, 100, Growth::NonScaling).unwrap();
    let replies = space.madd("fixed", &items).unwrap();
    assert_eq!(replies.iter().filter(|reply| **reply == Ok(true)).count(), 100);
    assert_eq!(replies.last(), Some(&Err(CommandError::Full)));
    assert_eq!(space.add("fixed", items[0]), Ok(false));
    space.reserve("grows", 0.0001, 100, Growth::Expansion(3)).unwrap();
    assert!(space.madd("grows", &items).unwrap().iter().all(Result::is_ok));
    let info = space.info("grows").unwrap();
    // 100 + 300 + 900.
    assert_eq!((info.filters, info.capacity, info.expansion), (3, 1300, Some(3)));
    assert_eq!(space.mexists("grows", &items).unwrap(), [true; 1000]);
}

#[test]
fn insert_reserves_and_adds_and_its_options_matter_for_a_new_filter_only() {
    let mut space = space();
    let options = InsertOptions {
        capacity: Some(500),
        rate: Some(0.001),
        growth: Some(Growth::NonScaling),
        no_create: false,
    };
    assert_eq!(digits(space.insert("bf", options, &[1, 2, 1]).unwrap()), [1, 1, 0]);
    let info = space.info("bf").unwrap();
    assert_eq!((info.capacity, info.expansion), (500, None));
    let other = InsertOptions { capacity: Some(9999), ..options };
    assert_eq!(digits(space.insert("bf", other, &[3]).unwrap()), [1]);
    assert_eq!(space.info("bf").unwrap().capacity, 500);

    let no_create = InsertOptions { no_create: true, ..InsertOptions::default() };
    assert_eq!(space.insert("new", no_create, &[1]), Err(CommandError::NotFound));
    assert_eq!(digits(space.insert("bf", no_create, &[4]).unwrap()), [1]);
    for both in [
        InsertOptions { capacity: Some(5), ..no_create },
        InsertOptions { rate: Some(0.1), ..no_create },
    ] {
        assert!(matches!(space.insert("bf", both, &[1]), Err(CommandError::Invalid(_))));
    }
    assert_eq!(space.exists("new", 1), Ok(false));
}

#[test]
fn card_is_what_info_counts_and_nothing_for_a_missing_filter() {
    let mut space = space();
    assert_eq!(space.card("bf"), Ok(0));
    space.madd("bf", &[1, 2, 2, 3]).unwrap();
    assert_eq!(space.card("bf"), Ok(3));
    assert_eq!(space.info("bf").unwrap().items, 3);
}

fn dump(space: &Keyspace, key: &str) -> Vec<(u64, Vec<u8>)> {
    let (mut pieces, mut iterator) = (Vec::new(), 0);
    loop {
        let (next, piece) = space.scandump(key, iterator).unwrap();
        if next == 0 {
            assert!(piece.is_empty());
            return pieces;
        }
        iterator = next;
        pieces.push((next, piece));
    }
}

#[test]
fn a_dump_loads_under_another_name() {
    let items = keys(2, 0..500);
    let mut space = space();
    // One layer, whose bits take more than one piece.
    space.reserve("bf", 0.01, 1_000_000, BY_TWO).unwrap();
    space.madd("bf", &items).unwrap();
    let pieces = dump(&space, "bf");
    assert!(pieces.len() >= 3 && pieces[0].0 == 1);
    space.add("copy", 77).unwrap();
    for (i, (iterator, piece)) in pieces.iter().enumerate() {
        assert_eq!(space.exists("copy", 1).is_err(), i > 0, "half loaded, it answers nothing");
        space.loadchunk("copy", *iterator, piece).unwrap();
    }
    assert_eq!(space.info("copy"), space.info("bf"));
    assert!(space.mexists("copy", &items).unwrap().iter().all(|&there| there));
    assert_eq!(space.exists("copy", 77), Ok(false), "the load replaced what was there");
    assert_eq!(space.scandump("missing", 0), Err(CommandError::NotFound));
}

/// For an iterator that no reply had returned, `scandump` once returned an empty or a shifted
/// piece, and `loadchunk` once accepted an empty piece. Now both are errors.
#[test]
fn iterators_of_another_dump_are_refused() {
    let mut space = space();
    space.reserve("bf", 0.01, 1_000_000, BY_TWO).unwrap();
    let pieces = dump(&space, "bf");
    let ends: Vec<u64> = pieces.iter().map(|&(end, _)| end).collect();
    let last = *ends.last().unwrap();
    assert_eq!(space.scandump("bf", last), Ok((0, Vec::new())));
    for wrong in [2, 9, ends[1] - 8, ends[1] + 8, last - 1, last + 1, last + 8, u64::MAX] {
        let refused = space.scandump("bf", wrong);
        assert!(matches!(refused, Err(CommandError::Invalid(_))), "{wrong}");
    }
    space.loadchunk("copy", 1, &pieces[0].1).unwrap();
    for wrong in [0, 1, 2, ends[1], last, u64::MAX] {
        assert!(space.loadchunk("copy", wrong, b"").is_err(), "{wrong}");
    }
    for (end, piece) in &pieces[1..] {
        space.loadchunk("copy", *end, piece).unwrap();
    }
    assert_eq!(space.loadchunk("copy", last, b""), Err(CommandError::Exists));
}

/// `reserve` with legal options that are too large for memory once ended the process. Now it
/// returns an error.
#[test]
fn what_does_not_fit_into_memory_is_refused() {
    let mut space = space();
    let refused = space.reserve("bf", 1e-300, 1 << 30, BY_TWO);
    assert!(matches!(refused, Err(CommandError::Invalid(what)) if what.contains("memory")));
    assert_eq!(space.info("bf"), Err(CommandError::NotFound));
}

#[test]
fn pieces_that_do_not_follow_are_refused() {
    let mut space = space();
    space.madd("bf", &keys(3, 0..50)).unwrap();
    let pieces = dump(&space, "bf");
    let [(_, header), (end, payload)] = &pieces[..] else { panic!("{} pieces", pieces.len()) };
    let lost = |reply| matches!(reply, Err(CommandError::Damaged(_)));
    assert_eq!(space.loadchunk("new", *end, payload), Err(CommandError::NotFound));
    assert!(lost(space.loadchunk("new", 1, b"no header")));
    assert_eq!(space.card("new"), Ok(0));
    space.loadchunk("new", 1, header).unwrap();
    assert!(
        lost(space.loadchunk("new", 0, payload)) && lost(space.loadchunk("new", end + 8, payload))
    );
    assert!(lost(space.loadchunk("new", *end, &payload[8..])));
    space.loadchunk("new", *end, payload).unwrap();
    assert_eq!(space.card("new"), space.card("bf"));
}
