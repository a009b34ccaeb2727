//! Opens an engine by its [`Kind`].

use std::path::Path;
use std::sync::Arc;

use super::{Engine, Kind, Result, fjall, maypole, rocks};
use crate::Options;

impl Kind {
    pub fn open(self, dir: &Path, options: &Options) -> Result<Arc<dyn Engine>> {
        std::fs::create_dir_all(dir)?;
        Ok(match self {
            _ if self.is_rocksdb() => Arc::new(rocks::Rocks::open(self, dir, options)?),
            Kind::Fjall => Arc::new(fjall::Fjall::open(dir, options)?),
            _ => Arc::new(maypole::Maypole::open(self, dir, options)?),
        })
    }

    /// Like [`Kind::open`], except that RocksDB gets its options for trees with many deletions, and
    /// counts the bytes that it writes.
    pub fn open_for_deletions(self, dir: &Path, options: &Options) -> Result<Arc<dyn Engine>> {
        match self {
            _ if self.is_rocksdb() => {
                std::fs::create_dir_all(dir)?;
                Ok(Arc::new(rocks::Rocks::open_for_deletions(self, dir, options)?))
            }
            _ => self.open(dir, options),
        }
    }
}
