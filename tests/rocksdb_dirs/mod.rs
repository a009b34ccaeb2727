//! The directories in `tests/fixtures/rocksdb-dirs`, which several test programs use.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tempfile::TempDir;

/// The folder of the directories. The tests of a package in `crates` find it in the repository
/// around the package.
pub fn fixtures() -> PathBuf {
    let packages = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let folders = packages.map(|package| package.join("tests/fixtures/rocksdb-dirs"));
    folders.into_iter().find(|folder| folder.exists()).expect("the fixtures are in the repository")
}

/// The names and bytes of the files in an archive of the format ustar.
fn files_of(archive: &[u8]) -> Vec<(String, Vec<u8>)> {
    let text = |field: &[u8]| {
        let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
        String::from_utf8(field[..end].to_vec()).unwrap()
    };
    let (mut files, mut at) = (Vec::new(), 0);
    while archive[at] != 0 {
        let header = &archive[at..at + 512];
        let bytes = usize::from_str_radix(text(&header[124..136]).trim(), 8).unwrap();
        let name = text(&header[..100]).trim_start_matches("./").to_string();
        if header[156] == b'0' {
            files.push((name, archive[at + 512..at + 512 + bytes].to_vec()));
        }
        at += 512 + bytes.next_multiple_of(512);
    }
    files
}

/// A fixture in a new directory.
pub fn unpacked(name: &str) -> TempDir {
    let packed = fs::read(fixtures().join(format!("{name}.tar.zst"))).unwrap();
    let mut archive = Vec::new();
    zstd::stream::read::Decoder::new(&packed[..]).unwrap().read_to_end(&mut archive).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let files = files_of(&archive);
    assert!(files.len() > 3, "{name}");
    for (name, bytes) in files {
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}

/// Name, bytes and time of the last change of every file.
pub fn state_of(dir: &Path) -> BTreeMap<String, (Vec<u8>, SystemTime)> {
    let file = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.unwrap();
        let changed = entry.metadata().unwrap().modified().unwrap();
        let name = entry.file_name().into_string().unwrap();
        (name, (fs::read(entry.path()).unwrap(), changed))
    };
    fs::read_dir(dir).unwrap().map(file).collect()
}
