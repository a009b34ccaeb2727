//! Converts figures to positions, and finds the round numbers for ticks and ranges.

/// How an axis spreads its figures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Spread {
    Linear,
    /// Logarithmic. Figures must be above 0.
    Log,
    /// Linear, for bytes: ticks are round in KiB, MiB and so on.
    Bytes,
    /// Logarithmic, for bytes: ticks are powers of two.
    LogBytes,
}

impl Spread {
    fn is_log(self) -> bool {
        matches!(self, Spread::Log | Spread::LogBytes)
    }
}

/// Maps the figures `low..=high` to the positions `from..=to`.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    spread: Spread,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    pub fn new(spread: Spread, (low, high): (f64, f64), (from, to): (f64, f64)) -> Scale {
        Scale { spread, low, high, from, to }
    }

    /// The position of a figure. Figures beyond the ends of the axis get the position of the end.
    pub fn at(&self, figure: f64) -> f64 {
        let figure = figure.clamp(self.low, self.high);
        let part = match self.spread.is_log() {
            false => (figure - self.low) / (self.high - self.low),
            true => (figure / self.low).ln() / (self.high / self.low).ln(),
        };
        self.from + part * (self.to - self.from)
    }

    /// Round figures on the axis, at most about `most` of them.
    pub fn ticks(&self, most: usize) -> Vec<f64> {
        match self.spread {
            Spread::Linear => linear_ticks(self.low, self.high, most),
            Spread::Log => log_ticks(self.low, self.high, most),
            Spread::Bytes => {
                let unit = unit(self.high);
                let ticks = linear_ticks(self.low / unit, self.high / unit, most);
                ticks.into_iter().map(|tick| tick * unit).collect()
            }
            Spread::LogBytes => {
                let of = |every: usize| powers_of_two(self.low, self.high, every);
                (1..).map(of).find(|ticks| ticks.len() <= most).unwrap_or_default()
            }
        }
    }

    /// The figures at which a logarithmic axis gets marks without numbers, besides the `ticks`.
    /// These marks show that the axis is logarithmic, and where between two powers a point is.
    /// Other axes have none.
    pub fn minor_ticks(&self, ticks: &[f64]) -> Vec<f64> {
        let all = match self.spread {
            Spread::Linear | Spread::Bytes => Vec::new(),
            Spread::LogBytes => powers_of_two(self.low, self.high, 1),
            Spread::Log => {
                let parts = if (self.high / self.low).log10() > MAX_DIVIDED { 1 } else { 9 };
                decades(self.low, self.high, 1, &(1..=parts).map(f64::from).collect::<Vec<_>>())
            }
        };
        let is_new = |minor: &f64| ticks.iter().all(|tick| (minor / tick - 1.0).abs() > 1e-6);
        all.into_iter().filter(is_new).collect()
    }
}

/// An axis of more decades than this has marks at powers of ten only, because marks at 1 to 9 times
/// each power of ten could not be told apart.
const MAX_DIVIDED: f64 = 6.0;

/// The largest of 1, 1 KiB, 1 MiB and so on that is not above `bytes`.
fn unit(bytes: f64) -> f64 {
    1024f64.powi((bytes.max(1.0).log2() / 10.0) as i32)
}

/// The powers of two from `low` to `high` whose exponent is a multiple of `every`.
fn powers_of_two(low: f64, high: f64, every: usize) -> Vec<f64> {
    let exponents = (0..64).step_by(every).map(|exponent| 2f64.powi(exponent));
    exponents.filter(|power| (low * 0.999..=high * 1.001).contains(power)).collect()
}

/// A range that holds all figures and ends at round numbers. A logarithmic range extends beyond the
/// figures by at least 5 %. A linear range starts at 0 if the least figure is positive and below
/// 0.6 times the largest. `None` if the spread can show none of the figures.
pub fn range(spread: Spread, figures: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let shown = figures.filter(|f| f.is_finite() && (!spread.is_log() || *f > 0.0));
    let (low, high) = shown.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), figure| {
        (low.min(figure), high.max(figure))
    });
    if low > high {
        return None;
    }
    Some(match spread {
        Spread::Log => {
            // The ends are 1, 2 or 5 times a power of ten.
            let (low, high) = (low / 1.05, high * 1.05);
            let below = rounds(low.log10().floor() as i32 - 1).rfind(|&r| r <= low);
            let above = rounds(high.log10().floor() as i32).find(|&r| r >= high);
            (below.unwrap_or(low), above.unwrap_or(high))
        }
        Spread::LogBytes => {
            let (low, high) = ((low / 1.05).log2().floor(), (high * 1.05).log2().ceil());
            (low.exp2(), high.exp2())
        }
        Spread::Bytes => {
            let unit = unit(high);
            let (low, high) = range(Spread::Linear, [low / unit, high / unit].into_iter())?;
            (low * unit, high * unit)
        }
        Spread::Linear => {
            let low = if low > 0.0 && low < 0.6 * high { 0.0 } else { low };
            let step = step(if high > low { high - low } else { high.abs().max(1.0) }, 5);
            let first = (low / step).floor() * step;
            let last = (high / step * 1.0001).ceil() * step;
            (first, if last > first { last } else { first + step })
        }
    })
}

/// 1, 2 and 5 times each power of ten, in five decades from `10^decade` on.
fn rounds(decade: i32) -> impl DoubleEndedIterator<Item = f64> {
    (decade..decade + 5).flat_map(|decade| [1.0, 2.0, 5.0].map(|r| r * 10f64.powi(decade)))
}

/// The smallest round number, 1, 2 or 5 times a power of ten, that divides `length` into at most
/// `parts`.
fn step(length: f64, parts: usize) -> f64 {
    let least = length / parts as f64;
    let decade = least.log10().floor() as i32;
    rounds(decade).find(|&r| r >= least * 0.999_999).unwrap_or(least)
}

fn linear_ticks(low: f64, high: f64, most: usize) -> Vec<f64> {
    let step = step(high - low, most);
    let first = (low / step * 0.999_999).ceil() as i64;
    let last = (high / step * 1.000_001).floor() as i64;
    (first..=last).map(|n| n as f64 * step).collect()
}

fn log_ticks(low: f64, high: f64, most: usize) -> Vec<f64> {
    // Ticks at 1, 2 and 5 times each power of ten are three a decade. If those are too many, the
    // ticks are at every power of ten, or else at every second one, every third one, and so on.
    if (high / low).log10() * 3.0 <= most as f64 {
        return decades(low, high, 1, &[1.0, 2.0, 5.0]);
    }
    let of = |every| decades(low, high, every, &[1.0]);
    (1..).map(of).find(|ticks| ticks.len() <= most).unwrap_or_default()
}

/// Each of `parts` times each power of ten whose exponent is a multiple of `every`, as far as the
/// product is from `low` to `high`.
fn decades(low: f64, high: f64, every: i32, parts: &[f64]) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32 - 1, high.log10().ceil() as i32 + 1);
    let decades = (first..=last).filter(|decade| decade.rem_euclid(every) == 0);
    let ticks = decades.flat_map(|decade| parts.iter().map(move |p| p * 10f64.powi(decade)));
    ticks.filter(|figure| (low * 0.999..=high * 1.001).contains(figure)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_their_figures_and_end_at_round_numbers() {
        let linear = |figures: &[f64]| range(Spread::Linear, figures.iter().copied());
        assert_eq!(linear(&[3.0, 47.0]), Some((0.0, 50.0)));
        assert_eq!(linear(&[90.0, 99.0]), Some((90.0, 100.0)));
        assert_eq!(linear(&[]), None);
        assert_eq!(linear(&[0.0]), Some((0.0, 0.2)));
        let log = |figures: &[f64]| range(Spread::Log, figures.iter().copied()).unwrap();
        for (found, expected) in
            [(log(&[0.0, 0.003, 0.7]), (0.002, 1.0)), (log(&[30.0]), (20.0, 50.0))]
        {
            assert!((found.0 / expected.0 - 1.0).abs() < 1e-9, "{found:?}");
            assert!((found.1 / expected.1 - 1.0).abs() < 1e-9, "{found:?}");
        }
    }

    #[test]
    fn ticks_are_round_and_few() {
        let ticks = |spread, range| Scale::new(spread, range, (0.0, 1.0)).ticks(5);
        assert_eq!(ticks(Spread::Linear, (0.0, 100.0)), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(ticks(Spread::Log, (1.0, 1000.0)), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(ticks(Spread::Log, (1.0, 10.0)), [1.0, 2.0, 5.0, 10.0]);
        assert!(ticks(Spread::Log, (1e-9, 1e9)).len() <= 5);
    }

    /// Plots once had ticks of 200 kB next to tables in KiB. Now the ticks are in KiB and MiB, too.
    #[test]
    fn ticks_of_bytes_are_round_in_binary_units() {
        let ticks = |spread, figures: [f64; 2]| {
            let range = range(spread, figures.into_iter()).unwrap();
            Scale::new(spread, range, (0.0, 1.0)).ticks(5)
        };
        let mib = f64::from(1 << 20);
        assert_eq!(ticks(Spread::Bytes, [0.0, 2.9 * mib]), [0.0, mib, 2.0 * mib, 3.0 * mib]);
        let all = ticks(Spread::LogBytes, [5000.0, 900.0 * mib]);
        assert!((3..=5).contains(&all.len()) && all.iter().all(|tick| tick.log2().fract() == 0.0));
    }

    #[test]
    fn decades_are_divided_between_their_numbers() {
        let scale = Scale::new(Spread::Log, (1.0, 1000.0), (0.0, 1.0));
        let minor = scale.minor_ticks(&scale.ticks(5));
        assert_eq!(minor.len(), 24);
        assert_eq!(minor[..3], [2.0, 3.0, 4.0]);
        assert!(Scale::new(Spread::Linear, (1.0, 9.0), (0.0, 1.0)).minor_ticks(&[]).is_empty());
    }

    #[test]
    fn positions_run_from_end_to_end() {
        let scale = Scale::new(Spread::Log, (1.0, 100.0), (200.0, 0.0));
        assert_eq!(
            [1.0, 10.0, 100.0, 0.0, 1e6].map(|f| scale.at(f)),
            [200.0, 100.0, 0.0, 200.0, 0.0]
        );
    }
}
