//! The parts of a stored filter, for programs that draw it: the lines of a Bloom filter, the layers
//! and equations of a ribbon; and [`QueryTrace`], the steps by which a query arrives at its answer.
//! No lookup uses this module.
//!
//! ```text
//! Bloom    FilterReader::lines     cache lines; a key sets bits of one of them
//! ribbons  FilterReader::band      layers of slots; a key is an equation over the slots of one layer
//!
//!          slots         0 . . . start . . . start + width - 1 . . . slots - 1
//!          coefficients          1 ? ? ? ? ? ? ?
//! ```

pub(super) mod parts;
pub(super) mod trace;

use core::slice::ChunksExact;

use super::family::KeyHash;
use super::reader::FilterReader;

pub use parts::{BandLayer, BandParts, KeyEquation};
pub use trace::{BumpedLayer, ProbedBit, QueryTrace};

impl BandParts {
    /// The equation of a key. `None` for a key that no layer keeps. For an absent key, this is the
    /// equation that a query tests.
    pub fn equation(&self, mut hash: KeyHash) -> Option<KeyEquation> {
        for (number, layer) in self.layers.iter().enumerate() {
            let (start, coefficients, fingerprint) = self.rows.of(hash, layer.starts);
            if self.keeps(layer, start) {
                let is_low = start / self.width < layer.low_blocks;
                let columns = self.columns - u32::from(is_low);
                let fingerprint = fingerprint & ((1u64 << columns) - 1) as u32;
                return Some(KeyEquation { layer: number, start, coefficients, fingerprint });
            }
            hash = self.rows.next_hash(hash);
        }
        None
    }

    fn keeps(&self, layer: &BandLayer, start: u32) -> bool {
        let Some(bucket) = start.checked_div(self.bucket_starts) else { return true };
        let Some(&threshold) = layer.thresholds.get(bucket as usize) else { return true };
        // A bucket, some adjacent start positions, keeps the keys of those at its right end.
        let from_right = self.bucket_starts - 1 - start % self.bucket_starts;
        from_right < self.kept_starts[usize::from(threshold) & 3]
    }

    /// The share of a layer's start positions that the layer keeps, 0 to 1. The keys of all other
    /// positions are bumped.
    pub fn kept(&self, layer: &BandLayer) -> f64 {
        if layer.thresholds.is_empty() {
            return 1.0;
        }
        let kept = layer.thresholds.iter().enumerate().map(|(bucket, &threshold)| {
            // The layer may end inside the last bucket. Then the start positions at the right end
            // of that bucket are missing, and they are the ones that would be kept first.
            let missing = (bucket as u64 + 1) * u64::from(self.bucket_starts);
            let missing = missing.saturating_sub(layer.starts.into());
            let kept = self.kept_starts[usize::from(threshold) & 3];
            u64::from(kept).saturating_sub(missing)
        });
        kept.sum::<u64>() as f64 / f64::from(layer.starts.max(1))
    }

    /// Stored bytes of a layer's slots.
    pub fn slot_bytes(&self, layer: &BandLayer) -> u64 {
        let blocks = u64::from(layer.slots / self.width);
        let segments = blocks * u64::from(self.columns) - u64::from(layer.low_blocks);
        segments * u64::from(self.width / 8)
    }
}

impl FilterReader {
    /// The lines of a Bloom filter. A line has 64 bytes; in a legacy filter it may have another
    /// power of two, from 16 to 1,024. `None` for other families.
    ///
    /// ```
    /// use maypole_filter::{FilterBuilder, FilterReader, FilterSpec};
    ///
    /// let mut builder = FilterBuilder::new(FilterSpec::bloom(10.0)?);
    /// builder.add(maypole_filter::hash64(b"apple"));
    /// let block = builder.finish().expect("there is a key");
    ///
    /// let filter = FilterReader::from_bytes(block.bytes(), block.encoding());
    /// let lines = filter.lines().expect("a Bloom filter");
    /// let bits: u32 = lines.flatten().map(|byte| byte.count_ones()).sum();
    /// assert!(bits <= filter.probes().unwrap());
    /// # Ok::<(), maypole_filter::SpecError>(())
    /// ```
    pub fn lines(&self) -> Option<ChunksExact<'_, u8>> {
        let line_bytes = self.line_bytes()?;
        let bytes = self.bytes();
        // The trailer is shorter than any line, so the division drops it.
        Some(bytes[..bytes.len() / line_bytes * line_bytes].chunks_exact(line_bytes))
    }

    /// The parts of a filter of either ribbon family, whose keys are equations. `None` for other
    /// families. The thresholds are copied, and each is expanded from 2 bits to a byte.
    pub fn band(&self) -> Option<BandParts> {
        (self.family()?.info().inspect)(self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FilterBuilder;
    use crate::hash64;

    fn hashes(from: u64, count: u64) -> Vec<KeyHash> {
        (from..from + count).map(|i| hash64(&i.to_be_bytes())).collect()
    }

    fn filter_of(spec: &str, hashes: &[KeyHash]) -> FilterReader {
        let mut builder = FilterBuilder::new(spec.parse().unwrap());
        hashes.iter().for_each(|&hash| builder.add(hash));
        let block = builder.finish().unwrap();
        FilterReader::from_bytes(block.bytes(), block.encoding())
    }

    /// Whether the stored slots solve an equation. To read the bits of a slot, the test uses none
    /// of the families' code: it computes their positions from the definition of the two formats.
    fn is_solved(filter: &FilterReader, parts: &BandParts, equation: &KeyEquation) -> bool {
        let before = &parts.layers[..equation.layer];
        let at: u64 = before.iter().map(|layer| parts.slot_bytes(layer)).sum();
        let low_blocks = parts.layers[equation.layer].low_blocks;
        let columns_of = |block: u32| parts.columns - u32::from(block < low_blocks);
        let bit = |slot: u32, column: u32| {
            let (block, slot) = (slot / parts.width, slot % parts.width);
            let segment = block * parts.columns - block.min(low_blocks) + column;
            let byte = at as usize + (segment * parts.width / 8 + slot / 8) as usize;
            u32::from(filter.bytes()[byte] >> (slot % 8) & 1)
        };
        (0..columns_of(equation.start / parts.width)).all(|column| {
            let under = (0..parts.width).filter(|i| equation.coefficients >> i & 1 == 1);
            let sum = under.fold(0, |sum, i| sum ^ bit(equation.start + i, column));
            sum == equation.fingerprint >> column & 1
        })
    }

    #[test]
    fn equations_are_what_queries_test() {
        for (spec, count) in
            [("ribbon(7)", 2000), ("ribbon(4.4)", 700), ("burr(7)", 300), ("burr(3.3)", 20_000)]
        {
            let (keys, absent) = (hashes(0, count), hashes(count, 2000));
            let filter = filter_of(spec, &keys);
            let parts = filter.band().unwrap();
            assert!(filter.lines().is_none());
            let mut kept = vec![0; parts.layers.len()];
            let mut left = 0;
            for &hash in &keys {
                match parts.equation(hash) {
                    Some(equation) => {
                        assert!(is_solved(&filter, &parts, &equation), "{spec} {equation:?}");
                        kept[equation.layer] += 1;
                    }
                    None => left += 1,
                }
            }
            assert_eq!(left, parts.tags, "{spec}");
            for hash in absent {
                if let Some(equation) = parts.equation(hash) {
                    let answer = filter.may_contain(hash);
                    assert_eq!(is_solved(&filter, &parts, &equation), answer, "{spec}");
                }
            }
            // The thresholds state which share of the keys the layer keeps, provided that keys are
            // spread evenly.
            let share = f64::from(kept[0]) / count as f64;
            let stated = parts.kept(&parts.layers[0]);
            assert!((share - stated).abs() < 0.04, "{spec}: {share} kept, {stated} stated");
            assert_eq!(parts.bucket_starts > 0, spec.starts_with("burr"), "{spec}");
        }
    }

    #[test]
    fn lines_are_as_full_as_theory_says() {
        let keys = hashes(0, 40_000);
        let filter = filter_of("bloom(10)", &keys);
        assert!(filter.band().is_none());
        let set = |line: &[u8]| line.iter().map(|byte| byte.count_ones()).sum::<u32>();
        let lines: Vec<u32> = filter.lines().unwrap().map(set).collect();
        assert_eq!(lines.len(), filter.bytes().len() / 64);
        let fill = f64::from(lines.iter().sum::<u32>()) / (lines.len() * 512) as f64;
        assert!((fill - filter.fill().unwrap()).abs() < 1e-9);
        let theory = crate::sizing::bits_set_distribution(
            keys.len() as f64 / lines.len() as f64,
            filter.probes().unwrap(),
            512,
        );
        // There are 781 lines. So the share of the lines with at most a given number of ones has a
        // standard deviation of at most 1.8 %.
        for most in [240, 250, 256, 260, 270] {
            let expected: f64 = theory[..=most].iter().sum();
            let found = lines.iter().filter(|&&set| set as usize <= most).count();
            let found = found as f64 / lines.len() as f64;
            assert!((found - expected).abs() < 0.07, "up to {most}: {found}, not {expected}");
        }
    }

    #[test]
    fn what_is_no_filter_has_no_parts() {
        let filter = FilterReader::from_bytes(b"no filter", crate::FilterEncoding::RocksDb);
        assert!(filter.lines().is_none() && filter.band().is_none());
    }
}
