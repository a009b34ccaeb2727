//! `compare --out`: page, JSON, CSV and terminal agree, and a browser shows the whole page. The
//! tests of `structures` and `advise` use the checks of this file for their pages.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{browser, maypole};

const LISTS: [&str; 6] = ["policies", "levels", "latency", "throughput", "accuracy", "speed"];

/// Makes a page of a few keys, and returns the output on the terminal.
fn make(dir: &Path) -> String {
    make_of(3000, dir)
}

/// As [`make`], of enough keys that each filter can be stored in several parts.
fn make_in_parts(dir: &Path) -> String {
    make_of(20_000, dir)
}

fn make_of(keys: usize, dir: &Path) -> String {
    let call = ["compare", "--absent=3000", "--policies=none,bloom(10),burr(7)"];
    let more = [format!("--keys={keys}"), format!("--out={}", dir.display())];
    let call = call.map(str::to_string).into_iter().chain(more);
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

/// Whether a cell of the page shows what a cell of CSV says. The page has six digits of each figure.
pub fn rounds(cell: &str, exact: &str) -> bool {
    match (cell.parse::<f64>(), exact.parse::<f64>()) {
        (Ok(cell), Ok(exact)) => (cell - exact).abs() <= 1e-5 * exact.abs(),
        _ => cell.replace('–', "") == exact,
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

/// The texts between each `start` and the next `end`.
pub fn between<'a>(text: &'a str, start: &str, end: &str) -> Vec<&'a str> {
    text.split(start).skip(1).map(|rest| rest.split(end).next().unwrap()).collect()
}

/// The texts of the cells of each row of a table, without the row of its headings.
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
        // A filter without a false positive has a point as well.
        ("accuracy", count("accuracy", &all)),
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

/// Checks that the CSV file and the tables of the page have the rows of a list of the JSON, and
/// that the list is not empty.
fn check_list(list: &str, dir: &Path, json: &Value, html: &str) {
    let tables: Vec<_> =
        between(html, "<table class=\"figures\">", "</table>").into_iter().map(table).collect();
    let rows = json[list].as_array().unwrap();
    assert!(!rows.is_empty(), "{list}");
    let text = fs::read_to_string(dir.join(format!("{list}.csv"))).unwrap();
    let csv = csv(&text);
    assert_eq!(csv.len(), rows.len() + 1, "{list}");
    for (row, line) in rows.iter().zip(&csv[1..]) {
        for (name, value) in flat(row) {
            let column = csv[0].iter().position(|column| *column == name);
            let cell = &line[column.unwrap_or_else(|| panic!("{name} in {:?}", csv[0]))];
            assert!(same(cell, &value), "{list}, {name}: {cell}, not {value}");
        }
        // Any table of the page may have this row, because the page divides the rows among its
        // tables differently from the files.
        let is_it = |cells: &Vec<String>| {
            cells.len() == line.len()
                && cells.iter().zip(line).all(|(cell, exact)| rounds(cell, exact))
        };
        assert!(tables.iter().flatten().any(is_it), "{list}: {line:?} is not on the page");
    }
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
    // Plots once had kB where tables had KiB.
    for decimal in [" kB", " MB", " GB"] {
        assert!(!html.contains(decimal), "{decimal}");
    }
    for said in ["<dt>processor</dt>", "<dt>build</dt>", "<dt>seed</dt>", "<dt>date</dt>"] {
        assert!(html.contains(said), "{said}");
    }
}

/// The page's calculator once began with a billion keys, but used rates that were measured on
/// 270,000 keys. The unusual rate of one table of 499 keys made it contradict `size`. Now it begins
/// with the number of measured keys. For fewer than half or more than twice as many, it uses the
/// rates of large tables, as `size` does.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
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
    let size = |filter: &str, bits: u32| {
        let text = maypole!("size", "--keys=1G", format!("--bits={bits}"), "--json").well();
        let object: Value = serde_json::from_str(&text).unwrap();
        let row = object["filters"].as_array().unwrap().iter().find(|row| row["filter"] == filter);
        row.and_then(|row| row["fpr"].as_f64()).unwrap()
    };
    let json = json(dir.path());
    for (policy, row) in policies.iter().zip(json["policies"].as_array().unwrap()) {
        let number = |field: &str| policy[field].as_f64().unwrap();
        let asked = row["filters_asked"].as_f64().unwrap() / row["absent_gets"].as_f64().unwrap();
        let (large, rate) = (number("large_absent"), number("large_absent") / asked);
        match policy["name"].as_str().unwrap() {
            "none" => assert_eq!(large, number("absent")),
            "bloom(10)" => assert!((rate / size("bloom", 10) - 1.0).abs() < 0.01, "{policy}"),
            "burr(7)" => assert!((rate / size("burr", 7) - 1.0).abs() < 0.05, "{policy}"),
            other => panic!("{other}"),
        }
    }
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn page_json_csv_and_terminal_say_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let terminal = make(dir.path());
    let json = json(dir.path());
    let html = fs::read_to_string(dir.path().join("index.html")).unwrap();
    for list in LISTS {
        check_list(list, dir.path(), &json, &html);
    }
    check_points(&html, &json);
    for row in json["throughput"].as_array().unwrap() {
        let [low, median, high] = ["_low", "", "_high"]
            .map(|end| row[format!("lookups_per_second{end}")].as_f64().unwrap());
        assert!(0.0 < low && low <= median && median <= high, "{row}");
        assert_eq!(row["rounds"], 10, "{row}");
    }
    // Every point of throughput has its interval drawn.
    let cache = between(&html, "<svg class=\"plot\" id=\"cache\"", "</svg>")[0];
    let points = cache.matches("class=\"dot").count();
    assert_eq!(cache.matches("class=\"interval\"").count(), points);
    assert!(terminal.contains("\nAbsent lookups"), "{terminal}");

    // The terminal has the same values, rounded.
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
    // Terminal and page have the same verdict.
    let verdict = terminal.lines().skip_while(|line| *line != "Verdict").skip(1);
    let verdict: Vec<&str> = verdict.take_while(|line| !line.is_empty()).collect();
    assert!(html.contains(&format!("<p class=\"advice\">{}</p>", verdict[0])), "{verdict:?}");
    for line in &verdict[1..] {
        assert!(html.contains(&format!("<li>{line}</li>")), "{line}");
    }
    assert_eq!((&json["schema"], &json["verdict"]["sentence"]), (&1.into(), &verdict[0].into()));
}

/// For each policy with filters, the page has a plot of absent and a plot of present lookups, with
/// caches of 0.05 to 2 times the size of the filters and indexes. Each plot has a curve for each of
/// four *forms*: filters stored whole, filters in parts, filters in parts of which lookups skip
/// none ("always read"), and no filter. JSON and CSV have the same figures.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn filters_larger_than_the_cache_are_shown_in_each_form() {
    let dir = tempfile::tempdir().unwrap();
    make_in_parts(dir.path());
    let json = json(dir.path());
    let html = fs::read_to_string(dir.path().join("index.html")).unwrap();
    check_list("forms", dir.path(), &json, &html);
    let plots = between(&html, "<svg class=\"plot\" id=\"form-", "</svg>");
    let titles: Vec<&str> =
        plots.iter().map(|svg| between(svg, "aria-label=\"", "\"")[0]).collect();
    let expected = [
        "bloom(10), absent keys",
        "bloom(10), present keys",
        "burr(7), absent keys",
        "burr(7), present keys",
    ];
    assert_eq!(titles, expected);
    for svg in plots {
        let names = between(svg, "data-name=\"", "\"");
        assert_eq!(names, ["whole", "parts", "always read", "no filter"]);
        let axes = between(svg, "<text class=\"label\"", "</text>");
        assert!(axes[0].ends_with(">time of a lookup"), "{axes:?}");
        assert!(axes[1].ends_with(">cache, as a multiple of filters and indexes"), "{axes:?}");
        assert_eq!(svg.matches("class=\"dot").count(), 4 * 5, "five caches");
    }

    let rows = json["forms"].as_array().unwrap();
    assert_eq!(rows.len(), 2 * 2 * 4 * 5, "policies, kinds of lookups, forms, caches");
    for row in rows {
        let number = |name: &str| row[name].as_f64().unwrap();
        let (low, median, high) = (number("get_ns_low"), number("get_ns"), number("get_ns_high"));
        assert!(0.0 < low && low <= median && median <= high, "{row}");
        let filters = number("filter_reads_per_get") + number("filters_passed_by_per_get");
        match row["form"].as_str().unwrap() {
            "no filter" => assert_eq!(filters, 0.0, "{row}"),
            "always read" => assert_eq!(number("filters_passed_by_per_get"), 0.0, "{row}"),
            _ => {}
        }
    }
}

/// The forms of filters are not measured if the tables are so small that each filter would have a
/// single part.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_page_without_forms_says_why() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path());
    let html = fs::read_to_string(dir.path().join("index.html")).unwrap();
    assert!(html.contains("Not measured in this run. It takes a policy with filters"));
    assert!(!html.contains("id=\"form-") && !dir.path().join("forms.csv").exists());
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_page_is_small_and_whole_and_asks_for_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("a <dir> & more");
    make(&out);
    let html = fs::read_to_string(out.join("index.html")).unwrap();
    check_alone(&html);
    assert!(html.contains("a &lt;dir&gt; &amp; more"), "the exact command is on it");
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
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
    // The sweep is killed when its state has three lines: the settings and two policies.
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
    let page = fs::read_to_string(out.join("index.html")).unwrap();
    assert!(page.contains("each in ten rounds of its own"), "what its intervals hold");
    let json = json(&out);
    let policies: Vec<_> =
        json["policies"].as_array().unwrap().iter().map(|row| row["policy"].clone()).collect();
    let expected = ["none", "bloom(5)", "bloom(9)", "budget(5/key, burr)", "budget(9/key, burr)"];
    assert_eq!(policies, expected);
    for policy in expected {
        let rows = json["throughput"].as_array().unwrap().iter();
        // Five sizes of the cache, and four shares of absent keys among the lookups.
        assert_eq!(rows.filter(|row| row["policy"] == policy).count(), 20, "{policy}");
    }
}

/// This script runs after the page's own scripts. It checks the layout, uses the plots and the
/// calculator by click, keyboard and input, applies the rules for print, and records the results.
const TOUCH: &str = r##"<script>
const all = (what) => [...document.querySelectorAll(what)];
const told = document.createElement("pre");
told.id = "told";
const results = { width: innerWidth, onTop: all("h2").filter((head) => !head.closest("details")).length };

// What is wrong with the layout.
const light = (color) => {
  const parts = color.match(/[\d.]+/g).slice(0, 3).map((part) => {
    const x = part / 255;
    return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
};
const layout = (paper) => {
  const wrong = [], page = document.documentElement;
  if (document.body.scrollWidth > (paper || page.clientWidth)) wrong.push(`the page is ${document.body.scrollWidth} wide`);
  for (const table of all("table.glance")) {
    const box = table.parentElement;
    if (box.scrollWidth > box.clientWidth + 1) wrong.push(`a table is cut: ${box.scrollWidth} in ${box.clientWidth}`);
  }
  for (const text of all("svg.plot text:not(.in-dot)")) {
    const plot = text.ownerSVGElement, scale = plot.getBoundingClientRect().width / plot.viewBox.baseVal.width;
    const size = parseFloat(getComputedStyle(text).fontSize) * scale;
    const heading = parseFloat(getComputedStyle(plot.closest("figure").querySelector("h3")).fontSize);
    if (size > heading + 0.1) wrong.push(`${text.textContent}: ${size} px under a heading of ${heading}`);
    if (size < 9) wrong.push(`${text.textContent}: ${size} px`);
  }
  const paperLight = light(getComputedStyle(document.body).backgroundColor);
  for (const text of all("p, li, th, td, summary, label, dt, dd, svg.plot text:not(.in-dot)")) {
    const style = getComputedStyle(text), ink = light(text.ownerSVGElement ? style.fill : style.color);
    const contrast = (Math.max(ink, paperLight) + 0.05) / (Math.min(ink, paperLight) + 0.05);
    if (contrast < 4.5) wrong.push(`${text.textContent.slice(0, 30)}: a contrast of ${contrast.toFixed(1)}`);
  }
  return [...new Set(wrong)];
};
results.folded = all("details.part").length;
all("details.part").forEach((part) => { part.open = true; });
results.layout = layout();

// A tap on a point.
const tip = document.querySelector("#tip"), said = () => tip.hidden ? "" : tip.textContent;
document.querySelector("svg .point .hit").dispatchEvent(new MouseEvent("click", { bubbles: true }));
results.tip = said();
// The keyboard: Tab stops at one point of each plot, and the arrow keys move to the other points.
document.body.click();
results.stops = all("svg.plot").map((plot) => plot.querySelectorAll("[tabindex='0']").length);
results.keyboard = all("svg.plot").map((plot) => {
  const told = [], first = plot.querySelector("[tabindex='0']");
  first.focus();
  told.push(said());
  for (const key of ["ArrowRight", "ArrowDown"]) {
    document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
    told.push(said());
  }
  const visible = document.activeElement.matches(":focus-visible")
    && getComputedStyle(document.activeElement.querySelector(".hit")).stroke !== "none";
  return [visible, new Set(told).size > 1, ...told];
});
document.activeElement.blur();

// The calculator.
const put = (name, value) => {
  const input = document.querySelector(`#calculator input[name=${name}]`);
  input.value = value;
  input.dispatchEvent(new Event("input", { bubbles: true }));
};
const cost = document.querySelector("#cost"), before = cost?.textContent;
if (cost) {
  put("absent", 150);
  results.refused = cost.textContent;
  put("absent", 50);
  put("keys", 77);
}
results.computed = !cost || cost.textContent !== before && cost.textContent.includes("$");
results.faults = faults;
results.asked = performance.getEntriesByType("resource").map((entry) => entry.name).filter((name) => !name.startsWith("data:"));
results.unseen = all("svg.plot .dot, svg.bars text").filter((dot) => {
  const at = dot.getBoundingClientRect(), plot = dot.ownerSVGElement.getBoundingClientRect();
  return !(at.width > 0.5 && at.left >= plot.left && at.right <= plot.right + 1
    && at.top >= plot.top && at.bottom <= plot.bottom);
}).length;

// Paper: the rules for print apply now, at the width of a sheet, and those for the screen do not.
if (innerWidth > 700) {
  all("details.part").forEach((part) => { part.open = false; });
  for (const rule of [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules])) {
    if (rule.media?.mediaText === "print") rule.media.mediaText = "all";
    else if (rule.media?.mediaText.startsWith("screen")) rule.media.mediaText = "not all";
  }
  document.documentElement.style.width = "700px";
  dispatchEvent(new Event("beforeprint"));
  results.paper = layout(700);
  const height = (what) => document.querySelector(what)?.getBoundingClientRect().height;
  if (cost && !(height("#calculator input") > 0 && height("#cost table") > 0)) results.paper.push("no calculator");
  if (all("details.part:not([open])").length) results.paper.push("a folded section");
  if (getComputedStyle(document.body).backgroundColor !== "rgb(255, 255, 255)") results.paper.push("dark paper");
}
told.textContent = JSON.stringify(results);
document.body.append(told);
</script>"##;

/// Opens the page of a directory in light and dark at three widths. In each of these views, the
/// script [`TOUCH`] runs in the page, and `check` gets the resulting HTML. Returns the number of
/// points in the last view, or `None` without a browser.
pub fn browse(dir: &Path, check: impl Fn(&str)) -> Option<usize> {
    let browser = browser::find()?;
    let page = fs::read_to_string(dir.join("index.html")).unwrap();
    let file = dir.join("watched.html");
    fs::write(&file, browser::watched(&page, TOUCH)).unwrap();

    let mut shown = 0;
    for (width, scheme) in browser::VIEWS {
        let (html, told) = browser::visit(browser, &file, width, scheme);
        let nothing = serde_json::json!([]);
        assert_eq!((&told["faults"], &told["asked"]), (&nothing, &nothing), "{told}");
        assert_eq!(told["width"], width, "of the window");
        assert!(told["onTop"].as_u64().unwrap() <= 3 && told["folded"] != 0, "{told}");
        for list in ["layout", "paper"].iter().filter(|list| !told[**list].is_null()) {
            assert_eq!(told[*list], nothing, "{list}, {width} wide, scheme {scheme}");
        }
        assert_eq!(told["paper"].is_null(), width < 700);
        assert!(told["tip"].as_str().is_some_and(|tip| tip.len() > 5), "{told}");
        assert!(told["stops"].as_array().unwrap().iter().all(|stops| *stops == 1), "{told}");
        for plot in told["keyboard"].as_array().unwrap() {
            assert!(plot[0] == true && plot[1] == true && plot[2] != "", "{plot}");
        }
        let refused = told["refused"].as_str().unwrap_or("0 to 100");
        assert!(refused.contains("0 to 100"), "150 % of absent keys: {refused}");
        assert_eq!(told["computed"], true, "{told}");
        assert_eq!(told["unseen"], 0, "{width}: {told}");
        check(&html);
        shown = points(&html).iter().map(|(_, points)| points).sum();
    }
    Some(shown)
}

#[test]
#[ignore = "needs Chromium; .ci/long runs it"]
fn a_browser_shows_every_point_and_asks_the_network_for_nothing() {
    let dir = tempfile::tempdir().unwrap();
    make_in_parts(dir.path());
    let json = json(dir.path());
    match browse(dir.path(), |html| check_points(html, &json)) {
        None => println!("the page in a browser: skipped, there is no Chromium"),
        Some(shown) => println!(
            "the page in a browser: {shown} points of compare in light and dark, at three widths, on paper and by keyboard"
        ),
    }
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
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
