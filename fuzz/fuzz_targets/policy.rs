//! Any text, parsed as a filter policy and, independently, as a prefix extractor.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maypole::fuzzing::policy(data));
