//! A table of three entries, byte by byte.

use std::fmt::Write;
use std::io::Read;

use maypole::filter::FilterSpec;
use maypole::table::{BlockHandle, Compression, SstReader, SstWriter, TableOptions};

/// Appends `bytes` bytes of the file from offset `from` on in hexadecimal, 16 a line. The first
/// line ends with their meaning.
fn hex(out: &mut String, file: &[u8], from: usize, bytes: usize, meaning: &str) {
    for (i, line) in file[from..from + bytes].chunks(16).enumerate() {
        let text: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let said = if i == 0 { meaning } else { "" };
        let line = format!("{:>4}  {:<47}  {said}", from + 16 * i, text.join(" "));
        writeln!(out, "{}", line.trim_end()).unwrap();
    }
}

/// Appends the five bytes that follow a block: its compression type and its checksum.
fn trailer(out: &mut String, file: &[u8], block: BlockHandle) {
    let at = (block.offset + block.bytes) as usize;
    hex(out, file, at, 1, "compression: none");
    hex(out, file, at + 1, 4, "checksum of the block and the byte before");
}

pub fn dump() -> String {
    let directory = tempfile::tempdir().expect("a directory for the table");
    let path = directory.path().join("fruit.sst");
    let options = TableOptions {
        compression: Compression::None,
        filter: FilterSpec::bloom(10.0).expect("10 bits are allowed"),
        ..TableOptions::default()
    };
    let mut writer = SstWriter::create(&path, options).unwrap();
    for (key, value) in [("apple", "red"), ("apricot", "orange"), ("pear", "green")] {
        writer.put(key.as_bytes(), value.as_bytes()).unwrap();
    }
    writer.finish().unwrap();

    let mut file = Vec::new();
    std::fs::File::open(&path).unwrap().read_to_end(&mut file).unwrap();
    let table = SstReader::open(&path).unwrap();
    let is_filter = |name: &str| name.starts_with("fullfilter.");
    let (_, filter) = table.metaindex().iter().find(|(name, _)| is_filter(name)).unwrap().clone();
    let footer = table.footer();
    let index = footer.index.unwrap();
    let data = BlockHandle { offset: 0, bytes: filter.offset - 5 };

    let mut out = String::from("data block\n");
    hex(&mut out, &file, 0, 3, "shares 0 bytes, 13 more, value of 3");
    hex(&mut out, &file, 3, 13, "`apple`, then sequence 0 and kind 1");
    hex(&mut out, &file, 16, 3, "`red`");
    hex(&mut out, &file, 19, 3, "shares 2 bytes, 13 more, value of 6");
    hex(&mut out, &file, 22, 13, "`ricot`, then sequence 0 and kind 1");
    hex(&mut out, &file, 35, 6, "`orange`");
    hex(&mut out, &file, 41, 3, "shares 0 bytes, 12 more, value of 5");
    hex(&mut out, &file, 44, 12, "`pear`, then sequence 0 and kind 1");
    hex(&mut out, &file, 56, 5, "`green`");
    hex(&mut out, &file, 61, 4, "the one restart point: offset 0");
    hex(&mut out, &file, 65, 4, "so many restart points");
    trailer(&mut out, &file, data);
    writeln!(out, "filter block, {} bytes", filter.bytes).unwrap();
    hex(&mut out, &file, filter.offset as usize, 64, "one line of 512 bits");
    let marks = filter.offset as usize + 64;
    hex(&mut out, &file, marks, 5, "not legacy, kind 0, k = 6, reserved");
    trailer(&mut out, &file, filter);
    writeln!(out, "index block, {} bytes", index.bytes).unwrap();
    hex(&mut out, &file, index.offset as usize, index.bytes as usize, "one entry and a restart");
    trailer(&mut out, &file, index);
    writeln!(out, "properties, not shown: some texts differ from run to run").unwrap();
    writeln!(out, "metaindex, the names in it").unwrap();
    for (name, _) in table.metaindex() {
        writeln!(out, "      {name}").unwrap();
    }
    let end = file.len() - 53;
    writeln!(out, "footer, {} bytes, the last of the file", file.len() - end).unwrap();
    let text = |handle: BlockHandle| format!("offset {}, {} bytes", handle.offset, handle.bytes);
    writeln!(out, "      checksum {:?}, format_version {}", footer.checksum, footer.format_version)
        .unwrap();
    writeln!(out, "      index at {}", text(index)).unwrap();
    writeln!(out, "magic").unwrap();
    let shown: Vec<String> = file[end + 45..].iter().map(|byte| format!("{byte:02x}")).collect();
    writeln!(out, "      {}", shown.join(" ")).unwrap();
    out
}
