//! Programs as text that a person can read, and turn into a test.

use std::fmt;

use super::keys::{Key, Universe};
use super::model::Write;
use super::operation::{Act, Operation, Program, Turn};

fn write_text(write: &Write, keys: &Universe) -> String {
    let key = |key: &Key| keys.show(*key);
    match write {
        Write::Put(k, value) => format!("put({}, {value})", key(k)),
        Write::Delete(k) => format!("delete({})", key(k)),
        Write::DeleteRange(from, to) => format!("delete_range({}, {})", key(from), key(to)),
    }
}

/// Writes in a row, where those of neighbours are drawn together: `put(3..=17, …)`.
fn writes_text(writes: &[Write], keys: &Universe) -> String {
    let continues = |a: &Write, b: &Write| match (a, b) {
        (Write::Put(a, _), Write::Put(b, _)) | (Write::Delete(a), Write::Delete(b)) => a + 1 == *b,
        _ => false,
    };
    let texts = writes.chunk_by(continues).map(|row| match (row[0], row[row.len() - 1]) {
        (Write::Put(from, value), Write::Put(to, _)) if from < to => {
            format!("put({from}..={to}, {value}…)")
        }
        (Write::Delete(from), Write::Delete(to)) if from < to => format!("delete({from}..={to})"),
        (write, _) => write_text(&write, keys),
    });
    texts.collect::<Vec<_>>().join("; ")
}

fn batch_text(writes: &[Write], sync: bool, keys: &Universe) -> String {
    let durability = if sync { "Sync" } else { "Buffered" };
    format!("write_opt({{ {} }}, {durability})", writes_text(writes, keys))
}

fn turns_text(turns: &[Turn], keys: &Universe) -> String {
    let texts = turns.iter().map(|turn| match turn {
        Turn::Act(act) => act_text(act, keys),
        Turn::Look => "look".into(),
    });
    texts.collect::<Vec<_>>().join("; ")
}

fn act_text(act: &Act, keys: &Universe) -> String {
    match act {
        Act::Write(write) => write_text(write, keys),
        Act::Batch { writes, sync } => batch_text(writes, *sync, keys),
        act => format!("{act:?}"),
    }
}

impl Operation {
    /// The operation as a line of a program.
    pub fn text(&self, keys: &Universe) -> String {
        let key = |key: &Key| keys.show(*key);
        match self {
            Operation::Put(k, value) => format!("db.put({}, {value})", key(k)),
            Operation::Delete(k) => format!("db.delete({})", key(k)),
            Operation::DeleteRange(from, to) => {
                format!("db.delete_range({}..{})", key(from), key(to))
            }
            Operation::Batch { writes, sync } => format!("db.{}", batch_text(writes, *sync, keys)),
            Operation::Together(threads) => {
                let threads = threads.iter().map(|turns| turns_text(turns, keys));
                format!("together {{\n    {}\n}}", threads.collect::<Vec<_>>().join("\n    "))
            }
            Operation::Fill { first, step, count, value } => format!(
                "for i in 0..{count} {{ db.put({first} + {step} * i, {}({} + i, {})) }}",
                if value.is_noise { "noise" } else { "zeros" },
                value.number,
                value.length
            ),
            Operation::DeleteEach { first, step, count } => {
                format!("for i in 0..{count} {{ db.delete({first} + {step} * i) }}")
            }
            Operation::Ingest(files) => {
                let files: Vec<_> =
                    files.iter().map(|file| format!("{{ {} }}", writes_text(file, keys))).collect();
                format!("db.ingest(&[{}])", files.join(", "))
            }
            Operation::CompactRange(from, to) => {
                format!("db.compact_range({}..{})", key(from), key(to))
            }
            Operation::Flush => "db.flush()".into(),
            Operation::CompactAll => "db.compact_all()".into(),
            Operation::Wait => "db.wait_for_compaction()".into(),
            Operation::Snapshot => "snapshots.push(db.snapshot())".into(),
            Operation::Read { acts, hold, settings } => {
                let acts: Vec<_> = (acts.iter())
                    .map(|(call, act)| format!("{call}: {}", act_text(act, keys)))
                    .collect();
                let held = if *hold { "readers.push" } else { "check" };
                format!(
                    "{held}(builder(){settings}.open_read_only(), before its call {})",
                    acts.join(", ")
                )
            }
            Operation::Checkpoint { acts, settings } => {
                let acts: Vec<_> = acts.iter().map(|act| act_text(act, keys)).collect();
                let acts = acts.join("; ");
                format!("check(db.checkpoint(), during {{ {acts} }}, builder(){settings}.open())")
            }
            Operation::Use { space, settings } => {
                format!("db = db.keyspace_with({space}, |builder| builder{settings})")
            }
            Operation::Across { writes, sync } => {
                let text = |(space, write)| format!("{space}: {}", write_text(write, keys));
                let writes: Vec<_> = writes.iter().map(|(a, b)| text((a, b))).collect();
                format!("db.write_opt({{ {} }}, sync: {sync})", writes.join("; "))
            }
            Operation::Reopen(leave, settings) => {
                format!("{leave:?}; db = builder(){settings}.open()")
            }
            other => format!("{other:?}"),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = Universe::new(self.form, self.keys);
        writeln!(
            f,
            "// seed {}, {:?}, {} keys of {:?}{}",
            self.seed,
            self.disk,
            self.keys,
            self.form,
            if self.is_calm { ", waits for compactions after each line" } else { "" }
        )?;
        writeln!(f, "db = builder(){}.open()", self.settings)?;
        self.operations.iter().try_for_each(|operation| writeln!(f, "{}", operation.text(&keys)))
    }
}
