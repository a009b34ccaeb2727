//! The filter block: a small structure, one for each table, that tells which keys a table certainly
//! does not hold.
//!
//! A point lookup in an LSM tree queries several tables, and most of them do not hold the key. A
//! filter says whether a table may hold the key, without reading the table: **no** is certain and
//! saves the read; **maybe** is wrong for a small share of the absent keys, the *false-positive
//! rate* ε. A smaller ε costs more bits a key: no filter takes fewer than `log2(1/ε)`. These are
//! the families that can be written, all of which take the same 64-bit hash of the user key:
//!
//! ```text
//! family  bits a key at 1 %   how it answers                                  format
//! bloom         9.9           k bits of one cache line, all set?              RocksDB's
//! ribbon        7.0           is a xor of 128 slots the key's fingerprint?    RocksDB's
//! burr          6.8           the same, 32 slots; the few keys that           Maypole's own
//!                             do not fit are bumped to a smaller layer
//! fuse          7.9           is a xor of 3 slots the key's fingerprint?      Maypole's own
//! ```
//!
//! A slot has a few bits, and a fingerprint has as many, computed from the key's hash. In a ribbon,
//! the hash also picks which of the 128 slots take part in the xor.
//!
//! A [`FilterSpec`] describes a filter. A [`FilterBuilder`] takes the hashes of a table's keys and
//! turns them into a [`FilterBlock`]. A [`FilterReader`] is opened over the stored bytes and
//! queried. A lookup that queries many filters takes two steps: [`FilterReader::prepare`] starts to
//! fetch the memory, [`FilterReader::finish`] returns the answer.
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
//! **Trust.** A filter must never hide a key that its table holds. So after a build every hash is
//! queried before the block is returned, unless [`FilterBuilder::verify`] is off. Stored bytes are
//! input: a reader over bytes that do not follow their format exactly answers "maybe" to every
//! query and reports the reason ([`FilterReader::untrusted`]).
//!
//! **Absent on purpose:** keys, levels, files, counters. The filter sees only hashes and bytes. The
//! module imports nothing of the crate but buffers (`memory`).
//!
//! # Where to read
//!
//! ```text
//! family.rs  spec.rs        the terms: families, hashes, specs
//! info.rs  families.rs      the description of a family; the table of all
//! builder.rs  reader.rs     from hashes to a block, and from a block to answers
//! geometry.rs               the contract of a family's reader
//! pieces/                   a filter that is read and queried piece by piece
//! inspect/                  the parts of a stored filter; how an answer is computed, bit by bit
//! bloom/reference.rs        a Bloom filter in forty lines
//! burr/mod.rs               what a ribbon is
//! burr/reference/           a whole bumped ribbon, step by step, drawn
//! sizing.rs                 bits and rates
//! cpu.rs                    vector instructions; then the `kernel.rs` and `x86` of a family
//! ```
//!
//! A file or folder of the same name has the same role in the folder of every family:
//!
//! ```text
//! mod.rs      the idea                        kernel.rs   the hot loops, for every processor
//! layout.rs   the stored bytes                x86         the same with vector instructions
//! sizing.rs   bits for a rate                 reference   the textbook version: for tests and
//!                                                         for traces
//! query.rs    the reader: its `Geometry`      tests.rs    tests of the family alone
//! row.rs      a ribbon: a hash's equation     build       the builder (Bloom's is in `mod.rs`)
//! ```
//!
//! # How to add a family
//!
//! 1. Make a folder with a builder and a reader. The reader implements `Geometry`. The builder,
//!    `build(&HashList, Target) -> Option<LineBuf>`, returns the whole block, or `None` when the
//!    family does not suit these keys.
//! 2. In its `mod.rs`, define the value `INFO`, a `FamilyInfo`. It holds everything that the rest
//!    of the crate needs to know about the family: its name, its limits, the names under which
//!    tables store its filters, its sizes, and a function that gives random bytes of a fuzzer a
//!    valid length and trailer, so that they reach the code behind these checks.
//! 3. Add the value `INFO` to the table in `families.rs`, a name to `Family`, and for a new format
//!    a name to `FilterEncoding`. Specs, policies, budgets, tables, and the commands `compare`,
//!    `size` and `structures` then know the family.
//! 4. Add the reader to `reader.rs`: a variant of `AnyGeometry`, and the code that the compiler
//!    then requires. If no existing trace describes the family's queries, add a variant to
//!    [`inspect::QueryTrace`], and the match arms for it in `table/lookup/text.rs` and in the
//!    command line's `explain/json.rs`.
//! 5. **What the compiler does not require:** the family's specs in `tests.rs`, where the contract
//!    of every family is tested; `annotate/filter.rs`, which decodes the bytes independently on
//!    purpose; a fuzz target in `fuzzing/filters.rs`, `fuzzing/tests.rs` and `fuzz/`; the help of
//!    `compare`; and the bytes in `docs/format.md`.
//!
//! `tests/layers.rs` fails when more than four files of the library outside a family's folder name
//! the family. It does not count files of the command line, of `annotate`, of fuzzing and of tests,
//! and any file may name Bloom.

mod bloom;
mod builder;
mod burr;
mod cpu;
mod families;
mod family;
mod fuse;
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
