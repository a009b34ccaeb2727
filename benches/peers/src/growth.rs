//! How the time of lookups grows with the tree: lookups of present and absent keys at several
//! sizes, with the whole tree in the cache. For each size also the cost of one load from as much
//! memory as the filters take, where each load waits for the one before.

use clap::Args;

use crate::engine::Result;
use crate::memory::Memory;
use crate::{Options, median, rounds};

/// The workloads at each size.
const WORKLOADS: [&str; 4] =
    ["readrandom", "readmissing", "readrandom-isolated", "readmissing-isolated"];

#[derive(Args)]
pub struct Growth {
    /// Sizes of the trees, in millions of keys.
    #[arg(long, value_delimiter = ',', default_value = "1,3,10,30,60")]
    sizes: Vec<u64>,
    #[command(flatten)]
    options: Options,
}

impl Growth {
    pub fn compare(&self) -> Result<()> {
        let engines = &self.options.engines;
        print!("{:<8}{:>12}{:>10}  {:<24}", "M keys", "filters MB", "load ns", "ns an operation");
        engines.iter().for_each(|kind| print!("{:>12}", kind.name()));
        engines[1..].iter().for_each(|kind| print!("{:>18}", format!("{} ratio", kind.name())));
        println!();
        for &size in &self.sizes {
            let mut options = self.options.clone();
            options.entries = size * 1_000_000;
            let entry_bytes = options.key_bytes + options.value_bytes;
            // A block in the cache takes more memory than its entries: hence the 60 bytes and the
            // factor of 5/4.
            let data_mb = (options.entries as usize * (entry_bytes + 60)) >> 20;
            options.cache_mb = options.cache_mb.max(data_mb + data_mb / 4);
            let filter_bytes = options.entries as usize * 10 / 8;
            let memory = Memory::new(filter_bytes);
            let loads =
                (0..options.rounds as u64).map(|i| memory.load_ns(1, options.operations, i));
            let load_ns = median(loads.collect());
            drop(memory);
            for row in rounds::measure(&options, &WORKLOADS)? {
                print!("{size:<8}{:>12.1}{load_ns:>10.1}  ", filter_bytes as f64 / 1e6);
                println!("{row}");
            }
        }
        Ok(())
    }
}
