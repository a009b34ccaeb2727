//! The filter cascade: no false answer at all, for a universe that is known when it is built.
//!
//! Literature: J. Larisch et al., "CRLite: a scalable system for pushing all TLS revocations to all
//! browsers", IEEE S&P 2017. The layers: K. Salikhov, G. Sacomoto, G. Kucherov, "Using cascading
//! Bloom filters to improve the memory usage for de Brujin graphs", Algorithms Mol. Biol. 2014.
//!
//! The universe is the keys that are *in* and those that are *out*, such as revoked and good
//! certificates. Other keys are never queried. A Bloom filter of the *in* keys is wrong for some
//! *out* keys. All of these can be listed, so a second filter holds them. The second filter is
//! wrong for some *in* keys, which a third filter holds, and so on, until a layer is wrong for
//! none.
//!
//! ```text
//!            holds                      is queried for, and wrong for
//! layer 1    all keys in   1,000,000    keys out   100,000,000  →  707,107     rate 0.7 %
//! layer 2    those out       707,107    keys in      1,000,000  →  500,000     rate 1/2
//! layer 3    those in        500,000    those out      707,107  →  353,554     rate 1/2
//! layer 4    …
//!
//! query      layer 1 no → out    layer 2 no → in    layer 3 no → out    …    the last says maybe:
//!                                                                            what it holds
//! ```
//!
//! Each layer has its own salt. With the same hashes in all layers, a key for which one layer is
//! wrong would be more likely to be wrong in a later one too, and the layers would not shrink.
//!
//! The sizes: at the rate 1/2 a key takes 1.44 bits, and each layer from the third on holds half as
//! many keys as the layer two before it. With `r` keys in and `s` out, the first layer has the rate
//! `r·√½ / s`, so the second layer holds `r·√½` keys. Smaller or larger rates of the first layer
//! cost more in total (CRLite).
//!
//! Invariant: each key of the universe is answered correctly. Other keys get an arbitrary answer.

use alloc::vec::Vec;

use super::bloom::{BloomFilter, Layout};
use super::shared::mix;
use crate::math::sqrt;

/// The rate of every layer but the first. Such a layer is wrong for half of the keys for which it
/// is queried, and the next layer holds these.
const RATE: f64 = 0.5;
/// Each layer from the third on holds half as many keys as the layer two before it, so no set of
/// keys that fits into memory needs more layers. Only a hash that is both in and out would: every
/// layer is wrong for it.
const MAX_LAYERS: usize = 128;

/// One layer, for reports.
///
/// ```
/// use maypole_filter::textbook::cascade::Cascade;
///
/// let (revoked, good): (Vec<u64>, Vec<u64>) = ((0..100).collect(), (100..10_000).collect());
/// let cascade = Cascade::new(&revoked, &good).expect("no key is in both");
/// // The first layer holds all keys that are in. The later ones are wrong for half.
/// let layers: Vec<_> = cascade.layers().collect();
/// assert_eq!(layers[0].keys, 100);
/// assert!(layers[1..].iter().all(|layer| layer.rate == 0.5));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerInfo {
    /// Keys in the layer.
    pub keys: usize,
    /// Bits of its array.
    pub bits: usize,
    /// The rate for which it was made.
    pub rate: f64,
}

/// A filter cascade.
///
/// ```
/// use maypole_filter::textbook::cascade::Cascade;
///
/// let (revoked, good): (Vec<u64>, Vec<u64>) = ((0..100).collect(), (100..10_000).collect());
/// let cascade = Cascade::new(&revoked, &good).expect("no key is in both");
/// assert!(revoked.iter().all(|&key| cascade.contains(key)));
/// assert!(!good.iter().any(|&key| cascade.contains(key)), "no false positive either");
/// assert!(Cascade::new(&[1], &[1]).is_none());
/// ```
#[derive(Clone)]
pub struct Cascade {
    layers: Vec<(BloomFilter, LayerInfo)>,
}

/// The hash that layer `layer` uses.
fn salted(hash: u64, layer: usize) -> u64 {
    mix(hash, 0x5a17 + layer as u64)
}

impl Cascade {
    /// A cascade that answers "in" for all of `included` and "out" for all of `excluded`. `None` if
    /// that is impossible because a hash is in both.
    pub fn new(included: &[u64], excluded: &[u64]) -> Option<Cascade> {
        let (r, s) = (included.len() as f64, excluded.len() as f64);
        let first_rate = (r * sqrt(0.5) / s).clamp(1e-12, RATE);
        let mut cascade = Cascade { layers: Vec::new() };
        let (mut holds, mut asked) = (included.to_vec(), excluded.to_vec());
        while !holds.is_empty() {
            let layer = cascade.layers.len();
            if layer == MAX_LAYERS {
                return None;
            }
            let rate = if layer == 0 { first_rate } else { RATE };
            let mut filter = BloomFilter::for_rate(Layout::Shared, holds.len(), rate);
            holds.iter().for_each(|&hash| {
                filter.insert(salted(hash, layer));
            });
            asked.retain(|&hash| filter.contains(salted(hash, layer)));
            let info = LayerInfo { keys: holds.len(), bits: filter.bits(), rate };
            cascade.layers.push((filter, info));
            // The next layer holds the keys for which this layer is wrong, and is queried for the
            // keys that this layer holds.
            (holds, asked) = (asked, holds);
        }
        Some(cascade)
    }

    /// Whether a key of the universe is in. The layers hold, alternately, keys that are in and keys
    /// that are out. The first layer that answers "no" decides: the key is of the other kind. If no
    /// layer answers "no", the last layer holds the key.
    pub fn contains(&self, hash: u64) -> bool {
        let says_no = |(layer, (filter, _)): (usize, &(BloomFilter, LayerInfo))| {
            !filter.contains(salted(hash, layer))
        };
        let agreeing = self.layers.iter().enumerate().position(says_no);
        // Layers 0, 2, … hold keys that are in.
        agreeing.unwrap_or(self.layers.len()) % 2 == 1
    }

    /// The layers, from the first.
    pub fn layers(&self) -> impl Iterator<Item = LayerInfo> {
        self.layers.iter().map(|&(_, info)| info)
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.layers.iter().map(|(filter, _)| filter.bytes()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::formulas;
    use super::super::shared::{keys, share};
    use super::*;

    #[test]
    fn the_whole_universe_is_answered_rightly() {
        for (r, s) in [(0, 10), (10, 0), (1, 1), (1000, 1000), (500, 20_000), (5000, 50)] {
            let (included, excluded) = (keys(1, 0..r), keys(2, 0..s));
            let cascade = Cascade::new(&included, &excluded).unwrap();
            assert!(included.iter().all(|&key| cascade.contains(key)), "{r} {s}");
            assert!(!excluded.iter().any(|&key| cascade.contains(key)), "{r} {s}");
        }
    }

    #[test]
    fn layers_halve_every_two_steps_and_cost_what_the_sum_says() {
        let (included, excluded) = (keys(3, 0..4000), keys(4, 0..100_000));
        let cascade = Cascade::new(&included, &excluded).unwrap();
        let layers: Vec<_> = cascade.layers().collect();
        assert_eq!(layers[0].keys, 4000);
        for three in layers.windows(3).take_while(|three| three[2].keys > 300) {
            let ratio = three[2].keys as f64 / three[0].keys as f64;
            assert!((ratio - 0.5).abs() < 0.1, "{layers:?}");
        }
        // A key takes 1.44 bits for each halving of the rate. The first layer halves the rate
        // log2(s/r) + 1/2 times, and each later layer once. The second, fourth, … layers together
        // hold √½ + √½/2 + … = 2 · √½ times as many keys as the first layer; the third, fifth, …
        // layers together hold 1/2 + 1/4 + … = 1 times as many.
        let bits_per_key = cascade.bytes() as f64 * 8.0 / 4000.0;
        let expected = 1.44 * (25f64.log2() + 0.5 + 2.0 * 0.5f64.sqrt() + 1.0);
        assert!((bits_per_key / expected - 1.0).abs() < 0.15, "{bits_per_key} {expected}");
        // A single filter that is right for all 100,000 keys out with a probability of 90 % would
        // be larger.
        assert!(bits_per_key < formulas::bits_per_key(0.1 / 100_000.0));
    }

    #[test]
    fn a_stranger_gets_any_answer() {
        let cascade = Cascade::new(&keys(5, 0..2000), &keys(6, 0..2000)).unwrap();
        let rate = share(&keys(7, 0..10_000), |key| cascade.contains(key));
        assert!((0.1..0.7).contains(&rate), "{rate}");
    }

    #[test]
    fn a_key_that_is_in_and_out_makes_no_cascade() {
        assert!(Cascade::new(&keys(8, 0..100), &keys(8, 99..200)).is_none());
    }
}
