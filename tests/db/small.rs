//! A small database in memory: after some tens of kilobytes it has several levels.

use std::sync::Arc;

use maypole::Db;
use maypole::fs::{Fs, MemFs};

pub fn open(fs: &Arc<dyn Fs>) -> Db {
    let builder = Db::builder("/db").fs(Arc::clone(fs)).memtable_bytes(32 << 10);
    builder.table_bytes(16 << 10).level_base_bytes(32 << 10).block_bytes(512).open().unwrap()
}

pub fn in_memory() -> (Db, Arc<dyn Fs>) {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    (open(&fs), fs)
}
