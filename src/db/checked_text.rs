//! Text files whose last line is the checksum of the lines before it, such as `STATS`.

/// Appends the line with the CRC-32C of all bytes before it.
pub(super) fn with_checksum(text: String) -> String {
    let crc = crc32c::crc32c(text.as_bytes());
    format!("{text}crc32c {crc:08x}\n")
}

/// Where the last line begins.
pub(super) fn last_line_at(bytes: &[u8]) -> usize {
    let end = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    end.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1)
}

/// The lines between the first and the checksum, each with its offset. `None` if the checksum is
/// wrong or missing, or the bytes are not UTF-8.
pub(super) fn checked_lines(bytes: &[u8]) -> Option<impl Iterator<Item = (usize, &str)>> {
    let (checked, last) = bytes.split_at(last_line_at(bytes));
    let last = str::from_utf8(last).ok()?;
    if last != format!("crc32c {:08x}\n", crc32c::crc32c(checked)) {
        return None;
    }
    let text = str::from_utf8(checked).ok()?;
    let mut offset = 0;
    let lines = text.split_terminator('\n').map(move |line| {
        let at = offset;
        offset += line.len() + 1;
        (at, line)
    });
    Some(lines.skip(1))
}
