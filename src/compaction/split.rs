//! Where a large compaction is split, so that several threads share it.
//!
//! ```text
//!   file a   ├──▪──▪──▪──▪──▪──▪──▪──┤         ▪ anchor: a user key, and the bytes
//!   file b        ├▪─▪─▪─▪─▪─▪─▪─▪┤              since the anchor before
//!   parts    [ …      ) [ …   ) [ …  ]         about equal in bytes
//! ```
//!
//! The anchors (see the picture) come from the files' indexes, so no data block is read. A cut is
//! the first user key of a part, so all versions of a key are in one part.
//!
//! The functions here start no threads.

use std::sync::Arc;

use crate::error::Result;
use crate::version::TableFile;

/// A file gives at most this many anchors, as in RocksDB (`ApproximateKeyAnchors`).
const FILE_ANCHORS: usize = 128;

/// The user keys of one part: from `lower` to before `upper` (`None`: unbounded).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct KeyRange<'a> {
    pub lower: Option<&'a [u8]>,
    pub upper: Option<&'a [u8]>,
}

/// A user key, and how many bytes are between it and the previous anchor of its file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Anchor {
    user_key: Vec<u8>,
    bytes: u64,
}

/// The number of parts into which a compaction of `input_bytes` is split: one for each full table
/// of input, but at most `threads` and at least one.
pub(crate) fn part_count(input_bytes: u64, table_bytes: u64, threads: usize) -> usize {
    (input_bytes / table_bytes.max(1)).clamp(1, threads.max(1) as u64) as usize
}

/// The user keys, ascending, that cut `files` into `parts` parts of about equal size. Returns fewer
/// keys if the anchors have too few distinct keys.
pub(crate) fn cuts<'a>(
    files: impl Iterator<Item = &'a Arc<TableFile>>,
    parts: usize,
) -> Result<Vec<Vec<u8>>> {
    if parts < 2 {
        return Ok(Vec::new());
    }
    let mut anchors = Vec::new();
    for file in files {
        add_anchors(file, &mut anchors)?;
    }
    Ok(equal_cuts(anchors, parts))
}

pub(crate) fn ranges(cuts: &[Vec<u8>]) -> Vec<KeyRange<'_>> {
    let bound = |i: usize| cuts.get(i).map(Vec::as_slice);
    let parts = 0..=cuts.len();
    parts.map(|i| KeyRange { lower: i.checked_sub(1).and_then(bound), upper: bound(i) }).collect()
}

fn add_anchors(file: &TableFile, anchors: &mut Vec<Anchor>) -> Result<()> {
    let index = file.table.whole_index()?;
    let step = index.len().div_ceil(FILE_ANCHORS).max(1);
    let mut start = 0;
    for first in (0..index.len()).step_by(step) {
        let last = (first + step).min(index.len()) - 1;
        let handle = index.handle(last);
        let end = handle.offset.saturating_add(handle.bytes);
        let bytes = end.saturating_sub(start);
        anchors.push(Anchor { user_key: index.user_key(last).to_vec(), bytes });
        start = end;
    }
    Ok(())
}

fn equal_cuts(mut anchors: Vec<Anchor>, parts: usize) -> Vec<Vec<u8>> {
    anchors.sort();
    let total: u128 = anchors.iter().map(|anchor| u128::from(anchor.bytes)).sum();
    let mut cuts: Vec<Vec<u8>> = Vec::new();
    let mut passed = 0;
    // No key follows the last anchor, so a cut there would make a part with at most one user key.
    let largest = anchors.last().map(|anchor| anchor.user_key.clone());
    for Anchor { user_key, bytes } in anchors {
        passed += u128::from(bytes);
        let is_due = passed * parts as u128 >= total * (cuts.len() as u128 + 1);
        let is_new = cuts.last() != Some(&user_key) && largest.as_ref() != Some(&user_key);
        if is_due && is_new && cuts.len() + 1 < parts {
            cuts.push(user_key);
        }
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cuts_of(anchors: &[(&str, u64)], parts: usize) -> Vec<String> {
        let anchors = anchors.iter().map(|&(key, bytes)| Anchor { user_key: key.into(), bytes });
        let cuts = equal_cuts(anchors.collect(), parts);
        cuts.into_iter().map(|key| String::from_utf8(key).unwrap()).collect()
    }

    #[test]
    fn a_compaction_is_split_where_its_bytes_are() {
        let even = [("a", 10), ("b", 10), ("c", 10), ("d", 10), ("e", 10), ("f", 10)];
        assert_eq!(cuts_of(&even, 2), ["c"]);
        assert_eq!(cuts_of(&even, 3), ["b", "d"]);
        // Two files whose anchors alternate.
        let two = [("a", 30), ("m", 30), ("z", 30), ("b", 60), ("c", 60)];
        assert_eq!(cuts_of(&two, 2), ["c"]);
    }

    #[test]
    fn no_key_is_cut_twice_and_no_part_begins_behind_the_last_key() {
        assert_eq!(cuts_of(&[("a", 10), ("a", 10), ("a", 10)], 3), [""; 0]);
        assert_eq!(cuts_of(&[("a", 90), ("a", 90), ("b", 1)], 4), ["a"]);
        assert_eq!(cuts_of(&[], 4), [""; 0]);
    }

    #[test]
    fn parts_meet_and_cover_every_key() {
        assert_eq!(ranges(&[]), [KeyRange::default()]);
        let cuts = [b"b".to_vec(), b"m".to_vec()];
        let (b, m) = (Some(&b"b"[..]), Some(&b"m"[..]));
        let part = |lower, upper| KeyRange { lower, upper };
        assert_eq!(ranges(&cuts), [part(None, b), part(b, m), part(m, None)]);
    }

    #[test]
    fn only_what_fills_several_tables_is_split_and_never_over_more_threads_than_there_are() {
        assert_eq!(part_count(0, 64, 4), 1);
        assert_eq!(part_count(127, 64, 4), 1);
        assert_eq!(part_count(128, 64, 4), 2);
        assert_eq!(part_count(u64::MAX, 64, 4), 4);
        assert_eq!(part_count(u64::MAX, 64, 0), 1);
    }
}
