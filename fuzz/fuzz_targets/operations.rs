//! Any sequence of operations, run on a database and on a `BTreeMap` whose contents must agree.
//! Some of the operations reopen the database.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maypole::fuzzing::operations(data));
