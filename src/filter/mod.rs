//! The filter block: a small structure, one for each table, that answers "is this key absent?".
//!
//! A point lookup in an LSM tree queries several tables, and most of them do not hold the key. A
//! filter answers for a table without reading it: **no** is certain and saves the read; **maybe**
//! is wrong for a few absent keys in a hundred, the *false-positive rate* ε. A smaller ε costs more
//! bits a key, at least `log2(1/ε)` of them. All families take the same 64-bit hash of the user
//! key:
//!
//! ```text
//! family  bits a key at 1 %   how it answers                                  format
//! bloom         9.9           k bits of one cache line, all set?              RocksDB's
//! ribbon        7.0           is a xor of 128 slots the key's fingerprint?    RocksDB's
//! burr          6.8           the same, 32 or 64 slots; the few keys that     Maypole's own
//!                             do not fit are bumped to a smaller layer
//! fuse          7.9           is a xor of 3 slots the key's fingerprint?      Maypole's own
//! ```
//!
//! How a filter is used: a [`FilterSpec`] describes it. A [`FilterBuilder`] takes the hashes of a
//! table's keys and turns them into a [`FilterBlock`]. A [`FilterReader`] is opened over the stored
//! bytes and queried. Queries of many filters take two steps: [`FilterReader::prepare`] starts to
//! fetch the memory, [`FilterReader::finish`] answers.
//!
//! ```
//! use maypole::filter::{FilterBuilder, FilterReader, FilterSpec};
//! use maypole::hash64;
//!
//! let mut builder = FilterBuilder::new(FilterSpec::bloom(10.0)?);
//! builder.add(hash64(b"apple"));
//! builder.add(hash64(b"pear"));
//! let block = builder.finish().expect("two keys make a filter");
//!
//! let filter = FilterReader::from_bytes(block.bytes(), block.encoding());
//! assert!(filter.may_contain(hash64(b"apple")));
//! assert!(!filter.may_contain(hash64(b"quince")));
//! # Ok::<(), maypole::filter::SpecError>(())
//! ```
//!
//! **Trust.** A filter must never hide a key that is there. After a build every hash is queried
//! before the block is returned. Stored bytes are input: a reader over bytes that are not exactly
//! as their format says answers "maybe" to everything and reports why
//! ([`FilterReader::untrusted`]).
//!
//! **Absent on purpose:** keys, prefixes, levels, files, counters. The filter sees hashes and
//! bytes. It imports nothing of the crate but buffers (`memory`).
//!
//! # Where to read
//!
//! ```text
//! family.rs  spec.rs        the terms: families, hashes, specs
//! info.rs  families.rs      the description of a family; the table of all
//! builder.rs  reader.rs     from hashes to a block, and from a block to answers
//! geometry.rs               the contract of a family's reader
//! pieces/                   a filter that is read and asked piece by piece
//! inspect/                  the parts of a stored filter; how an answer is computed, bit by bit
//! bloom/reference.rs            a Bloom filter in forty lines
//! burr/mod.rs  burr/reference.rs  what a ribbon is; a whole bumped ribbon, step by step, with a drawing
//! sizing.rs                 bits and rates
//! cpu.rs                    vector instructions; then the `kernel.rs` and `x86.rs` of a family
//! ```
//!
//! In the folders of all families the same name means the same thing:
//!
//! ```text
//! mod.rs      the idea                        kernel.rs   the hot loops, for every processor
//! layout.rs   the stored bytes                x86.rs      the same with vector instructions
//! sizing.rs   bits for a rate                 reference.rs    the textbook version: for tests
//!                                                         and for traces
//! query.rs    the reader: its `Geometry`      tests.rs    the parts together
//! row.rs      a ribbon: a hash's equation     build/      a ribbon: the steps of building it
//! ```
//!
//! # How to add a family
//!
//! 1. A folder with a builder, `build(&HashList, Target) -> Option<LineBuf>`: the whole block, or
//!    `None` when the family does not suit these keys. And a reader: a `Geometry`.
//! 2. In its `mod.rs` the value `INFO`, a `FamilyInfo`. It has everything that the rest of the
//!    crate needs to know about the family: name, limits, the names in the file, sizes, the repair
//!    for fuzzers.
//! 3. Its line in `families.rs`, a name in `Family`, and for a new format a name in
//!    `FilterEncoding`. Specs, policies, budgets, tables, `compare`, `size` and `structures`
//!    follow.
//! 4. The reader in `reader.rs`: a variant of `AnyGeometry`, and the code that the compiler then
//!    requires. A new kind of answer is a variant of [`inspect::QueryTrace`], with its arms in
//!    `table/lookup/text.rs` and in the command line's `explain/json.rs`.
//! 5. **What the compiler does not require:** its specs in `tests.rs`, where the contract of every
//!    family is tested; `annotate/filter.rs`, which is independent on purpose; a fuzz target in
//!    `fuzzing/filters.rs`, `fuzzing/tests.rs` and `fuzz/`; the help of `compare` and the bytes in
//!    `docs/format.md`.
//!
//! `tests/layers.rs` fails when more than four files outside a family's folder name the family.

mod bloom;
mod builder;
mod burr;
mod cpu;
mod families;
mod family;
mod fuse;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod geometry;
mod hashes;
mod info;
pub mod inspect;
mod legacy;
mod lined;
mod pieces;
mod reader;
mod ribbon;
pub mod sizing;
mod spec;
#[cfg(test)]
mod tests;
#[cfg(feature = "textbook")]
pub mod textbook;

pub use builder::{FilterBlock, FilterBuilder};
#[doc(hidden)]
pub use cpu::forbid_avx512;
pub(crate) use families::FAMILIES;
pub use family::{Family, FilterEncoding, HashKind, KeyHash, SpecError};
pub(crate) use lined::PIECE_BYTES;
pub(crate) use pieces::FilterPieces;
pub use reader::{FilterReader, PreparedQuery};
pub use spec::FilterSpec;
pub(crate) use spec::{parse_size, size_text};
