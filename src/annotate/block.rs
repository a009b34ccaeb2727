//! Prints uncompressed blocks of sorted entries. [`crate::table::block`] draws their layout, and
//! [`crate::table::index`] draws the layout of index values.

use std::fmt::Display;

use crate::encoding::key::{self, TRAILER_BYTES, kind_name};
use crate::memory::LineBuf;
use crate::table::block::Block;
use crate::table::block::payload::BlockBytes;
use crate::table::format::footer::{BLOCK_TRAILER_BYTES, BlockHandle};
use crate::table::format::properties::{IndexForm, decode_value};

use super::dump::{Dump, Stop, listed, quoted};

/// The kind of keys and values in a block.
#[derive(Clone, Copy)]
pub(super) enum Contents {
    /// Internal keys and the values of users.
    Data,
    /// Internal keys with the starts of ranges. The values are user keys, the ends of these ranges.
    RangeDeletions,
    /// Separators of blocks, and the handles of these blocks.
    Index(IndexForm),
    /// Names of blocks, and their handles.
    Metaindex,
    /// Names and values.
    Properties,
}

impl Contents {
    /// Whether each entry stores the length of its value. A delta-encoded index stores no lengths,
    /// because the varints in a value show where it ends.
    fn has_value_lengths(self) -> bool {
        !matches!(self, Contents::Index(form) if form.delta_values)
    }

    fn has_internal_keys(self) -> bool {
        match self {
            Contents::Data | Contents::RangeDeletions => true,
            Contents::Index(form) => !form.user_keys,
            Contents::Metaindex | Contents::Properties => false,
        }
    }
}

pub(super) fn parse(payload: &[u8]) -> Result<Block, Stop> {
    Ok(Block::new(BlockBytes::new(LineBuf::copy_from(payload), payload.len()))?)
}

/// Prints, as a block, all bytes of the current part ([`Dump::part`]) that are not printed yet.
pub(super) fn print(dump: &mut Dump<'_, '_>, contents: Contents) -> Result<(), Stop> {
    let block = parse(dump.remaining())?;
    let entries_end = dump.position() + block.entries().len();
    let (mut key, mut previous) = (Vec::new(), None);
    while dump.position() < entries_end {
        entry(dump, contents, &mut key, &mut previous)?;
    }
    let count = block.restart_count();
    let restarts: Vec<usize> = (0..count).map(|i| block.restart(i)).collect::<Result<_, _>>()?;
    dump.field(4 * count, format_args!("restart points: entries at {}", listed(restarts)))?;
    let hash_index = dump.remaining().len().saturating_sub(4);
    dump.field(hash_index, "hash index: buckets and their number")?;
    dump.field(4, format_args!("number of restart points: {count}"))?;
    Ok(())
}

/// Prints one entry. `key` holds the previous entry's key before the call, and this entry's key
/// after it.
fn entry(
    dump: &mut Dump<'_, '_>,
    contents: Contents,
    key: &mut Vec<u8>,
    previous: &mut Option<BlockHandle>,
) -> Result<(), Stop> {
    let (shared, first) = dump.peek_varint(0, "shared key bytes")?;
    let (suffix_bytes, second) = dump.peek_varint(first, "key suffix bytes")?;
    let mut head_bytes = first + second;
    let mut value_bytes = None;
    let mut value_text = String::new();
    if contents.has_value_lengths() {
        let (value, third) = dump.peek_varint(head_bytes, "value bytes")?;
        head_bytes += third;
        value_bytes = Some(value as usize);
        value_text = format!(", value {value}");
    }
    let text = format!("entry: shared {shared}, not shared {suffix_bytes}{value_text}");
    dump.field(head_bytes, text)?;
    let Some(shared) = usize::try_from(shared).ok().filter(|&shared| shared <= key.len()) else {
        return Err(Stop::Unclear(format!("the key before has {} bytes only", key.len())));
    };
    let suffix = dump.peek(usize::try_from(suffix_bytes).unwrap_or(usize::MAX), "a key")?;
    key.truncate(shared);
    key.extend_from_slice(suffix);
    print_key(dump, contents, key, shared)?;
    print_value(dump, contents, key, value_bytes, shared, previous)
}

/// Prints `key` without its first `shared` bytes, which the entry does not store.
pub(super) fn print_key(
    dump: &mut Dump<'_, '_>,
    contents: Contents,
    key: &[u8],
    shared: usize,
) -> Result<(), Stop> {
    let suffix_bytes = key.len() - shared;
    if !contents.has_internal_keys() {
        let what = if matches!(contents, Contents::Index(_)) { "separator " } else { "" };
        return Ok(dump.field(suffix_bytes, format_args!("{what}{}", quoted(key)))?);
    }
    if key.len() < TRAILER_BYTES {
        return Err(Stop::Unclear("an internal key of fewer than 8 bytes".into()));
    }
    let (sequence, kind) = (key::sequence(key), key::kind_byte(key));
    let name = match contents {
        Contents::Index(_) => "",
        _ => kind_name(kind),
    };
    let trailer = format!("sequence number {sequence}, kind {kind}: {name}");
    let trailer = trailer.trim_end_matches(": ");
    let user_key = format!("user key {}", quoted(key::user_key(key)));
    match suffix_bytes.checked_sub(TRAILER_BYTES) {
        Some(user_bytes) => {
            dump.field(user_bytes, user_key)?;
            Ok(dump.field(TRAILER_BYTES, trailer)?)
        }
        None => Ok(dump.field(suffix_bytes, format_args!("{user_key}, {trailer}"))?),
    }
}

fn print_value(
    dump: &mut Dump<'_, '_>,
    contents: Contents,
    key: &[u8],
    bytes: Option<usize>,
    shared: usize,
    previous: &mut Option<BlockHandle>,
) -> Result<(), Stop> {
    let value = dump.peek(bytes.unwrap_or(0), "a value")?;
    let meaning: &dyn Display = match contents {
        Contents::Data => &format!("value {}", quoted(value)),
        Contents::RangeDeletions => &format!("deleted up to before {}", quoted(value)),
        Contents::Properties => match decode_value(key, value) {
            number @ crate::table::PropertyValue::Number(_) => &number.to_string(),
            _ => &quoted(value),
        },
        Contents::Metaindex => return print_handle(dump, "block").map(drop),
        Contents::Index(form) => {
            let handle = match *previous {
                Some(before) if form.delta_values && shared > 0 => print_delta(dump, before)?,
                _ => print_handle(dump, "block")?,
            };
            *previous = Some(handle);
            return if form.first_keys {
                dump.length_prefixed("first key of the block")
            } else {
                Ok(())
            };
        }
    };
    Ok(dump.field(value.len(), meaning)?)
}

/// Prints the block handle at the position, and returns it. `what` names the block in the output.
pub(super) fn print_handle(dump: &mut Dump<'_, '_>, what: &str) -> Result<BlockHandle, Stop> {
    let (offset, first) = dump.peek_varint(0, "block offset")?;
    let (bytes, second) = dump.peek_varint(first, "block size")?;
    dump.field(first + second, format_args!("{what} at {offset}, {bytes} bytes"))?;
    Ok(BlockHandle { offset, bytes })
}

/// Prints the handle of the block that directly follows `before` in the file. The entry stores only
/// the difference of the two blocks' sizes.
fn print_delta(dump: &mut Dump<'_, '_>, before: BlockHandle) -> Result<BlockHandle, Stop> {
    let (zigzag, stored) = dump.peek_varint(0, "block size difference")?;
    let difference = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
    let offset = before.offset.saturating_add(before.bytes) + BLOCK_TRAILER_BYTES as u64;
    let bytes = before.bytes.saturating_add_signed(difference);
    let meaning = format!("block at {offset}, {bytes} bytes: {difference:+} to the one before");
    dump.field(stored, meaning)?;
    Ok(BlockHandle { offset, bytes })
}
