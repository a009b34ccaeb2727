//! Announces how much disk space a run will take, and rejects the run if less is free. It also
//! rejects runs for which the memory certainly does not suffice.

use std::path::Path;

use crate::failure::{Failure, Result};
use crate::output::tell;
use crate::show::text::size;

/// Bytes of logs, MANIFEST and other files that exist even if little is written.
const MIN_BYTES: u64 = 16 << 20;

/// Prints that up to about `bytes` will be written in `dir`, which need not exist yet. `afterwards`
/// continues the sentence: what happens to the bytes at the end. Fails if less space is free on the
/// file system.
pub fn announce(dir: &Path, bytes: u64, afterwards: &str) -> Result {
    let there = dir.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("."));
    let needed = bytes.saturating_add(MIN_BYTES);
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

/// The bytes that a program without privileges may still write on the file system of `there`.
/// `None` if this build cannot query the system.
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

/// Fails if less than `bytes` of memory are available, because the process would be aborted during
/// its work.
pub fn check_memory(bytes: u64) -> Result {
    check("the keys alone take", bytes, available_memory(), "take fewer")
}

/// Fails if the limit on address space (`ulimit -v`) leaves less than `bytes`, which `databases`
/// open databases take together. Never fails without a limit.
pub fn check_databases(databases: u64, bytes: u64) -> Result {
    let takes = format!("{databases} databases at one time take up to about");
    check(&takes, bytes, address_space(), "compare fewer policies, or with --sweep")
}

fn check(takes: &str, bytes: u64, available: u64, advice: &str) -> Result {
    match bytes > available {
        false => Ok(()),
        true => Err(Failure::new(format_args!(
            "{takes} {} of memory and {} are available: {advice}",
            size(bytes),
            size(available)
        ))),
    }
}

/// The bytes of memory that the machine has available, or the bytes of address space that the
/// process may still take (`ulimit -v`), whichever are fewer. `u64::MAX` if the system reports
/// neither.
pub fn available_memory() -> u64 {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let machine = kib_of(&meminfo, "MemAvailable:").unwrap_or(u64::MAX);
    machine.min(address_space())
}

/// Bytes of address space that the process may still take; `u64::MAX` without a limit.
fn address_space() -> u64 {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Resource, getrlimit};
        let Some(limit) = getrlimit(Resource::As).current else { return u64::MAX };
        limit.saturating_sub(of_process("VmSize:").unwrap_or(0))
    }
    #[cfg(not(target_os = "linux"))]
    u64::MAX
}

/// The bytes that a line of `/proc/self/status`, which describes this process, states. `name` is
/// the start of the line, such as `VmSize:`. `None` on systems other than Linux.
pub fn of_process(name: &str) -> Option<u64> {
    kib_of(&std::fs::read_to_string("/proc/self/status").ok()?, name)
}

/// The number of bytes that the line `name` of `text` states, such as `MemAvailable:   22222 kB`.
fn kib_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib.saturating_mul(1024))
}
