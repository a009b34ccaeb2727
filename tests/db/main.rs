//! The database against what it promises, through its public API.

mod budget;
mod compaction;
mod concurrent;
mod crash;
mod descriptors;
mod edges;
mod faults;
mod file_systems;
mod history;
mod kill;
mod limits;
mod model;
mod paths;
mod prefix;
mod range_del;
mod reads;
mod repair;
mod soak;
mod writers;
