//! The filters of the textbooks, built plainly, to be read, measured and compared.
//!
//! The database uses none of them: its own families are [`super::Family`]. The filters of the
//! textbooks are here because every text on filters mentions them, and claims about a structure are
//! best checked on the structure. `maypole structures` measures them along with the families of the
//! database.
//!
//! Read them in this order. The file of each structure opens with its literature and a drawing.
//!
//! ```text
//! file       structure                 what it teaches
//! formulas   (arithmetic)              size and rate: the usual formulas, and how exact they are
//! bloom      standard Bloom filter     k bits a key; when two hashes can replace k; OR is a union
//! counting   counting Bloom filter     deletion takes four bits in place of one, and can lose keys
//! scalable   scalable Bloom filter     a filter that grows keeps its rate by a geometric series
//! redis      commands over scalable    what Redis' BF commands promise
//! cuckoo     cuckoo filter             fingerprints instead of bits; two buckets for each
//! quotient   quotient filter           fingerprints in order: they merge and resize without keys
//! cascade    filter cascade            no wrong answer at all, if all queries are known
//! packed     (integers of a few bits)  what cuckoo, quotient and counting store their slots in
//! shared     (mixing, errors)          code that all of them use
//! ```
//!
//! All of them take the 64-bit hash of a key ([`super::KeyHash`]) and mix it with their own salt
//! ([`mix`]). Two keys with the same hash are one key to them. So an absent key passes with a
//! probability of about `keys / 2^64` because it has the hash of a present key, even where the
//! formulas give a lower rate. A rate is a mean over all sets of keys: one filter of few keys may
//! be wrong more often or less often than the mean. The constructors `for_rate` bound the mean, for
//! any number of keys.
//!
//! Absent on purpose: SIMD, prefetching, and cache lines of the processor. [`super`] has those.

pub mod bloom;
pub mod cascade;
pub mod counting;
pub mod cuckoo;
pub mod formulas;
mod packed;
pub mod quotient;
pub mod redis;
pub mod scalable;
mod shared;

pub use bloom::{BloomFilter, Layout};
pub use cascade::Cascade;
pub use counting::CountingBloom;
pub use cuckoo::CuckooFilter;
pub use quotient::QuotientFilter;
pub use scalable::ScalableBloom;
pub use shared::{Damaged, Full, TooLarge, mix};
