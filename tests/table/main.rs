//! Tables through the public API: files that RocksDB wrote, files that RocksDB's tools read, and a
//! few damaged files.

mod fixtures;
mod tools;
