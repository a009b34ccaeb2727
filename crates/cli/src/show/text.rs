//! Text of bytes, counts and sizes, from [`maypole::text`]; and [`unescape`], which reads back the
//! bytes that [`escape`] has shown.

pub use maypole::text::{count, counted, escape, percent, size};

/// A number of blocks or reads, with four decimals, or with the two first digits if it is small.
pub fn small(number: f64) -> String {
    match number {
        0.0 => "0".into(),
        _ => {
            let decimals = 1 - number.abs().log10().floor() as i32;
            format!("{number:.*}", decimals.clamp(4, 12) as usize)
        }
    }
}

/// The bytes that `text` stands for: `\xNN` is a byte, `\\` a backslash, and a backslash before
/// anything else is itself.
pub fn unescape(text: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(&first) = rest.first() {
        let escaped = match *rest {
            [b'\\', b'\\', ..] => Some((b'\\', 2)),
            [b'\\', b'x', high, low, ..] => {
                digit(high).zip(digit(low)).map(|(high, low)| (high << 4 | low, 4))
            }
            _ => None,
        };
        let (byte, length) = escaped.unwrap_or((first, 1));
        bytes.push(byte);
        rest = &rest[length..];
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Low rates gave columns of 0.0000.
    #[test]
    fn small_numbers_keep_two_digits() {
        let shown = [0.0, 1.0, 0.0957, 0.001_234, 0.000_012_34, 1e-7].map(small);
        assert_eq!(shown, ["0", "1.0000", "0.0957", "0.0012", "0.000012", "0.00000010"]);
    }

    #[test]
    fn bytes_come_back_from_their_text() {
        let all: Vec<u8> = (0..=255).collect();
        for bytes in [
            &b""[..],
            b"plain key",
            b"a\\b \\x41 \\\\",
            b"\0\xff\n\t\x7f",
            "Stra\u{df}e \u{1f338} \u{85}".as_bytes(),
            b"caf\xc3",
            &all,
        ] {
            let text = escape(bytes);
            assert_eq!(unescape(text.as_bytes()), bytes, "{text}");
            assert!(!text.chars().any(char::is_control), "{text}");
        }
        assert_eq!(escape(b"k\0\xff\\"), "k\\x00\\xff\\\\");
        assert_eq!(unescape(b"C:\\dir\\x4\\xzz\\"), b"C:\\dir\\x4\\xzz\\");
    }
}
