//! The fuzz target of the log reader. Other targets use [`repaired`], which turns any bytes into a
//! log most of whose checksums are valid.

use std::path::Path;

use byteorder::{ByteOrder, LittleEndian};

use super::format::{LogVersion, RecordHeader, encode_file_header};
use super::*;
use crate::encoding::coding::{fixed32, fixed64};
use crate::error::Error;
use crate::fs::{Fs, MemFs};

/// Reads `data`, without its first byte, as a log. The first byte decides whether the file header
/// and the records are repaired before that.
pub fn log(data: &[u8]) {
    const NUMBER: u64 = 7;
    let Some((&repair, data)) = data.split_first() else { return };
    let mut bytes = data.to_vec();
    if repair & 1 != 0 {
        repair_header(&mut bytes, LogKind::Wal, NUMBER);
    }
    if repair & 2 != 0 {
        repair_records(&mut bytes, NUMBER);
    }

    let fs = MemFs::new();
    let path = Path::new("000007.wal");
    let mut file = fs.create(path).expect("memory");
    file.append(&bytes).expect("memory");
    file.sync().expect("memory");
    let Ok(mut reader) = LogReader::open(&fs, path, LogKind::Wal, NUMBER) else { return };
    let mut end = FILE_HEADER_BYTES as u64;
    loop {
        assert!(reader.synced_to() <= end, "a record covers bytes that follow it");
        match reader.next() {
            Ok(Some(record)) => {
                let start = record.payload_offset - RECORD_HEADER_BYTES as u64;
                assert!(start >= end, "records overlap");
                end = record.payload_offset + record.payload.len() as u64;
                assert!(end <= bytes.len() as u64 && !record.payload.is_empty());
                assert_eq!(record.payload, &bytes[record.payload_offset as usize..end as usize]);
            }
            Ok(None) => break,
            Err(Error::Corruption { offset, .. }) => {
                assert!(offset == 0 || offset >= end, "an intact record is reported as damaged");
                return;
            }
            Err(error) => panic!("{error}"),
        }
    }
    match reader.tail().expect("the end was reached") {
        Tail::Clean => assert!(end <= bytes.len() as u64),
        Tail::Torn { offset } => {
            assert!(offset == 0 || offset >= end && offset < bytes.len() as u64);
            assert!(reader.synced_to() <= offset, "a claim was overlooked");
        }
    }
    assert!(reader.next().expect("at the end").is_none(), "the end is not final");
}

/// `data` with a valid file header for `kind` and `number`, and valid checksums in most records.
pub(crate) fn repaired(data: &[u8], kind: LogKind, number: u64) -> Vec<u8> {
    let mut bytes = data.to_vec();
    repair_header(&mut bytes, kind, number);
    repair_records(&mut bytes, number);
    bytes
}

fn repair_header(bytes: &mut [u8], kind: LogKind, number: u64) {
    if let Some(header) = bytes.first_chunk_mut::<FILE_HEADER_BYTES>() {
        *header = encode_file_header(kind, number, LogVersion::default());
    }
}

/// Steps through the records. Each gets the payload length that its header states, modulo one more
/// than the number of bytes after the header. It also gets two right checksums and a possible
/// `synced_to`, but bits of the old header checksum decide for each of these three whether it is
/// wrong instead.
fn repair_records(bytes: &mut [u8], number: u64) {
    let mut offset = FILE_HEADER_BYTES;
    while bytes.len().saturating_sub(offset) >= RECORD_HEADER_BYTES {
        let (header, rest) = bytes[offset..].split_at_mut(RECORD_HEADER_BYTES);
        let choice = header[0];
        let payload_bytes = fixed32(&header[8..]) as usize % (rest.len() + 1);
        let synced_to = match choice & 3 {
            0 => fixed64(&header[12..]),
            _ if payload_bytes == 0 => offset as u64,
            _ => fixed64(&header[12..]) % (offset as u64 + 1),
        };
        let record = RecordHeader {
            payload_crc32: crc32fast::hash(&rest[..payload_bytes]) ^ u32::from(choice & 0xf0 == 0),
            payload_bytes: payload_bytes as u32,
            synced_to,
        };
        header.copy_from_slice(&record.encode(number, offset as u64));
        if choice & 0x0c == 0 {
            LittleEndian::write_u32(header, !fixed32(header));
        }
        offset += RECORD_HEADER_BYTES + payload_bytes;
    }
}
