//! Reads of damaged tables: they return an error or the right result, never a wrong result, and
//! never panic.

use super::parts::{layout_of, numbered};
use super::range_del::{assert_has_ranges, table_bytes, table_bytes_in_parts};
use super::round_trip::file_of;
use super::*;
use crate::cursor::Cursor;
use crate::encoding::key::MAX_SEQUENCE;
use crate::error::Error;
use crate::stats::Ticker;
use crate::table::format::checksum::ChecksumKind;
use crate::table::{FilterKeys, LookupKey, ScanOptions, TableCursor};

fn small_table(compression: Compression) -> (Entries, Vec<u8>) {
    let entries = mixed_entries(25);
    let options = TableOptions { block_bytes: 300, filter: bloom(), ..options(compression) };
    let (bytes, _) = table_bytes(&entries, options);
    (entries, bytes)
}

/// A table that damage is tried on.
struct Sample {
    name: String,
    entries: Entries,
    bytes: Vec<u8>,
    /// The size of the cache with which the damaged table is read.
    cache_bytes: usize,
}

const CACHE_BYTES: usize = 1 << 20;

const FILTERS: [(&str, Option<&str>); 8] = [
    ("none", None),
    ("bloom(10)", None),
    ("ribbon(8)", None),
    ("burr(7)", None),
    ("fuse(9)", None),
    ("bloom(10)", Some("fixed(4)")),
    ("ribbon(8)", Some("delimiter(0x2f, 1)")),
    ("burr(7)", Some("capped(9)")),
];

/// A table of about `bytes` bytes. If `prefixes` is given, the filter holds prefixes and whole
/// keys.
fn sample(
    bytes: usize,
    (filter, prefixes): (&str, Option<&str>),
    compression: Compression,
) -> Sample {
    let filter_keys = prefixes.map(|text| FilterKeys::Both(text.parse().unwrap()));
    let options = TableOptions {
        block_bytes: (bytes / 16).min(4096),
        filter: filter.parse().unwrap(),
        filter_keys: filter_keys.unwrap_or(FilterKeys::Whole),
        ..options(compression)
    };
    let name = format!("{filter}, prefixes {}, {compression:?}", prefixes.unwrap_or("none"));
    let mut count = 20;
    loop {
        let entries = mixed_entries(count);
        let (table, _) = table_bytes(&entries, options.clone());
        if table.len() >= bytes {
            return Sample { name, entries, bytes: table, cache_bytes: CACHE_BYTES };
        }
        count += count / 4;
    }
}

/// A table of about 45 KiB. Its filter has several parts, and so has its index.
fn sample_in_parts(
    (filter, format): (&str, &str),
    compression: Compression,
    cache_bytes: usize,
) -> Sample {
    let entries = numbered(1500, 4);
    let options =
        TableOptions { block_bytes: 200, filter: filter.parse().unwrap(), ..options(compression) };
    // In smaller parts, a bumped ribbon would have too few keys.
    let (bytes, _) = table_bytes_in_parts(&entries, options, Some(600));
    let layout = layout_of(&bytes);
    assert_eq!(layout.filter_format(), Some(format), "{filter}");
    assert!(layout.filter_parts.len() > 2 && layout.index_parts.len() > 4, "{filter}");
    let name = format!("{filter} in parts, {compression:?}, {cache_bytes} bytes of cache");
    Sample { name, entries, bytes, cache_bytes }
}

/// How often damage had which outcome.
#[derive(Debug, Default)]
struct Figures {
    tried: u64,
    refused_at_opening: u64,
    errors_of_reads: u64,
    harmless: u64,
}

impl Figures {
    fn count(&mut self, end: End) {
        self.tried += 1;
        match end {
            End::Refused => self.refused_at_opening += 1,
            End::Errors => self.errors_of_reads += 1,
            End::Harmless => self.harmless += 1,
        }
    }

    /// Prints the figures. They contain no count of wrong answers, because the first wrong answer
    /// ends the test.
    fn print(&self, what: &str, name: &str) {
        let Figures { tried, refused_at_opening, errors_of_reads, harmless } = self;
        println!(
            "{name}: {tried} {what}: {refused_at_opening} refused at opening, {errors_of_reads} \
             errors of reads, {harmless} harmless, 0 wrong answers"
        );
    }
}

enum End {
    /// The table does not open.
    Refused,
    /// The table opens, and some reads fail.
    Errors,
    Harmless,
}

/// Opens the bytes, scans them, and looks up every `nth` entry, from entry `first` on. Allows
/// errors, and panics on a wrong answer.
fn assert_right_or_refused(
    bytes: &[u8],
    entries: &Entries,
    cache_bytes: usize,
    (first, nth): (usize, usize),
    what: &dyn std::fmt::Display,
) -> End {
    let table = match Table::open(file_of(bytes), context(cache_bytes)) {
        Ok(table) => table,
        Err(Error::Corruption { .. } | Error::Unsupported { .. }) => return End::Refused,
        Err(other) => panic!("{what}: {other}"),
    };
    assert_has_ranges(&table, what);
    let mut all_well = true;
    for (key, value) in entries.iter().skip(first).step_by(nth) {
        let user_key = key::user_key(key);
        match get(&table, &LookupKey::new(user_key, key::sequence(key))) {
            Ok(Some((kind, found))) => {
                assert_eq!((kind, &found[..]), (key::kind_byte(key), &value[..]), "{what}");
            }
            Ok(None) => panic!("{what}: lost {user_key:?}"),
            Err(_) => all_well = false,
        }
        let behind = [user_key, b"\0"].concat();
        assert!(table.range_may_match(user_key, Some(&behind)), "{what}: hides {user_key:?}");
        let absent = [user_key, b"\0absent"].concat();
        match get(&table, &LookupKey::new(&absent, MAX_SEQUENCE)) {
            Ok(found) => assert_eq!(found, None, "{what}"),
            Err(_) => all_well = false,
        }
    }
    let mut cursor = TableCursor::new(table, ScanOptions::default());
    let mut read = 0;
    let walked = (|| {
        cursor.seek_to_first()?;
        while cursor.valid() {
            let expected = entries.get(read).map(|(key, value)| (&key[..], &value[..]));
            assert_eq!(Some((cursor.key(), cursor.value())), expected, "{what}: entry {read}");
            read += 1;
            cursor.next()?;
        }
        Ok::<_, Error>(())
    })();
    match walked {
        Ok(()) => assert_eq!(read, entries.len(), "{what}"),
        Err(_) => all_well = false,
    }
    if all_well { End::Harmless } else { End::Errors }
}

/// Flips every `step`-th bit of the data, and every bit of the `tail` last bytes.
fn flip_bits(sample: &Sample, step: usize, tail: usize) -> Figures {
    let mut figures = Figures::default();
    let mut bytes = sample.bytes.clone();
    // To save time, the test looks up only every `nth` entry after a flip. After the next flip it
    // looks up other entries.
    let nth = sample.entries.len().div_ceil(40);
    for bit in 0..bytes.len() * 8 {
        if bit / 8 + tail < bytes.len() && bit % step != 0 {
            continue;
        }
        bytes[bit / 8] ^= 1 << (bit % 8);
        let what = format_args!("{}: bit {} of byte {}", sample.name, bit % 8, bit / 8);
        let asked = (figures.tried as usize % nth, nth);
        figures.count(assert_right_or_refused(
            &bytes,
            &sample.entries,
            sample.cache_bytes,
            asked,
            &what,
        ));
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    figures.print("flipped bits", &sample.name);
    // Flips are harmless in the zeros between the footer's handles and its format_version. They are
    // also harmless in the filter, because a lost filter only costs reads.
    assert!(figures.harmless > 0 && figures.refused_at_opening > 0 && figures.errors_of_reads > 0);
    figures
}

/// Cuts up to `tail` bytes off the end of the table, each number of bytes once. Also truncates it
/// to each length that is a multiple of `step`.
fn truncate(sample: &Sample, step: usize, tail: usize) {
    let mut figures = Figures::default();
    for length in 0..sample.bytes.len() {
        if length + tail < sample.bytes.len() && length % step != 0 {
            continue;
        }
        let what = format_args!("{}: {length} of {} bytes", sample.name, sample.bytes.len());
        let end = assert_right_or_refused(
            &sample.bytes[..length],
            &sample.entries,
            sample.cache_bytes,
            (0, 1),
            &what,
        );
        assert!(matches!(end, End::Refused), "{what}: opened");
        figures.count(end);
    }
    figures.print("truncations", &sample.name);
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn flipped_bits_and_truncations_of_every_family_are_seen_or_harmless() {
    let compressions = Compression::ALL.into_iter().cycle();
    for (filter, compression) in FILTERS.into_iter().zip(compressions) {
        let sample = sample(64 << 10, filter, compression);
        let well = assert_right_or_refused(
            &sample.bytes,
            &sample.entries,
            CACHE_BYTES,
            (0, 1),
            &"the whole",
        );
        assert!(matches!(well, End::Harmless));
        flip_bits(&sample, 8009, 150);
        truncate(&sample, 97, 200);
    }
    let (entries, bytes) = small_table(Compression::None);
    let small = Sample { name: "a small table".into(), entries, bytes, cache_bytes: CACHE_BYTES };
    flip_bits(&small, 11, 1024);
    truncate(&small, 1, 0);
}

/// A cache of 0 bytes keeps no part. The large cache keeps all parts, with the heads of the index.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn flipped_bits_and_truncations_of_tables_in_parts_are_seen_or_harmless() {
    let filters =
        [("bloom(10)", "rocksdb.BuiltinBloomFilter"), ("burr(7)", "maypole.BumpedRibbon")];
    let compressions = Compression::ALL.into_iter().cycle();
    let caches = filters.into_iter().flat_map(|filter| [(filter, 0), (filter, CACHE_BYTES)]);
    for ((filter, cache_bytes), compression) in caches.zip(compressions) {
        let sample = sample_in_parts(filter, compression, cache_bytes);
        flip_bits(&sample, 401, 150);
        truncate(&sample, 97, 200);
    }
}

/// Flips every bit of eleven tables of 64 KiB, and truncates them to every length. To run it:
/// `cargo test --release --lib table::tests::damage::every -- --ignored --nocapture`.
/// `MAYPOLE_DAMAGE_TABLES=3` takes the first three tables.
///
/// Eight tables are not compressed, and each has one of the filters of `FILTERS`. Each of the other
/// three has another compression and another filter. More combinations would show nothing new,
/// because a filter block is never compressed, and a data block does not depend on the filter.
#[test]
#[ignore = "three minutes a table"]
fn every_flipped_bit_and_truncation_of_every_family_and_compression() {
    let most = std::env::var("MAYPOLE_DAMAGE_TABLES").ok().and_then(|most| most.parse().ok());
    let plain = FILTERS.into_iter().map(|filter| (filter, Compression::None));
    let compressed = Compression::ALL.into_iter().filter(|&kind| kind != Compression::None);
    let tables = plain.chain(FILTERS.into_iter().skip(1).zip(compressed));
    let mut flips = 0;
    for (filter, compression) in tables.take(most.unwrap_or(usize::MAX)) {
        let sample = sample(64 << 10, filter, compression);
        flips += flip_bits(&sample, 1, 0).tried;
        truncate(&sample, 1, 0);
    }
    println!("{flips} flipped bits together, 0 wrong answers");
}

/// A block's checksum does not depend on the block's offset. So it cannot show that a misdirected
/// write has exchanged two blocks of one length, or has put a copy of one block at the offset of
/// another. Lookups once reported the keys of an overwritten block as absent. Now the first key of
/// each block is compared with the separators.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn blocks_that_change_places_or_stand_twice_are_found_where_a_key_would_be_missed() {
    let entries: Entries = (0..600u32)
        .map(|i| (internal_key(format!("key{i:05}").as_bytes(), 7, 1), vec![i as u8; 40]))
        .collect();
    for filter in ["none", "bloom(10)"] {
        let options = TableOptions {
            filter: filter.parse().unwrap(),
            block_bytes: 600,
            ..options(Compression::None)
        };
        let (bytes, _) = table_bytes(&entries, options);
        let table = Table::open(file_of(&bytes), context(0)).unwrap();
        let blocks = data_blocks(&table);
        let extent = |i: usize| blocks[i].offset as usize..blocks[i].end().unwrap() as usize;
        let (mut swaps, mut copies) = (Figures::default(), Figures::default());
        for (i, j) in (0..blocks.len()).flat_map(|i| (0..blocks.len()).map(move |j| (i, j))) {
            if i == j || extent(i).len() != extent(j).len() {
                continue;
            }
            let what = format_args!("{filter}: block {j} in the place of block {i}");
            let mut copied = bytes.clone();
            copied.copy_within(extent(j), extent(i).start);
            let end = assert_right_or_refused(&copied, &entries, CACHE_BYTES, (0, 1), &what);
            assert!(matches!(end, End::Errors), "{what}: not seen");
            copies.count(end);
            if i < j {
                copied[extent(j)].copy_from_slice(&bytes[extent(i)]);
                let end = assert_right_or_refused(&copied, &entries, CACHE_BYTES, (0, 1), &what);
                assert!(matches!(end, End::Errors), "{what}: not seen");
                swaps.count(end);
            }
        }
        assert!(swaps.tried > 100, "{} blocks of one length", swaps.tried);
        swaps.print("swapped blocks", filter);
        copies.print("blocks in the place of others", filter);
    }
}

/// Changes bytes and corrects the checksum, so that the damage reaches the decoders. A bug could
/// cause such damage. Damage by a disk would fail the checksum.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn damage_that_passes_the_checksum_never_panics() {
    let (_, bytes) = small_table(Compression::None);
    let table = Table::open(file_of(&bytes), context(0)).unwrap();
    let mut handles: Vec<_> = table.metaindex().iter().map(|&(_, handle)| handle).collect();
    handles.extend([table.footer().metaindex, table.footer().index.unwrap()]);
    handles.extend(data_blocks(&table));
    for handle in handles {
        let (start, end) = (handle.offset as usize, (handle.offset + handle.bytes) as usize);
        for at in start..end {
            for change in [0x01, 0x80, 0xff] {
                let mut bad = bytes.clone();
                bad[at] ^= change;
                let sum = ChecksumKind::Xxh3.of(&bad[start..=end]);
                bad[end + 1..end + 5].copy_from_slice(&sum.to_le_bytes());
                let Ok(table) = Table::open(file_of(&bad), context(1 << 20)) else { continue };
                for user_key in [&b""[..], b"user000030", b"zzzz", b"\xff\xff"] {
                    let _ = get(&table, &LookupKey::new(user_key, MAX_SEQUENCE));
                }
                let _ = table.verify();
                let mut cursor = TableCursor::new(table, ScanOptions::default());
                if cursor.seek_to_last().is_ok() && cursor.valid() {
                    let _ = cursor.prev();
                }
            }
        }
    }
}

/// RocksDB 11 can store the keys and the values of a block separately
/// (`separate_key_value_in_data_block`). Such blocks were once reported as damaged.
#[test]
fn a_block_with_keys_and_values_apart_is_not_supported_rather_than_damaged() {
    let (entries, mut bytes) = small_table(Compression::None);
    let table = Table::open(file_of(&bytes), context(0)).unwrap();
    let handle = data_blocks(&table)[0];
    let end = (handle.offset + handle.bytes) as usize;
    bytes[end - 1] |= 1 << 4;
    let covered = &bytes[handle.offset as usize..=end];
    let checksum = table.footer().block_checksum(covered, handle.offset);
    bytes[end + 1..end + 5].copy_from_slice(&checksum.to_le_bytes());
    let table = Table::open(file_of(&bytes), context(0)).unwrap();
    let key = LookupKey::new(key::user_key(&entries[0].0), MAX_SEQUENCE);
    let errors = [get(&table, &key).err(), table.verify().err()];
    for error in errors {
        let error = error.expect("the block cannot be read");
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains("stored apart"), "{error}");
    }
}

#[test]
fn a_damaged_filter_costs_reads_and_loses_no_key() {
    let (entries, bytes) = small_table(Compression::None);
    let filter = layout_of(&bytes).filter();
    let mut bad = bytes.clone();
    // One bit of the filter is flipped, and its checksum is left as it was.
    bad[filter.offset as usize + 3] ^= 0x10;
    let context = context(1 << 20);
    let table = Table::open(file_of(&bad), context.clone()).unwrap();
    for (key, _) in &entries {
        let lookup = LookupKey::new(key::user_key(key), key::sequence(key));
        assert!(get(&table, &lookup).unwrap().is_some());
    }
    let sums = context.counters.sums();
    assert_eq!(sums.get(Ticker::BloomUntrusted), entries.len() as u64);
    assert_eq!(sums.get(Ticker::BloomFullPositive), entries.len() as u64);
    assert_eq!(sums.get(Ticker::BlockCacheFilterMiss), 1, "the damage is read once");
    assert!(matches!(table.verify(), Err(Error::Corruption { .. })), "but it is told");
}
