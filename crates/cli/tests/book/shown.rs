//! The programs in `examples/` that the chapters show: they run to their end, and print what the
//! book quotes. They are compiled into this test, so that it needs no further build.

use super::markdown::chapters;

macro_rules! programs {
    ($($name:ident: $path:literal,)+) => {
        $(
            #[path = $path]
            #[allow(dead_code, reason = "`main` is for the standalone example")]
            mod $name;
        )+

        const PROGRAMS: &[(&str, Program)] = &[$((stringify!($name), $name::run)),+];
    };
}

type Program = fn(&mut dyn std::io::Write) -> Result<(), Box<dyn std::error::Error>>;

programs! {
    url_block_list: "../../../../examples/url_block_list.rs",
    seen_before: "../../../../examples/seen_before.rs",
    spell_checker: "../../../../examples/spell_checker.rs",
    session_store: "../../../../examples/session_store.rs",
    revoked_certificates: "../../../../examples/revoked_certificates.rs",
    multi_column: "../../../../examples/multi_column.rs",
    bulk_load: "../../../../examples/bulk_load.rs",
    choose_policy: "../../../../examples/choose_policy.rs",
}

const COMMAND: &str = "printed by: cargo run --release --example ";

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn programs_print_what_the_book_shows() {
    let mut shown = Vec::new();
    for chapter in chapters() {
        for fence in chapter.fences() {
            let Some(name) = fence.comment.as_deref().and_then(|c| c.strip_prefix(COMMAND)) else {
                continue;
            };
            shown.push((name.to_string(), fence.code));
        }
    }
    std::thread::scope(|scope| {
        for &(name, program) in PROGRAMS {
            let fence = shown.iter().find(|(there, _)| there == name);
            let (_, expected) = fence.unwrap_or_else(|| panic!("no chapter shows {name}"));
            scope.spawn(move || {
                let mut printed = Vec::new();
                program(&mut printed).unwrap_or_else(|error| panic!("{name}: {error}"));
                assert_eq!(String::from_utf8(printed).unwrap(), *expected, "{name}");
            });
        }
    });
    assert_eq!(shown.len(), PROGRAMS.len(), "a chapter shows a program that is not run here");
}

#[test]
fn a_program_fits_the_pages_of_a_reader() {
    for (name, _) in PROGRAMS {
        let file = super::markdown::root().join(format!("examples/{name}.rs"));
        let lines = std::fs::read_to_string(file).unwrap().lines().count();
        assert!(lines <= 150, "{name}: {lines} lines");
    }
}
