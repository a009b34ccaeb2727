//! RocksDB's own tools read our tables of a tree.
