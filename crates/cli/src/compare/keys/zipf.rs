//! Skewed queries: the share of the key of rank `r` is proportional to `1 / r^s`.
//!
//! Ranks are drawn by rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate
//! variates from monotone discrete distributions", ACM TOMACS 6, 1996), which is exact and needs no
//! table of all ranks. A random area under the curve `1 / x^s` is drawn, and the `x` up to which
//! the curve has this area is rounded to a rank `r`. The area of rank `r`, from `r - 1/2` to
//! `r + 1/2`, is a little larger than the rank's share `1 / r^s`, so draws in the excess are
//! rejected. The area of rank 1 is limited to its share.

use rand::{Rng, RngExt};

/// A distribution of ranks 1 to n.
pub struct Zipf {
    exponent: f64,
    ranks: u64,
    /// The values of [`Zipf::area`] at which rank 1 begins and at which the last rank ends. Areas
    /// are drawn between them.
    low: f64,
    high: f64,
}

impl Zipf {
    pub fn new(ranks: u64, exponent: f64) -> Zipf {
        let mut zipf = Zipf { exponent, ranks, low: 0.0, high: 0.0 };
        // The area of rank 1 ends at x = 1.5. It begins 1 below that, because the share of rank 1
        // is 1, so no draw of rank 1 is rejected.
        zipf.low = zipf.area(1.5) - 1.0;
        zipf.high = zipf.area(ranks as f64 + 0.5);
        zipf
    }

    /// A rank, counted from 0.
    pub fn draw(&self, random: &mut impl Rng) -> usize {
        loop {
            let area = self.low + random.random::<f64>() * (self.high - self.low);
            let x = self.inverse(area);
            let rank = x.round().clamp(1.0, self.ranks as f64);
            if area >= self.area(rank + 0.5) - rank.powf(-self.exponent) {
                return rank as usize - 1;
            }
        }
    }

    /// The area under `1 / x^s` from 1 to `x`.
    fn area(&self, x: f64) -> f64 {
        let power = 1.0 - self.exponent;
        // The area is `(x^power - 1) / power`. If `power` is near 0, the subtraction loses nearly
        // all digits; `exp_m1` keeps them.
        if power.abs() < 1e-9 { x.ln() } else { (power * x.ln()).exp_m1() / power }
    }

    fn inverse(&self, area: f64) -> f64 {
        let power = 1.0 - self.exponent;
        if power.abs() < 1e-9 { area.exp() } else { ((power * area).ln_1p() / power).exp() }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    use super::*;

    #[test]
    fn the_hottest_hundredth_gets_its_share() {
        for exponent in [0.5, 0.99, 1.0, 1.2] {
            let (ranks, draws) = (100_000u64, 400_000);
            let zipf = Zipf::new(ranks, exponent);
            let mut random = SmallRng::seed_from_u64(11);
            let mut counts = vec![0u32; ranks as usize];
            (0..draws).for_each(|_| counts[zipf.draw(&mut random)] += 1);

            let weights = (1..=ranks).map(|rank| (rank as f64).powf(-exponent));
            let weights: Vec<f64> = weights.collect();
            let total: f64 = weights.iter().sum();
            let hottest = ranks as usize / 100;
            let expected = weights[..hottest].iter().sum::<f64>() / total;
            let found = f64::from(counts[..hottest].iter().sum::<u32>()) / f64::from(draws);
            assert!((found / expected - 1.0).abs() < 0.02, "{exponent}: {found}, not {expected}");
            let first = f64::from(counts[0]) / f64::from(draws);
            let expected = weights[0] / total;
            let deviation = (expected / f64::from(draws)).sqrt();
            assert!((first - expected).abs() < 5.0 * deviation, "{exponent}: {first}, {expected}");
            assert!(counts[ranks as usize / 2..].iter().any(|&count| count > 0));
        }
    }
}
