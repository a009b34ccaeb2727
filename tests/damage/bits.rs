//! Flipped bits and truncations of CURRENT, MANIFEST and WAL, and of the tables of a whole
//! database.

use super::{
    Figures, SYNCED, WRITES, content, killed_database, manifest, named, path, put_file, wal,
};
use maypole::fs::{Fs, MemFs};

/// Flips every `step`-th bit of a file, and cuts the file at every `step`-th byte, each in a copy
/// of the database. Checks each copy by [`Figures::count`], which explains `at_least`.
fn damage(image: &MemFs, name: &str, step: usize, at_least: u64) {
    let bytes = image.read(&path(name)).unwrap();
    let bytes = content(&bytes);
    let mut flips = Figures::default();
    for bit in (0..bytes.len() * 8).step_by(step) {
        let mut flipped = bytes.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let fs = image.kill();
        put_file(&fs, name, &flipped);
        flips.count(&fs, at_least, &format_args!("bit {} of byte {} of {name}", bit % 8, bit / 8));
    }
    flips.print(&format!("flipped bits of {name}"));
    let mut cuts = Figures::default();
    for length in (0..bytes.len()).step_by(step.min(bytes.len())) {
        let fs = image.kill();
        put_file(&fs, name, &bytes[..length]);
        cuts.count(&fs, at_least, &format_args!("{length} bytes of {name}"));
    }
    cuts.print(&format!("truncations of {name}"));
}

fn damage_all(log_step: usize, table_step: usize) {
    let image = killed_database();
    // Any change of CURRENT, the MANIFEST or a table is detected, or has no effect.
    damage(&image, "CURRENT", 1, WRITES);
    damage(&image, &manifest(&image), log_step, WRITES);
    // If the WAL is changed, synced writes are found or their loss is reported. The later, unsynced
    // writes may be missing, as after a power loss.
    damage(&image, &wal(&image), log_step, SYNCED);
    for table in named(&image, ".sst") {
        damage(&image, &table, table_step, WRITES);
    }
}

#[test]
fn flipped_bits_and_truncations_of_every_file_are_refused_or_harmless() {
    damage_all(23, 1009);
}

/// `cargo test --release --test damage every_bit -- --ignored --nocapture`
#[test]
#[ignore = "minutes"]
fn every_bit_and_truncation_of_every_file_is_refused_or_harmless() {
    damage_all(1, 3);
}
