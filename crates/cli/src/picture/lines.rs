//! Draws a Bloom filter. A key sets bits of one cache line, so the fill of a line tells how many
//! keys it got.

use maypole::filter::{FilterReader, sizing};
use maypole::table::FilterInfo;

use super::drawing::{Bar, Drawing, Heat, Panel};
use crate::show::text::{counted, percent};

/// The most bars of the histogram.
const MAX_BARS: usize = 20;

/// How full the lines are, and how full theory expects them.
struct Fill {
    line_bits: usize,
    probes: u32,
    keys_per_line: f64,
    /// The number of set bits of each line.
    set: Vec<u32>,
    /// The element at index b is the probability that a line has b bits set.
    theory: Vec<f64>,
}

/// The panels of a filter; none if no partition of it is a Bloom filter.
pub fn panels(info: &FilterInfo, parts: &[FilterReader]) -> Vec<Panel> {
    match Fill::of(info, parts) {
        Some(fill) => vec![fill.strip(parts.len() > 1), fill.histogram()],
        None => Vec::new(),
    }
}

impl Fill {
    /// The lines of all partitions, concatenated. Partitions with another line size than the first
    /// are left out; no writer mixes line sizes.
    fn of(info: &FilterInfo, parts: &[FilterReader]) -> Option<Fill> {
        let first = parts.iter().find(|part| part.lines().is_some())?;
        let (line_bits, probes) = (first.lines()?.next()?.len() * 8, first.probes()?);
        let ones = |line: &[u8]| line.iter().map(|byte| byte.count_ones()).sum::<u32>();
        let lines = parts.iter().filter_map(FilterReader::lines).flatten();
        let set: Vec<u32> = lines.filter(|line| line.len() * 8 == line_bits).map(ones).collect();
        // Each partition is assumed to hold a share of the keys in proportion to its bytes.
        let share = (set.len() * line_bits / 8) as f64 / info.bytes.max(1) as f64;
        let keys_per_line = info.keys as f64 * share.min(1.0) / set.len().max(1) as f64;
        let theory = sizing::bits_set_distribution(keys_per_line, probes, line_bits);
        Some(Fill { line_bits, probes, keys_per_line, set, theory })
    }

    fn share(&self, bits: f64) -> f64 {
        bits / self.line_bits as f64
    }

    /// The least and the most set bits to show. The range includes the number of set bits of each
    /// line, and all numbers that are not rare in theory.
    fn ends(&self) -> (usize, usize) {
        // A number of set bits is rare at the low end if theory expects fewer than 0.2 lines of the
        // filter to have this number or a lower one. At the high end, it is rare if theory expects
        // fewer than 0.2 lines with this number or a higher one. If the filter has fewer than 20
        // lines, the limit is 1 % of the lines instead; if it has more than 400 lines, 0.05 %.
        let rare = (0.2 / self.set.len().max(1) as f64).clamp(0.0005, 0.01);
        let mut below = 0.0;
        let low = self.theory.iter().position(|p| {
            below += p;
            below > rare
        });
        let mut above = 0.0;
        let high = self.theory.iter().rposition(|p| {
            above += p;
            above > rare
        });
        let least = self.set.iter().min().map_or(0, |&set| set as usize);
        let most = self.set.iter().max().map_or(0, |&set| set as usize);
        (low.unwrap_or(least).min(least), high.unwrap_or(most).max(most))
    }

    fn strip(&self, is_partitioned: bool) -> Panel {
        let (low, high) = self.ends();
        let ends = (self.share(low as f64), self.share(high as f64));
        let shares = self.set.iter().map(|&set| self.share(set.into()));
        let (mean, deviation) = mean_and_deviation(self.set.iter().map(|&set| (set.into(), 1.0)));
        let by_theory = self.theory.iter().enumerate().map(|(bits, &p)| (bits as f64, p));
        let (theory_mean, theory_deviation) = mean_and_deviation(by_theory);
        let of_bits = |bits: f64| percent(self.share(bits));
        let least = self.set.iter().min().copied().unwrap_or(0);
        let most = self.set.iter().max().copied().unwrap_or(0);
        Panel {
            title: "Fill of each line".into(),
            says: vec![
                format!(
                    "{} of {} bits; {:.1} keys a line, {} bits a key.{}",
                    counted(self.set.len() as u64, "line"),
                    self.line_bits,
                    self.keys_per_line,
                    self.probes,
                    if is_partitioned { " Those of all partitions, end to end." } else { "" }
                ),
                format!(
                    "Found: {} of the bits set, deviation {} of a line; emptiest line {}, fullest {}.",
                    of_bits(mean),
                    of_bits(deviation),
                    of_bits(least.into()),
                    of_bits(most.into())
                ),
                format!(
                    "Theory: {}, deviation {}.",
                    of_bits(theory_mean),
                    of_bits(theory_deviation)
                ),
            ],
            drawing: Drawing::Heat(Heat::new(shares, ends, percent, ("line", "lines"))),
        }
    }

    fn histogram(&self) -> Panel {
        let (low, high) = self.ends();
        let widths = (0..).flat_map(|power| [1, 2, 5].map(|step| step * 10usize.pow(power)));
        let mut fitting = widths.filter(|width| high / width - low / width < MAX_BARS);
        let width = fitting.next().unwrap_or(1);
        let bars = (low / width..=high / width).map(|number| {
            let (from, end) = (number * width, ((number + 1) * width).min(self.line_bits + 1));
            let within = |set: &&u32| (from..end).contains(&(**set as usize));
            let theory: f64 = self.theory[from..end].iter().sum();
            Bar {
                label: if end - from == 1 {
                    from.to_string()
                } else {
                    format!("{from}–{}", end - 1)
                },
                found: self.set.iter().filter(within).count() as u64,
                theory: Some(theory * self.set.len() as f64),
            }
        });
        Panel {
            title: "Bits set per line".into(),
            says: vec![
                "Lines with so many bits set, and how many theory expects: a Poisson number of keys \
                 falls on a line, and their bits on any of the line's."
                    .into(),
            ],
            drawing: Drawing::Bars(bars.collect()),
        }
    }
}

/// The mean and the standard deviation of weighted figures.
fn mean_and_deviation(figures: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
    let mut sums = (0.0, 0.0, 0.0);
    for (figure, weight) in figures {
        sums.0 += weight;
        sums.1 += weight * figure;
        sums.2 += weight * figure * figure;
    }
    let mean = sums.1 / f64::max(sums.0, f64::MIN_POSITIVE);
    let square = sums.2 / f64::max(sums.0, f64::MIN_POSITIVE);
    (mean, (square - mean * mean).max(0.0).sqrt())
}
