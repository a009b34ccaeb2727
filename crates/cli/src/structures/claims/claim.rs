//! A [`Claim`], with the figures that were measured and the [`Verdict`] on it.

use std::fmt;
use std::ops::RangeInclusive;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    True,
    HalfTrue,
    False,
    /// Times decide, and the machine was too busy to measure them.
    NotSettled,
}

/// Times that vary more than this from round to round ([`Row::noise`]) settle no claim.
///
/// [`Row::noise`]: crate::structures::measure::Row
const MAX_NOISE: f64 = 2.0;

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::True => "true",
            Verdict::HalfTrue => "half true",
            Verdict::False => "false",
            Verdict::NotSettled => "not settled",
        })
    }
}

impl Verdict {
    /// The verdict on a figure: true within `right`, and half true within `nearly`.
    pub(super) fn of(
        figure: f64,
        right: RangeInclusive<f64>,
        nearly: RangeInclusive<f64>,
    ) -> Verdict {
        if right.contains(&figure) {
            Verdict::True
        } else if nearly.contains(&figure) {
            Verdict::HalfTrue
        } else {
            Verdict::False
        }
    }

    /// This verdict, if it follows from times that vary by `noise`.
    pub(super) fn by_times(self, noise: f64) -> Verdict {
        if noise > MAX_NOISE { Verdict::NotSettled } else { self }
    }

    /// The verdict on a claim about several cases: half true if it holds in only some of them.
    pub(super) fn of_cases(holds: &[bool]) -> Verdict {
        match holds.iter().filter(|&&holds| holds).count() {
            0 => Verdict::False,
            all if all == holds.len() => Verdict::True,
            _ => Verdict::HalfTrue,
        }
    }
}

pub struct Claim {
    pub says: &'static str,
    pub source: &'static str,
    pub verdict: Verdict,
    /// How the verdict follows from the figures.
    pub rule: &'static str,
    pub(super) figures: Vec<(&'static str, Unit, f64)>,
    /// Why the figures are as they are, in one sentence.
    pub because: &'static str,
    /// The statement that the figures support, for a claim that is false or half true.
    pub(super) instead: String,
    /// The command that measures more about the subject of the claim.
    pub(super) see: &'static str,
}

/// The source of a common claim without a single author.
pub(super) const TUTORIALS: &str = "many tutorials";

/// The unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// The ratio of two figures.
    Times,
    /// A false-positive rate, shown in percent.
    Rate,
    /// A part of something, shown in percent.
    Share,
    Bits,
    Kib,
    Ns,
    Count,
}

/// The command of this module. As the value of [`Claim::see`], it means that no other command
/// measures more.
pub(super) const HERE: &str = "maypole structures --claims";

impl Claim {
    /// Names, and figures of four significant digits with their units: `9.612 bits/key`.
    pub fn figures(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.figures.iter().map(|&(name, unit, figure)| {
            let (figure, unit) = match unit {
                Unit::Times => (figure, " times"),
                Unit::Rate | Unit::Share => (100.0 * figure, " %"),
                Unit::Bits => (figure, " bits/key"),
                Unit::Kib => (figure, " KiB"),
                Unit::Ns => (figure, " ns"),
                Unit::Count => (figure, ""),
            };
            let digits = 3 - figure.abs().max(1e-9).log10().floor() as i32;
            (name, format!("{figure:.*}{unit}", digits.clamp(0, 8) as usize))
        })
    }

    /// The statement that the figures support; `None` if the claim is true.
    pub fn instead(&self) -> Option<&str> {
        match self.verdict {
            Verdict::True => None,
            Verdict::HalfTrue | Verdict::False => Some(&self.instead),
            Verdict::NotSettled => Some(
                "The machine was busy with other work, and the times varied twofold: measure again \
                 when it is idle.",
            ),
        }
    }

    /// The command that measures more of what the claim is about, if it is another command.
    pub fn more(&self) -> Option<&'static str> {
        (self.see != HERE).then_some(self.see)
    }
}
