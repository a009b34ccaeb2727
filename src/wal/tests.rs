//! Logs in memory: written, read, cut off, damaged and repaired. The tests are in one file because
//! all of them use the helpers at the start of this file. *Rot* is damage of bytes that were
//! synced. A *torn tail* was never synced.

use std::path::Path;
use std::sync::Arc;

use byteorder::{ByteOrder, LittleEndian};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

use super::format::{LogVersion, RecordHeader, encode_file_header};
use super::*;
use crate::error::{Error, Result};
use crate::fs::{Fault, FaultFs, Fs, MemFs, Operation, Target};

const NUMBER: u64 = 13;

fn path() -> &'static Path {
    Path::new("000013.wal")
}

/// Among the steps that write a log, this one stands for a sync. Every other step is the payload of
/// a record.
const SYNC: &[u8] = b"";

fn log_of(steps: &[&[u8]]) -> Vec<u8> {
    let fs = MemFs::new();
    let mut writer = LogWriter::create(&fs, path(), LogKind::Wal, NUMBER).unwrap();
    for &step in steps {
        match step {
            SYNC => writer.sync().unwrap(),
            payload => drop(writer.append(&[payload]).unwrap()),
        }
    }
    assert_eq!(fs.read(path()).unwrap().len() as u64, writer.len());
    fs.read(path()).unwrap()
}

/// The payloads of a log's records, how the log ends, and how far it is known to be synced.
type Outcome = (Vec<Vec<u8>>, Tail, u64);

fn read_fs(fs: &dyn Fs) -> Result<Outcome> {
    let mut reader = LogReader::open(fs, path(), LogKind::Wal, NUMBER)?;
    let mut payloads = Vec::new();
    while let Some(record) = reader.next()? {
        payloads.push(record.payload.to_vec());
    }
    Ok((payloads, reader.tail().unwrap(), reader.synced_to()))
}

fn read(bytes: &[u8]) -> Result<Outcome> {
    let fs = MemFs::new();
    let mut file = fs.create(path()).unwrap();
    file.append(bytes).unwrap();
    file.sync().unwrap();
    read_fs(&fs)
}

fn damaged_at(result: Result<Outcome>) -> u64 {
    match result {
        Err(Error::Corruption { file, offset, .. }) if file == path() => offset,
        other => panic!("not a corruption: {other:?}"),
    }
}

#[test]
fn the_bytes_are_those_of_the_description() {
    #[rustfmt::skip]
    let golden: &[u8] = &[
        // file header
        0x8d, b'M', b'a', b'y', b'p', b'o', b'l', b'e', // magic
        2, 0, 0, 0,                                     // format version
        1, 0, 0, 0,                                     // kind: WAL
        13, 0, 0, 0, 0, 0, 0, 0,                        // file number
        0xfb, 0xed, 0xbe, 0x91,                         // CRC-32 of the 24 bytes before
        // record at 28
        0x52, 0x46, 0x0d, 0x81,                         // CRC-32 of number, offset, next 16 bytes
        0xc2, 0x41, 0x24, 0x35,                         // CRC-32 of "abc"
        3, 0, 0, 0,                                     // payload bytes
        0, 0, 0, 0, 0, 0, 0, 0,                         // synced_to: nothing yet
        b'a', b'b', b'c',
        // mark at 51, after a sync
        0x88, 0x02, 0xaf, 0xa8,
        0, 0, 0, 0,                                     // CRC-32 of nothing
        0, 0, 0, 0,                                     // no payload
        51, 0, 0, 0, 0, 0, 0, 0,                        // synced_to: its own offset
    ];
    let log = log_of(&[b"abc", SYNC]);
    assert_eq!(format!("{log:02x?}"), format!("{golden:02x?}"));
    assert_eq!(read(&log).unwrap(), (vec![b"abc".to_vec()], Tail::Clean, 51));
}

#[test]
fn records_of_every_size_come_back_in_order() {
    let sizes = [1, 2, 19, 20, 21, 4096, 65_535, 65_536, 65_537, 200_000, 1];
    let payloads: Vec<Vec<u8>> = sizes
        .iter()
        .map(|&size: &usize| (0..size).map(|i| (i * 31 + size) as u8).collect())
        .collect();
    let fs = MemFs::new();
    let mut writer = LogWriter::create(&fs, path(), LogKind::Wal, NUMBER).unwrap();
    for payload in &payloads {
        let (head, rest) = payload.split_at(payload.len() / 3);
        let offset = writer.append(&[head, b"", rest]).unwrap();
        assert_eq!(offset + (RECORD_HEADER_BYTES + payload.len()) as u64, writer.len());
        // `append` has handed the record to the operating system, so the record survives a kill of
        // the process.
        assert_eq!(read_fs(&fs.kill()).unwrap().0.last(), Some(payload));
    }
    assert_eq!(read_fs(&fs).unwrap(), (payloads, Tail::Clean, 0));
}

#[test]
fn an_empty_or_oversized_record_is_refused_and_harmless() {
    let fs = MemFs::new();
    let mut writer = LogWriter::create(&fs, path(), LogKind::Wal, NUMBER).unwrap();
    // 4 GiB, without allocating them.
    let megabyte = vec![0; 1 << 20];
    let oversized = vec![&megabyte[..]; 4096];
    for parts in [&[][..], &[&b""[..], b""], &oversized] {
        assert!(matches!(writer.append(parts), Err(Error::InvalidArgument(_))));
    }
    writer.append(&[b"fine"]).unwrap();
    assert_eq!(read_fs(&fs).unwrap().0, [b"fine"]);
}

#[test]
fn a_sync_with_nothing_new_writes_nothing() {
    let once = log_of(&[b"x", SYNC]);
    assert_eq!(log_of(&[b"x", SYNC, SYNC, SYNC]), once);
}

/// The steps of four sample logs. One log is never synced, one is synced at its end, and two are
/// synced between their records. The tests damage these logs in one place at a time.
fn sample_logs() -> Vec<Vec<Vec<u8>>> {
    let big = [7; 300];
    let logs: [&[&[u8]]; 4] = [
        &[b"one", b"two", &big, b"four"],
        &[b"one", b"two", &big, SYNC],
        &[SYNC, b"one", SYNC, &big, b"\0\0\0\0", SYNC, b"five", &[0; 64], b"seven"],
        &[b"one", SYNC, SYNC, b"two"],
    ];
    logs.iter().map(|steps| steps.iter().map(|step| step.to_vec()).collect()).collect()
}

/// Where a record ends, and its payload.
type Ended = (u64, Vec<u8>);

/// The log of `steps`, its records with the offsets where they end, and how far it was synced.
fn build(steps: &[Vec<u8>]) -> (Vec<u8>, Vec<Ended>, u64) {
    let steps: Vec<&[u8]> = steps.iter().map(Vec::as_slice).collect();
    let mut records = Vec::new();
    for (i, &step) in steps.iter().enumerate().filter(|(_, step)| **step != SYNC) {
        records.push((log_of(&steps[..=i]).len() as u64, step.to_vec()));
    }
    let log = log_of(&steps);
    let synced_to = read(&log).unwrap().2;
    (log, records, synced_to)
}

/// The payloads of the records that end at or before `offset`.
fn before(records: &[Ended], offset: usize) -> Vec<Vec<u8>> {
    records.iter().filter(|(end, _)| *end <= offset as u64).map(|(_, p)| p.clone()).collect()
}

#[test]
fn every_truncation_gives_a_prefix() {
    for steps in sample_logs() {
        let (log, records, _) = build(&steps);
        for length in 0..=log.len() {
            let (payloads, tail, _) = read(&log[..length]).unwrap();
            assert_eq!(payloads, before(&records, length));
            if let Tail::Torn { offset } = tail {
                assert!(offset as usize <= length);
            }
        }
    }
}

#[test]
fn every_flipped_bit_is_an_error_where_bytes_were_synced_and_a_cut_elsewhere() {
    for steps in sample_logs() {
        let (log, records, synced_to) = build(&steps);
        for at in 0..log.len() {
            for bit in 0..8 {
                let mut flipped = log.clone();
                flipped[at] ^= 1 << bit;
                match read(&flipped) {
                    Err(Error::Corruption { offset, .. }) => {
                        assert!(at < FILE_HEADER_BYTES || (at as u64) < synced_to);
                        assert!(offset <= at as u64, "{offset} {at}");
                    }
                    Err(error) => panic!("{error}"),
                    Ok((payloads, tail, _)) => {
                        assert!(at as u64 >= synced_to, "rot at {at} was taken for a torn tail");
                        assert_eq!(payloads, before(&records, at));
                        assert!(matches!(tail, Tail::Torn { offset } if offset <= at as u64));
                    }
                }
            }
        }
    }
}

#[test]
fn every_zeroed_or_foreign_stretch_is_an_error_or_a_cut() {
    let mut random = StdRng::seed_from_u64(4);
    for steps in sample_logs() {
        let (log, records, synced_to) = build(&steps);
        for _ in 0..2000 {
            let start = random.random_range(0..log.len());
            let end = random.random_range(start..=log.len());
            let mut changed = log.clone();
            match random.random_range(0..3) {
                0 => changed[start..end].fill(0),
                1 => random.fill_bytes(&mut changed[start..end]),
                // Overwrites the stretch with bytes from elsewhere in the same log, which may
                // include valid checksums.
                _ => {
                    let from = random.random_range(0..=log.len() - (end - start));
                    changed[start..end].copy_from_slice(&log[from..][..end - start]);
                }
            }
            let Some(at) = (0..log.len()).find(|&i| changed[i] != log[i]) else { continue };
            match read(&changed) {
                Err(_) => assert!(at < FILE_HEADER_BYTES || (at as u64) < synced_to),
                Ok((payloads, _, _)) => assert_eq!(payloads, before(&records, at)),
            }
        }
    }
}

/// The reader once searched only 4 KiB after rot for evidence of a sync, so that synced records
/// after longer rot were dropped silently. The MANIFEST also reveals such a loss, but only in logs
/// that it lists, so the reader must not depend on it.
#[test]
fn rot_of_any_length_before_a_synced_record_is_an_error() {
    let payload = [7; 700];
    let steps: Vec<&[u8]> = (0..100).flat_map(|_| [&payload[..], SYNC]).collect();
    let log = log_of(&steps);
    for rotten_bytes in [1, 100, 4096, 20_000, 60_000] {
        let mut rotten = log.clone();
        rotten[1000..1000 + rotten_bytes].iter_mut().for_each(|byte| *byte = !*byte);
        assert!(damaged_at(read(&rotten)) <= 1000, "{rotten_bytes} bytes");
    }
}

#[test]
fn records_of_another_file_or_place_are_no_records() {
    let log = log_of(&[b"one", b"two"]);
    let record = &log[FILE_HEADER_BYTES..][..RECORD_HEADER_BYTES + 3];
    let twice = [&log[..FILE_HEADER_BYTES], record, record].concat();
    let torn = Tail::Torn { offset: (FILE_HEADER_BYTES + record.len()) as u64 };
    assert_eq!(read(&twice).unwrap(), (vec![b"one".to_vec()], torn, 0));
    let renumbered =
        [&encode_file_header(LogKind::Wal, 14, LogVersion::default())[..], record].concat();
    let fs = MemFs::new();
    let mut file = fs.create(path()).unwrap();
    file.append(&renumbered).unwrap();
    file.flush().unwrap();
    let mut reader = LogReader::open(&fs, path(), LogKind::Wal, 14).unwrap();
    assert!(reader.next().unwrap().is_none());
}

#[test]
fn what_users_store_is_no_witness() {
    // The payload holds a genuine record header, with the checksum for its offset in the file. This
    // header claims that all bytes before it are synced.
    let offset = (FILE_HEADER_BYTES + RECORD_HEADER_BYTES + 5) as u64;
    let claim = RecordHeader { payload_crc32: 0, payload_bytes: 0, synced_to: offset };
    let payload = [&b"12345"[..], &claim.encode(NUMBER, offset), b"end"].concat();
    let mut log = log_of(&[&payload]);
    assert_eq!(read(&log).unwrap().0, [payload]);
    *log.last_mut().unwrap() ^= 1;
    let torn = Tail::Torn { offset: FILE_HEADER_BYTES as u64 };
    assert_eq!(read(&log).unwrap(), (vec![], torn, 0));
}

#[test]
fn a_lost_file_header_is_an_empty_log_unless_a_record_knows_better() {
    for log in [&b""[..], &[0; 10], &[0; FILE_HEADER_BYTES], &[0; 9000]] {
        assert_eq!(read(log).unwrap(), (vec![], Tail::Torn { offset: 0 }, 0));
    }
    let mut unsynced = log_of(&[b"one", b"two"]);
    unsynced[..FILE_HEADER_BYTES].fill(0);
    assert_eq!(read(&unsynced).unwrap(), (vec![], Tail::Torn { offset: 0 }, 0));
    let mut synced = log_of(&[b"one", b"two", SYNC]);
    synced[..FILE_HEADER_BYTES].fill(0);
    assert_eq!(damaged_at(read(&synced)), 0);
}

#[test]
fn a_foreign_file_header_is_a_clear_error() {
    let message = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut log = log_of(&[b"one"]);
        change(&mut log);
        let crc32 = crc32fast::hash(&log[..24]);
        LittleEndian::write_u32(&mut log[24..], crc32);
        read(&log).unwrap_err().to_string()
    };
    assert!(message(&|log| log[0] = b'x').contains("offset 0: expected a Maypole log"));
    assert!(message(&|log| log[8] = 4).contains("not supported: log format version 4"));
    assert!(message(&|log| log[8] = 0).contains("not supported: log format version 0"));
    let kind = message(&|log| log[12] = 2);
    assert!(kind.contains("offset 12: expected log kind 1 (Wal), found 2"), "{kind}");
    let number = message(&|log| log[16] = 12);
    assert!(number.contains("offset 16: expected file number 13, found 12"), "{number}");
}

#[test]
fn a_huge_length_allocates_nothing() {
    let mut log = log_of(&[b"one"]);
    let offset = log.len() as u64;
    let header = RecordHeader { payload_crc32: 0, payload_bytes: u32::MAX, synced_to: 0 };
    log.extend(header.encode(NUMBER, offset));
    log.extend([0; 100]);
    assert_eq!(read(&log).unwrap(), (vec![b"one".to_vec()], Tail::Torn { offset }, 0));
}

#[test]
fn an_error_says_what_is_wrong_and_who_knows() {
    let mut log = log_of(&[b"one", b"two", SYNC]);
    log[FILE_HEADER_BYTES + RECORD_HEADER_BYTES] ^= 0x20;
    let message = read(&log).unwrap_err().to_string();
    assert!(message.starts_with("000013.wal: damaged at offset 28: expected intact"), "{message}");
    assert!(message.contains("record at offset 74") && message.contains("payload checksum"));
}

#[test]
fn a_log_of_version_1_is_read() {
    let mut log = log_of(&[b"one", SYNC]);
    log[8] = 1;
    let crc32 = crc32fast::hash(&log[..24]);
    LittleEndian::write_u32(&mut log[24..], crc32);
    assert_eq!(read(&log).unwrap().0, [b"one".to_vec()]);
}

#[test]
fn a_log_ends_where_there_is_no_space() {
    // An append that finds no space may leave a part of its record in the file. A record appended
    // after that part would never be read. If the rest of the failed record were written later, a
    // recovery would return a record whose append reported an error. So nothing may be appended
    // after the failure.
    // The failed record ends in zeros, because the file may be allocated ahead, and zeros behind a
    // part of the record would complete it.
    for fault in [Fault::NoSpace, Fault::ShortWrite] {
        for (operation, nth) in
            [(Operation::Append, 0), (Operation::Append, 1), (Operation::Flush, 0)]
        {
            let memory = Arc::new(MemFs::new());
            let fs = FaultFs::new(memory.clone());
            let mut writer = LogWriter::create(&fs, path(), LogKind::Wal, NUMBER).unwrap();
            writer.append(&[b"first"]).unwrap();
            let end = writer.len();
            fs.fail_once(Target::Only(operation), nth, fault);
            let first = writer.append(&[b"second\0\0\0\0\0\0\0"]).unwrap_err();
            let images = [memory.kill(), memory.crash(7)];
            assert!(first.is_out_of_space() && writer.has_ended(), "{first}");
            let error = writer.append(&[b"third"]).unwrap_err();
            assert_eq!(error.to_string(), first.to_string());
            // The records before the failed one are intact, and can still be made durable.
            writer.sync().unwrap();
            assert_eq!((writer.len(), writer.synced_to()), (end, end));
            drop(writer);
            let synced = [memory.kill(), memory.crash(7)];
            for image in synced.iter().chain([&images[0]]) {
                assert_eq!(read_fs(image).unwrap().0, [b"first".to_vec()], "{fault:?}");
            }
            assert!(read_fs(&images[1]).unwrap().0.len() <= 1, "{fault:?}");
        }
    }
}

#[test]
fn a_failed_write_poisons_the_writer_and_cuts_the_log() {
    // The writer appends a record's header and then its payload to the file. For the third record,
    // the append of the payload fails, so that only its header is written.
    let memory = Arc::new(MemFs::new());
    let fs = FaultFs::new(memory.clone());
    let mut writer = LogWriter::create(&fs, path(), LogKind::Wal, NUMBER).unwrap();
    writer.append(&[b"first"]).unwrap();
    writer.append(&[b"second"]).unwrap();
    fs.fail_once(Target::Only(Operation::Append), 1, Fault::Io);
    let first = writer.append(&[b"third"]).unwrap_err().to_string();
    let changes = fs.calls(Target::Changes);
    assert_eq!(writer.append(&[b"fourth"]).unwrap_err().to_string(), first);
    assert_eq!(writer.sync().unwrap_err().to_string(), first);
    assert_eq!(fs.calls(Target::Changes), changes, "a poisoned writer touched the file");
    drop(writer);
    let (payloads, _, _) = read_fs(&*memory).unwrap();
    assert_eq!(payloads, [&b"first"[..], b"second"]);
}

#[test]
fn a_failed_sync_is_final() {
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let mut writer = LogWriter::create(&fs, path(), LogKind::Wal, NUMBER).unwrap();
    writer.append(&[b"one"]).unwrap();
    fs.fail_once(Target::Only(Operation::Sync), 0, Fault::Io);
    writer.sync().unwrap_err();
    writer.sync().unwrap_err();
    writer.append(&[b"two"]).unwrap_err();
    assert_eq!(fs.calls(Target::Only(Operation::Sync)), 1, "a sync was retried");
}

#[test]
fn a_mark_that_cannot_be_written_does_not_fail_the_sync() {
    let memory = Arc::new(MemFs::new());
    let fs = FaultFs::new(memory.clone());
    let mut writer = LogWriter::create(&fs, path(), LogKind::Wal, NUMBER).unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    writer.append(&[b"one"]).unwrap();
    fs.fail_once(Target::Only(Operation::Append), 0, Fault::ShortWrite);
    writer.sync().unwrap();
    writer.append(&[b"two"]).unwrap_err();
    for seed in 0..20 {
        assert_eq!(read_fs(&memory.crash(seed)).unwrap().0, [b"one"]);
    }
}

#[test]
fn a_crash_leaves_a_prefix_with_all_that_was_synced() {
    let mut random = StdRng::seed_from_u64(1);
    let (mut lost, mut torn) = (0, 0);
    for round in 0..300 {
        let fs = MemFs::new();
        let mut writer = LogWriter::create(&fs, path(), LogKind::Wal, NUMBER).unwrap();
        fs.sync_dir(Path::new("/")).unwrap();
        let mut payloads: Vec<Vec<u8>> = Vec::new();
        let mut synced_records = 0;
        for _ in 0..random.random_range(0..30) {
            let size = 1 << random.random_range(0..14);
            let mut payload = vec![0; random.random_range(1..=size)];
            random.fill_bytes(&mut payload);
            writer.append(&[&payload]).unwrap();
            payloads.push(payload);
            if random.random_ratio(1, 6) {
                writer.sync().unwrap();
                synced_records = payloads.len();
            }
            for _ in 0..3 {
                let (found, tail, _) = read_fs(&fs.crash(random.next_u64())).unwrap();
                assert!(found.len() >= synced_records, "round {round}: a synced record was lost");
                assert_eq!(found, payloads[..found.len()], "round {round}: not a prefix");
                lost += u32::from(found.len() < payloads.len());
                torn += u32::from(tail != Tail::Clean);
            }
        }
        assert_eq!(read_fs(&fs.kill()).unwrap().0, payloads, "a killed process loses nothing");
    }
    assert!(lost > 1000 && torn > 1000, "too few crashes lose records: {lost} lost, {torn} torn");
}

#[test]
fn any_bytes_with_repaired_checksums_are_read_without_a_panic() {
    let mut random = StdRng::seed_from_u64(2);
    for _ in 0..20_000 {
        let mut data = vec![0; random.random_range(0..400)];
        random.fill_bytes(&mut data);
        // With many zero bytes, lengths and sync offsets are small numbers, as in real logs.
        for byte in &mut data {
            if random.random_ratio(1, 2) {
                *byte = 0;
            }
        }
        crate::fuzzing::log(&data);
    }
}
