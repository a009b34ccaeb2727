//! The database against what it promises, through its public API.

mod background;
mod budget;
mod compaction;
mod concurrent;
mod crash;
mod edges;
mod faults;
mod kill;
mod model;
mod prefix;
mod range_del;
mod reads;
mod soak;
mod writers;
