//! Queries by any combination of columns, as PostgreSQL's `bloom` index answers them. Each row has
//! a *signature* of 80 bits, in which the value of each column sets two bits. A query computes the
//! bits of its conditions, reads all signatures, and checks only the rows whose signatures have all
//! these bits.
//!
//! ```text
//! row 7    Oslo, red, 42 …      signature  ..1....1..1.....1…    two bits a column
//! query    city = Oslo, age = 42           ..1.......1…          is it all in there?
//!
//! cargo run --release --example multi_column
//! ```

use std::error::Error;
use std::io::{Write, stdout};

use maypole::{Db, WriteBatch, hash64};

const ROWS: u64 = 50_000;
const COLUMNS: usize = 6;
/// The number of values of each column.
const VALUES: u64 = 200;
const SIGNATURE_BITS: u64 = 80;
const SIGNATURE_BYTES: usize = SIGNATURE_BITS as usize / 8;
const BITS_OF_A_COLUMN: u64 = 2;
/// The number of rows in a page. The signatures of a page are one entry of the database.
const ROWS_A_PAGE: u64 = 1_000;
const QUERIES: u64 = 20;

type Row = [u8; COLUMNS];

fn row(i: u64) -> Row {
    std::array::from_fn(|column| (hash64(format!("{i} {column}").as_bytes()) % VALUES) as u8)
}

/// The bits of one value. They depend on the column too, because the same value in another column
/// is another condition: 42 years are not 42 children.
fn bits_of(column: usize, value: u8) -> u128 {
    let hash = hash64(&[column as u8, value]);
    (0..BITS_OF_A_COLUMN).fold(0, |bits, n| bits | 1 << ((hash >> (32 * n)) % SIGNATURE_BITS))
}

fn signature(row: &Row) -> u128 {
    row.iter().enumerate().fold(0, |bits, (column, &value)| bits | bits_of(column, value))
}

fn row_key(i: u64) -> String {
    format!("row/{i:08}")
}

fn fill(db: &Db) -> maypole::Result<()> {
    for page in 0..ROWS / ROWS_A_PAGE {
        let mut batch = WriteBatch::new();
        let mut signatures = Vec::new();
        for i in page * ROWS_A_PAGE..(page + 1) * ROWS_A_PAGE {
            let row = row(i);
            signatures.extend_from_slice(&signature(&row).to_le_bytes()[..SIGNATURE_BYTES]);
            batch.put(row_key(i), row);
        }
        // Rows and their signatures change together, or not at all.
        batch.put(format!("signatures/{page:08}"), signatures);
        db.write(batch)?;
    }
    Ok(())
}

/// The rows whose signature has all bits of the query.
fn candidates(db: &Db, conditions: &[(usize, u8)]) -> maypole::Result<Vec<u64>> {
    let wanted = conditions.iter().fold(0, |bits, &(column, value)| bits | bits_of(column, value));
    let mut found = Vec::new();
    for (page, entry) in (0..).zip(db.prefix("signatures/")) {
        let (_, signatures) = entry?;
        for (i, stored) in (0..).zip(signatures.chunks_exact(SIGNATURE_BYTES)) {
            let mut bytes = [0; 16];
            bytes[..SIGNATURE_BYTES].copy_from_slice(stored);
            if u128::from_le_bytes(bytes) & wanted == wanted {
                found.push(page * ROWS_A_PAGE + i);
            }
        }
    }
    Ok(found)
}

/// Runs the example, and prints to `out`.
pub fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let db = Db::open(dir.path())?;
    fill(&db)?;
    writeln!(out, "{ROWS} rows of {COLUMNS} columns, {SIGNATURE_BYTES} bytes of signature each")?;
    writeln!(out, "conditions  rows read  rows that match  of 100 rows read in vain")?;
    for count in 1..=4 {
        let (mut read, mut matching) = (0, 0);
        for query in 0..QUERIES {
            // The conditions may be on any columns. An ordinary index would need them on its first
            // columns.
            let like = row(query * (ROWS / QUERIES));
            let conditions: Vec<(usize, u8)> = (0..count)
                .map(|n| (query as usize + n) % COLUMNS)
                .map(|column| (column, like[column]))
                .collect();
            let matches =
                |row: &[u8]| conditions.iter().all(|&(column, value)| row[column] == value);
            let found = candidates(&db, &conditions)?;
            let keys: Vec<String> = found.iter().map(|&i| row_key(i)).collect();
            let rows = db.multi_get(&keys)?;
            let right = rows.iter().flatten().filter(|row| matches(row)).count();
            let expected = (0..ROWS).filter(|&i| matches(&row(i))).count();
            assert_eq!(right, expected, "a signature forgets no row");
            read += found.len();
            matching += right;
        }
        writeln!(
            out,
            "{count:>10} {:>10.1} {:>16.1} {:>26.2}",
            read as f64 / QUERIES as f64,
            matching as f64 / QUERIES as f64,
            100.0 * (read - matching) as f64 / (QUERIES * ROWS) as f64
        )?;
    }
    Ok(db.close()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut stdout().lock())
}
