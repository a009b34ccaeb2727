//! What a run will take of a disk: said before it begins, and refused where it is not there. Of memory
//! only what cannot go well is refused.

use std::path::Path;

use crate::failure::{Failure, Result};
use crate::output::tell;
use crate::show::text::size;

/// Logs, MANIFEST and what else there is however little is written.
const LEAST_BYTES: u64 = 16 << 20;

/// Says that up to about `bytes` will be written in `dir`, which need not be there yet, and what
/// becomes of them. A failure where the file system has less.
pub fn announce(dir: &Path, bytes: u64, afterwards: &str) -> Result {
    let there = dir.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("."));
    let needed = bytes.saturating_add(LEAST_BYTES);
    let free =
        free_bytes(there).map_err(|error| Failure::of_file(there, "ask for free space", &error))?;
    let (dir, needed_size, free_size) = (dir.display(), size(needed), free.map(size));
    let free_size = free_size.as_deref().unwrap_or("an unknown number of bytes");
    if free.is_some_and(|free| needed > free) {
        return Err(Failure::new(format_args!(
            "{dir}: up to about {needed_size} are needed here and {free_size} are free: write less, or \
             elsewhere"
        )));
    }
    tell(format_args!(
        "note: up to about {needed_size} will be written in {dir}, {afterwards}; {free_size} are free"
    ));
    Ok(())
}

/// What a program without privileges may still write there. `None` where the system is not asked.
fn free_bytes(there: &Path) -> std::io::Result<Option<u64>> {
    #[cfg(unix)]
    {
        let free = rustix::fs::statvfs(there)?;
        Ok(Some(free.f_bavail.saturating_mul(free.f_frsize)))
    }
    #[cfg(not(unix))]
    {
        let _ = there;
        Ok(None)
    }
}

/// A failure where the machine has less memory than `bytes`, and the work would end in an abort.
pub fn check_memory(bytes: u64) -> Result {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    let available = kib.map_or(u64::MAX, |kib| kib.saturating_mul(1024));
    match bytes > available {
        false => Ok(()),
        true => Err(Failure::new(format_args!(
            "the keys alone take {} of memory and {} are available: take fewer",
            size(bytes),
            size(available)
        ))),
    }
}
