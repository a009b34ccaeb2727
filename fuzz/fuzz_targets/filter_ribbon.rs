//! Any bytes, queried as a ribbon filter.

#![no_main]

use maypole_filter::Family;

libfuzzer_sys::fuzz_target!(|data: &[u8]| maypole_filter::fuzzing::filter(Family::Ribbon, data));
