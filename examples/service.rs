//! A small service: users with unique names, sessions, counters, and a backup while it runs. Four
//! threads use it. It has no lock of its own, and loses nothing.
//!
//! ```text
//!   key              value       written by
//!   next user        number      register   a transaction
//!   name/<name>      user id     register, rename: only one user gets a name
//!   user/<id>        name
//!   session/<token>  user id     log_in     a put; log_out: take
//!   visits/<id>      number      visit      update_fetch
//! ```
//!
//! ```text
//! cargo run --release --example service
//! ```

use std::thread;

use maypole::{Db, Error, Result, Slice};

const THREADS: u64 = 4;
const USERS: u64 = 500;
const VISITS: u64 = 10;

fn number(value: &[u8]) -> u64 {
    u64::from_be_bytes(value.try_into().expect("eight bytes"))
}

/// A number at the end of a key. Big-endian, so that keys are in the order of their numbers.
fn key(prefix: &str, id: u64) -> Vec<u8> {
    [prefix.as_bytes(), &id.to_be_bytes()].concat()
}

/// Creates a user and returns its id; `None` if another user has the name.
fn register(db: &Db, name: &str) -> Result<Option<u64>> {
    db.transact(|tx| {
        let by_name = format!("name/{name}");
        if tx.contains_key(&by_name)? {
            return Ok(None);
        }
        let id = tx.get("next user")?.map_or(0, |value| number(&value));
        tx.put("next user", (id + 1).to_be_bytes());
        tx.put(&by_name, id.to_be_bytes());
        tx.put(key("user/", id), name);
        Ok(Some(id))
    })
}

/// Gives a user another name. Returns whether the name was free.
fn rename(db: &Db, id: u64, name: &str) -> Result<bool> {
    db.transact(|tx| {
        let by_name = format!("name/{name}");
        let Some(old) = tx.get(key("user/", id))? else { return Ok(false) };
        if tx.contains_key(&by_name)? {
            return Ok(false);
        }
        tx.delete([b"name/", &old[..]].concat());
        tx.put(&by_name, id.to_be_bytes());
        tx.put(key("user/", id), name);
        Ok::<bool, Error>(true)
    })
}

/// Starts a session, whose token the caller has drawn.
fn log_in(db: &Db, id: u64, token: &str) -> Result<()> {
    db.put(format!("session/{token}"), id.to_be_bytes())
}

/// Ends a session. Of several calls for one token, one returns its user.
fn log_out(db: &Db, token: &str) -> Result<Option<u64>> {
    Ok(db.take(format!("session/{token}"))?.map(|id| number(&id)))
}

/// Counts a visit of the session's user, and returns the count; `None` without a session.
fn visit(db: &Db, token: &str) -> Result<Option<u64>> {
    let Some(id) = db.get(format!("session/{token}"))? else { return Ok(None) };
    let count = db.update_fetch(key("visits/", number(&id)), |count| {
        Some((count.map_or(0, number) + 1).to_be_bytes())
    })?;
    Ok(count.map(u64::from_be_bytes))
}

/// Removes a user with everything that belongs to it.
fn remove(db: &Db, id: u64) -> Result<bool> {
    db.transact(|tx| {
        let Some(name) = tx.get(key("user/", id))? else { return Ok(false) };
        tx.delete([b"name/", &name[..]].concat());
        tx.delete(key("user/", id));
        tx.delete(key("visits/", id));
        let is_of_user = |entry: &Result<(Slice, Slice)>| match entry {
            Ok((_, user)) => number(user) == id,
            Err(_) => true,
        };
        let sessions = tx.prefix("session/").filter(is_of_user);
        let sessions = sessions.map(|entry| Ok(entry?.0)).collect::<Result<Vec<_>>>()?;
        sessions.iter().for_each(|session| tx.delete(session));
        Ok::<bool, Error>(true)
    })
}

/// What each of the threads does. All of them want the same names.
fn serve(db: &Db, thread: u64) -> Result<u64> {
    let mut registered = 0;
    for user in 0..USERS {
        let Some(id) = register(db, &format!("user {user}"))? else { continue };
        registered += 1;
        let token = format!("{thread}-{user}");
        log_in(db, id, &token)?;
        for _ in 0..VISITS {
            visit(db, &token)?;
        }
        match user % 10 {
            0 => drop(rename(db, id, &format!("renamed {user}"))?),
            1 => drop(log_out(db, &token)?),
            2 => drop(remove(db, id)?),
            _ => {}
        }
    }
    Ok(registered)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let db = &Db::open(dir.path().join("service"))?;
    let backup = dir.path().join("backup");
    let registered = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|n| scope.spawn(move || serve(db, n))).collect();
        db.checkpoint(&backup)?;
        let counts = threads.into_iter().map(|it| it.join().expect("a thread panicked"));
        counts.sum::<Result<u64>>()
    })?;

    // The users that were renamed left their first names free, so others may have taken them.
    let users = db.prefix("user/").count() as u64;
    let visits: u64 = db.prefix("visits/").map(|entry| Ok(number(&entry?.1))).sum::<Result<_>>()?;
    assert_eq!(visits, users * VISITS);
    assert_eq!(db.prefix("name/").count() as u64, users);
    println!("{registered} registered, {users} users, {visits} visits, none lost");
    let copy = Db::open(&backup)?;
    let names = copy.prefix("name/").count();
    assert_eq!(names, copy.prefix("user/").count());
    println!("the backup has {names} users, each with its name");
    Ok(())
}
