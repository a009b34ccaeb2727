//! [`KeyRanges`]: the key ranges of a version's files, next to each other in memory.
//!
//! The bounds of a file, its smallest and its largest key, are reached through three pointers, each
//! of which can cost a cache miss. So the *heads* of all bounds are stored here, next to each
//! other. A head is the first 8 bytes after the prefix that all bounds share. Heads are compared
//! first. The whole keys are compared only if two heads are equal, which is rare.
//!
//! ```text
//! common_prefix   of all bounds: compared once per lookup
//! runs            L0, newest   (smallest, largest, file)
//!                 L0           (smallest, largest, file)
//!                 L6           (smallest, largest, file) (smallest, largest, file) …
//! ends            of each run: the heads of the largest keys again, eight to a cache line
//! ```

use crate::encoding::bytes::{Prefix, common_prefix_len, count_below};
use crate::encoding::key;
use crate::encoding::key::user_key;
use crate::memory::LINE_BYTES;

/// The first and the last key of a file.
#[derive(Clone, Copy)]
pub(crate) struct FileBounds<'a> {
    /// A user key.
    pub smallest: &'a [u8],
    /// An internal key. It may be the exclusive end of a range deletion.
    pub largest: &'a [u8],
}

/// A file that knows its bounds.
pub(crate) trait HasFileBounds {
    fn bounds(&self) -> FileBounds<'_>;
}

/// The key ranges; see the module.
pub(super) struct KeyRanges<F> {
    common_prefix: Prefix,
    runs: Vec<Run<F>>,
}

/// One file of level 0, or all files of a deeper level. The files of a run share no user key, so at
/// most one of them holds a given key, except in a mixed version
/// ([`Version::mixed`](super::Version::mixed)).
pub(crate) struct Run<F> {
    pub level: usize,
    /// At least one file, in key order.
    files: Box<[RangedFile<F>]>,
    /// The heads of the files' largest keys again, for the search.
    ends: Ends,
}

/// Ascending numbers. A search reads one cache line for up to seven numbers and two for up to 55,
/// without a branch that depends on the numbers. For more numbers it reads three lines or more.
///
/// Two rejected alternatives: A binary search over the files themselves takes more instructions
/// than this structure, so that the processor overlaps consecutive lookups less. A binary search in
/// one array of numbers takes fewer instructions for fifty files, but is slower for seven files,
/// because each step waits for the previous one.
///
/// ```text
/// line_ends   [ 7 │ 15 │ … ]          the last of each line; padded, like all lines, with
/// lines       [ 0 … 7 ] [ 8 … 15 ] …  u64::MAX. The last line is never full.
/// ```
struct Ends {
    lines: Box<[NumberLine]>,
    line_ends: Box<[NumberLine]>,
}

const IN_LINE: usize = LINE_BYTES / size_of::<u64>();

#[derive(Clone, Copy)]
#[repr(align(64))]
struct NumberLine([u64; IN_LINE]);

impl Ends {
    fn of(numbers: impl ExactSizeIterator<Item = u64>) -> Ends {
        let lines = lines_of(numbers);
        let line_ends = lines_of(lines.iter().map(|line| line.0[IN_LINE - 1]));
        Ends { lines, line_ends }
    }

    /// The count of numbers below `bound`.
    #[inline(always)]
    fn count_below(&self, bound: u64) -> usize {
        if let [line] = &*self.lines {
            return count_below(&line.0, bound);
        }
        let upper = match &*self.line_ends {
            [_] => 0,
            many => many.partition_point(|line| line.0[IN_LINE - 1] < bound),
        };
        let line = IN_LINE * upper + count_below(&self.line_ends[upper].0, bound);
        IN_LINE * line + count_below(&self.lines[line].0, bound)
    }
}

/// Divides the numbers into lines. The last line ends with at least one `u64::MAX` as padding.
fn lines_of(numbers: impl ExactSizeIterator<Item = u64>) -> Box<[NumberLine]> {
    let mut lines = vec![NumberLine([u64::MAX; IN_LINE]); numbers.len() / IN_LINE + 1];
    let slots = lines.iter_mut().flat_map(|line| &mut line.0);
    slots.zip(numbers).for_each(|(slot, number)| *slot = number);
    lines.into()
}

struct RangedFile<F> {
    /// Heads of the bounds.
    smallest: u64,
    largest: u64,
    /// The file's index in its run.
    position: usize,
    file: F,
}

impl<F: HasFileBounds> KeyRanges<F> {
    /// The ranges of `runs`, each with its level, in search order. No run is empty.
    pub fn of(runs: Vec<(usize, Vec<F>)>) -> KeyRanges<F> {
        let all = || runs.iter().flat_map(|(_, files)| files).map(F::bounds);
        let mut common = all().next().map_or(&[][..], |first| first.smallest);
        for key in all().flat_map(|bounds| [bounds.smallest, user_key(bounds.largest)]) {
            let shared = common_prefix_len(common, key);
            common = &common[..shared];
        }
        let common_prefix = Prefix::new(common);
        let head = |key: &[u8]| common_prefix.head_after(key).expect("all bounds begin with it");
        let ranged = |(position, file): (usize, F)| {
            let FileBounds { smallest, largest } = file.bounds();
            let (smallest, largest) = (head(smallest), head(user_key(largest)));
            RangedFile { smallest, largest, position, file }
        };
        let runs = runs.into_iter().map(|(level, files)| {
            Run::of(level, files.into_iter().enumerate().map(ranged).collect())
        });
        KeyRanges { runs: runs.collect(), common_prefix }
    }

    /// The head of `key`, for [`Run::file_of`]. `None` if the key does not begin with the common
    /// prefix; then it is in no range.
    #[inline(always)]
    pub fn head(&self, key: &[u8]) -> Option<u64> {
        self.common_prefix.head_after(key)
    }

    /// All runs, in order.
    #[inline(always)]
    pub fn runs(&self) -> &[Run<F>] {
        &self.runs
    }
}

impl<F> Default for KeyRanges<F> {
    fn default() -> KeyRanges<F> {
        KeyRanges { common_prefix: Prefix::default(), runs: Vec::new() }
    }
}

impl<F: HasFileBounds> Run<F> {
    fn of(level: usize, files: Box<[RangedFile<F>]>) -> Run<F> {
        let ends = Ends::of(files.iter().map(|file| file.largest));
        Run { level, files, ends }
    }

    /// The number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// The file at `position`, which is below [`Self::len`].
    #[inline(always)]
    pub fn file(&self, position: usize) -> &F {
        &self.files[position].file
    }

    /// The file whose range holds `key`; `None` if there is none. `head` is the [`KeyRanges::head`]
    /// of the key.
    #[inline(always)]
    pub fn file_of(&self, head: u64, key: &[u8]) -> Option<&F> {
        self.ranged_file_of(head, key).map(|ranged| &ranged.file)
    }

    /// The position of the file that [`Run::file_of`] returns.
    #[inline(always)]
    pub fn position_of(&self, head: u64, key: &[u8]) -> Option<usize> {
        self.ranged_file_of(head, key).map(|ranged| ranged.position)
    }

    #[inline(always)]
    fn ranged_file_of(&self, head: u64, key: &[u8]) -> Option<&RangedFile<F>> {
        let file = match &*self.files {
            [one] => {
                if one.largest < head || (one.largest == head && ends_before(one, key)) {
                    return None;
                }
                one
            }
            files => {
                let first = self.ends.count_below(head);
                match files.get(first)?.largest == head {
                    true => first_not_before(&files[first..], head, key)?,
                    false => &files[first],
                }
            }
        };
        let starts_after =
            head < file.smallest || (head == file.smallest && starts_after(file, key));
        (!starts_after).then_some(file)
    }
}

// These functions compare whole keys if heads are equal, which is rare. They are not inlined,
// because inlining would take registers from the hot path.

#[cold]
#[inline(never)]
fn ends_before<F: HasFileBounds>(file: &RangedFile<F>, key: &[u8]) -> bool {
    key::ends_before(file.file.bounds().largest, key)
}

#[cold]
#[inline(never)]
fn starts_after<F: HasFileBounds>(file: &RangedFile<F>, key: &[u8]) -> bool {
    file.file.bounds().smallest > key
}

/// The first of `files` that does not end before `key`. The files are in key order, and the largest
/// key of the first one has the head of `key`.
#[cold]
#[inline(never)]
fn first_not_before<'a, F: HasFileBounds>(
    files: &'a [RangedFile<F>],
    head: u64,
    key: &[u8],
) -> Option<&'a RangedFile<F>> {
    files.get(files.partition_point(|file| file.largest == head && ends_before(file, key)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::key::internal_key;

    /// Keys that differ only in late bytes, keys that are prefixes of each other, and keys that end
    /// in zeros, with which the head of a short key is padded.
    fn keys() -> Vec<Vec<u8>> {
        let mut keys = vec![vec![], vec![0xff; 12]];
        for i in 0..30u8 {
            keys.push(vec![b'a', i]);
            keys.push([&b"a-long-prefix"[..], &[i]].concat());
            keys.push([&b"a-long-prefix"[..], &vec![0; usize::from(i)]].concat());
        }
        keys.sort();
        keys.dedup();
        keys
    }

    /// The smallest user key and the largest internal key. The latter may be the exclusive end of a
    /// range deletion: [`range`] makes such a key if `open` is set.
    type Owned = (Vec<u8>, Vec<u8>);

    fn range(first: &[u8], last: &[u8], open: bool) -> Owned {
        let largest = if open { key::range_end(last) } else { internal_key(last, 7, 1) };
        (first.to_vec(), largest)
    }

    fn holds((first, largest): &Owned, key: &[u8]) -> bool {
        let before_end = match key::is_range_end(largest) {
            true => key < user_key(largest),
            false => key <= user_key(largest),
        };
        &first[..] <= key && before_end
    }

    impl HasFileBounds for Owned {
        fn bounds(&self) -> FileBounds<'_> {
            FileBounds { smallest: &self.0, largest: &self.1 }
        }
    }

    /// For each run, the range that holds `key`.
    fn found<'a>(ranges: &'a KeyRanges<Owned>, key: &[u8]) -> Vec<Option<&'a Owned>> {
        let head = ranges.head(key);
        let file_of = |run: &'a Run<Owned>| {
            let position = run.position_of(head?, key);
            assert_eq!(position.map(|position| run.file(position)), run.file_of(head?, key));
            run.file_of(head?, key)
        };
        ranges.runs().iter().map(file_of).collect()
    }

    #[test]
    fn ranges_are_found_as_by_comparing_every_bound() {
        let keys = keys();
        for (first, last, step) in [(0, keys.len(), 1), (5, 40, 2), (31, 60, 1), (33, 35, 1)] {
            let ends: Vec<&[u8]> = keys[first..last].iter().step_by(step).map(|k| &k[..]).collect();
            // The files of level 1 are apart from each other, each file of level 6 ends where the
            // next one begins, and the files of level 0 overlap.
            let apart =
                ends.chunks_exact(2).enumerate().map(|(i, c)| range(c[0], c[1], i % 3 == 0));
            let touching = ends.windows(2).map(|pair| range(pair[0], pair[1], true));
            let overlapping =
                (0..ends.len()).map(|i| range(ends[i], ends[(i * 7 + 3) % ends.len()], i % 2 == 0));
            let runs: Vec<(usize, Vec<Owned>)> = overlapping
                .map(|range| (0, vec![range]))
                .chain([(1, apart.collect()), (6, touching.collect())])
                .collect();
            let ranges = KeyRanges::of(runs.clone());
            for key in keys.iter().flat_map(|k| [k.clone(), [&k[..], &[0]].concat()]) {
                let expected: Vec<Option<&Owned>> = runs
                    .iter()
                    .map(|(_, files)| files.iter().find(|range| holds(range, &key)))
                    .collect();
                assert_eq!(found(&ranges, &key), expected, "{key:?}");
            }
        }
    }

    #[test]
    fn ends_in_any_number_of_lines_are_counted() {
        for count in (0..2 * IN_LINE).chain([63, 64, 65, 127, 128, 511, 512, 513, 1000]) {
            // Each number occurs twice, with gaps between them, so that some bounds are equal to
            // numbers and others are between them.
            let numbers: Vec<u64> = (0..count as u64).map(|i| i / 2 * 4 + 4).collect();
            let with_largest = [&numbers[..], &[u64::MAX, u64::MAX]].concat();
            for numbers in [numbers, with_largest] {
                let ends = Ends::of(numbers.iter().copied());
                for bound in (0..2 * count as u64 + 8).chain([u64::MAX - 1, u64::MAX]) {
                    let expected = numbers.partition_point(|&number| number < bound);
                    assert_eq!(ends.count_below(bound), expected, "{bound} of {count}");
                }
            }
        }
    }

    #[test]
    fn a_prefix_that_one_level_has_and_another_lacks_is_not_common() {
        let [l0, l6] = [range(b"user/a", b"user/m", false), range(b"item/1", b"user/z", false)];
        let ranges = KeyRanges::of(vec![(0, vec![l0.clone()]), (6, vec![l6.clone()])]);
        let levels: Vec<usize> = ranges.runs().iter().map(|run| run.level).collect();
        assert_eq!(levels, [0, 6]);
        assert_eq!(found(&ranges, b"item/0"), [None, None]);
        assert_eq!(found(&ranges, b"item/1"), [None, Some(&l6)]);
        assert_eq!(found(&ranges, b"user/a"), [Some(&l0), Some(&l6)]);
        assert_eq!(found(&ranges, b"user/n"), [None, Some(&l6)]);
        assert_eq!(found(&ranges, b"v"), [None, None]);
    }

    #[test]
    fn without_files_there_are_no_runs() {
        assert_eq!(found(&KeyRanges::default(), b"k"), []);
    }
}
