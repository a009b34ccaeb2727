//! Any bytes, decoded as the payload of a MANIFEST record, which is one change of the tree.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maypole::fuzzing::edit(data));
