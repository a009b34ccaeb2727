//! `keyspaces`: lists the keyspaces of a database, creates one, or drops one.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use maypole::{Db, FilterPolicy};

use crate::args::{self, Bytes, DEFAULT};
use crate::failure::{Failure, Result};
use crate::output::json_array;
use crate::show::record::{record, to_json};
use crate::show::sheet::{Column, Screen, Sheet, or_dash};
use crate::show::text::{count, escape, size};

/// List the keyspaces of a database, create one, or drop one.
///
/// To list them writes nothing, and the database may be in use.
///
/// Every keyspace but `default` stores its options, such as the filter policy. The policy of
/// `default` is that of the program that opens the database, so it is not listed.
///
/// A dropped keyspace is gone with all its keys at once, and cannot come back.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Keyspaces {
    /// Directory of the database
    db: PathBuf,
    /// Create this keyspace; \xNN stands for a byte. The options are the usual ones
    #[arg(long, value_name = "NAME", value_parser = args::bytes(), conflicts_with = "drop")]
    create: Option<Bytes>,
    /// Filters of the tables of the new keyspace: a policy (see compare --help) [default: bloom(10)]
    #[arg(long, value_name = "POLICY", requires = "create")]
    filter: Option<FilterPolicy>,
    /// Drop this keyspace; \xNN stands for a byte
    #[arg(long, value_name = "NAME", value_parser = args::bytes())]
    drop: Option<Bytes>,
    /// Print a JSON array, one object a keyspace: name, tables, bytes, entries, log_entries (those in
    /// no table yet), filter (null of default)
    #[arg(long, conflicts_with_all = ["create", "drop"], verbatim_doc_comment)]
    json: bool,
}

record! {
    pub struct Row {
        name: String,
        tables: u64,
        bytes: u64,
        entries: u64,
        log_entries: u64,
        filter: Option<String>,
    }
}

impl Row {
    fn of(db: &Db) -> Row {
        let (name, stats) = (db.keyspace_name(), db.stats());
        Row {
            name: escape(name),
            tables: stats.files.len() as u64,
            bytes: stats.files.iter().map(|file| file.file_bytes).sum(),
            entries: stats.files.iter().map(|file| file.entries).sum(),
            log_entries: stats.memtable_entries as u64,
            filter: (name != DEFAULT).then(|| db.filter_policy().to_string()),
        }
    }
}

impl Keyspaces {
    pub fn run(self, out: &mut dyn Write) -> Result {
        match (&self.create, &self.drop) {
            (Some(name), _) => self.create(&name.0),
            (_, Some(name)) => self.drop(&name.0),
            _ => self.list(out),
        }
    }

    fn create(&self, name: &[u8]) -> Result {
        let db = args::open_existing(&self.db)?;
        if db.keyspaces().iter().any(|known| known == name) {
            let (db, name) = (self.db.display(), escape(name));
            return Err(Failure::new(format_args!(
                "{db}: the keyspace \"{name}\" is there already"
            )));
        }
        db.keyspace_with(name, |options| match &self.filter {
            Some(filter) => options.filter(filter.clone()),
            None => options,
        })?;
        Ok(db.close()?)
    }

    fn drop(&self, name: &[u8]) -> Result {
        let db = args::open_existing(&self.db)?;
        drop(args::existing_keyspace(&db, name)?);
        db.drop_keyspace(name)?;
        Ok(db.close()?)
    }

    fn list(&self, out: &mut dyn Write) -> Result {
        let db = Db::builder(&self.db).open_read_only()?;
        let mut rows = Vec::new();
        for name in db.keyspaces() {
            rows.push(Row::of(&db.keyspace(name)?));
        }
        db.close()?;
        if self.json {
            return json_array(rows.iter().map(to_json), out);
        }
        let columns: &[Column<Row>] = &[
            ("keyspace", &|row| row.name.clone().into()),
            ("tables", &|row| count(row.tables).into()),
            ("size", &|row| size(row.bytes).into()),
            ("entries", &|row| count(row.entries).into()),
            ("in logs", &|row| count(row.log_entries).into()),
            ("filters", &|row| or_dash(row.filter.as_ref())),
        ];
        let screen = Screen::stdout();
        writeln!(out, "{}", Sheet::of(&rows, columns).to_text(&screen))?;
        Ok(())
    }
}
