//! What a load has on disk, and what it has written.

use std::path::Path;

use crate::engine::Result;

/// Bytes of all files in a directory and below it. Space that a file has reserved but not filled
/// does not count: neither holes within the file's length nor blocks behind its end.
pub(super) fn directory_bytes(dir: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt;

    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let Ok(metadata) = entry.metadata() else { continue };
        bytes += match metadata.is_dir() {
            true => directory_bytes(&entry.path())?,
            false => metadata.len().min(metadata.blocks() * 512),
        };
    }
    Ok(bytes)
}

/// Bytes of the pages that this process has made dirty so far, logs included.
pub(super) fn written_bytes() -> Option<u64> {
    let io = std::fs::read_to_string("/proc/self/io").ok()?;
    let line = io.lines().find_map(|line| line.strip_prefix("write_bytes:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_in_a_file_takes_no_space() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("below")).unwrap();
        std::fs::write(dir.path().join("below/full"), [1; 5000]).unwrap();
        std::fs::File::create(dir.path().join("hole")).unwrap().set_len(1 << 30).unwrap();
        assert_eq!(directory_bytes(dir.path()).unwrap(), 5000);
    }
}
