//! The hashes that tutorials use: MD5, SHA-256 and polynomials such as Java's `String.hashCode`.
//!
//! They are here only to be measured, and written plainly, without the processor's SHA
//! instructions, which are faster. The filters of the database do not use them.
//!
//! Literature: RFC 1321 (MD5), FIPS 180-4 (SHA-256).

/// `s[0]·31^(n-1) + … + s[n-1]` in 32 bits, with `factor` in the place of 31.
pub fn polynomial(bytes: &[u8], factor: u32) -> u32 {
    bytes.iter().fold(0u32, |sum, &byte| sum.wrapping_mul(factor).wrapping_add(byte.into()))
}

/// The message, followed by the padding of both digests: a set bit, zeros, and `length`, the
/// message's length in bits.
fn padded(message: &[u8], length: [u8; 8]) -> Vec<u8> {
    let mut padded = message.to_vec();
    padded.push(0x80);
    padded.resize((message.len() + 9).next_multiple_of(64) - 8, 0);
    padded.extend(length);
    padded
}

/// The fractional part of `x`, as a word of 32 bits.
fn fraction(x: f64) -> u32 {
    (x.fract() * 4_294_967_296.0) as u32
}

/// MD5's constants: the first 32 bits of the fractions of |sin i|, for `i` from 1 to 64.
pub struct Md5 {
    sines: [u32; 64],
}

impl Md5 {
    pub fn new() -> Md5 {
        Md5 { sines: std::array::from_fn(|i| fraction_of_sine(i + 1)) }
    }

    /// The first half of the digest.
    pub fn hash(&self, message: &[u8]) -> u64 {
        const TURNS: [[u32; 4]; 4] =
            [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
        let mut state = [0x6745_2301u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
        let message = padded(message, (message.len() as u64 * 8).to_le_bytes());
        for block in message.as_chunks::<64>().0 {
            let bytes = block.as_chunks::<4>().0;
            let words: [u32; 16] = std::array::from_fn(|i| u32::from_le_bytes(bytes[i]));
            let [mut a, mut b, mut c, mut d] = state;
            for i in 0..64 {
                let (mixed, word) = match i / 16 {
                    0 => (b & c | !b & d, i),
                    1 => (d & b | !d & c, 5 * i + 1),
                    2 => (b ^ c ^ d, 3 * i + 5),
                    _ => (c ^ (b | !d), 7 * i),
                };
                let sum = a
                    .wrapping_add(mixed)
                    .wrapping_add(self.sines[i])
                    .wrapping_add(words[word % 16]);
                (a, d, c) = (d, c, b);
                b = b.wrapping_add(sum.rotate_left(TURNS[i / 16][i % 4]));
            }
            let mixed = state.iter_mut().zip([a, b, c, d]);
            mixed.for_each(|(word, more)| *word = word.wrapping_add(more));
        }
        u64::from(state[0].swap_bytes()) << 32 | u64::from(state[1].swap_bytes())
    }
}

fn fraction_of_sine(i: usize) -> u32 {
    fraction((i as f64).sin().abs())
}

/// SHA-256's constants: the first 32 bits of the fractions of the square roots of the first 8
/// primes, and of the cube roots of the first 64.
pub struct Sha256 {
    start: [u32; 8],
    rounds: [u32; 64],
}

impl Sha256 {
    pub fn new() -> Sha256 {
        let is_prime = |n: &u32| (2..*n).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
        let primes: Vec<f64> = (2..).filter(is_prime).take(64).map(f64::from).collect();
        Sha256 {
            start: std::array::from_fn(|i| fraction(primes[i].sqrt())),
            rounds: std::array::from_fn(|i| fraction(primes[i].cbrt())),
        }
    }

    /// The first quarter of the digest.
    pub fn hash(&self, message: &[u8]) -> u64 {
        let mut state = self.start;
        let message = padded(message, (message.len() as u64 * 8).to_be_bytes());
        for block in message.as_chunks::<64>().0 {
            let mut w = [0u32; 64];
            for (word, bytes) in w.iter_mut().zip(block.as_chunks::<4>().0) {
                *word = u32::from_be_bytes(*bytes);
            }
            for i in 16..64 {
                let (x, y) = (w[i - 15], w[i - 2]);
                let low = x.rotate_right(7) ^ x.rotate_right(18) ^ x >> 3;
                let high = y.rotate_right(17) ^ y.rotate_right(19) ^ y >> 10;
                w[i] = w[i - 16].wrapping_add(low).wrapping_add(w[i - 7]).wrapping_add(high);
            }
            let mut s = state;
            for (word, round) in w.iter().zip(self.rounds) {
                let [a, b, c, _, e, f, g, h] = s;
                let high = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
                let first = h.wrapping_add(high).wrapping_add(e & f ^ !e & g);
                let first = first.wrapping_add(round).wrapping_add(*word);
                let low = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
                let second = low.wrapping_add(a & b ^ a & c ^ b & c);
                s.rotate_right(1);
                s[4] = s[4].wrapping_add(first);
                s[0] = first.wrapping_add(second);
            }
            state.iter_mut().zip(s).for_each(|(word, more)| *word = word.wrapping_add(more));
        }
        u64::from(state[0]) << 32 | u64::from(state[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_their_standards() {
        let (md5, sha256) = (Md5::new(), Sha256::new());
        assert_eq!(md5.hash(b""), 0xd41d_8cd9_8f00_b204);
        assert_eq!(md5.hash(b"abc"), 0x9001_5098_3cd2_4fb0);
        assert_eq!(md5.hash(b"abcdefghijklmnopqrstuvwxyz"), 0xc3fc_d3d7_6192_e400);
        assert_eq!(sha256.hash(b""), 0xe3b0_c442_98fc_1c14);
        assert_eq!(sha256.hash(b"abc"), 0xba78_16bf_8f01_cfea);
        let long = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        assert_eq!(sha256.hash(long), 0x248d_6a61_d206_38b8);
        // "Aa" and "BB" are the collision that every Java programmer knows.
        assert_eq!([polynomial(b"Aa", 31), polynomial(b"BB", 31)], [2112, 2112]);
    }
}
