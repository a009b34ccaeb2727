//! What tutorials say of filters. Each statement is compared with a measurement.
//!
//! ```text
//! lab       keys, and the small experiments that several claims share
//! sizes     what a structure takes: bits a key, kilobytes, shares of data and memory
//! rates     what a size gives: the false-positive rates of filters, sized well and badly
//! times     what a build and a query cost
//! hashing   two hashes or many, slow ones, bad ones, steps of zero
//! digests   MD5, SHA-256 and Java's String.hashCode, to be measured
//! ```
//!
//! The code states no verdict: it computes each from the figures, by the rule that is printed with
//! the claim.

mod claim;
mod digests;
mod hashing;
mod lab;
mod rates;
mod sizes;
mod times;

use std::io::Write;

use serde_json::json;

use crate::failure::Result;
use crate::output::{self, json_object, object};
use crate::progress;
use crate::show::sheet::Screen;
use crate::show::text::counted;
use claim::HERE;
pub use claim::{Claim, Verdict};
use lab::Lab;

/// Measures a claim, or several that need the same measurement.
type Measurement = fn(&Lab) -> Result<Vec<Claim>>;

const MEASUREMENTS: &[Measurement] = &[
    sizes::counting,
    sizes::cuckoo,
    sizes::ribbon,
    times::ribbon,
    sizes::quotient,
    times::quotient_merging,
    rates::five_times_the_keys,
    rates::bits_that_halve,
    rates::bits_for_a_tenth,
    rates::bits_for_one_percent,
    sizes::a_million_urls,
    rates::whole_hashes,
    hashing::two_hashes,
    hashing::digests,
    hashing::polynomials,
    hashing::zero_step,
    rates::reads_saved,
    sizes::share_of_data,
    rates::rocksdb_ten_bits,
];

pub fn measure(keys: usize, seed: u64) -> Result<Vec<Claim>> {
    let lab = Lab::new(keys, seed);
    let bar = progress::bar(MEASUREMENTS.len() as u64, "measuring claims");
    let mut claims = Vec::new();
    for measure in MEASUREMENTS {
        claims.extend(measure(&lab)?);
        bar.inc(1);
    }
    Ok(claims)
}

/// The command that measures the claims again.
pub fn command(keys: usize, seed: u64) -> String {
    format!("{HERE} --keys {keys} --seed {seed}")
}

/// How many claims are true, half true and false, in words.
pub fn tally(claims: &[Claim]) -> String {
    let of = |verdict| claims.iter().filter(|claim| claim.verdict == verdict).count();
    let verdicts = [Verdict::True, Verdict::HalfTrue, Verdict::False, Verdict::NotSettled];
    let counts = verdicts.map(|verdict| (of(verdict), verdict)).into_iter();
    let told = counts.filter(|(count, verdict)| *count > 0 || *verdict != Verdict::NotSettled);
    told.map(|(count, verdict)| format!("{count} {verdict}")).collect::<Vec<_>>().join(", ")
}

pub fn print(claims: &[Claim], keys: usize, seed: u64, out: &mut dyn Write) -> Result {
    let screen = Screen::stdout();
    for claim in claims {
        let Claim { says, source, verdict, rule, because, .. } = claim;
        let figures = claim.figures().map(|(name, figure)| format!("{name} {figure}"));
        let mut lines = vec![
            says.to_string(),
            format!("Said by: {source}"),
            format!("Measured: {}", figures.collect::<Vec<_>>().join(", ")),
            format!("Rule: {rule}"),
        ];
        lines.extend(claim.instead().map(|instead| format!("Instead: {instead}")));
        lines.push(because.to_string());
        lines.extend(claim.more().map(|more| format!("More: {more}")));
        let verdict = verdict.to_string();
        for (n, line) in lines.iter().enumerate() {
            let label = if n == 0 { verdict.as_str() } else { "" };
            writeln!(out, "{}", screen.wrap_beside(&format!("{label:>11}"), line))?;
        }
        writeln!(out)?;
    }
    let lines = [
        format!("{}: {}", counted(claims.len() as u64, "claim"), tally(claims)),
        format!("Measured by: {}", command(keys, seed)),
        format!("Note: {}, one thread.", output::machine()),
    ];
    screen.say(lines, out)
}

pub fn to_json(claim: &Claim) -> String {
    let figures = claim.figures.iter().map(|(name, _, figure)| (name, figure));
    object! { claim =>
        claim = json!(claim.says), source, verdict = json!(claim.verdict.to_string()),
        figures = json_object(figures), rule, instead = json!(claim.instead()), because, see
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_follow_the_figures() {
        let of = |figure| Verdict::of(figure, 0.9..=1.1, 0.5..=1.5);
        assert_eq!([1.0, 1.1, 1.2, 0.5, 1.6].map(of), {
            use Verdict::*;
            [True, True, HalfTrue, HalfTrue, False]
        });
        assert_eq!(of(f64::NAN), Verdict::False);
        assert_eq!(Verdict::of_cases(&[true, true]), Verdict::True);
        assert_eq!(Verdict::of_cases(&[true, false]), Verdict::HalfTrue);
        assert_eq!(Verdict::of_cases(&[false]), Verdict::False);
        // On a busy machine a claim that times decide was once "false, 44 times".
        assert_eq!(of(44.0).by_times(1.1), Verdict::False);
        assert_eq!(of(44.0).by_times(3.0), Verdict::NotSettled);
    }
}
