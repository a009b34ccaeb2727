//! The write-ahead logs, replayed.
//!
//! ```text
//! 000007.log │ 41 42 43 │ 44 │ torn       000009.log │ 45 │ 46 47 │
//!                        a log that ended badly: the next record must be the one that follows
//! ```
//!
//! Logs are read in the order of their numbers, from the first that some column family needs. An
//! operation is skipped if its family does not exist any more, or if the log's number is below the
//! family's log number. In the second case the write is in a table, and replaying it could revive
//! keys that were deleted since.
//!
//! After a log that was cut off or damaged, the replay continues with the next log only if the
//! first write there has the sequence number after that of the last write read from the logs. If no
//! write was read, that first write must have the number after the MANIFEST's last sequence number.
//! This is RocksDB's default, point-in-time recovery, which recovers a prefix of the writes.

use super::Directory;
use super::batch::{Batch, Operation};
use super::log::{LogEnd, RecordLog};
use crate::encoding::key::SequenceNumber;
use crate::error::{Damage, Result};
use crate::fs::Fs;

/// Passes the logged writes of all existing column families to `visit`, in the order of sequence
/// numbers, except those that are in tables. Returns the sequence number of the newest recovered
/// write, in tables or in logs.
///
/// # Errors
/// [`Corruption`](crate::Error::Corruption) if a log that the MANIFEST calls synced is missing or
/// short, if a record with a right checksum is no write batch, or if sequence numbers do not
/// ascend; [`Unsupported`](crate::Error::Unsupported) for unknown features.
pub(crate) fn replay_logs(
    fs: &dyn Fs,
    directory: &Directory,
    mut visit: impl FnMut(SequenceNumber, Operation<'_>),
) -> Result<SequenceNumber> {
    let manifest = &directory.manifest;
    let first_log = manifest.first_log();
    for (&number, _) in manifest.synced_logs.range(first_log..) {
        if !directory.logs.contains(&number) {
            let expected = "a log, as the MANIFEST says that it was synced";
            let damage = Damage::new(0, expected, "no such file");
            return Err(damage.in_file(&directory.log_path(number), 0));
        }
    }
    let mut last_sequence = manifest.last_sequence;
    let mut last_replayed: Option<SequenceNumber> = None;
    let mut must_follow = false;
    for &number in &directory.logs {
        let path = directory.log_path(number);
        let mut log = RecordLog::open(fs, &path, number)?;
        let synced = manifest.synced_logs.get(&number).copied().flatten();
        if let Some(bytes) = synced.filter(|&bytes| bytes > log.file_bytes()) {
            let expected = format_args!("{bytes} bytes, which the MANIFEST says were synced");
            let damage = Damage::new(0, expected, "the end of the file");
            return Err(damage.in_file(&path, log.file_bytes()));
        }
        while let Some(record) = log.next()? {
            let offset = record.offset;
            let mut batch =
                Batch::decode(record.payload).map_err(|damage| damage.in_file(&path, offset))?;
            let next = last_replayed.unwrap_or(manifest.last_sequence) + 1;
            if must_follow && batch.first != next {
                return Ok(last_sequence);
            }
            must_follow = false;
            if batch.count > 0 && last_replayed.is_some_and(|last| batch.first <= last) {
                let damage = Damage::new(0, format_args!("writes from {next} on"), batch.first);
                return Err(damage.in_file(&path, offset));
            }
            while let Some((sequence, operation)) =
                batch.next().map_err(|refusal| refusal.in_file(&path, offset))?
            {
                last_replayed = Some(sequence);
                last_sequence = last_sequence.max(sequence);
                let family = manifest.families.get(&operation.family);
                if family.is_some_and(|family| number >= family.log_number) {
                    visit(sequence, operation);
                }
            }
        }
        must_follow = *log.end() != LogEnd::Clean || must_follow;
    }
    Ok(last_sequence)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::fuzzing::{EditBytes, LogBytes, batch, put_file};
    use super::*;
    use crate::error::Error;
    use crate::fs::MemFs;

    /// A database with logs of these numbers and bytes. It has two column families: family 0 needs
    /// the logs from number 7 on, and family 1 those from 9 on. The MANIFEST's last sequence number
    /// is 40. `more` adds fields to the last version edit.
    fn database(logs: &[(u64, &[u8])], more: impl FnOnce(&mut EditBytes)) -> MemFs {
        let fs = MemFs::new();
        let mut manifest = LogBytes::new(None);
        let mut edit = EditBytes::default();
        edit.number(2, 7).number(3, 20).number(4, 40);
        manifest.add(&edit.0);
        let mut edit = EditBytes::default();
        edit.number(200, 1).text(201, "one").number(2, 9);
        manifest.add(&edit.0);
        let mut edit = EditBytes::default();
        more(&mut edit);
        manifest.add(&edit.0);
        fs.create_dir_all(Path::new("/db")).unwrap();
        put_file(&fs, Path::new("/db/CURRENT"), b"MANIFEST-000005\n");
        put_file(&fs, Path::new("/db/MANIFEST-000005"), &manifest.bytes);
        for (number, bytes) in logs {
            put_file(&fs, &Path::new("/db").join(format!("{number:06}.log")), bytes);
        }
        fs
    }

    /// `family:sequence` of each replayed write, and the last sequence number.
    fn replay(fs: &MemFs) -> Result<(Vec<String>, SequenceNumber)> {
        let directory = Directory::read(fs, Path::new("/db"))?;
        let mut entries = Vec::new();
        let last = replay_logs(fs, &directory, |sequence, operation| {
            entries.push(format!("{}:{sequence}", operation.family));
        })?;
        Ok((entries, last))
    }

    fn log(number: Option<u64>, batches: &[(u64, &[u32])]) -> Vec<u8> {
        let mut log = LogBytes::new(number);
        batches.iter().for_each(|&(first, families)| log.add(&batch(first, families)));
        log.bytes
    }

    #[test]
    fn writes_of_families_that_have_them_in_tables_are_passed_over() {
        let fs = database(
            &[
                (6, &log(None, &[(30, &[0])])),
                (7, &log(None, &[(35, &[0, 1, 2, 0])])),
                (9, &log(None, &[(41, &[1]), (42, &[5, 0])])),
            ],
            |_| {},
        );
        let (entries, last) = replay(&fs).unwrap();
        assert_eq!(entries, ["0:35", "0:38", "1:41", "0:43"]);
        assert_eq!(last, 43);
        // Without a log, the last sequence number is the MANIFEST's.
        assert_eq!(replay(&database(&[], |_| {})).unwrap(), (vec![], 40));
    }

    #[test]
    fn behind_a_torn_log_only_the_write_that_follows_counts() {
        let whole = log(None, &[(41, &[0]), (42, &[0])]);
        let torn = &whole[..whole.len() - 1];
        let next = |first| log(None, &[(first, &[0]), (first + 1, &[0])]);
        let entries = |second: &[u8]| replay(&database(&[(7, torn), (9, second)], |_| {})).unwrap();
        assert_eq!(entries(&next(42)), (vec!["0:41".into(), "0:42".into(), "0:43".into()], 43));
        for other in [43, 60] {
            assert_eq!(entries(&next(other)), (vec!["0:41".into()], 41));
        }
        // If the torn log has no whole record, the next write must have the number that follows the
        // MANIFEST's last sequence number.
        let early = &whole[..5];
        let follows = database(&[(7, early), (9, &next(41))], |_| {});
        assert_eq!(replay(&follows).unwrap().1, 42);
        let not = database(&[(7, early), (9, &next(42))], |_| {});
        assert_eq!(replay(&not).unwrap(), (vec![], 40));
        // After a log that ended with a whole record, a gap in the sequence numbers is allowed.
        let gap = database(&[(7, &whole), (9, &next(60))], |_| {});
        assert_eq!(replay(&gap).unwrap().1, 61);
    }

    #[test]
    fn the_old_tail_of_a_recycled_log_is_its_ordinary_end() {
        let old = log(Some(3), &[(10, &[0]), (11, &[0]), (12, &[0])]);
        let mut recycled = log(Some(7), &[(41, &[0])]);
        let bytes = recycled.len();
        recycled.extend_from_slice(&old[bytes..]);
        let fs = database(&[(7, &recycled), (9, &log(Some(9), &[(42, &[0])]))], |_| {});
        assert_eq!(replay(&fs).unwrap(), (vec!["0:41".into(), "0:42".into()], 42));
    }

    #[test]
    fn a_log_that_was_synced_must_be_there_and_whole() {
        let whole = log(None, &[(41, &[0])]);
        let synced =
            |log: u64, bytes: usize| move |edit: &mut EditBytes| edit.synced_log(log, bytes as u64);
        let with = |logs: &[(u64, &[u8])], log, bytes| replay(&database(logs, synced(log, bytes)));
        with(&[(7, &whole)], 7, whole.len()).unwrap();
        with(&[(7, &whole)], 6, 99).unwrap();
        for (log, bytes) in [(7, whole.len() + 1), (8, 1)] {
            let error = with(&[(7, &whole)], log, bytes).unwrap_err();
            assert!(matches!(error, Error::Corruption { .. }), "{error}");
        }
    }

    #[test]
    fn sequence_numbers_that_repeat_are_damage() {
        let fs = database(&[(7, &log(None, &[(41, &[0, 0]), (42, &[0])]))], |_| {});
        assert!(matches!(replay(&fs), Err(Error::Corruption { .. })));
    }
}
