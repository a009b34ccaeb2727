//! Files of other kinds in the places of a database's own files, on a real file system, because a
//! file system in memory has no sockets.

use std::fs;
use std::path::{Path, PathBuf};

use maypole::{Db, Error};

/// A database of two tables, closed.
fn database(dir: &Path) {
    let db = Db::open(dir).unwrap();
    for n in 0..100 {
        db.put(format!("key{n:03}"), [n; 50]).unwrap();
        if n == 50 {
            db.flush().unwrap();
        }
    }
    db.flush().unwrap();
    db.close().unwrap();
}

fn files(dir: &Path, part: &str) -> Vec<PathBuf> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        names.filter(|path| path.file_name().unwrap().to_str().unwrap().contains(part)).collect();
    files.sort();
    files
}

type Put = fn(&Path);

/// What the tests put in the place of a file. Only Unix has sockets, named pipes, and symbolic
/// links that need no privileges.
const STRANGERS: &[(&str, Put)] = &[
    ("a directory", |path| fs::create_dir(path).unwrap()),
    #[cfg(unix)]
    ("a socket", |path| drop(std::os::unix::net::UnixListener::bind(path).unwrap())),
    // Opening a pipe waits for a writer, so the database must not open it.
    #[cfg(unix)]
    ("a named pipe", |path| {
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    }),
    ("an empty file", |path| fs::write(path, b"").unwrap()),
    ("a huge file without contents", |path| {
        // 4 TiB, but only 64 MiB in place of the MANIFEST. The MANIFEST is a log, so the database
        // reads all of its zeros in search of later records.
        let is_log = path.to_str().unwrap().contains("MANIFEST-");
        fs::File::create(path).unwrap().set_len(if is_log { 1 << 26 } else { 1 << 42 }).unwrap();
    }),
    #[cfg(unix)]
    ("a dangling link", |path| std::os::unix::fs::symlink("nowhere", path).unwrap()),
    ("noise", |path| {
        let noise: Vec<u8> =
            (0..9000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        fs::write(path, noise).unwrap();
    }),
];

#[test]
fn strangers_in_the_places_of_files_are_refused_and_named() {
    let mut refused = 0;
    for (stranger, put) in STRANGERS {
        for part in ["CURRENT", "MANIFEST-", ".sst"] {
            let dir = tempfile::tempdir().unwrap();
            database(dir.path());
            let place = files(dir.path(), part).pop().unwrap();
            fs::remove_file(&place).unwrap();
            put(&place);
            match Db::open(dir.path()) {
                Ok(_) => panic!("{stranger} as {part}: opened"),
                Err(error) => {
                    let text = error.to_string();
                    let named = text.contains(place.to_str().unwrap());
                    assert!(named && !text.contains('\n'), "{stranger} as {part}: {text}");
                    refused += 1;
                }
            }
        }
    }
    println!("{refused} foreign files, all refused and named");
}

/// Files in the database's directory that are not its own change no result and are not removed.
#[test]
fn strangers_beside_the_files_change_no_answer() {
    for (stranger, put) in STRANGERS {
        for name in ["notes.txt", "x1.sst", "MANIFEST-", "-7.wal", "000012.sst.bak", "sub"] {
            let dir = tempfile::tempdir().unwrap();
            database(dir.path());
            put(&dir.path().join(name));
            let db = Db::open(dir.path()).unwrap_or_else(|error| panic!("{stranger}: {error}"));
            assert_eq!(db.iter().count(), 100, "{stranger} as {name}");
            db.close().unwrap();
            assert!(dir.path().join(name).symlink_metadata().is_ok(), "{name} was removed");
        }
    }
}

/// A missing CURRENT, MANIFEST or table is an error. No new database is created, and no other table
/// is removed.
#[test]
fn a_lost_current_or_manifest_is_no_new_database() {
    for part in ["CURRENT", "MANIFEST-", ".sst"] {
        let dir = tempfile::tempdir().unwrap();
        database(dir.path());
        let before = files(dir.path(), ".sst").len();
        fs::remove_file(files(dir.path(), part).pop().unwrap()).unwrap();
        match Db::open(dir.path()) {
            Err(Error::Corruption { .. } | Error::Io { .. }) => {}
            Err(other) => panic!("{part}: {other}"),
            Ok(_) => panic!("{part} is gone: opened"),
        }
        let kept = files(dir.path(), ".sst").len();
        assert!(kept + usize::from(part == ".sst") >= before, "{part}: tables were removed");
    }
}
