//! Filters: small structures, one for each table of a store, that tell which keys the table
//! certainly does not hold.
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
//! use maypole_filter::{FilterBuilder, FilterReader, FilterSpec, hash64};
//!
//! let mut builder = FilterBuilder::new(FilterSpec::bloom(10.0)?);
//! builder.add(hash64(b"apple"));
//! builder.add(hash64(b"pear"));
//! let block = builder.finish().expect("two keys make a filter");
//!
//! let filter = FilterReader::from_bytes(block.bytes(), block.encoding());
//! assert!(filter.may_contain(hash64(b"apple")));
//! assert!(!filter.may_contain(hash64(b"quince")));
//! # Ok::<(), maypole_filter::SpecError>(())
//! ```
//!
//! **Trust.** A filter must never hide a key that its table holds. So after a build every hash is
//! queried before the block is returned, unless [`FilterBuilder::verify`] is off. Stored bytes are
//! input: a reader over bytes that do not follow their format exactly answers "maybe" to every
//! query and reports the reason ([`FilterReader::untrusted`]).
//!
//! **Without a copy.** [`FilterReader::open`] takes a [`LineBuf`]: memory that starts at a cache
//! line, into which a program reads the stored bytes.
//!
//! **The same bytes everywhere.** A hash and a spec make the same filter on every processor, with
//! vector instructions and without them, and on every system, because the formulas of sizes use
//! `libm` and not the C library of the system.
//!
//! **Absent on purpose:** keys, levels, files, threads, counters. The filter sees only hashes and
//! bytes. [`hash64`] is RocksDB's hash of a key. Other hashes serve as well, if all their 64 bits
//! are good and no other program reads the filter.
//!
//! **Features.** `std` (default) finds the vector instructions of the processor at run time.
//! Without it the crate needs only `alloc`, and uses the instructions for which it is compiled.
//! `textbook` adds the module `textbook`, the filters of the textbooks.
//!
//! # Where to read
//!
//! ```text
//! family.rs  spec.rs        the terms: families, hashes, specs
//! info.rs  families.rs      the description of a family; the table of all
//! builder.rs  reader.rs     from hashes to a block, and from a block to answers
//! geometry.rs               the contract of a family's reader
//! hash.rs  memory/          the hash of a key; memory that starts at a cache line
//! inspect/                  the parts of a stored filter; how an answer is computed, bit by bit
//! bloom/reference.rs        a Bloom filter in forty lines
//! burr/mod.rs               what a ribbon is
//! burr/reference/           a whole bumped ribbon, step by step, drawn
//! sizing.rs  math.rs        bits and rates; the functions that their formulas need
//! textbook/                 plain filters, to learn from
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
//!    a name to `FilterEncoding`. Specs then know the family; so do, in the package `maypole`,
//!    policies, budgets and tables, and in `maypole-cli` the commands `compare`, `size` and
//!    `structures`.
//! 4. Add the reader to `reader.rs`: a variant of `AnyGeometry`, and the code that the compiler
//!    then requires. If no existing trace describes the family's queries, add a variant to
//!    [`inspect::QueryTrace`], and the match arms for it in the store's `lookup/explain/text.rs` and
//!    in the command line's `explain/json.rs`.
//! 5. **What the compiler does not require:** the family's specs in `tests.rs`, where the contract
//!    of every family is tested; the store's `annotate/filter.rs`, which decodes the bytes
//!    independently on purpose; a fuzz target in `fuzzing/tests.rs` and in the repository's
//!    `fuzz/`; the help of `compare`; and the bytes in `docs/format.md`.
//!
//! The repository's `tests/layers.rs` fails when more than four files outside a family's folder
//! name the family. It does not count files of the command line, of `annotate`, of fuzzing and of
//! tests, and any file may name Bloom.

#![cfg_attr(not(any(test, feature = "std")), no_std)]

extern crate alloc;

mod bloom;
mod builder;
mod burr;
mod cpu;
mod families;
mod family;
mod fuse;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod geometry;
pub mod hash;
mod hashes;
mod info;
pub mod inspect;
mod legacy;
mod math;
pub mod memory;
mod reader;
mod ribbon;
pub mod sizing;
mod spec;
#[cfg(test)]
mod tests;
#[cfg(feature = "textbook")]
pub mod textbook;

pub use builder::{FilterBlock, FilterBuilder};
pub use family::{Family, FilterEncoding, HashKind, KeyHash, SpecError};
pub use hash::hash64;
pub use memory::LineBuf;
pub use reader::{FilterReader, PreparedQuery};
pub use spec::FilterSpec;
// What Maypole's tables need beside these.
#[doc(hidden)]
pub use spec::{parse_size, size_text};

/// Makes the example in the README a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExample;
