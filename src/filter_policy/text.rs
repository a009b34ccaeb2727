//! Policies as text. A policy is printed in the form in which it is parsed.

use std::fmt;
use std::str::FromStr;

use super::budget::Budget;
use super::{FilterPolicy, Rule};
use crate::error::Error;
use crate::filter::{Family, FilterSpec, SpecError, parse_size, size_text};

const FORMS: &str = "a filter for every table (such as bloom(10)), capped(FILTER, SIZE), levels(FILTER, …), \
                     bottommost_none(FILTER), budget(SIZE, FAMILY) or budget(BITS/key, FAMILY), or learned(…) \
                     like budget(…)";

impl fmt::Display for FilterPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Rule::Uniform(spec) => spec.fmt(f),
            Rule::Levels(specs) => {
                let specs: Vec<String> = specs.iter().map(FilterSpec::to_string).collect();
                write!(f, "levels({})", specs.join(", "))
            }
            Rule::BottommostNone(spec) => write!(f, "bottommost_none({spec})"),
            Rule::Budget(budget, family) => write!(f, "budget({}, {family})", Size(*budget)),
            Rule::Learned(budget, family) => write!(f, "learned({}, {family})", Size(*budget)),
        }
    }
}

struct Size(Budget);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Budget::Bytes(bytes) => f.write_str(&size_text(bytes)),
            Budget::BitsPerKey(bits) => write!(f, "{bits}/key"),
        }
    }
}

impl FromStr for FilterPolicy {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<FilterPolicy, SpecError> {
        let text = text.trim();
        let unknown = || SpecError(format!("unknown filter policy {text:?}: expected {FORMS}"));
        // `bloom:10` is another form of `bloom(10)`. The policies in `is_for_tree` have no form
        // with a colon, so their names must be followed by a parenthesis.
        let name = text.split(['(', ':']).next().unwrap_or_default();
        let is_for_tree =
            matches!(name.trim_end(), "levels" | "bottommost_none" | "budget" | "learned");
        if is_for_tree && !text[name.len()..].starts_with('(') {
            return Err(unknown());
        }
        let Some((name, rest)) = text.split_once('(') else {
            return text.parse().map(FilterPolicy::uniform);
        };
        let arguments = || rest.strip_suffix(')').map(split_arguments).ok_or_else(unknown);
        match name.trim_end() {
            "levels" => {
                let specs: Result<Vec<FilterSpec>, SpecError> =
                    arguments()?.into_iter().map(str::parse).collect();
                FilterPolicy::levels(specs?)
            }
            "bottommost_none" => match arguments()?[..] {
                [spec] => Ok(FilterPolicy::bottommost_none(spec.parse()?)),
                _ => Err(unknown()),
            },
            name @ ("budget" | "learned") => {
                let budget = match arguments()?[..] {
                    [size] => parse_budget(text, size, "bloom")?,
                    [size, family] => parse_budget(text, size, family)?,
                    _ => return Err(unknown()),
                };
                Ok(if name == "learned" { budget.learning() } else { budget })
            }
            _ => text.parse().map(FilterPolicy::uniform),
        }
    }
}

impl TryFrom<&str> for FilterPolicy {
    type Error = SpecError;

    fn try_from(text: &str) -> Result<FilterPolicy, SpecError> {
        text.parse()
    }
}

/// An invalid policy becomes [`Error::InvalidArgument`], so that a function that returns
/// [`crate::Result`] can parse a policy with `?`.
impl From<SpecError> for Error {
    fn from(error: SpecError) -> Error {
        Error::InvalidArgument(error.to_string())
    }
}

fn parse_budget(text: &str, size: &str, family: &str) -> Result<FilterPolicy, SpecError> {
    let family: Family = family.parse()?;
    if let Some(bits) = size.strip_suffix("/key") {
        let wrong = |_| SpecError(format!("{text}: {bits:?} is not a number"));
        let bits_per_key = bits.trim_end().parse().map_err(wrong)?;
        return FilterPolicy::budget_bits_per_key(bits_per_key, family);
    }
    FilterPolicy::budget_bytes(parse_size(text, size)?, family)
}

/// Splits at the commas outside of parentheses.
fn split_arguments(list: &str) -> Vec<&str> {
    let mut depth = 0;
    let at_top = |character: char| {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' => return depth == 0,
            _ => {}
        }
        false
    };
    list.split(at_top).map(str::trim).filter(|argument| !argument.is_empty()).collect()
}
