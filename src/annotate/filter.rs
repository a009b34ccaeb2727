//! Prints filter blocks, field by field. The layouts of RocksDB's filters are drawn in
//! `filter/bloom/layout.rs`, `filter/ribbon/layout.rs` and `filter/legacy.rs`. The fields of a
//! bumped ribbon and of a binary fuse filter are decoded here as `docs/format.md` describes them,
//! without the `layout.rs` of these families, to show that the document suffices.

use crate::encoding::coding::fixed32;
use crate::filter::{Family, FilterEncoding, FilterReader};

use super::dump::{Dump, Stop, listed};

/// Bytes of the trailer that follows the bits in each of RocksDB's filters.
const TRAILER_BYTES: usize = 5;
/// Bytes of a Bloom filter's line.
const BLOOM_LINE_BYTES: usize = 64;
/// Bytes of a Ribbon filter's segment: one column of 128 slots.
const RIBBON_SEGMENT_BYTES: usize = 16;

/// Prints, as a filter, all bytes of the current part ([`Dump::part`]) that are not printed yet.
pub(super) fn print(dump: &mut Dump<'_, '_>, encoding: FilterEncoding) -> Result<(), Stop> {
    let filter = FilterReader::from_bytes(dump.remaining(), encoding);
    match filter.family() {
        Some(Family::Burr) => bumped_ribbon(dump),
        Some(Family::Fuse) => binary_fuse(dump),
        Some(family) => with_trailer(dump, family),
        None => Err(Stop::Unclear(format!(
            "a filter that answers \"maybe\" to every key: {}",
            filter.untrusted().unwrap_or("unknown")
        ))),
    }
}

/// Prints RocksDB's old block-based filters. Each filter covers 2^b bytes of data blocks, where b
/// is the last byte.
///
/// ```text
/// filter | filter | … | fixed32 offset of each filter | fixed32 offset of these offsets | b
/// ```
pub(super) fn print_block_based(dump: &mut Dump<'_, '_>) -> Result<(), Stop> {
    let bytes = dump.remaining();
    let unclear = || Stop::Unclear("no offsets of a block-based filter".into());
    let array_at = bytes.len().checked_sub(TRAILER_BYTES).ok_or_else(unclear)?;
    let offsets_at = fixed32(&bytes[array_at..]) as usize;
    let offsets = bytes.get(offsets_at..array_at).filter(|it| it.len() % 4 == 0);
    let count = offsets.ok_or_else(unclear)?.len() / 4;
    dump.field(offsets_at, format_args!("filters: {count}; they are not used here"))?;
    dump.field(4 * count, "offsets of the filters")?;
    dump.fixed32("offset of the offsets")?;
    dump.byte("bytes of data for each filter, as a power of 2")?;
    Ok(())
}

/// Prints a filter of one of RocksDB's families: the bits, and then a trailer of 5 bytes.
fn with_trailer(dump: &mut Dump<'_, '_>, family: Family) -> Result<(), Stop> {
    let bits = dump.peek(dump.remaining().len().saturating_sub(TRAILER_BYTES), "a filter")?;
    let set: u32 = bits.iter().map(|byte| byte.count_ones()).sum();
    match family {
        Family::Ribbon => {
            let segments = bits.len() / RIBBON_SEGMENT_BYTES;
            dump.field(
                bits.len(),
                format_args!("{segments} segments: a column of 128 slots each"),
            )?;
            dump.field(1, "marker of a Ribbon filter")?;
            dump.byte("seed")?;
            let blocks = dump.peek(3, "the number of blocks")?;
            let blocks = u32::from_le_bytes([blocks[0], blocks[1], blocks[2], 0]);
            dump.field(3, format_args!("blocks of 128 slots: {blocks}"))?;
        }
        Family::LegacyBloom => {
            dump.field(bits.len(), format_args!("lines, bits set: {set}"))?;
            dump.byte("bits that each key sets")?;
            dump.fixed32("lines")?;
        }
        _ => {
            let lines = bits.len() / BLOOM_LINE_BYTES;
            dump.field(bits.len(), format_args!("lines of 512 bits: {lines}, bits set: {set}"))?;
            dump.field(1, "marker: not a legacy filter")?;
            dump.field(1, "kind 0: Bloom filter, one line a key")?;
            dump.byte("bits that each key sets")?;
            dump.field(2, "reserved")?;
        }
    }
    Ok(())
}

/// The numbers of a bumped ribbon's trailer that determine the lengths of all other fields. The
/// filter consists of layers. A layer is divided into blocks of `width` slots, which are stored
/// column by column.
struct Burr {
    width: usize,
    columns: usize,
    /// The number of blocks at the start of layer 0 that have one column fewer than `columns`.
    low_blocks: usize,
    /// The number of keys that no layer took: a part of the hash of each is stored.
    tags: usize,
    /// The number of slots of each layer.
    slots: Vec<usize>,
}

/// Bytes of the fixed-length end of the trailer in Maypole's own filters.
const FIXED_BYTES: usize = 16;

impl Burr {
    fn read(filter: &[u8]) -> Option<Burr> {
        let fixed_at = filter.len().checked_sub(FIXED_BYTES)?;
        let fixed = &filter[fixed_at..];
        let slots = &filter[fixed_at.checked_sub(4 * usize::from(fixed[6]))?..fixed_at];
        Some(Burr {
            low_blocks: fixed32(fixed) as usize,
            tags: fixed[4].into(),
            columns: fixed[5].into(),
            width: fixed[7].into(),
            slots: slots.chunks(4).map(|slots| fixed32(slots) as usize).collect(),
        })
    }
}

/// At most this many blocks of a layer are printed one by one.
const BLOCKS_SHOWN: usize = 8;

fn bumped_ribbon(dump: &mut Dump<'_, '_>) -> Result<(), Stop> {
    let filter = dump.remaining();
    let unclear = || Stop::Unclear("no trailer of a bumped ribbon".into());
    let Burr { width, columns, low_blocks, tags, slots } =
        Burr::read(filter).ok_or_else(unclear)?;
    let segment_bytes = width / 8;
    for (layer, &slots) in slots.iter().enumerate() {
        let low_blocks = if layer == 0 { low_blocks } else { 0 };
        let blocks = slots / width;
        for block in 0..blocks.min(BLOCKS_SHOWN) {
            let columns = columns - usize::from(block < low_blocks);
            dump.field(
                columns * segment_bytes,
                format_args!("layer {layer}, block {block}: {columns} columns of {width} slots"),
            )?;
        }
        let more = blocks.saturating_sub(BLOCKS_SHOWN);
        let low_more = low_blocks.saturating_sub(BLOCKS_SHOWN);
        let bytes = (more * columns - low_more) * segment_bytes;
        dump.field(bytes, format_args!("layer {layer}, the other {more} blocks"))?;
    }
    for (layer, &slots) in slots.iter().enumerate() {
        let buckets = (slots - width).div_ceil(2 * width);
        let bytes = dump.peek(buckets.div_ceil(4), "thresholds")?;
        let thresholds = (0..buckets).map(|i| bytes[i / 4] >> (2 * (i % 4)) & 3);
        let thresholds = listed(thresholds);
        dump.field(bytes.len(), format_args!("thresholds of layer {layer}: {thresholds}"))?;
    }
    let tag_bytes = if columns <= 12 { 2 } else { 4 };
    for _ in 0..tags {
        dump.field(tag_bytes, "tag of a key that no layer took")?;
    }
    let zeros = dump.remaining().len().saturating_sub(4 * slots.len() + FIXED_BYTES);
    dump.field(zeros, "zeros: 32 bytes follow the segments")?;
    for layer in 0..slots.len() {
        dump.fixed32(&format!("slots of layer {layer}"))?;
    }
    dump.fixed32("low blocks")?;
    for what in ["tags", "columns", "layers", "width"] {
        dump.byte(what)?;
    }
    dump.field(4, "check of the trailer: right")?;
    dump.field(3, "magic of a bumped ribbon")?;
    dump.byte("version")?;
    Ok(())
}

/// At most this many segments of a binary fuse filter are printed one by one.
const SEGMENTS_SHOWN: usize = 8;

fn binary_fuse(dump: &mut Dump<'_, '_>) -> Result<(), Stop> {
    let filter = dump.remaining();
    let unclear = || Stop::Unclear("no trailer of a binary fuse filter".into());
    let slot_bytes = filter.len().checked_sub(FIXED_BYTES).ok_or_else(unclear)?;
    let fixed = &filter[slot_bytes..];
    let segments = fixed32(fixed) as usize + 2;
    let (segment_slots, bits) = (1usize << fixed[4], usize::from(fixed[5]));
    // If a segment has four slots of an odd number of bits, it does not end at the end of a byte.
    // Then all segments are printed as one field.
    let segment_bits = segment_slots * bits;
    let printed = if segment_bits % 8 == 0 { segments.min(SEGMENTS_SHOWN) } else { 0 };
    for segment in 0..printed {
        let what = format_args!("segment {segment}: {segment_slots} slots of {bits} bits");
        dump.field(segment_bits / 8, what)?;
    }
    let others = segments - printed;
    dump.field(
        slot_bytes - printed * segment_bits / 8,
        format_args!("the other {others} segments"),
    )?;
    dump.fixed32("segments in which the first slot of a key can lie")?;
    dump.byte("log2 of the slots of a segment")?;
    dump.byte("bits of a slot")?;
    dump.byte("number of the seed")?;
    dump.field(1, "reserved")?;
    dump.field(4, "check of the trailer: right")?;
    dump.field(3, "magic of a binary fuse filter")?;
    dump.byte("version")?;
    Ok(())
}
