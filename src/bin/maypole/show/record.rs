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

use std::fmt::{Display, Write};

use serde_json::Value;

use crate::output::json_object;

/// A row of figures.
pub trait Record: Sized {
    /// The names of the columns, in the order of the values.
    const COLUMNS: &'static [&'static str];

    fn values(&self) -> Vec<Value>;

    /// The row that [`to_json`] wrote. `None` where a column is missing or has another type.
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
        #[derive(Debug, Clone, PartialEq)]
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

impl Field for String {
    fn to_value(&self) -> Value {
        Value::from(self.as_str())
    }

    fn from_value(value: &Value) -> Option<String> {
        value.as_str().map(str::to_string)
    }
}

impl Field for u64 {
    fn to_value(&self) -> Value {
        Value::from(*self)
    }

    fn from_value(value: &Value) -> Option<u64> {
        value.as_u64()
    }
}

impl Field for f64 {
    fn to_value(&self) -> Value {
        Value::from(*self)
    }

    fn from_value(value: &Value) -> Option<f64> {
        value.as_f64()
    }
}

impl Field for bool {
    fn to_value(&self) -> Value {
        Value::from(*self)
    }

    fn from_value(value: &Value) -> Option<bool> {
        value.as_bool()
    }
}

impl<T: Field> Field for Option<T> {
    fn to_value(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::to_value)
    }

    fn from_value(value: &Value) -> Option<Option<T>> {
        match value {
            Value::Null => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
}

/// A JSON object on one line.
pub fn to_json<R: Record>(row: &R) -> String {
    let values = row.values();
    let fields: Vec<(&str, &dyn Display)> =
        R::COLUMNS.iter().copied().zip(values.iter().map(|value| value as &dyn Display)).collect();
    json_object(&fields)
}

/// The names of the columns and the cells of every row, both with objects taken apart: a column
/// `times` of objects `{mean, p99}` gives the columns `times_mean` and `times_p99`.
pub fn cells<R: Record>(rows: &[R]) -> (Vec<String>, Vec<Vec<Value>>) {
    take_apart(R::COLUMNS, rows.iter().map(R::values).collect())
}

/// Not generic, so that it is compiled once and not for each kind of row.
fn take_apart(columns: &[&str], rows: Vec<Vec<Value>>) -> (Vec<String>, Vec<Vec<Value>>) {
    let mut names = Vec::new();
    let mut all = Vec::new();
    for (n, row) in rows.into_iter().enumerate() {
        let mut cells = Vec::new();
        for (column, value) in columns.iter().zip(row) {
            match value {
                Value::Object(parts) => {
                    for (part, value) in parts {
                        if n == 0 {
                            names.push(format!("{column}_{part}"));
                        }
                        cells.push(value);
                    }
                }
                value => {
                    if n == 0 {
                        names.push(column.to_string());
                    }
                    cells.push(value);
                }
            }
        }
        all.push(cells);
    }
    (names, all)
}

/// A header and a line for each row (RFC 4180, with line feeds alone).
pub fn to_csv<R: Record>(rows: &[R]) -> String {
    let (names, rows) = cells(rows);
    let mut text = names.join(",");
    text.push('\n');
    for row in rows {
        for (n, cell) in row.iter().enumerate() {
            if n > 0 {
                text.push(',');
            }
            match cell {
                Value::Null => {}
                Value::String(cell) if cell.contains(['"', ',', '\n', '\r']) => {
                    let _ = write!(text, "\"{}\"", cell.replace('"', "\"\""));
                }
                Value::String(cell) => text.push_str(cell),
                cell => {
                    let _ = write!(text, "{cell}");
                }
            }
        }
        text.push('\n');
    }
    text
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
