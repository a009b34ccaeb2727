//! The page of invariants: every file that it names exists, and has the test that the row names.

use std::fs;

use super::markdown::{read, root};

/// The code between backticks.
fn code(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_invariant_names_a_test_that_exists() {
    let page = read(root().join("docs/invariants.md"));
    let mut rows = 0;
    for row in page.text.lines().filter(|line| line.starts_with("| ") && !line.contains("| why |"))
    {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        let [rule, why, test] = cells[..] else { panic!("not three cells: {row}") };
        let [file, name] = code(test)[..] else { panic!("not a file and a test: {row}") };
        for named in [code(rule), code(why)].concat().iter().filter(|code| code.contains('/')) {
            assert!(root().join(named).exists(), "no {named}: {row}");
        }
        let source =
            fs::read_to_string(root().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
        let test = source.split("#[test]").skip(1).any(|after| {
            let function = after.split("fn ").nth(1).unwrap_or_default();
            function.strip_prefix(name).is_some_and(|rest| rest.starts_with('('))
        });
        assert!(test, "{file} has no test {name}");
        rows += 1;
    }
    assert!(rows > 30, "{rows} rows");
}
