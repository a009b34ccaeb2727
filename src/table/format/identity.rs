//! The identity of a table: what distinguishes it from every other table, even from one with the
//! same name.
//!
//! ```text
//! property                              value
//! rocksdb.creating.db.identity          a database, for its whole life      random, as a UUID
//! rocksdb.creating.session.identity     one opening of it, or one writer    20 digits, base 36
//! rocksdb.original.file.number          the file's number when it was made
//! ```
//!
//! [`table_identity`] computes 16 bytes from these three properties: RocksDB's *internal unique id*
//! (`table/unique_id.cc`). The MANIFEST records the identity of each table. So when a table is
//! opened, a file that was exchanged for another, or replaced by an older one, is detected.

use twox_hash::XxHash3_128;

/// RocksDB's internal unique id. Two different tables have different ids.
pub(crate) type TableIdentity = [u64; 2];

/// Digits of a session identity that RocksDB writes.
const SESSION_DIGITS: usize = 20;
/// How many digits at the end of a session identity hold its low 62 bits.
const LOW_DIGITS: usize = 12;
const LOW_BITS: u32 = 62;
const DIGITS: &[u8; 36] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// What a table stores about its creator, apart from its file number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Creator {
    /// Identity of the database.
    pub db: String,
    /// Identity of the session, which is one opening of the database.
    pub session: String,
    /// Id and name of the keyspace, which is a column family to RocksDB; `None`: the default one.
    pub keyspace: Option<(u32, Vec<u8>)>,
}

impl Creator {
    /// The creator of the tables of a new session, in the database with the identity `db`.
    pub fn new(db: String) -> Creator {
        let high = random() % 36u64.pow((SESSION_DIGITS - LOW_DIGITS) as u32);
        let low = random() >> (64 - LOW_BITS);
        let mut session = [b'0'; SESSION_DIGITS];
        put_digits(&mut session[..SESSION_DIGITS - LOW_DIGITS], high);
        put_digits(&mut session[SESSION_DIGITS - LOW_DIGITS..], low);
        let session = session.iter().map(|&digit| char::from(digit)).collect();
        Creator { db, session, keyspace: None }
    }

    /// The creator of a table that is written without a database. Instead of a database's identity
    /// it has the text that RocksDB writes for such tables.
    pub fn of_lone_table() -> Creator {
        Creator::new("SST Writer".into())
    }
}

/// An identity for a new database, in the form of a random UUID (RFC 9562, version 4).
pub(crate) fn new_db_identity() -> String {
    let (a, b) = (random(), random());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        a >> 32,
        a >> 16 & 0xffff,
        a & 0xfff,
        b >> 48 & 0x3fff | 0x8000,
        b & 0xffff_ffff_ffff
    )
}

/// The identity of a table with these properties. `None` if the session does not have RocksDB's
/// form.
pub(crate) fn table_identity(db: &str, session: &str, file_number: u64) -> Option<TableIdentity> {
    let high_digits = session.len().checked_sub(LOW_DIGITS)?;
    if !session.bytes().all(|digit| digit.is_ascii_alphanumeric()) {
        return None;
    }
    let (high, low) = session.split_at(high_digits);
    let (high, low) = (u64::from_str_radix(high, 36).ok()?, u64::from_str_radix(low, 36).ok()?);
    let seed = high >> 2;
    let first = (low & ((1 << LOW_BITS) - 1)) | high << LOW_BITS;
    let hash = XxHash3_128::oneshot_with_seed(seed, db.as_bytes());
    Some([first, (hash >> 64) as u64 ^ file_number])
}

fn put_digits(out: &mut [u8], mut value: u64) {
    for digit in out.iter_mut().rev() {
        *digit = DIGITS[(value % 36) as usize];
        value /= 36;
    }
}

/// 64 random bits of the run.
#[cfg(shuttle)]
fn random() -> u64 {
    crate::sync::schedules::random()
}

/// 64 random bits: a hash with keys that the standard library gets from the operating system. The
/// call's number, the process's id and the time are hashed, so that two calls differ even if they
/// get the same keys.
#[cfg(not(shuttle))]
fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{SystemTime, UNIX_EPOCH};

    static CALLS: AtomicU64 = AtomicU64::new(0);
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u64(CALLS.fetch_add(1, Ordering::Relaxed));
    hasher.write_u32(std::process::id());
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    hasher.write_u128(since.as_nanos());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_session_and_every_file_of_it_differ() {
        let creator = Creator::new(new_db_identity());
        let other = Creator::new(creator.db.clone());
        assert_eq!(creator.db.len(), 36);
        assert_eq!(creator.session.len(), SESSION_DIGITS);
        assert_ne!(creator.session, other.session);
        let identity = |c: &Creator, number| table_identity(&c.db, &c.session, number).unwrap();
        assert_eq!(identity(&creator, 7), identity(&creator, 7));
        assert_ne!(identity(&creator, 7), identity(&creator, 8));
        assert_ne!(identity(&creator, 7), identity(&other, 7));
        assert_ne!(new_db_identity(), new_db_identity());
    }

    #[test]
    fn a_session_of_another_form_has_no_identity() {
        for session in
            ["", "SHORT", "ABCDEFGHIJKL", "0123456789abcdef-123", "ZZZZZZZZZZZZZZZZZZZZZZZZZZZ"]
        {
            assert_eq!(table_identity("db", session, 1), None, "{session}");
        }
        assert!(table_identity("db", "AZ09AZ09AZ09AZ09AZ09", 1).is_some());
    }
}
