//! The stage of the filters, for many keys: which keys fall into which files of a run, and what the
//! filters of these files say.

use crate::table::LookupKey;

use super::open::{OpenLookup, TOGETHER};
use crate::lookup::filter::{AfterFilter, Membership, prefetch, query_many};
use crate::lookup::stage::{FileRun, Scope};

/// An open lookup, and the file of the current run that it is to search.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Question {
    pub file: u32,
    pub lookup: u32,
}

/// An open lookup, the file that it is to search, and what the file's filter has said.
#[derive(Clone, Copy)]
pub(super) struct Maybe {
    pub question: Question,
    pub after: AfterFilter,
}

/// Queries the filters of a run, each filter for all its keys at once. A [`Question`] is one lookup
/// and the file that may hold its key. It goes to `maybes` if the file's filter returns "maybe",
/// and to `unasked` if the filter is not in memory.
pub(super) fn query_filters(
    run: &FileRun,
    open: &[OpenLookup<'_>],
    scope: &Scope<'_>,
    maybes: &mut Vec<Maybe>,
    unasked: &mut Vec<Question>,
) {
    let Some(OpenLookup { key: any, .. }) = open.first() else { return };
    let (mut lookups, mut keys, mut count) = ([0; TOGETHER], [any; TOGETHER], 0);
    let mut ask = |file: usize, lookups: &[usize], keys: &[&LookupKey<'_>]| {
        let table = &*run.file(file).table;
        query_many(table, keys, scope, |i, membership| {
            let question = Question { file: file as u32, lookup: lookups[i] as u32 };
            match membership {
                Membership::No => {}
                Membership::Maybe(after) => maybes.push(Maybe { question, after }),
                Membership::Absent(_) => unasked.push(question),
            }
        });
    };
    if run.len() == 1 {
        for (i, lookup) in open.iter().enumerate() {
            if lookup.file_in(run).is_some() {
                (lookups[count], keys[count]) = (i, &lookup.key);
                count += 1;
            }
        }
        return ask(0, &lookups[..count], &keys[..count]);
    }
    // Several files: the keys of one file are queried together.
    let mut questions = [Question::default(); TOGETHER];
    for (lookup, open) in (0..).zip(open) {
        if let Some(file) = open.file_in(run) {
            questions[count] = Question { file: file as u32, lookup };
            count += 1;
        }
    }
    let questions = &mut questions[..count];
    sort_by_file(questions, run.len());
    let groups = || questions.chunk_by(|a, b| a.file == b.file);
    // Few keys fall into each file. So the filters of all files are prefetched first, because then
    // the cache misses of different files overlap.
    for group in groups() {
        let keys = group.iter().map(|question| &open[question.lookup as usize].key);
        prefetch(&run.file(group[0].file as usize).table, keys, scope.guard);
    }
    for group in groups() {
        for (i, question) in group.iter().enumerate() {
            let lookup = question.lookup as usize;
            (lookups[i], keys[i]) = (lookup, &open[lookup].key);
        }
        ask(group[0].file as usize, &lookups[..group.len()], &keys[..group.len()]);
    }
}

/// Sorts by file. With few files this is a counting sort, because a sort by comparison mispredicts
/// half of its branches if the keys are in no order.
fn sort_by_file(questions: &mut [Question], files: usize) {
    if files > TOGETHER {
        return questions.sort_unstable();
    }
    let mut next = [0; TOGETHER + 1];
    questions.iter().for_each(|question| next[question.file as usize + 1] += 1);
    for file in 1..files {
        next[file] += next[file - 1];
    }
    let mut sorted = [Question::default(); TOGETHER];
    for question in &*questions {
        let position = &mut next[question.file as usize];
        sorted[*position] = *question;
        *position += 1;
    }
    questions.copy_from_slice(&sorted[..questions.len()]);
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    #[test]
    fn questions_are_sorted_by_file_however_many_files_and_questions_there_are() {
        let mut rng = StdRng::seed_from_u64(1);
        for files in [2, 3, 7, TOGETHER - 1, TOGETHER, TOGETHER + 1, 1000] {
            for count in [0, 1, 2, 33, TOGETHER] {
                let mut questions: Vec<Question> = (0..count as u32)
                    .map(|lookup| {
                        let file = rng.random_range(0..files as u32);
                        // The last file has a question too.
                        Question { file: if lookup == 1 { files as u32 - 1 } else { file }, lookup }
                    })
                    .collect();
                let mut expected = questions.clone();
                expected.sort();
                sort_by_file(&mut questions, files);
                assert!(questions == expected, "{files} files, {count} questions");
            }
        }
    }
}
