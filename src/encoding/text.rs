//! Bytes and numbers as text, as `maypole explain` and the other commands print them.

use std::fmt::Write;

/// Bytes as text: printable UTF-8 as it is, a backslash as `\\`, every other byte as `\xNN`.
/// [`unescape`] turns this text back into the same bytes.
pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let push_hex = |text: &mut String, bytes: &[u8]| {
        for byte in bytes {
            let _ = write!(text, "\\x{byte:02x}");
        }
    };
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                c if c.is_control() => push_hex(&mut text, c.encode_utf8(&mut [0; 4]).as_bytes()),
                c => text.push(c),
            }
        }
        push_hex(&mut text, chunk.invalid());
    }
    text
}

/// The bytes that a text of [`escape`] stands for: `\xNN` is a byte, `\\` a backslash, and a
/// backslash before anything else is itself.
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

/// A number of bytes in the largest unit that it reaches: `999 B`, `1.19 MiB`, `52.0 GiB`. A number
/// of KiB or more has two decimals below 10 and one from 10 on.
pub fn size(bytes: u64) -> String {
    match in_units(bytes) {
        None => format!("{bytes} B"),
        Some((value, unit)) if value < 10.0 => format!("{value:.2} {unit}"),
        Some((value, unit)) => format!("{value:.1} {unit}"),
    }
}

/// The largest unit that a number of bytes reaches, and the number in that unit. `None` below 1
/// KiB.
pub(crate) fn in_units(bytes: u64) -> Option<(f64, &'static str)> {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let (unit, shift) = units.into_iter().find(|(_, shift)| bytes >> shift > 0)?;
    Some((bytes as f64 / (1u64 << shift) as f64, unit))
}

/// A count with its thousands set apart: `1,886`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with the noun `thing`, which is given in the singular: `1 table`, `1,886 entries`.
pub fn counted(number: u64, thing: &str) -> String {
    // `entry` becomes `entries`, but `key` becomes `keys`.
    let stem = thing.strip_suffix('y').filter(|stem| !stem.ends_with('e'));
    match (number, stem) {
        (1, _) => format!("1 {thing}"),
        (_, Some(stem)) => format!("{} {stem}ies", count(number)),
        (_, None) if thing.ends_with('x') => format!("{} {thing}es", count(number)),
        (_, None) => format!("{} {thing}s", count(number)),
    }
}

/// A rate as a percentage with three significant digits and at most four decimals: `0.958 %`.
pub fn percent(rate: f64) -> String {
    let percent = rate * 100.0;
    let decimals = match percent {
        p if p >= 99.95 => 0,
        p if p >= 9.995 => 1,
        p if p >= 0.9995 => 2,
        p if p >= 0.09995 => 3,
        _ => 4,
    };
    format!("{percent:.decimals$} %")
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn numbers_are_short() {
        assert_eq!([size(999), size(1_250_000), size(52 << 30)], ["999 B", "1.19 MiB", "52.0 GiB"]);
        assert_eq!([count(7), count(1886), count(1_000_000)], ["7", "1,886", "1,000,000"]);
        assert_eq!(counted(1, "table") + ", " + &counted(0, "table"), "1 table, 0 tables");
        assert_eq!(counted(2, "key"), "2 keys");
        assert_eq!(counted(1, "entry") + ", " + &counted(1886, "entry"), "1 entry, 1,886 entries");
        assert_eq!(
            [percent(0.0), percent(0.000826), percent(0.00958), percent(0.0929), percent(1.0)],
            ["0.0000 %", "0.0826 %", "0.958 %", "9.29 %", "100 %"]
        );
    }
}
