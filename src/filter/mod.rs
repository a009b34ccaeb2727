//! The filter block: a small structure, one for each table, that answers "is this key absent?".
//!
//! A point lookup in an LSM tree asks several tables, and most of them do not hold the key. A filter
//! answers for a table without reading it: **no** is certain and saves the read; **maybe** is wrong
//! for a few keys in a hundred, the *false-positive rate* ε. A smaller ε costs more bits a key, at
//! least `log2(1/ε)` of them. The families are all fed the same 64-bit hash of the user key:
//!
//! ```text
//! family  bits a key at 1 %   how it answers                                  format
//! bloom         9.9           k bits of one cache line, all set?              RocksDB's
//! ribbon        7.0           is a xor of 128 slots the key's fingerprint?    RocksDB's
//! burr          6.8           the same, 32 or 64 slots; the few keys that     Maypole's own
//!                             do not fit are bumped to a smaller layer
//! ```
//!
//! The way of a filter: a [`FilterSpec`] says what is wanted. A [`FilterBuilder`] takes the hashes of
//! a table's keys and turns them into a [`FilterBlock`]. A [`FilterReader`] is opened over the stored
//! bytes and asked. Many filters at once are asked in two steps: [`FilterReader::prepare`] starts the
//! trip to memory, [`FilterReader::finish`] answers.
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
//! **Trust.** A filter must never hide a key that is there. After a build every hash is asked before
//! the block is handed out. Stored bytes are input: a reader over bytes that are not exactly what
//! their format says answers "maybe" to everything and says why ([`FilterReader::untrusted`]).
//!
//! **What is absent:** keys, prefixes, levels, files, counters. The filter sees hashes and bytes. It
//! imports nothing of the crate but buffers (`memory`).
//!
//! # Where to read
//!
//! ```text
//! family.rs  spec.rs        the words: families, hashes, what is wanted
//! builder.rs  reader.rs     from hashes to a block, and from a block to answers
//! geometry.rs               what a family's reader must do
//! anatomy/                  what a stored filter is made of; how an answer comes about, bit by bit
//! bloom/plain.rs            a Bloom filter in forty lines
//! burr/mod.rs  burr/plain.rs  what a ribbon is; a whole bumped ribbon, step by step, with a drawing
//! sizing.rs                 bits and rates
//! cpu.rs                    vector instructions; then the `kernel.rs` and `x86.rs` of a family
//! ```
//!
//! In the folder of a family the same name means the same thing:
//!
//! ```text
//! mod.rs      the idea                        kernel.rs   the hot loops, for every processor
//! layout.rs   the stored bytes                x86.rs      the same with vector instructions
//! sizing.rs   bits for a rate                 plain.rs    the textbook version: for tests
//!                                                         and for traces
//! query.rs    the reader: its `Geometry`      tests.rs    the parts together
//! row.rs      a ribbon: a hash's equation     build/      a ribbon: the steps of building it
//! ```
//!
//! # How to add a family
//!
//! 1. A folder with a builder, `build(&HashList, …) -> Option<LineBuf>`: the whole block, or `None`
//!    when it cannot serve these keys. And a reader: a `Geometry`.
//! 2. A name: `Family`, and in `spec.rs` the limits, the constructor and the text.
//! 3. The builder in `builder::build`.
//! 4. The reader in `reader.rs`: a variant of `AnyGeometry` with its lines in `of_family!`,
//!    `AnyGeometry::parse` and `FilterReader::family`.
//! 5. Its specs in `tests.rs`: what every family promises is tested there for all of them.
//! 6. Where the compiler asks for it: `FilterReader::ribbon` in `anatomy/mod.rs`; its policy name in
//!    `table/filter/info.rs`, its bits in `filter_policy/budget.rs`. A new encoding needs a block
//!    name in `table/filter/block.rs`. A new kind of [`QueryTrace`] has its arms in the command
//!    line's `explain/text.rs` and `explain/json.rs`.
//! 7. **Where the compiler does not ask:** `FilterReader`'s `fill`, `probes`, `line_bytes` and
//!    `hash_kind` (their last arms take every other family); the text, `FORMS` and `FromStr for
//!    Family` in `spec.rs`;
//!    `sizing.rs`; `StoredFilter::find` (`table/filter/block.rs`) and `FilterInfo::of` (`info.rs`),
//!    else no reader finds the block; `annotate/filter.rs`; `filter/fuzzing.rs`,
//!    `fuzzing/filters.rs`, the lists in `fuzzing/tests.rs`, and a target in `fuzz/fuzz_targets`; in
//!    the command line `FAMILIES` and `spec` of `compare/lab.rs`, the colour in
//!    `compare/results/page/colors.rs`, the default policies and the help in `compare/options.rs`,
//!    and `structures/subjects.rs`; the lists above and in `sizing.rs`; and the bytes in
//!    `docs/format.md`.

mod anatomy;
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
mod legacy;
mod reader;
mod ribbon;
pub mod sizing;
mod spec;
#[cfg(test)]
mod tests;
#[cfg(feature = "textbook")]
pub mod textbook;

pub use anatomy::parts::{BandLayer, BandParts, KeyEquation};
pub use anatomy::trace::{BumpedLayer, ProbedBit, QueryTrace};
pub use builder::{FilterBlock, FilterBuilder};
#[doc(hidden)]
pub use cpu::forbid_avx512;
pub(crate) use families::FAMILIES;
pub use family::{Family, FilterEncoding, HashKind, KeyHash, SpecError};
pub use reader::{FilterReader, PreparedQuery};
pub use spec::FilterSpec;
