//! Reads the list of policies on the command line. The word `BITS` in a policy stands for each
//! number of `--bits`.

use maypole::FilterPolicy;

/// The word that stands for each number of `--bits`.
const NAME: &str = "BITS";

/// The least number that `--bits` takes.
pub const LEAST_BITS: f64 = 1.0;

/// Checks a list such as `none,bloom(BITS),levels(bloom(BITS+4), bloom(BITS))`.
pub fn valid(list: &str) -> Result<String, String> {
    // The bits are not known yet, so the least number that `--bits` takes replaces `BITS`. If a
    // number of `--bits` is too large for a policy, [`of`] fails later.
    of(list, &[LEAST_BITS]).map(|_| list.to_string())
}

/// The policies of a list. An item with `BITS` in it gives a policy for each of `bits`.
pub fn of(list: &str, bits: &[f64]) -> Result<Vec<FilterPolicy>, String> {
    let mut policies = Vec::new();
    for template in outer_commas(list) {
        let each = if template.contains(NAME) { bits } else { &bits[..1] };
        for &bits in each {
            let policy = fill_in(template, bits).parse::<FilterPolicy>();
            policies.push(policy.map_err(|error| error.to_string())?);
        }
    }
    Ok(policies)
}

/// The items of a list: commas inside parentheses separate nothing.
fn outer_commas(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0u32;
    text.split(move |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
}

/// Replaces `BITS` by `bits`, and `BITS+4` by four more.
fn fill_in(template: &str, bits: f64) -> String {
    let mut parts = template.split(NAME);
    let mut text = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let (more, rest) = match part.strip_prefix('+') {
            None => (0.0, part),
            Some(sum) => {
                let is_digit = |c: char| c.is_ascii_digit() || c == '.';
                let digits = sum.find(|c| !is_digit(c)).unwrap_or(sum.len());
                (sum[..digits].parse().unwrap_or(f64::NAN), &sum[digits..])
            }
        };
        text += &format!("{}{rest}", bits + more);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn bits_are_filled_in_one_after_the_other() {
        let text = "none,bloom(BITS),levels(bloom(BITS+2.5), burr(BITS)),budget(BITS/key, burr)";
        let policies = of(text, &[4.0, 7.0]).unwrap();
        let policies: Vec<String> = policies.iter().map(ToString::to_string).collect();
        let expected = [
            "none",
            "bloom(4)",
            "bloom(7)",
            "levels(bloom(6.5), burr(4))",
            "levels(bloom(9.5), burr(7))",
            "budget(4/key, burr)",
            "budget(7/key, burr)",
        ];
        assert_eq!(policies, expected);
    }

    #[test]
    fn a_list_of_policies_is_cut_at_its_outer_commas() {
        let list = of("none, bloom:5,fpr(0.01, bloom),fpr:0.1:bloom", &[8.0]).unwrap();
        let texts: Vec<String> = list.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["none", "bloom(5)", "fpr(0.01)", "fpr(0.1)"]);
        for wrong in ["", ",", "none,", "bloom(10", "bloom(10),blom(10)", "bloom)10("] {
            assert!(valid(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for wrong in ["", "bloom(BITS+x)", "bloom(BIT)", "blom(BITS)", "none,"] {
            assert!(valid(wrong).is_err(), "{wrong}");
        }
        let call = |bits| crate::Cli::try_parse_from(["maypole", "compare", "--bits", bits]);
        assert!(call("4, 7").is_ok());
        for wrong in ["", "0", "0.5", "-3", "nan", "5,,6", "64"] {
            assert!(call(wrong).is_err(), "{wrong}");
        }
    }

    /// Regression: the list was checked with 8 bits for `BITS`, so `BITS+26` was refused as 34
    /// bits, although `--bits 4` makes it 30, which is allowed.
    #[test]
    fn the_sum_of_bits_may_reach_the_most_bits() {
        let call = |policies| {
            crate::Cli::try_parse_from([
                "maypole",
                "compare",
                "--bits",
                "4",
                "--policies",
                policies,
            ])
        };
        assert!(call("ribbon(BITS+26)").is_ok());
        assert!(call("ribbon(BITS+32)").is_err());
        assert_eq!(of("ribbon(BITS+26)", &[4.0]).unwrap()[0].to_string(), "ribbon(30)");
        assert!(of("ribbon(BITS+29)", &[4.0]).is_err());
    }
}
