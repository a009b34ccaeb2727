//! Any text, parsed as a filter policy and a prefix extractor.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maypole::fuzzing::policy(data));
