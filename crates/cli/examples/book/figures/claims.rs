//! Common claims about Bloom filters, and what the formula gives for each.

use std::f64::consts::LN_2;
use std::fmt::Write;

use maypole::filter::sizing::{bloom_fpr, lower_bound_bits_per_key, standard_bloom_fpr};

pub fn claims() -> String {
    let bits = |rate: f64| lower_bound_bits_per_key(rate) / LN_2;
    let mut out = String::new();
    let mut line = |what: &str, figure: String| writeln!(out, "{what:<52} {figure}").unwrap();
    line("memory for 0.01 divided by that for 0.1", format!("{:.2}", bits(0.01) / bits(0.1)));
    line("bits a key for 1 %, best k", format!("{:.3}", bits(0.01)));
    line("bits a key for 0.1 %, best k", format!("{:.3}", bits(0.001)));
    line("bits a key for a factor of ten", format!("{:.2}", bits(0.001) - bits(0.01)));
    line("10 bits, k = 7, textbook", format!("{:.3} %", standard_bloom_fpr(10.0, 7) * 100.0));
    line("10 bits, RocksDB's and Maypole's format", format!("{:.3} %", bloom_fpr(10_000) * 100.0));
    line("20 bits, RocksDB's and Maypole's format", format!("{:.4} %", bloom_fpr(20_000) * 100.0));
    line("20 bits, k = 14, textbook", format!("{:.4} %", standard_bloom_fpr(20.0, 14) * 100.0));
    line(
        "10 bits, k = 7, five times the planned keys",
        format!("{:.1} %", standard_bloom_fpr(2.0, 7) * 100.0),
    );
    let divides = |more: f64| format!("{:.2}", (more * LN_2).exp2());
    line("0.7 bits more divide the rate by", divides(0.7));
    line("1.44 bits more divide the rate by", divides(1.44));
    line("a million keys at 1 %, bytes", format!("{:.0}", bits(0.01) * 1e6 / 8.0));
    out
}
