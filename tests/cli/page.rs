//! `compare --out`: that page, JSON, CSV and terminal agree, and how a browser shows the page. The
//! page of `structures` gets the same checks.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{browser, maypole};

const LISTS: [&str; 6] = ["policies", "levels", "latency", "throughput", "accuracy", "speed"];

/// Makes a page of a few keys, and returns the output on the terminal.
fn make(dir: &Path) -> String {
    let call = ["compare", "--keys=3000", "--absent=3000", "--policies=none,bloom(10),burr(7)"];
    let call = call.map(str::to_string).into_iter().chain([format!("--out={}", dir.display())]);
    crate::run(&call.collect::<Vec<_>>()).noted()
}

fn json(dir: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(dir.join("compare.json")).unwrap()).unwrap()
}

/// The cells of a row, with objects flattened.
fn flat(row: &Value) -> Vec<(String, Value)> {
    let mut cells = Vec::new();
    for (name, value) in row.as_object().unwrap() {
        match value {
            Value::Object(parts) => {
                cells.extend(parts.iter().map(|(part, v)| (format!("{name}_{part}"), v.clone())));
            }
            value => cells.push((name.clone(), value.clone())),
        }
    }
    cells
}

/// Whether a cell of CSV or of the page has the value of the JSON. Numbers are parsed, not compared
/// as text.
pub fn same(cell: &str, value: &Value) -> bool {
    match value {
        Value::Null => cell.is_empty() || cell == "–",
        Value::String(text) => cell == text,
        Value::Number(number) => {
            // Parsing JSON may lose the last bit.
            let (cell, number) = (cell.parse::<f64>().unwrap(), number.as_f64().unwrap());
            (cell - number).abs() <= 1e-14 * number.abs()
        }
        Value::Bool(yes) => cell.parse() == Ok(*yes),
        other => panic!("{other}"),
    }
}

/// The lines of a CSV file. No cell contains a line feed.
pub fn csv(text: &str) -> Vec<Vec<String>> {
    let line = |line: &str| {
        let (mut cells, mut quoted) = (vec![String::new()], false);
        for c in line.chars() {
            match c {
                '"' => quoted = !quoted,
                ',' if !quoted => cells.push(String::new()),
                c => cells.last_mut().unwrap().push(c),
            }
        }
        cells
    };
    text.lines().map(line).collect()
}

/// The texts between two marks, at every occurrence.
pub fn between<'a>(text: &'a str, start: &str, end: &str) -> Vec<&'a str> {
    text.split(start).skip(1).map(|rest| rest.split(end).next().unwrap()).collect()
}

/// The texts of the cells of every row of a table.
pub fn table(html: &str) -> Vec<Vec<String>> {
    let unescape =
        |text: &str| text.replace("&lt;", "<").replace("&quot;", "\"").replace("&amp;", "&");
    let cell = |cell: &str| unescape(cell.split_once('>').unwrap().1);
    let rows = between(html, "<tr>", "</tr>").into_iter().skip(1);
    rows.map(|row| between(row, "<td", "</td>").into_iter().map(cell).collect()).collect()
}

/// The plots that a page must have, with the number of points of each.
fn expected_points(json: &Value) -> Vec<(&'static str, usize)> {
    let count = |list: &str, keep: &dyn Fn(&Value) -> bool| {
        json[list].as_array().unwrap().iter().filter(|row| keep(row)).count()
    };
    let caches = json["throughput"].as_array().unwrap().iter();
    let largest = caches.map(|row| row["cache_bytes"].as_u64().unwrap()).max().unwrap();
    let all = |_: &Value| true;
    vec![
        ("memory", count("policies", &all)),
        ("accuracy", count("accuracy", &|row| row["observed_fpr"].as_f64().unwrap() > 0.0)),
        ("latency-absent", count("latency", &|row| row["lookups"] == "absent")),
        ("latency-present", count("latency", &|row| row["lookups"] == "present")),
        ("cache", count("throughput", &|row| row["share_absent"] == 0.5)),
        ("share", count("throughput", &|row| row["cache_bytes"] == largest)),
        ("build", count("speed", &all)),
        ("peak", count("speed", &|row| !row["peak_bytes"].is_null())),
        ("query-absent", count("speed", &all)),
        ("query-present", count("speed", &all)),
    ]
}

/// The plots of a page with the number of their points.
pub fn points(html: &str) -> Vec<(String, usize)> {
    between(html, "<svg class=\"plot", "</svg>")
        .into_iter()
        .map(|svg| {
            let id = between(svg, "id=\"", "\"")[0].to_string();
            (id, svg.matches("class=\"dot").count())
        })
        .collect()
}

fn check_points(html: &str, json: &Value) {
    let points = points(html);
    for (id, expected) in expected_points(json) {
        let found = points.iter().find(|(found, _)| found == id).map_or(0, |(_, count)| *count);
        assert_eq!(found, expected, "{id} in {points:?}");
        assert!(expected > 0 || id == "peak", "{id}");
    }
}

/// Checks that a page needs no other files, and says how it was made.
pub fn check_alone(html: &str) {
    assert!(html.len() <= 1 << 20, "{}", html.len());
    for asks in ["http:", "https:", "src=", "@import", "url(", "fetch(", "XMLHttpRequest"] {
        assert!(!html.contains(asks), "{asks}");
    }
    assert!(!html.contains("NaN") && !html.contains("inf,"), "a figure that is none");
    assert!(html.contains("prefers-color-scheme: dark") && html.contains("@media print"));
    for said in ["<dt>processor</dt>", "<dt>build</dt>", "<dt>seed</dt>", "<dt>date</dt>"] {
        assert!(html.contains(said), "{said}");
    }
}

/// The calculator began with a billion keys and computed them with rates measured on 270,000, where
/// a table of 499 keys decided. It begins with the keys that were measured, and has the rates of
/// large tables for other sizes.
#[test]
fn the_calculator_takes_no_rate_of_small_tables_for_large_ones() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path());
    let html = fs::read_to_string(dir.path().join("index.html")).unwrap();
    assert!(html.contains("name=\"keys\" type=\"number\" min=\"1\" step=\"any\" value=\"3000\""));
    assert!(html.contains("measured on 3,000 keys"), "it does not say on how many");
    let script = between(&html, "const POLICIES = ", ";\n")[0];
    let (policies, keys) = script.split_once(", MEASURED_KEYS = ").unwrap();
    assert_eq!(keys, "3000");
    let policies: Vec<Value> = serde_json::from_str(policies).unwrap();
    let json = json(dir.path());
    for (policy, row) in policies.iter().zip(json["policies"].as_array().unwrap()) {
        let number = |field: &str| policy[field].as_f64().unwrap();
        let asked = row["filters_asked"].as_f64().unwrap() / row["absent_gets"].as_f64().unwrap();
        let (large, rate) = (number("large_absent"), number("large_absent") / asked);
        match policy["name"].as_str().unwrap() {
            "none" => assert_eq!(large, number("absent")),
            // What the formats give to large tables.
            "bloom(10)" => assert!((0.0090..0.0101).contains(&rate), "{policy}"),
            "burr(7)" => assert!((0.0080..0.0095).contains(&rate), "{policy}"),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn page_json_csv_and_terminal_say_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let terminal = make(dir.path());
    let json = json(dir.path());
    let html = fs::read_to_string(dir.path().join("index.html")).unwrap();
    let tables: Vec<_> =
        between(&html, "<table class=\"figures\">", "</table>").into_iter().map(table).collect();

    for list in LISTS {
        let rows = json[list].as_array().unwrap();
        assert!(!rows.is_empty(), "{list}");
        let text = fs::read_to_string(dir.path().join(format!("{list}.csv"))).unwrap();
        let csv = csv(&text);
        assert_eq!(csv.len(), rows.len() + 1, "{list}");
        for (row, line) in rows.iter().zip(&csv[1..]) {
            for (name, value) in flat(row) {
                let column = csv[0].iter().position(|column| *column == name);
                let cell = &line[column.unwrap_or_else(|| panic!("{name} in {:?}", csv[0]))];
                assert!(same(cell, &value), "{list}, {name}: {cell}, not {value}");
            }
            // Some table of the page has this row. The tables are divided differently.
            let is_it = |cells: &Vec<String>| {
                let dashes = |cell: &String| cell.replace('–', "");
                cells.iter().map(dashes).eq(line.iter().cloned())
            };
            assert!(tables.iter().flatten().any(is_it), "{list}: {line:?} is not on the page");
        }
    }
    check_points(&html, &json);

    // Values that the terminal rounds, rounded.
    let lines = |policy: &str| {
        let starts = format!("{policy} ");
        let lines = terminal.lines().filter(|line| line.starts_with(&starts));
        lines.collect::<Vec<_>>().join("\n").replace(',', "")
    };
    for row in json["policies"].as_array().unwrap() {
        let text = lines(row["policy"].as_str().unwrap());
        let number = |name: &str| row[name].as_f64().unwrap();
        for expected in [
            format!("{:.2}", number("bits_per_key")),
            format!("{:.4}", number("blocks_per_absent_get")),
            format!("{:.4}", number("blocks_per_present_get")),
            row["useful"].to_string(),
            row["full_positive"].to_string(),
            row["get_absent_ns"]["p50"].as_f64().unwrap().to_string(),
            row["get_present_ns"]["p99"].as_f64().unwrap().to_string(),
        ] {
            let found = text.split_whitespace().any(|word| word == expected);
            assert!(found, "{expected} in {text}");
        }
    }
    // The verdict is the same text.
    let verdict = terminal.lines().skip_while(|line| *line != "Verdict").skip(1);
    for line in verdict.take_while(|line| !line.is_empty()) {
        assert!(html.contains(&format!("<li>{line}</li>")), "{line}");
    }
}

#[test]
fn a_page_is_small_and_whole_and_asks_for_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("a <dir> & more");
    make(&out);
    let html = fs::read_to_string(out.join("index.html")).unwrap();
    check_alone(&html);
    assert!(html.contains("a &lt;dir&gt; &amp; more"), "the exact command is on it");
}

#[test]
fn a_sweep_that_was_killed_is_taken_up_again() {
    let dir = tempfile::tempdir().unwrap();
    let (out, scratch) = (dir.path().join("out"), dir.path().join("scratch"));
    let call: Vec<String> = [
        "compare",
        "--sweep",
        "--keys=2000",
        "--absent=300",
        "--bits=5,9",
        "--policies=none,bloom(BITS),budget(BITS/key, burr)",
    ]
    .map(str::to_string)
    .into_iter()
    .chain([format!("--out={}", out.display()), format!("--dir={}", scratch.display())])
    .collect();
    let mut first = Command::new(env!("CARGO_BIN_EXE_maypole"))
        .args(&call)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The settings and two policies.
    let state = out.join("sweep.state");
    let start = Instant::now();
    while fs::read_to_string(&state).unwrap_or_default().lines().count() < 3 {
        assert!(start.elapsed() < Duration::from_secs(120), "nothing is done");
        std::thread::sleep(Duration::from_millis(5));
        assert!(first.try_wait().unwrap().is_none(), "it was done before it was killed");
    }
    first.kill().unwrap();
    first.wait().unwrap();

    let done = crate::run(&call);
    assert!(done.err.contains("note: taken up again: "), "{}", done.err);
    assert!(done.err.contains("note: about "), "{}", done.err);
    done.noted();
    assert!(!state.exists());
    let json = json(&out);
    let policies: Vec<_> =
        json["policies"].as_array().unwrap().iter().map(|row| row["policy"].clone()).collect();
    let expected = ["none", "bloom(5)", "bloom(9)", "budget(5/key, burr)", "budget(9/key, burr)"];
    assert_eq!(policies, expected);
    for policy in expected {
        let rows = json["throughput"].as_array().unwrap().iter();
        // Five caches, four shares.
        assert_eq!(rows.filter(|row| row["policy"] == policy).count(), 20, "{policy}");
    }
}

/// Runs after everything else: touches the page as a reader would, and records the results.
const TOUCH: &str = r##"<script>
const point = document.querySelector("svg .point .hit");
point.dispatchEvent(new MouseEvent("click", { bubbles: true }));
const told = document.createElement("pre");
told.id = "told";
const input = document.querySelector("#calculator input");
const cost = () => document.querySelector("#cost")?.textContent;
const before = cost();
if (input) {
  input.value = "77";
  input.dispatchEvent(new Event("input", { bubbles: true }));
}
const asked = performance.getEntriesByType("resource").map((entry) => entry.name);
told.textContent = JSON.stringify({
  faults,
  asked: asked.filter((name) => !name.startsWith("data:")),
  tip: document.querySelector("#tip").hidden ? "" : document.querySelector("#tip").textContent,
  computed: !input || cost() !== before,
  wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  unseen: [...document.querySelectorAll("svg.plot .dot, svg.bars text")].filter((dot) => {
    const at = dot.getBoundingClientRect(), plot = dot.ownerSVGElement.getBoundingClientRect();
    return !(at.width > 0.5 && at.left >= plot.left && at.right <= plot.right + 1
      && at.top >= plot.top && at.bottom <= plot.bottom);
  }).length,
});
document.body.append(told);
</script>"##;

/// Opens the page of a directory in light and dark, wide and narrow, touches it, and passes the
/// result to `check`. Returns the number of points, or `None` without a browser.
pub fn browse(dir: &Path, check: impl Fn(&str)) -> Option<usize> {
    let browser = browser::find()?;
    let page = fs::read_to_string(dir.join("index.html")).unwrap();
    let file = dir.join("watched.html");
    fs::write(&file, browser::watched(&page, TOUCH)).unwrap();

    let mut shown = 0;
    for (width, scheme) in browser::VIEWS {
        let (html, told) = browser::visit(browser, &file, width, scheme, &[]);
        let nothing = serde_json::json!([]);
        assert_eq!((&told["faults"], &told["asked"]), (&nothing, &nothing), "{told}");
        assert!(told["tip"].as_str().is_some_and(|tip| tip.len() > 5), "{told}");
        assert_eq!(told["computed"], true, "{told}");
        assert_eq!((&told["unseen"], &told["wide"]), (&0.into(), &0.into()), "{width}: {told}");
        check(&html);
        shown = points(&html).iter().map(|(_, points)| points).sum();
    }
    Some(shown)
}

#[test]
#[ignore = "needs Chromium; .ci/long runs it"]
fn a_browser_shows_every_point_and_asks_the_network_for_nothing() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path());
    let json = json(dir.path());
    match browse(dir.path(), |html| check_points(html, &json)) {
        None => println!("the page in a browser: skipped, there is no Chromium"),
        Some(shown) => println!(
            "the page in a browser: {shown} points of compare in light and dark, wide and narrow"
        ),
    }
}

#[test]
fn the_terminal_gets_tables_that_fit() {
    let call = ["compare", "--keys=2000", "--absent=200", "--policies=none,bloom(10)"];
    let wide = maypole!("size").well();
    assert!(wide.lines().any(|line| line.chars().count() > 80), "{wide}");
    for columns in ["100", "60", "36"] {
        for call in [&call[..], &["size", "--keys=5000"]] {
            let output = Command::new(env!("CARGO_BIN_EXE_maypole"))
                .args(call)
                .env("COLUMNS", columns)
                .output()
                .unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let width: usize = columns.parse().unwrap();
            let too_wide = text.lines().find(|line| line.chars().count() > width);
            assert_eq!(too_wide, None, "{columns} columns:\n{text}");
            assert!(!text.contains('\x1b'), "colour where there is no terminal");
        }
    }
}
