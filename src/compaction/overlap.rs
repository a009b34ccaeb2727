//! Which files overlap a range of keys: pure functions.

use crate::encoding::key;
use crate::encoding::key::user_key;
use crate::version::FileMeta;

/// The smallest user key and the largest internal key of the files; `None` if there is no file.
pub(super) fn bounds<'a>(
    files: impl Iterator<Item = &'a FileMeta> + Clone,
) -> Option<(&'a [u8], &'a [u8])> {
    let smallest = files.clone().map(|file| user_key(&file.smallest)).min()?;
    let largest = files.map(|file| &file.largest[..]).max_by(|a, b| key::compare(a, b))?;
    Some((smallest, largest))
}

/// Whether the key ranges of the files do not overlap, as after writes in key order.
pub(super) fn are_disjoint(files: &[&FileMeta]) -> bool {
    let mut files = files.to_vec();
    files.sort_by(|a, b| key::compare(&a.smallest, &b.smallest));
    files.windows(2).all(|pair| pair[1].starts_after(&pair[0].largest))
}

/// Whether the file overlaps the range from the user key `smallest` to the internal key `largest`.
pub(super) fn meets(file: &FileMeta, smallest: &[u8], largest: &[u8]) -> bool {
    !file.ends_before(smallest) && !file.starts_after(largest)
}

/// The part of `files` that overlaps the range from the user key `smallest` to the internal key
/// `largest`. `files` are disjoint and in key order.
pub(crate) fn overlapping<'a, 'b>(
    files: &'b [&'a FileMeta],
    smallest: &[u8],
    largest: &[u8],
) -> &'b [&'a FileMeta] {
    let start = files.partition_point(|f| f.ends_before(smallest));
    let end = files.partition_point(|f| !f.starts_after(largest));
    &files[start..end.max(start)]
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::file;
    use super::*;

    #[test]
    fn files_that_meet_at_the_end_of_a_range_deletion_do_not_overlap() {
        let mut first = file(9, 10, 20, 10);
        first.largest = key::range_end(&[20]);
        let second = file(8, 20, 30, 10);
        assert!(are_disjoint(&[&second, &first]));
        assert_eq!(overlapping(&[&second], &[10], &first.largest).len(), 0);
        assert_eq!(overlapping(&[&first], &[20], &second.largest).len(), 0);
        assert_eq!(overlapping(&[&first], &[19], &second.largest).len(), 1);
    }
}
