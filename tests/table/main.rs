//! Tables through the public API: files that RocksDB wrote, files that RocksDB's tools read, and a
//! few damaged files.

mod fixtures;
#[path = "../rocksdb_tools/mod.rs"]
mod rocksdb_tools;
mod tools;
