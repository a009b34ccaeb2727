//! Dead data: which table is dropped, rewritten or moved down because of data that no reader can
//! see any more. All functions are pure, and use the information that tables store
//! ([`crate::table::garbage`]).
//!
//! ```text
//!   the table                                          what happens
//!   a range deletion of another table covers it all    it is dropped, unread
//!   no older table overlaps its range                  it is rewritten alone, without dead data
//!   older tables overlap its range                     it goes down a level: its deletions free
//!                                                      entries there, and are dropped in the end
//! ```
//!
//! A table and the older tables that overlap its range are a *place*. The **dead share** of a place
//! is the bytes that its rewrite would free, divided by all of its bytes. The rewrite would free:
//!
//! - hidden versions that no snapshot needs;
//! - deletions that hide nothing in this table;
//! - the older entries that these deletions are expected to hide: the number of the deletions times
//!   the [hit rate](Conditions::hit_rate) of earlier deletions times the average size of an older
//!   entry, plus the bytes that the table's range deletions hid in older tables when the table was
//!   written. This estimate is 0 while a snapshot needs any of these entries.
//!
//! During writes, a place is rewritten if its dead share is at least one third. Once the tree is
//! [settled](Conditions::settled), one tenth is enough. A table with a deletion that is older than
//! [`Conditions::max_deletion_age`] is compacted whatever its share, if an older table overlaps its
//! range, or if snapshots let a rewrite drop some of its deletions.
//!
//! **Deletions in key order** empty one older table after the other, and the deletions of one flush
//! usually end in the middle of an older table. If that table were rewritten at once, the rewrite
//! would be wasted, because the rest of the table would be dead after the next flush:
//!
//! ```text
//!   flush n         ├─deletions─┤├────┤                 a flush is cut where older tables start
//!   flush n + 1                       ├─────┤├────┤
//!   older tables    ├───────────┤├──────────┤├──────────┤
//! ```
//!
//! So a place whose deletions are [fresh](is_fresh), which means that few writes came after them,
//! waits until two thirds of it are dead. A table that goes down takes along those tables of its
//! level whose deletions cover the same older tables (`companions`), so that one merge rewrites or
//! drops the older tables for all of them.
//!
//! **The rewrites end** ([`Gain`]). A table is rewritten in its own level only if no older table
//! overlaps it. This rewrite drops all deletions that no snapshot needs, and all hidden versions
//! that were counted as dead. If the table has range deletions that no snapshot needs, all of it is
//! counted as dead, because no count tells how much they hide in it; the rewrite drops these range
//! deletions too. If a rewrite drops nothing, because the counts were wrong, its output is not
//! rewritten again until a snapshot is released.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::conditions::Conditions;
use super::overlap::{bounds, meets, overlapping};
use super::plan::{Gain, Plan, PlanKind, Planner, Span};
use super::targets::{LAST_LEVEL, Levels};
use crate::encoding::key;
use crate::encoding::key::{MAX_SEQUENCE, SequenceNumber, user_key};
use crate::range_tombstones::{RangeTombstones, fragment_of_disjoint};
use crate::version::{FileMeta, LEVELS};

/// The least dead share at which a place is rewritten while writes continue.
const SHARE_WHILE_WRITING: f64 = 1.0 / 3.0;

/// The least dead share at which a place is rewritten while its deletions are fresh.
const SHARE_WHILE_FRESH: f64 = 2.0 / 3.0;

/// If level 0 has more files than this, it is compacted for their number anyway. The dead shares of
/// its files are not computed, because that takes time proportional to the cube of the number.
const MAX_OF_LEVEL_0: usize = 64;

/// The least dead share at which a place is rewritten in a settled tree. A table that could be
/// moved is merged instead if it has at least this dead share when no older tables are counted.
const SHARE_WHEN_SETTLED: f64 = 1.0 / 10.0;

/// What the rewrite of a place would free.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Dead {
    /// Entries and bytes that would be freed.
    pub entries: u64,
    pub bytes: u64,
    /// Bytes that snapshots keep from being freed.
    pub held_bytes: u64,
    /// Bytes of the place.
    pub place_bytes: u64,
    /// Whether older tables overlap the table's range.
    has_older: bool,
    /// Whether the rewrite may drop deletions, because no snapshot needs them.
    frees_deletions: bool,
}

impl Dead {
    fn share(&self) -> f64 {
        self.bytes as f64 / self.place_bytes.max(1) as f64
    }
}

/// Whether the table may hold dead data. `false` if it holds an entry of an unknown kind, because
/// then no rewrite is sure to free anything.
pub(crate) fn may_hold_dead(file: &FileMeta) -> bool {
    let garbage = &file.contents.garbage;
    (file.deletions > 0 || !garbage.hidden.is_empty()) && !garbage.is_opaque
}

/// The tables that are older than file `i` of `level` and overlap its range.
fn older<'a, 'l>(
    levels: &'l Levels<'a>,
    level: usize,
    i: usize,
) -> impl Iterator<Item = &'a FileMeta> + 'l {
    let file = levels[level][i];
    let (smallest, largest) = (user_key(&file.smallest), &file.largest[..]);
    let behind = if level == 0 { &levels[0][i + 1..] } else { &[][..] };
    let deeper = levels[level + 1..].iter();
    behind
        .iter()
        .copied()
        .filter(move |older| meets(older, smallest, largest))
        .chain(deeper.flat_map(move |files| overlapping(files, smallest, largest)).copied())
}

/// The entries and bytes that a rewrite of the place of file `i` of `level` would free.
fn dead(levels: &Levels, level: usize, i: usize, conditions: &Conditions) -> Dead {
    let file = levels[level][i];
    if !may_hold_dead(file) {
        return Dead { place_bytes: file.file_bytes, ..Dead::default() };
    }
    let contents = &file.contents;
    // `stored` converts bytes before compression to bytes of the file.
    let raw_bytes = contents.raw_key_bytes.saturating_add(contents.raw_value_bytes).max(1);
    let stored = |raw: f64| (raw * file.file_bytes as f64 / raw_bytes as f64) as u64;
    let (mut free, mut held) = ((0, 0), (0, 0));
    let mut frees_paired = false;
    for hidden in &contents.garbage.hidden {
        let is_droppable = hidden.is_droppable(&conditions.snapshots);
        frees_paired |= is_droppable && hidden.deletions > 0;
        let sum = if is_droppable { &mut free } else { &mut held };
        *sum = (sum.0 + hidden.entries, sum.1 + stored(hidden.bytes as f64));
    }
    let ranges = contents.ranges.as_ref().map_or(0, |ranges| ranges.len() as u64);
    let lone = contents.garbage.lone_deletions(file.deletions).saturating_sub(ranges);
    let key_bytes = contents.raw_key_bytes as f64 / file.entries.max(1) as f64;
    let lone_bytes = stored(key_bytes * lone as f64);

    let (mut older_bytes, mut older_entries, mut oldest) = (0u64, 0u64, MAX_SEQUENCE);
    for older in older(levels, level, i) {
        older_bytes += older.file_bytes;
        older_entries += older.entries;
        oldest = oldest.min(older.smallest_sequence);
    }
    let has_older = older_bytes > 0;
    let range_needed = match has_older {
        true => conditions.has_snapshot_between(oldest, file.largest_sequence),
        false => conditions.has_snapshot_between(0, file.largest_sequence),
    };
    let mut freed_bytes = 0;
    let mut freed_entries = 0;
    if has_older {
        let average = older_bytes as f64 / older_entries.max(1) as f64;
        freed_entries = (lone as f64 * conditions.hit_rate) as u64;
        freed_bytes = (freed_entries as f64 * average) as u64;
        freed_bytes += contents.garbage.range_hides_bytes;
        freed_bytes = freed_bytes.min(older_bytes);
    } else if ranges > 0 {
        // No count says which entries the range deletions hide in their own table, so the whole
        // table is assumed to be dead.
        freed_bytes = file.file_bytes;
    }
    if range_needed {
        held = (held.0 + freed_entries, held.1 + freed_bytes);
        (freed_entries, freed_bytes) = (0, 0);
    }
    // A deletion stays while a snapshot needs the older entries that it hides.
    let lone_goes = !has_older || !range_needed;
    let lone = if lone_goes { (lone, lone_bytes) } else { (0, 0) };
    let place_bytes = file.file_bytes + older_bytes;
    Dead {
        entries: free.0 + lone.0 + freed_entries,
        bytes: (free.1 + lone.1 + freed_bytes).min(place_bytes),
        held_bytes: held.1.min(place_bytes),
        place_bytes,
        has_older,
        frees_deletions: lone.0 > 0 || frees_paired || (ranges > 0 && !range_needed),
    }
}

/// What the rewrite of each table's place would free, in the order of the levels.
pub(crate) fn dead_of_all(levels: &Levels, conditions: &Conditions) -> Vec<Dead> {
    let places = (0..LEVELS).flat_map(|level| (0..levels[level].len()).map(move |i| (level, i)));
    places.map(|(level, i)| dead(levels, level, i, conditions)).collect()
}

/// The bytes that a compaction of the file would free because of its deletions and hidden versions.
/// These bytes count when a file of a level is chosen, but not in the level's score, because a
/// level would otherwise be rewritten for a dead share that is not worth a rewrite yet.
pub(super) fn weight(levels: &Levels, level: usize, i: usize, conditions: &Conditions) -> u64 {
    match may_hold_dead(levels[level][i]) {
        true => dead(levels, level, i, conditions).bytes,
        false => 0,
    }
}

/// Whether the file is better merged than moved, because its dead share is large even if no older
/// table is counted.
pub(super) fn is_better_merged(file: &FileMeta, conditions: &Conditions) -> bool {
    if !may_hold_dead(file) {
        return false;
    }
    let mut alone: Levels = Default::default();
    alone[LAST_LEVEL].push(file);
    dead(&alone, LAST_LEVEL, 0, conditions).share() >= SHARE_WHEN_SETTLED
}

/// The largest sequence number of a snapshot that may keep data from being freed, or 0 if no
/// snapshot does. The release of a newer snapshot frees nothing.
pub(crate) fn newest_needed_snapshot<'a>(
    files: impl Iterator<Item = &'a FileMeta>,
    snapshots: &[SequenceNumber],
) -> SequenceNumber {
    let newest_below = |file: &FileMeta| {
        let after = snapshots.partition_point(|&s| s < file.largest_sequence);
        after.checked_sub(1).map(|newest| snapshots[newest])
    };
    files.filter(|file| may_hold_dead(file)).filter_map(newest_below).max().unwrap_or(0)
}

/// A place that may be rewritten.
struct Place {
    /// Its dead share.
    share: f64,
    level: usize,
    /// The index of the file whose dead data is the reason for the rewrite.
    file: usize,
    /// The indexes, ascending, of the files of the level that are compacted together, `file`
    /// included.
    files: Vec<usize>,
    /// Whether older tables overlap the file's range.
    has_older: bool,
}

impl Planner<'_> {
    /// The plan that drops, in one level, the tables that range deletions cover completely.
    pub(super) fn pick_covered(&self, conditions: &Conditions) -> Option<Plan> {
        let sets: [Vec<Arc<RangeTombstones>>; LEVELS] = std::array::from_fn(|level| {
            self.levels[level].iter().filter_map(|file| file.contents.ranges.clone()).collect()
        });
        if sets.iter().all(Vec::is_empty) {
            return None;
        }
        (0..LEVELS).find_map(|level| {
            let mut covered: Vec<&FileMeta> = Vec::new();
            for (above, sets) in sets.iter().enumerate().take(level + 1) {
                // The range deletions of a level are taken together, because those of two
                // neighboring files may cover a table that neither covers alone. In level 0, they
                // are taken file by file, because the files overlap. The range deletions of a file
                // of level 0 may also cover older files of level 0.
                for together in sets.chunks(if above == 0 { 1 } else { sets.len().max(1) }) {
                    for (start, end) in together.iter().filter_map(|set| set.span()) {
                        let inside = self.levels[level].iter().filter(|file| {
                            user_key(&file.smallest) >= start && user_key(&file.smallest) < end
                        });
                        covered.extend(inside.filter(|file| covers(together, file, conditions)));
                    }
                }
            }
            covered.retain(|file| !self.is_held(file));
            covered.sort_by_key(|file| file.number);
            covered.dedup_by_key(|file| file.number);
            Plan::within(level, &covered, PlanKind::Drop, Gain::Down)
        })
    }

    /// The plan for the first place whose rewrite can start. Only places count whose dead share is
    /// large enough, or whose table is compacted because of the age of its deletions. In a settled
    /// tree, the shallowest places come first. Otherwise those whose deletions are too old come
    /// first, and then those with the largest dead share.
    pub(super) fn pick_dead(&self, conditions: &Conditions) -> Option<Plan> {
        let levels = self.levels;
        let mut places: Vec<Place> = Vec::new();
        let deletes = levels[0].iter().any(|file| may_hold_dead(file));
        let with_older: Vec<Vec<usize>> = match levels[0].len() {
            count if deletes && count <= MAX_OF_LEVEL_0 => {
                (0..count).map(|i| with_older(levels, 0, i)).collect()
            }
            _ => Vec::new(),
        };
        for (level, files) in levels.iter().enumerate() {
            if level == 0 && with_older.is_empty() {
                continue;
            }
            // `dead` is computed once for each file, because a file may be a companion in several
            // places.
            let may_hold_dead = |&i: &usize| may_hold_dead(files[i]);
            let dead: BTreeMap<usize, Dead> = (0..files.len())
                .filter(may_hold_dead)
                .map(|i| (i, dead(levels, level, i, conditions)))
                .collect();
            for (&i, dead_here) in &dead {
                let file = files[i];
                if self.is_busy(file) {
                    continue;
                }
                let has_older = dead_here.has_older;
                let is_overdue = (has_older || dead_here.frees_deletions)
                    && deadline(file, conditions).is_some_and(|due| due <= conditions.now);
                if dead_here.bytes == 0 && !is_overdue {
                    continue;
                }
                let together = match has_older {
                    true => self.companions(level, i, &with_older),
                    false => vec![i],
                };
                let least = match conditions.settled {
                    true => SHARE_WHEN_SETTLED,
                    false
                        if has_older
                            && together.iter().any(|&i| is_fresh(files[i], conditions)) =>
                    {
                        SHARE_WHILE_FRESH
                    }
                    false => SHARE_WHILE_WRITING,
                };
                let share = match is_overdue {
                    true => f64::INFINITY,
                    false if together.len() == 1 => dead_here.share(),
                    false => share_of_all(levels, level, &together, &dead),
                };
                if share >= least {
                    places.push(Place { share, level, file: i, files: together, has_older });
                }
            }
        }
        // In a settled tree shallow places are rewritten first. Their data joins the places below,
        // which are then rewritten only once.
        if conditions.settled {
            places.sort_by_key(|place| (place.level, place.file));
        } else {
            places.sort_by(|a, b| b.share.total_cmp(&a.share));
        }
        self.plan_places(&places)
    }

    /// Returns the indexes, ascending, of file `i` of `level` and of the files that go to the next
    /// level together with it: files with deletions or hidden versions that lie over the same files
    /// of the next level, so that one merge rewrites these for all of them. In level 0, each file
    /// brings along the older files that it overlaps ([`with_older`]). `with_older` has the result
    /// of that function for each file of level 0.
    fn companions(&self, level: usize, i: usize, with_older: &[Vec<usize>]) -> Vec<usize> {
        let (files, next) = (&self.levels[level], &self.levels[self.next_level(level)]);
        let with_older = |i: usize| if level == 0 { with_older[i].clone() } else { vec![i] };
        let mut together = with_older(i);
        let below = overlapping(next, user_key(&files[i].smallest), &files[i].largest);
        let all = together.iter().map(|&i| files[i]).chain(below.iter().copied());
        let Some((smallest, largest)) = bounds(all) else { return together };
        let is_free = |i: &usize| {
            let file = files[*i];
            let lies_inside = user_key(&file.smallest) >= smallest
                && key::compare(&file.largest, largest).is_le();
            lies_inside && !self.is_busy(file)
        };
        // In every level but level 0 the files are in key order, so the candidates are neighbours.
        let candidates = match level {
            0 => 0..files.len(),
            _ => {
                let start = files.partition_point(|file| user_key(&file.smallest) < smallest);
                start..files.partition_point(|file| key::compare(&file.largest, largest).is_le())
            }
        };
        for candidate in candidates {
            if may_hold_dead(files[candidate]) && !together.contains(&candidate) {
                let with_candidate = with_older(candidate);
                if with_candidate.iter().all(is_free) {
                    together.extend(with_candidate);
                }
            }
        }
        together.sort_unstable();
        together.dedup();
        together
    }

    /// The plan for the place with the largest dead share, however small, among the tables for
    /// which `is_wanted` holds.
    pub fn pick_wanted(
        &self,
        conditions: &Conditions,
        is_wanted: impl Fn(&FileMeta) -> bool,
    ) -> Option<Plan> {
        let mut places = Vec::new();
        for (level, files) in self.levels.iter().enumerate() {
            for (i, file) in files.iter().enumerate() {
                if may_hold_dead(file) && is_wanted(file) && !self.is_busy(file) {
                    let dead = dead(self.levels, level, i, conditions);
                    if dead.bytes > 0 {
                        let (share, has_older) = (dead.share(), dead.has_older);
                        let files = with_older(self.levels, level, i);
                        places.push(Place { share, level, file: i, files, has_older });
                    }
                }
            }
        }
        places.sort_by(|a, b| b.share.total_cmp(&a.share));
        self.plan_places(&places)
    }

    /// The plan for the first place whose rewrite can start.
    fn plan_places(&self, places: &[Place]) -> Option<Plan> {
        let plan_of = |level: usize, files: &[usize], has_older: bool| {
            let files: Vec<&FileMeta> = files.iter().map(|&i| self.levels[level][i]).collect();
            let next = self.next_level(level);
            match (level, has_older) {
                (0, _) => self.plan_level_0(&files, next),
                (_, true) => self.plan_files(&files, level, next),
                (_, false) if files.iter().any(|file| self.is_vain(file, Gain::Dead)) => None,
                (_, false) => self.plan_files(&files, level, level),
            }
        };
        places.iter().find_map(|&Place { level, file, ref files, has_older, .. }| {
            // If the companions allow no plan, perhaps because a damaged file holds one of them up,
            // the file goes down without them.
            plan_of(level, files, has_older)
                .or_else(|| plan_of(level, &with_older(self.levels, level, file), has_older))
        })
    }
}

/// Whether the range deletions hide the whole file from every reader. `sets` are the range
/// deletions of disjoint files, in key order.
///
/// Only the first snapshot that sees an entry of the file must be checked. If it also sees range
/// deletions that cover the whole file and are newer, all later snapshots and readers see them too.
/// Earlier snapshots see nothing of the file.
fn covers(sets: &[Arc<RangeTombstones>], file: &FileMeta, conditions: &Conditions) -> bool {
    let snapshots = &conditions.snapshots;
    let next = snapshots.partition_point(|&snapshot| snapshot < file.smallest_sequence);
    let seen_by = snapshots.get(next).copied().unwrap_or(MAX_SEQUENCE);
    let mut from = user_key(&file.smallest);
    loop {
        let fragment = fragment_of_disjoint(sets, from, seen_by);
        if fragment.sequence <= file.largest_sequence {
            return false;
        }
        match fragment.end {
            Some(end) if key::ends_before(&file.largest, end) => return true,
            Some(end) if end > from => from = end,
            _ => return false,
        }
    }
}

/// Whether fewer writes came after the newest entry of the file than between its oldest and its
/// newest entry. If the file's deletions came in key order, deletions of the next keys are likely
/// to follow soon.
fn is_fresh(file: &FileMeta, conditions: &Conditions) -> bool {
    let wrote = file.largest_sequence.saturating_sub(file.smallest_sequence);
    conditions.flushed_before.saturating_sub(file.largest_sequence) < wrote
}

/// The dead share of the places of several files, taken together. `dead` has the result of
/// [`dead()`] for each file of the level that may hold dead data, by index.
fn share_of_all(
    levels: &Levels,
    level: usize,
    files: &[usize],
    dead: &BTreeMap<usize, Dead>,
) -> f64 {
    let freed: u64 = files.iter().filter_map(|i| dead.get(i)).map(|dead| dead.bytes).sum();
    let own = files.iter().map(|&i| levels[level][i]);
    let all = own.chain(files.iter().flat_map(|&i| older(levels, level, i)));
    let bytes: BTreeMap<u64, u64> = all.map(|file| (file.number, file.file_bytes)).collect();
    let place_bytes = bytes.values().sum::<u64>().max(1);
    freed.min(place_bytes) as f64 / place_bytes as f64
}

/// How many of the plan's deletions are expected to meet an older entry in the plan's merge. The
/// estimate assumes that each deletion has one older entry, somewhere in the output level or
/// deeper.
pub(crate) fn expected_hits(levels: &Levels, plan: &Plan) -> f64 {
    let inputs = levels[plan.level].iter().filter(|file| plan.inputs.contains(&file.number));
    let deletions: u64 =
        inputs.map(|file| file.contents.garbage.lone_deletions(file.deletions)).sum();
    if deletions == 0 || plan.output_inputs.is_empty() {
        return 0.0;
    }
    let Span { smallest, largest, .. } = &plan.output;
    let older = levels[plan.output_level..].iter();
    let older = older.flat_map(|files| overlapping(files, smallest, largest));
    let (mut met, mut all) = (0, 0);
    for file in older {
        all += file.entries;
        met += if plan.output_inputs.contains(&file.number) { file.entries } else { 0 };
    }
    deletions as f64 * met as f64 / all.max(1) as f64
}

/// How many hits earlier merges were expected to have, and how many they had. A deletion has a hit
/// if it meets an older entry. A deletion of an absent key has none, and frees nothing.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DeletionHits {
    expected: f64,
    hits: f64,
}

impl DeletionHits {
    /// [`DeletionHits::rate`] adds this number to the hits and to the expected hits, so that the
    /// rate is 1 before anything is learned.
    const PRIOR: f64 = 1000.0;
    /// Once more hits than this were expected, `expected` and `hits` are halved, so that older
    /// merges count less.
    const MEMORY: f64 = 1e6;

    /// Records a merge that was expected to have `expected` hits, and had `hits`.
    pub fn learn(&mut self, expected: f64, hits: u64) {
        self.expected += expected;
        self.hits += (hits as f64).min(expected);
        if self.expected > Self::MEMORY {
            self.expected /= 2.0;
            self.hits /= 2.0;
        }
    }

    /// See [`Conditions::hit_rate`].
    pub fn rate(&self) -> f64 {
        (self.hits + Self::PRIOR) / (self.expected + Self::PRIOR)
    }
}

/// The time at which the file's deletions reach `max_deletion_age`, in seconds since 1970. `None`
/// if the file has no deletions, or does not record their age.
pub(crate) fn deadline(file: &FileMeta, conditions: &Conditions) -> Option<u64> {
    let since = file.contents.garbage.oldest_deletion;
    (file.deletions > 0 && since > 0).then(|| since.saturating_add(conditions.max_deletion_age))
}

/// The indexes, ascending, of file `i` of `level` and of the older files of its level that must go
/// down with it, because they overlap it or one another. There are such files only in level 0.
fn with_older(levels: &Levels, level: usize, i: usize) -> Vec<usize> {
    let mut files = vec![i];
    if level > 0 {
        return files;
    }
    for older in i + 1..levels[0].len() {
        let meets_one = |&i: &usize| {
            let file = levels[0][i];
            meets(levels[0][older], user_key(&file.smallest), &file.largest)
        };
        if files.iter().any(meets_one) {
            files.push(older);
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{SHAPE, busy, file, levels};
    use super::*;
    use crate::range_tombstones::RangeTombstone;
    use crate::table::garbage::Hidden;

    /// A table of 100 entries of 10 bytes each, of which 2 bytes are the key.
    fn table(number: u64, smallest: u8, largest: u8) -> FileMeta {
        let mut table = file(number, smallest, largest, 1000);
        table.entries = 100;
        table.contents.raw_key_bytes = 200;
        table.contents.raw_value_bytes = 800;
        (table.smallest_sequence, table.largest_sequence) = (1, 10);
        table
    }

    /// A table of deletions only.
    fn deletions(number: u64, smallest: u8, largest: u8, count: u64) -> FileMeta {
        let mut table = file(number, smallest, largest, 2 * count);
        (table.entries, table.deletions) = (count, count);
        table.contents.raw_key_bytes = 2 * count;
        (table.smallest_sequence, table.largest_sequence) = (20, 30);
        table
    }

    fn with_range(mut table: FileMeta, start: u8, end: u8, sequence: u64) -> FileMeta {
        let (start, end) = ([start], [end]);
        let range = RangeTombstone { start: &start, end: &end, sequence };
        table.contents.ranges = Some(Arc::new(RangeTombstones::new([range])));
        table.deletions += 1;
        table.largest_sequence = table.largest_sequence.max(sequence);
        table
    }

    fn settled() -> Conditions {
        Conditions { settled: true, ..Conditions::default() }
    }

    fn plan_of(files: &[(usize, FileMeta)], conditions: &Conditions) -> Option<Plan> {
        Planner::new(&levels(files), &SHAPE, &busy(&[])).pick_dead(conditions)
    }

    /// The plan for a tree whose level 0 goes to the last level.
    fn plan_into_last(files: &[(usize, FileMeta)], conditions: &Conditions) -> Option<Plan> {
        let shape = crate::compaction::TreeShape { level_base_bytes: 10_000, ..SHAPE };
        Planner::new(&levels(files), &shape, &busy(&[])).pick_dead(conditions)
    }

    fn outline(plan: Option<Plan>) -> Option<(usize, usize, Vec<u64>, PlanKind)> {
        plan.map(|plan| (plan.level, plan.output_level, plan.inputs, plan.kind))
    }

    #[test]
    fn deletions_go_down_when_they_free_a_third_and_in_a_settled_tree_a_tenth() {
        let tree = |count| [(5, deletions(2, 0, 9, count)), (6, table(1, 0, 9))];
        let merged = Some((5, 6, vec![2], PlanKind::Merge));
        assert_eq!(outline(plan_of(&tree(40), &Conditions::default())), merged);
        assert_eq!(plan_of(&tree(20), &Conditions::default()), None);
        assert_eq!(outline(plan_of(&tree(20), &settled())), merged);
        assert_eq!(plan_of(&tree(5), &settled()), None);
        // Earlier deletions met an entry in one case of ten.
        let conditions = Conditions { hit_rate: 0.1, ..settled() };
        assert_eq!(plan_of(&tree(30), &conditions), None);
        // Old deletions go down, however little they free.
        let mut old = tree(1);
        old[0].1.contents.garbage.oldest_deletion = 100;
        let at = |now| Conditions { now, max_deletion_age: 50, ..Conditions::default() };
        assert_eq!(plan_of(&old, &at(149)), None);
        assert_eq!(outline(plan_of(&old, &at(150))), merged);
    }

    /// A workload once deleted its oldest keys in order. Each flush emptied one table completely
    /// and a third of the next table. The second table was rewritten at once, and dropped after the
    /// next flush. Now fresh deletions wait for more, and the deletions of two flushes go down
    /// together.
    #[test]
    fn fresh_deletions_wait_for_the_next_ones_and_go_down_with_them() {
        let newer = |mut table: FileMeta, from: u64| {
            (table.smallest_sequence, table.largest_sequence) = (from, from + 99);
            table
        };
        let first = newer(deletions(8, 0, 3, 40), 100);
        let next = newer(deletions(9, 4, 9, 60), 200);
        let at = |flushed_before| Conditions { flushed_before, ..Conditions::default() };
        let below = table(1, 0, 9);
        for level in [0, 5] {
            let tree = [(level, first.clone()), (6, below.clone())];
            assert_eq!(plan_into_last(&tree, &at(200)), None, "nothing was written since");
            assert!(plan_into_last(&tree, &at(300)).is_some(), "another memtable was flushed");
            let settled = Conditions { settled: true, ..at(200) };
            assert!(plan_into_last(&tree, &settled).is_some(), "no more are expected");

            let tree = [(level, next.clone()), (level, first.clone()), (6, below.clone())];
            let mut tree = tree.to_vec();
            tree.sort_by_key(|(_, file)| {
                std::cmp::Reverse(if level == 0 { file.number } else { 0 })
            });
            if level > 0 {
                tree.swap(0, 1);
            }
            let plan = plan_into_last(&tree, &at(300)).unwrap();
            let mut inputs = plan.inputs.clone();
            inputs.sort_unstable();
            assert_eq!((inputs, plan.output_inputs), (vec![8, 9], vec![1]), "level {level}");
        }
        // Deletions that cover different older tables do not go down together, and fresh deletions
        // wait even if others go down.
        let below = [(6, table(2, 0, 3)), (6, table(1, 4, 9))];
        let tree = [[(0, next), (0, first)], below].concat();
        let plan = plan_into_last(&tree, &at(300)).unwrap();
        assert_eq!((plan.inputs, plan.output_inputs), (vec![8], vec![2]));
    }

    /// Files that go down with other deletions must not pass older files of level 0 that they
    /// overlap.
    #[test]
    fn a_companion_in_level_0_brings_the_older_files_that_it_overlaps() {
        let tree = |reaching| {
            [
                (0, deletions(9, 0, 4, 40)),
                (0, deletions(8, 6, 8, 40)),
                (0, file(7, 7, reaching, 10)),
                (6, table(1, 0, 9)),
            ]
        };
        assert_eq!(plan_into_last(&tree(9), &settled()).unwrap().inputs, [9, 8, 7]);
        assert_eq!(
            plan_into_last(&tree(20), &settled()).unwrap().inputs,
            [9],
            "it reaches too far"
        );
    }

    #[test]
    fn a_snapshot_that_sees_what_is_deleted_keeps_it() {
        let tree = [(5, deletions(2, 0, 9, 90)), (6, table(1, 0, 9))];
        let seen_by = |snapshot| Conditions { snapshots: vec![snapshot], ..settled() };
        assert_eq!(plan_of(&tree, &seen_by(10)), None);
        assert_eq!(plan_of(&tree, &seen_by(29)), None);
        assert!(plan_of(&tree, &seen_by(30)).is_some(), "it sees the deletions");
        let needed = |tree: &[(usize, FileMeta)], snapshot| {
            newest_needed_snapshot(tree.iter().map(|(_, file)| file), &[snapshot])
        };
        assert_eq!(needed(&tree, 10), 10);
        assert_eq!(needed(&tree, 30), 0);
        assert_eq!(needed(&tree[1..], 10), 0);
    }

    #[test]
    fn a_table_with_nothing_older_is_rewritten_alone_when_its_hidden_versions_are_free() {
        let mut hiding = table(1, 0, 9);
        hiding.contents.garbage.hidden =
            vec![Hidden { low: 3, high: 8, entries: 50, deletions: 0, bytes: 500 }];
        let alone = Some((6, 6, vec![1], PlanKind::Merge));
        let tree = [(6, hiding)];
        assert_eq!(outline(plan_of(&tree, &Conditions::default())), alone);
        let needed = Conditions { snapshots: vec![5], ..Conditions::default() };
        assert_eq!(plan_of(&tree, &needed), None);
        // Deletions with no older entries.
        let tree = [(6, deletions(1, 0, 9, 5))];
        assert_eq!(outline(plan_of(&tree, &Conditions::default())), alone);
        // A file with an entry of an unknown kind is left as it is.
        let mut opaque = tree;
        opaque[0].1.contents.garbage.is_opaque = true;
        assert_eq!(plan_of(&opaque, &settled()), None);
    }

    #[test]
    fn a_table_that_carries_garbage_is_merged_and_not_moved() {
        let mut files: Vec<_> =
            (0..4).map(|i| (0, deletions(9 - i, 10 * i as u8, 10 * i as u8 + 5, 9))).collect();
        files.push((6, table(1, 100, 109)));
        let plan = Planner::new(&levels(&files), &SHAPE, &busy(&[])).pick(&Conditions::default());
        assert_eq!(plan.unwrap().kind, PlanKind::Merge);
    }

    /// A table is dropped if a range deletion is newer than the table and covers all of it, and no
    /// snapshot sees entries of the table without the range deletion.
    #[test]
    fn a_table_is_dropped_when_a_range_deletion_hides_all_of_it_from_everybody() {
        let dropped = |range: FileMeta, snapshots: &[u64]| {
            let tree = [(4, range), (6, table(1, 10, 19)), (6, table(2, 20, 29))];
            let conditions = Conditions { snapshots: snapshots.to_vec(), ..Conditions::default() };
            let plan = Planner::new(&levels(&tree), &SHAPE, &busy(&[])).pick_covered(&conditions);
            plan.map(|plan| plan.inputs)
        };
        let range = |start, end, sequence| {
            let mut table = deletions(9, start, end, 0);
            table.file_bytes = 10;
            with_range(table, start, end, sequence)
        };
        assert_eq!(dropped(range(0, 50, 11), &[]), Some(vec![1, 2]));
        assert_eq!(dropped(range(10, 20, 11), &[]), Some(vec![1]));
        assert_eq!(dropped(range(11, 20, 11), &[]), None, "the first key stays");
        assert_eq!(dropped(range(10, 19, 11), &[]), None, "the last key stays");
        assert_eq!(dropped(range(0, 50, 10), &[]), None, "it may be older than an entry");
        assert_eq!(dropped(range(0, 50, 11), &[5]), None, "a snapshot sees a part of the table");
        assert_eq!(dropped(range(0, 50, 11), &[10]), None, "a snapshot sees the table");
        assert_eq!(dropped(range(0, 50, 11), &[11]), Some(vec![1, 2]), "it sees the deletion too");
        let tree = [(4, range(0, 50, 11)), (6, table(1, 10, 19))];
        let plan = Planner::new(&levels(&tree), &SHAPE, &busy(&[1])).pick_covered(&settled());
        assert_eq!(plan, None);
    }

    /// Prints how long a pick takes in a tree of 5,000 tables in which nothing is due.
    #[test]
    #[ignore = "measures"]
    fn the_time_of_a_pick_in_a_large_tree() {
        use std::time::Instant;

        for share_of_deleting in [0, 10, 100] {
            let mut files: Vec<(usize, FileMeta)> = Vec::new();
            for (level, count) in [(4, 40u32), (5, 440), (6, 4500)] {
                for i in 0..count {
                    let mut file = table(u64::from(4500 * level as u32 + i), 0, 0);
                    let at = |n: u32| (n * (9000 / count)).to_be_bytes();
                    file.smallest = key::internal_key(&at(i), 1, 1);
                    file.largest =
                        key::internal_key(&(u32::from_be_bytes(at(i + 1)) - 1).to_be_bytes(), 1, 1);
                    if level < 6 && i % 100 < share_of_deleting {
                        file.deletions = 1;
                    }
                    files.push((level, file));
                }
            }
            let levels = levels(&files);
            let shape = crate::compaction::TreeShape {
                level_base_bytes: 40_000,
                table_bytes: 1000,
                ..SHAPE
            };
            let start = Instant::now();
            for _ in 0..100 {
                let plan = Planner::new(&levels, &shape, &busy(&[])).pick(&Conditions::default());
                assert_eq!(plan, None);
            }
            let each = start.elapsed() / 100;
            println!("{share_of_deleting} % of the upper tables with deletions: {each:?} a pick");
        }
    }

    #[test]
    fn deletions_of_absent_keys_teach_that_they_free_nothing() {
        let mut hits = DeletionHits::default();
        assert_eq!(hits.rate(), 1.0);
        (0..100).for_each(|_| hits.learn(10_000.0, 0));
        assert!(hits.rate() < 0.01, "{}", hits.rate());
        (0..300).for_each(|_| hits.learn(10_000.0, 10_000));
        assert!(hits.rate() > 0.8, "{}", hits.rate());
    }
}
