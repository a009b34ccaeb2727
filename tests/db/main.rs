//! The database against what it promises, through its public API.

mod crash;
mod edges;
mod kill;
mod model;
mod reads;
