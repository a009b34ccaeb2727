//! How bytes and numbers are shown, and how bytes are read back.

/// The library's own source: its functions are no part of the public API.
#[path = "../../../encoding/text.rs"]
mod shared;

pub use shared::{count, counted, escape, percent, size};

/// The bytes that `text` stands for: `\xNN` is a byte, `\\` a backslash, and a backslash before
/// anything else is itself.
pub fn unescape(text: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first != b'\\' {
            bytes.push(first);
            continue;
        }
        match *rest {
            [b'\\', ..] => {
                bytes.push(b'\\');
                rest = &rest[1..];
            }
            [b'x', high, low, ..] => match (digit(high), digit(low)) {
                (Some(high), Some(low)) => {
                    bytes.push(high << 4 | low);
                    rest = &rest[3..];
                }
                _ => bytes.push(b'\\'),
            },
            _ => bytes.push(b'\\'),
        }
    }
    bytes
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
