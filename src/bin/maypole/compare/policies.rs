//! The list of policies on the command line. `BITS` in a policy stands for each of several numbers.

use maypole::FilterPolicy;

use crate::args;

/// The word that stands for each of `--bits`.
const NAME: &str = "BITS";

/// A list of policies, some with [`NAME`] in them.
#[derive(Debug, Clone)]
pub struct Templates(Vec<String>);

/// Numbers of bits a key.
#[derive(Debug, Clone)]
pub struct Bits(pub Vec<f64>);

/// Reads a list such as `none,bloom(BITS),levels(bloom(BITS+4), bloom(BITS))`.
pub fn templates(text: &str) -> Result<Templates, String> {
    // Whether the list is valid does not depend on the bits.
    args::policies(&fill_in(text, 8.0))?;
    Ok(Templates(args::outer_commas(text).map(str::to_string).collect()))
}

/// Reads a list such as `4,7,10`.
pub fn bits(text: &str) -> Result<Bits, String> {
    let each = text.split(',').map(|number| match number.trim().parse() {
        Ok(bits) if (1.0..=28.0).contains(&bits) => Ok(bits),
        _ => Err(format!("{number:?}: expected bits a key between 1 and 28, such as 4,7,10")),
    });
    each.collect::<Result<_, _>>().map(Bits)
}

impl Templates {
    /// The policies that the templates stand for. A template with `BITS` gives one policy for each
    /// of `bits`.
    pub fn policies(&self, bits: &Bits) -> Result<Vec<FilterPolicy>, String> {
        let mut policies = Vec::new();
        for template in &self.0 {
            let once = [bits.0[0]];
            let each = if template.contains(NAME) { &bits.0[..] } else { &once };
            for &bits in each {
                let policy = fill_in(template, bits).parse::<FilterPolicy>();
                policies.push(policy.map_err(|error| error.to_string())?);
            }
        }
        Ok(policies)
    }
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

    #[test]
    fn bits_are_filled_in_one_after_the_other() {
        let text = "none,bloom(BITS),levels(bloom(BITS+2.5), burr(BITS)),budget(BITS/key, burr)";
        let policies = templates(text).unwrap().policies(&bits("4, 7").unwrap()).unwrap();
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
    fn what_cannot_be_read_is_refused() {
        for wrong in ["", "bloom(BITS+x)", "bloom(BIT)", "blom(BITS)", "none,"] {
            assert!(templates(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "0", "0.5", "-3", "nan", "5,,6", "64"] {
            assert!(bits(wrong).is_err(), "{wrong}");
        }
    }
}
