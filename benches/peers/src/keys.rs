//! The keys of all workloads: 20 bytes, in no order, each a function of its number.

/// Bytes of a key.
pub const KEY_BYTES: usize = 20;

/// A bijection of 64-bit numbers: the finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Key number `n`. Numbers below the entries loaded are present; those above lie between them.
pub fn key(n: u64) -> [u8; KEY_BYTES] {
    let mut key = *b"user0000000000000000";
    let mixed = mix(n + 1);
    for (i, byte) in key[4..].iter_mut().enumerate() {
        *byte = b"0123456789abcdef"[(mixed >> (60 - 4 * i)) as usize & 15];
    }
    key
}

/// Key number `n` of a fill in key order.
pub fn ordered_key(n: u64) -> [u8; KEY_BYTES] {
    let mut key = [b'0'; KEY_BYTES];
    let mut rest = n;
    for byte in key.iter_mut().rev() {
        *byte = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// The value of key number `n`: bytes that do not compress.
pub fn value(n: u64, bytes: usize, out: &mut Vec<u8>) {
    out.clear();
    let mut word = n;
    while out.len() < bytes {
        word = mix(word.wrapping_add(0x9e37_79b9_7f4a_7c15));
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.truncate(bytes);
}

/// Numbers that look random, the same for every engine.
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Numbers {
        Numbers(seed)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        ((u128::from(mix(self.0)) * u128::from(bound)) >> 64) as u64
    }
}
