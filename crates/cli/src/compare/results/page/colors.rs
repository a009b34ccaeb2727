//! The colour of each policy, which is the same everywhere on a page. Policies that differ only in
//! their numbers are of one kind. Each kind has a usual colour, which other kinds may share. A
//! policy gets the usual colour of its kind if no earlier policy has that colour, and otherwise a
//! free colour if there is one.

use super::super::PolicyRow;
use crate::show::grouped;
use crate::show::plot::{COLORS, OTHERS, color_of_family};

/// The most curves that can be told apart in one plot.
const MOST: usize = COLORS;

/// If there are too many policies to show, one of each kind is shown: the one nearest to this many
/// stored bits per key.
const TYPICAL_BITS: f64 = 10.0;

pub struct Colors {
    /// The policies that plots show, with their colours.
    shown: Vec<(String, usize)>,
}

impl Colors {
    pub fn new(policies: &[PolicyRow]) -> Colors {
        let mut shown: Vec<(String, usize)> = Vec::new();
        for row in typical(policies) {
            let usual = usual_color(&group(&row.policy));
            let free = |color: &usize| shown.iter().all(|(_, used)| used != color);
            let next = (1..COLORS).rev().find(free).unwrap_or(shown.len() % COLORS);
            shown.push((row.policy.clone(), if free(&usual) { usual } else { next }));
        }
        Colors { shown }
    }

    pub fn shown(&self) -> impl Iterator<Item = (&str, usize)> {
        self.shown.iter().map(|(policy, color)| (policy.as_str(), *color))
    }

    pub fn of(&self, policy: &str) -> usize {
        let found = self.shown.iter().find(|(shown, _)| shown == policy);
        found.map_or_else(|| usual_color(&group(policy)), |&(_, color)| color)
    }

    pub fn of_group(&self, name: &str) -> usize {
        let found = self.shown.iter().find(|(shown, _)| group(shown) == name);
        found.map_or_else(|| usual_color(name), |&(_, color)| color)
    }
}

/// All policies; or one of each kind if there are too many.
fn typical<'a>(policies: &'a [PolicyRow]) -> Vec<&'a PolicyRow> {
    if policies.len() <= MOST {
        return policies.iter().collect();
    }
    let distance = |row: &PolicyRow| (row.bits_per_key - TYPICAL_BITS).abs();
    let nearest = |(_, rows): (String, Vec<&'a PolicyRow>)| {
        rows.into_iter().min_by(|a, b| distance(a).total_cmp(&distance(b)))
    };
    let kinds = grouped(policies.iter().map(|row| (group(&row.policy), row)));
    kinds.into_iter().filter_map(nearest).take(MOST).collect()
}

/// The kind of a policy, which is its text without the numbers: `bloom`, `budget bloom`, `levels
/// bloom`.
pub fn group(policy: &str) -> String {
    let words = policy.split(|c: char| !c.is_ascii_alphabetic() && c != '_');
    let mut kinds: Vec<&str> = Vec::new();
    for word in words.filter(|word| !word.is_empty() && !is_unit(word)) {
        if !kinds.contains(&word) {
            kinds.push(word);
        }
    }
    kinds.join(" ")
}

/// Whether a word is a unit, or the `e` of a number such as 1e-5.
fn is_unit(word: &str) -> bool {
    ["key", "B", "KiB", "MiB", "GiB", "e"].contains(&word)
}

fn usual_color(group: &str) -> usize {
    match group {
        "none" => 0,
        "budget burr" => 6,
        group if group.starts_with("budget") => 4,
        group if group.starts_with("levels") => 5,
        group => color_of_family(group).unwrap_or(OTHERS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_of_a_kind_differ_in_numbers_alone() {
        for (policy, expected) in [
            ("none", "none"),
            ("bloom(9.9)", "bloom"),
            ("budget(64MiB, burr)", "budget burr"),
            ("budget(7/key, bloom)", "budget bloom"),
            ("levels(bloom(16), bloom(13), burr(7))", "levels bloom burr"),
            ("fpr(0.01, burr)", "fpr burr"),
            ("ribbon_like_bloom(10)", "ribbon_like_bloom"),
        ] {
            assert_eq!(group(policy), expected);
        }
    }
}
