//! A session store: all sessions of a user are adjacent, under `user/session`. The queries are
//! "which sessions has this user?" and "is this session valid?". Filters of prefixes save reads for
//! the first query, filters of whole keys for the second. `FilterKeys::Both` has both kinds.
//!
//! ```text
//! cargo run --release --example session_store
//! ```

use std::error::Error;
use std::io::{Write, stdout};

use maypole::{Db, FilterKeys, PrefixExtractor, Ticker, hash64};

const USERS: u64 = 20_000;
const SESSIONS_A_DAY: u64 = 4_000;
const DAYS: u64 = 3;

fn user(i: u64) -> String {
    format!("user{i:05}")
}

fn session(day: u64, i: u64) -> String {
    let hash = hash64(format!("{day} {i}").as_bytes());
    format!("{}/{:08x}", user(hash % USERS), hash >> 32)
}

/// Runs the example, and prints to `out`.
pub fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let per_user = PrefixExtractor::delimiter(b'/', 1)?;
    let db = Db::builder(dir.path()).filter_keys(FilterKeys::Both(per_user)).open()?;
    // Each day's sessions are flushed to one table, so a user's sessions may be in any of these
    // tables.
    for day in 0..DAYS {
        for i in 0..SESSIONS_A_DAY {
            db.put(session(day, i), "logged in")?;
        }
        db.flush()?;
    }

    let (mut without, mut sessions) = (0, 0);
    for i in 0..USERS {
        let found = db.prefix(format!("{}/", user(i))).count();
        sessions += found;
        without += usize::from(found == 0);
    }
    let tickers = db.stats().tickers;
    let (asked, denied) =
        (tickers.get(Ticker::BloomPrefixChecked), tickers.get(Ticker::BloomPrefixUseful));
    writeln!(out, "{sessions} sessions; {without} of {USERS} users have none")?;
    writeln!(
        out,
        "a scan for each user: filters were queried {asked} times, and {denied} times no table was read"
    )?;

    let before = db.stats().counts().filter;
    for i in 0..USERS {
        assert!(!db.contains_key(format!("{}/forged", user(i)))?);
    }
    let after = db.stats().counts().filter;
    writeln!(
        out,
        "{USERS} forged sessions: {} answers \"no\" by filters, {} tables read in vain",
        after.useful - before.useful,
        after.false_positive() - before.false_positive()
    )?;

    // "Log me out everywhere" deletes all keys that begin with "user/".
    let somebody = session(0, 0);
    let name = somebody.split('/').next().unwrap_or_default();
    db.delete_prefix(format!("{name}/"))?;
    writeln!(
        out,
        "{name} is logged out everywhere: {} left",
        db.prefix(format!("{name}/")).count()
    )?;
    Ok(db.close()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut stdout().lock())
}
