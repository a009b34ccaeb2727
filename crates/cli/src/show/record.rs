//! Rows of figures whose columns are named once. JSON, CSV and the tables of a page are made from
//! the same [`Record::values`], so they cannot disagree.
//!
//! ```text
//! record! { pub struct Row { policy: String, keys: u64, rate: Option<f64> } }
//!
//! JSON   {"policy": "none", "keys": 9, "rate": null}
//! CSV    policy,keys,rate
//!        none,9,
//! ```

use serde_json::{Value, json};

use crate::output::json_object;

/// A row of figures.
pub trait Record: Sized {
    /// The names of the columns, in the order of the values.
    const COLUMNS: &'static [&'static str];

    fn values(&self) -> Vec<Value>;

    /// Reads a row that [`to_json`] has written. `None` if a column is missing whose type is not an
    /// `Option`, or if a value does not have its column's type.
    fn from_json(row: &Value) -> Option<Self>;
}

/// A type of values in a column.
pub trait Field: Sized {
    fn to_value(&self) -> Value;
    fn from_value(value: &Value) -> Option<Self>;
}

/// Declares a struct and its [`Record`].
macro_rules! record {
    ($(#[$about:meta])* pub struct $Name:ident { $($(#[$doc:meta])* $field:ident: $Type:ty,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct $Name { $($(#[$doc])* pub $field: $Type,)+ }

        impl $crate::show::record::Record for $Name {
            const COLUMNS: &'static [&'static str] = &[$(stringify!($field)),+];

            fn values(&self) -> Vec<serde_json::Value> {
                vec![$($crate::show::record::Field::to_value(&self.$field)),+]
            }

            fn from_json(row: &serde_json::Value) -> Option<Self> {
                Some($Name {
                    $($field: $crate::show::record::Field::from_value(&row[stringify!($field)])?,)+
                })
            }
        }
    };
}
pub(crate) use record;

macro_rules! fields {
    ($($Type:ty),+) => {$(
        impl Field for $Type {
            fn to_value(&self) -> Value {
                json!(self)
            }

            fn from_value(value: &Value) -> Option<$Type> {
                serde_json::from_value(value.clone()).ok()
            }
        }
    )+};
}
fields!(String, u64, f64, bool, Option<String>, Option<u64>, Option<f64>, Option<bool>);

/// A JSON object on one line.
pub fn to_json<R: Record>(row: &R) -> String {
    json_object(R::COLUMNS.iter().zip(row.values()))
}

/// The names of the columns, and the cells of every row. Objects are taken apart: a column `times`
/// of objects `{mean, p99}` gives the columns `times_mean` and `times_p99`.
pub fn cells<R: Record>(rows: &[R]) -> (Vec<String>, Vec<Vec<Value>>) {
    take_apart(R::COLUMNS, rows.iter().map(R::values).collect())
}

/// Takes the objects in the rows apart for [`cells`]. This function is not generic, so that it is
/// compiled once and not for each kind of row.
fn take_apart(columns: &[&str], rows: Vec<Vec<Value>>) -> (Vec<String>, Vec<Vec<Value>>) {
    let parts = |(column, value): (&&str, Value)| match value {
        Value::Object(parts) => {
            parts.into_iter().map(|(part, value)| (format!("{column}_{part}"), value)).collect()
        }
        value => vec![(column.to_string(), value)],
    };
    let apart = |row: Vec<Value>| columns.iter().zip(row).flat_map(parts).unzip();
    let (names, rows): (Vec<Vec<String>>, Vec<Vec<Value>>) = rows.into_iter().map(apart).unzip();
    (names.into_iter().next().unwrap_or_default(), rows)
}

/// CSV: a header, and a line for each row. The format is that of RFC 4180, except that lines end
/// with LF alone.
pub fn to_csv<R: Record>(rows: &[R]) -> String {
    let (names, rows) = cells(rows);
    let line = |row: &Vec<Value>| row.iter().map(csv_cell).collect::<Vec<_>>().join(",");
    let lines = std::iter::once(names.join(",")).chain(rows.iter().map(line));
    lines.map(|line| line + "\n").collect()
}

fn csv_cell(cell: &Value) -> String {
    match cell {
        Value::Null => String::new(),
        Value::String(text) if text.contains(['"', ',', '\n', '\r']) => {
            format!("\"{}\"", text.replace('"', "\"\""))
        }
        Value::String(text) => text.clone(),
        cell => cell.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    record! {
        pub struct Row {
            name: String,
            keys: u64,
            rate: Option<f64>,
        }
    }

    #[test]
    fn a_row_comes_back_from_its_json_and_csv_quotes_what_it_must() {
        let rows = [
            Row { name: "a, \"b\"".into(), keys: 7, rate: None },
            Row { name: "c".into(), keys: 0, rate: Some(0.1) },
        ];
        for row in &rows {
            let value = serde_json::from_str(&to_json(row)).unwrap();
            assert_eq!(Row::from_json(&value).as_ref(), Some(row));
        }
        assert_eq!(to_csv(&rows), "name,keys,rate\n\"a, \"\"b\"\"\",7,\nc,0,0.1\n");
        assert_eq!(Row::from_json(&serde_json::json!({"name": "a", "keys": 7.5})), None);
    }
}
