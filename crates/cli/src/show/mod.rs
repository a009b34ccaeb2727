//! How figures are shown: as text, as tables that fit the screen, as records for JSON and CSV, and
//! as charts and plots on a page. [`about`] describes the conditions of their measurement.

pub mod about;
pub mod bars;
pub mod files;
pub mod html;
pub mod plot;
pub mod record;
pub mod sheet;
pub mod svg;
pub mod text;

/// Groups the values by key. The keys are in the order of their first values.
pub fn grouped<K: PartialEq, T>(values: impl IntoIterator<Item = (K, T)>) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for (key, value) in values {
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}
