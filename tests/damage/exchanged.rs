//! Files that are sound, but belong to another database or to another time, or are exchanged with
//! each other.

use super::{
    Figures, WRITES, database, killed_database, manifest, named, open, path, put_file, wal,
};
use maypole::fs::{Fs, MemFs};

/// A database that was written like that of [`killed_database`], but with other bytes in the
/// values. The names of the files, the keys and the lengths of the values are the same.
fn twin() -> MemFs {
    database(1, |value| value.iter().map(|byte| byte ^ 1).collect())
}

/// For each pair of names, replaces the first file in a copy of `ours` by the second file of
/// `other`. Then counts how the copy behaves.
fn exchange(figures: &mut Figures, ours: &MemFs, other: &MemFs, names: &[(&str, &str)]) {
    let fs = ours.kill();
    for (place, name) in names {
        put_file(&fs, place, &other.read(&path(name)).unwrap());
    }
    figures.count(&fs, WRITES, &format_args!("{names:?}"));
}

#[test]
fn files_of_another_database_or_another_time_are_refused() {
    let (ours, twin) = (killed_database(), twin());
    let (tables, manifest_name) = (named(&ours, ".sst"), manifest(&ours));
    assert_eq!((named(&twin, ".sst"), manifest(&twin)), (tables.clone(), manifest_name.clone()));
    let mut figures = Figures::default();
    for place in &tables {
        for name in &tables {
            exchange(&mut figures, &ours, &twin, &[(place, name)]);
            if place != name {
                exchange(&mut figures, &ours, &ours, &[(place, name)]);
                exchange(&mut figures, &ours, &ours, &[(place, name), (name, place)]);
            }
        }
    }
    exchange(&mut figures, &ours, &twin, &[(&manifest_name, &manifest_name)]);
    // The log of this database has another number and other sequence numbers.
    let shorter = database(100, |value| value);
    exchange(&mut figures, &ours, &shorter, &[(&wal(&ours), &wal(&shorter))]);
    for place in named(&ours, ".wal").iter().chain(&tables).chain([&manifest_name]) {
        for name in named(&ours, "").iter().filter(|name| *name != place && *name != "LOCK") {
            exchange(&mut figures, &ours, &ours, &[(place, name)]);
        }
    }
    figures.print("exchanged files");
    assert_eq!(figures.refused + figures.errors, figures.tried, "one was taken for another");

    // The database gets one more write, a flush and a compaction. Then, one at a time, each file
    // from before that write is put back under its name.
    let later = ours.kill();
    let db = open(&later).unwrap();
    db.put("key000", "later").unwrap();
    db.flush().unwrap();
    db.compact_range(..).unwrap();
    db.close().unwrap();
    let mut put_back = 0;
    for name in named(&ours, "").iter().filter(|name| *name != "LOCK") {
        let fs = later.kill();
        put_file(&fs, name, &ours.read(&path(name)).unwrap());
        // The database may refuse to open, or return the values of the later state.
        if let Ok(db) = open(&fs) {
            let found = db.get("key000").unwrap().expect("it is in either state");
            assert_eq!(found, b"later", "{name} was put back");
        }
        put_back += 1;
    }
    println!("{put_back} files put back from an earlier copy, 0 wrong answers");
}
