//! Tables through the public API: files that RocksDB wrote, files that RocksDB's tools read, and
//! damaged ones.

mod fixtures;
mod tools;
