//! Tests of the pages that run the filters as WebAssembly. The Rust code of these pages is compiled
//! natively too. Tests check that its answers are right, and that the pages in a browser show the
//! same answers.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::answers::answer;
use super::browser;
use super::figures::FIGURES;
use super::markdown::{files, root};

const ANIMALS: &str = "ant bee cat dog eel fox gnu hen ibis jay koi lynx";

fn folder() -> PathBuf {
    root().join("docs/book/src/playground")
}

fn ask(request: &str) -> Value {
    let text = answer(request);
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// A request to the code of the pages: a command, then the keys to add and the keys to query.
fn with(command: &str, added: &[String], asked: &[String]) -> String {
    let lines = |sign: &str, keys: &[String]| -> String {
        keys.iter().map(|key| format!("\n{sign}{key}")).collect()
    };
    format!("{command}{}{}", lines("+", added), lines("?", asked))
}

fn names(word: &str, count: usize) -> Vec<String> {
    (0..count).map(|i| format!("{word} {i}")).collect()
}

fn animals() -> Vec<String> {
    ANIMALS.split(' ').map(String::from).collect()
}

fn numbers(list: &Value) -> Vec<u64> {
    list.as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect()
}

/// The set bits of a Bloom filter, each as its line and its number in the line.
fn set_bits(answer: &Value) -> BTreeSet<(u64, u64)> {
    let mut set = BTreeSet::new();
    for (number, line) in answer["lines"].as_array().unwrap().iter().enumerate() {
        let hex = line.as_str().unwrap();
        assert_eq!(hex.len(), 128);
        for bit in 0..512 {
            let byte = u8::from_str_radix(&hex[bit / 8 * 2..][..2], 16).unwrap();
            if byte >> (bit % 8) & 1 == 1 {
                set.insert((number as u64, bit as u64));
            }
        }
    }
    set
}

fn bits_of(place: &Value) -> BTreeSet<(u64, u64)> {
    let line = place["line"].as_u64().unwrap();
    numbers(&place["bits"]).into_iter().map(|bit| (line, bit)).collect()
}

#[test]
fn the_bits_of_a_key_are_those_that_the_library_sets_and_asks() {
    for (keys, bits) in [(1, "10"), (3, "3"), (60, "5"), (200, "10"), (300, "20")] {
        let request = with(&format!("bloom {bits}"), &names("key", keys), &names("absent", 3000));
        let answer = ask(&request);
        let set = set_bits(&answer);
        let added: BTreeSet<_> =
            answer["added"].as_array().unwrap().iter().flat_map(bits_of).collect();
        assert_eq!(added, set, "{keys} keys of {bits} bits");
        let asked = answer["asked"].as_array().unwrap();
        for place in asked {
            assert_eq!(place["maybe"], bits_of(place).is_subset(&set), "{place}");
        }
        let passed = asked.iter().filter(|place| place["maybe"] == true).count();
        let expected = 3000.0 * answer["rate"].as_f64().unwrap();
        let deviation = expected.sqrt().max(1.0);
        let near = (passed as f64 - expected).abs() < 6.0 * deviation + 0.25 * expected;
        assert!(near, "{keys} keys of {bits} bits: {passed}, not {expected}");
    }
}

#[test]
fn the_small_ribbons_are_those_of_the_chapters() {
    let figure = |name: &str| FIGURES.iter().find(|(known, _)| *known == name).unwrap().1();
    let plain = ask(&with("ribbon 14", &animals(), &[]));
    let bands = plain["bands"].as_array().unwrap();
    assert_eq!(bands.len(), 2, "seed 0 fails, seed 1 does not");
    assert!(bands[0]["solution"].is_null());
    let words: Vec<String> =
        numbers(&bands[1]["solution"]).iter().map(|slot| format!("{slot:04b}")).collect();
    let printed = figure("ribbon").replace("\n            ", " ");
    assert!(printed.contains(&format!("the filter  {}", words.join(" "))), "{words:?}");

    let bumped = ask(&with("burr 11", &animals(), &[]));
    let printed = figure("bumping");
    let mut steps = bumped["bands"][0]["steps"].as_array().unwrap().iter();
    let step = steps.find(|step| !step["bumped"].is_null()).expect("one bucket is bumped");
    let gone = numbers(&step["bumped"]);
    for (i, name) in animals().iter().enumerate() {
        let line = printed.lines().find(|line| line.contains(&format!(" {name} "))).unwrap();
        assert_eq!(line.ends_with("bumped"), gone.contains(&(i as u64)), "{line}");
    }
    assert_eq!(bumped["bands"].as_array().unwrap().len(), 2);
}

#[test]
fn every_key_of_a_ribbon_passes_and_one_absent_key_in_sixteen() {
    let (mut asked, mut passed, mut bumped) = (0, 0, 0);
    for mode in ["ribbon", "burr"] {
        for keys in 1..=16 {
            for slots in 8..=16 {
                let added = names("present", keys);
                let questions = [added.clone(), names("absent", 20)].concat();
                let answer = ask(&with(&format!("{mode} {slots}"), &added, &questions));
                let said = answer["asked"].as_array().unwrap();
                let known = said[..keys].iter().all(|said| said["maybe"] == true);
                assert!(known, "{mode}, {keys} keys, {slots} slots: {answer}");
                let in_band = || said[keys..].iter().filter(|said| !said["band"].is_null());
                asked += in_band().count();
                passed += in_band().filter(|said| said["maybe"] == true).count();
                bumped += usize::from(answer["bands"].as_array().unwrap().len() > 1);
            }
        }
    }
    assert!(asked > 3000 && bumped > 20, "{asked} queries, {bumped} times more than one band");
    let share = passed as f64 / asked as f64;
    assert!((0.04..0.09).contains(&share), "{share}, not 0.0625");
}

#[test]
fn the_slots_of_a_full_ribbon_solve_its_equations() {
    for (family, keys, least) in [("burr", 2000, 1), ("burr", 20_000, 2), ("ribbon", 5000, 1)] {
        let full = ask(&format!("full {family} 7.5 {keys} {keys}"));
        let slots = numbers(&full["slots"]);
        let rows = full["rows"].as_array().unwrap();
        assert!(rows.len() > 50, "{full}");
        for row in rows {
            let start = row[0].as_u64().unwrap() as usize;
            let coefficients = u128::from_str_radix(row[1].as_str().unwrap(), 16).unwrap();
            let picked = (0..128).filter(|i| coefficients >> i & 1 == 1);
            let sum = picked.fold(0, |sum, i| sum ^ slots[start + i]);
            assert_eq!(sum, row[2].as_u64().unwrap(), "{row}");
        }
        let all = full["layers"].as_array().unwrap();
        assert!(all.len() >= least, "{family} of {keys} keys: {} layers", all.len());
        let stay: u64 = all.iter().map(|layer| layer["stay"].as_u64().unwrap()).sum();
        assert_eq!(stay + full["tags"].as_u64().unwrap(), keys);
        for key in numbers(&full["bumped"]).into_iter().take(5) {
            let asked = &ask(&format!("full {family} 7.5 {keys} {key}"))["asked"];
            let is_on = asked["tags"] == true || asked["starts"].as_array().unwrap().len() > 1;
            assert!(is_on && asked["maybe"] == true, "{asked}");
        }
    }
}

#[test]
fn a_key_given_twice_says_nothing_new() {
    let twice = ask(&with("ribbon 8", &["ant".into(), "ant".into()], &[]));
    let step = &twice["bands"][0]["steps"][1]["rows"];
    let last = numbers(step.as_array().unwrap().last().unwrap());
    assert_eq!(last[1..], [0, 0], "no coefficients and no fingerprint are left: {twice}");
}

#[test]
fn rates_are_those_that_are_predicted() {
    for family in ["bloom", "ribbon", "burr", "fuse"] {
        let answer = ask(&format!("rate {family} 8 10000 100000"));
        assert_eq!(answer["family"], family);
        let expected = answer["rate"].as_f64().unwrap() * 100_000.0;
        let ratio = answer["passed"].as_f64().unwrap() / expected;
        assert!((0.7..1.4).contains(&ratio), "{answer}");
        let bits = answer["bits"].as_f64().unwrap();
        // All slots of a fuse filter have the same whole number of bits, rounded down, so the
        // filter may store fewer bits a key than requested.
        let least = if family == "fuse" { 6.6 } else { 7.9 };
        assert!((least..8.1).contains(&bits), "{answer}");
    }
    assert_eq!(ask("rate burr 8 20 0")["family"], "bloom", "20 keys are too few for burr");
}

#[test]
fn what_cannot_be_answered_says_why() {
    let many = with("ribbon 14", &names("key", 17), &[]);
    let crowd = with("bloom 10", &names("key", 401), &[]);
    let told = [
        "",
        "bloom",
        "bloom x",
        "bloom 10",
        "bloom 10\nx",
        "bloom 10\n",
        "bloom 0\n+a",
        "ribbon 7\n+a",
        "ribbon 17\n+a",
        "ribbon 14",
        "full burr 7 20 0",
        "full bloom 7 1000 0",
        "full burr 7 1000000 0",
        "full burr 7 1000 -1",
        "rate burr 33 10 10",
        "rate blom 10 10 10",
        "rate bloom 10 0 0",
        "rate bloom 10 10 99999999",
        "bloom \"\\\n+a",
        "bloom ü\n+a",
        &many,
        &crowd,
    ];
    for request in told {
        let error = &ask(request)["error"];
        assert!(error.as_str().is_some_and(|text| text.len() > 10), "{request}: {error}");
    }
}

#[test]
fn the_pages_are_small_and_whole_and_ask_for_nothing() {
    let (mut bytes, mut loaded) = (0, 0);
    for path in files(&folder(), "") {
        let text = fs::read_to_string(&path).unwrap();
        bytes += text.len();
        let text = text.replace("http://www.w3.org/2000/svg", "");
        for asks in ["http:", "https:", "@import", "url(", "fetch(", "XMLHttpRequest", "import("] {
            assert!(!text.contains(asks), "{}: {asks}", path.display());
        }
        let is_page = path.extension().is_some_and(|extension| extension == "html");
        for name in text.split("src=\"").skip(1).filter(|_| is_page) {
            let name = name.split('"').next().unwrap();
            assert!(folder().join(name).is_file(), "no {name}");
            loaded += 1;
        }
    }
    assert!(bytes <= 352 * 1024, "{bytes} bytes");
    assert_eq!(loaded, 6 + 9, "scripts of the two pages");
}

// -- in a browser
// ----------------------------------------------------------------------------------------

/// Runs in the page after the page's own scripts: makes the requests that [`watched`] puts into the
/// page, clicks the pictures as a reader would, and records the results.
const TOUCH: &str = r##"<script>
async function touch() {
  while (!document.documentElement.dataset.ready) await new Promise((go) => setTimeout(go, 20));
  const put = (id, value, kind) => {
    byId(id).value = value;
    byId(id).dispatchEvent(new Event(kind || "input", { bubbles: true }));
  };
  const told = { faults, raw: REQUESTS.map((request) => {
    const text = new TextEncoder().encode(request);
    new Uint8Array(wasm.memory.buffer, wasm.reserve(text.length), text.length).set(text);
    const length = wasm.answer();
    return new TextDecoder().decode(new Uint8Array(wasm.memory.buffer, wasm.text(), length));
  }) };
  byId("bloom-more").click();
  byId("bloom-find").click();
  byId("bloom-key").value = "fig";
  byId("bloom-add").requestSubmit();
  told.set = [...document.querySelectorAll("#bloom-lines .set")]
    .reduce((sum, path) => sum + (path.getAttribute("d").match(/M/g) || []).length, 0);
  told.marked = document.querySelectorAll("#bloom-lines .probed-set").length;
  told.captions = [];
  for (const mode of ["ribbon", "burr"]) {
    document.querySelector(`[value=${mode}]`).click();
    byId("ribbon-first").click();
    for (let step = 0; step <= Number(byId("ribbon-at").max); step++) {
      put("ribbon-at", step);
      told.captions.push(byId("ribbon-caption").textContent);
    }
    told[mode] = [...document.querySelectorAll("#ribbon-picture .solved")].map((text) => text.textContent);
  }
  // A ribbon at full size: its first step, a step in the middle, the last one.
  const marks = (kind) => [...document.querySelectorAll(`#full-band .${kind}`)]
    .reduce((sum, path) => sum + (path.getAttribute("d").match(/M/g) || []).length, 0);
  told.full = [];
  for (const step of [0, 40, byId("full-at").max]) {
    put("full-at", step);
    told.full.push([marks("of-pending"), marks("of-there"), marks("of-sums"), byId("full-caption").textContent]);
  }
  byId("full-more").click();
  told.path = byId("full-path").textContent;
  told.visited = document.querySelectorAll("#full-layers .visited").length;
  // Typing redraws the picture. If the keys cannot be drawn, a text in its place says so.
  const drawn = () => byId("ribbon-picture").childElementCount;
  const keys = byId("ribbon-keys").value;
  told.typed = [];
  for (const value of ["ant bee", "", Array.from({ length: 60 }, (_, i) => `k${i}`).join(" "), keys]) {
    put("ribbon-keys", value);
    byId("ribbon-next").click();
    byId("ribbon-play").click();
    told.typed.push([drawn(), byId("ribbon-chips").childElementCount, byId("ribbon-caption").textContent]);
  }
  told.reasons = [];
  while (!byId("bloom-more").disabled) {
    told.reasons.push(byId("bloom-full").textContent);
    byId("bloom-more").click();
  }
  told.crowded = byId("bloom-full").textContent;
  // The slider waits for one piece of work at most: one filter, and its queries.
  let pieces = 0;
  told.pieces = told.most = 0;
  const real = ask;
  ask = (request) => {
    pieces += 1;
    queueMicrotask(() => { pieces = 0; });
    told.pieces = Math.max(told.pieces, pieces);
    told.most = Math.max(told.most, Number(request.split(" ")[4] || 0));
    return real(request);
  };
  put("rate-keys", "100000", "change");
  put("rate-bits", 12);
  put("rate-bits", 11);
  while (document.querySelectorAll("#rate-picture .mark.now").length < 4) await new Promise((go) => setTimeout(go, 50));
  put("rate-keys", "10000", "change");
  put("rate-bits", 10);
  // The picture has marks of at least three families at these bits.
  while (document.querySelectorAll("#rate-picture .mark.now").length < 3) await new Promise((go) => setTimeout(go, 50));
  told.table = [...document.querySelectorAll("#rate-table tbody tr")].map((row) => row.textContent);
  told.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  told.asked = performance.getEntriesByType("resource").map((entry) => entry.name).filter((name) => !name.startsWith("file:"));
  told.outside = [...document.querySelectorAll("svg text, svg .mark")].filter((part) => {
    const at = part.getBoundingClientRect(), all = part.ownerSVGElement.getBoundingClientRect();
    return at.left < all.left - 1 || at.right > all.right + 6 || at.top < all.top - 1 || at.bottom > all.bottom + 1;
  }).map((part) => part.textContent || part.getAttribute("class"));
  document.body.append(html("pre", { id: "told", textContent: JSON.stringify(told) }));
}
touch();
</script>"##;

/// Like [`TOUCH`], but for the page `tree.html`. Uses each of its pictures once.
const TOUCH_TREE: &str = r##"<script>
async function touch() {
  while (!document.documentElement.dataset.ready) await new Promise((go) => setTimeout(go, 20));
  const told = { faults };
  const put = (id, value) => {
    byId(id).value = value;
    byId(id).dispatchEvent(new Event("input", { bubbles: true }));
  };
  const blocks = (id) => { byId(id).click(); return parseFloat(byId("falling-sum").textContent.split(": ")[1]); };
  told.lookups = [blocks("falling-absent"), blocks("falling-present")];
  put("falling-bits", 0);
  told.plain = [blocks("falling-absent"), blocks("falling-present")];
  // The picture shows the same lookups: what the present keys found in each run.
  told.found = [...document.querySelectorAll("#falling-picture text")].map((text) => text.textContent.match(/(\d+) found$/)).filter(Boolean).map((found) => Number(found[1]));
  told.columns = document.querySelectorAll("#uneven-picture .of-lines").length;
  const wasted = () => parseFloat(byId("budget-facts").textContent.split("reads ")[1]);
  told.equal = wasted();
  const bar = document.querySelector("#budget-picture .bar");
  bar.focus();
  bar.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
  told.moved = Number(bar.getAttribute("aria-valuenow"));
  byId("budget-best").click();
  told.best = wasted();
  const read = () => [...document.querySelectorAll("#memory-picture text")].map((text) => parseFloat(text.textContent)).filter((kib) => !isNaN(kib));
  told.small = read();
  put("memory-cache", 400);
  told.large = read();
  put("dead-part", 100);
  // A compaction: its captions, and how many tombstones the tree has after each step.
  told.captions = [], told.tombstones = [];
  for (let step = 0; step <= Number(byId("merge-at").max); step++) {
    put("merge-at", step);
    told.captions.push(byId("merge-caption").textContent);
    told.tombstones.push(parseInt(byId("merge-facts").textContent.split("Tombstones: ")[1]));
  }
  // A crash after each step, by durability and kind: whether the write is there.
  told.crashes = {};
  for (const durability of ["buffered", "sync"]) {
    for (const kind of ["kill", "power"]) {
      document.querySelector(`[value=${durability}]`).click();
      document.querySelector(`[value=${kind}]`).click();
      const there = [];
      for (let step = 0; step <= Number(byId("crash-at").max); step++) {
        put("crash-at", step);
        there.push(byId("crash-facts").classList.contains("yes") ? 1 : 0);
      }
      told.crashes[`${durability} ${kind}`] = there.join("");
    }
  }
  told.facts = [...document.querySelectorAll(".facts")].map((facts) => facts.textContent);
  told.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  told.asked = performance.getEntriesByType("resource").map((entry) => entry.name).filter((name) => !name.startsWith("file:"));
  told.outside = [...document.querySelectorAll("section svg text")].filter((part) => {
    const at = part.getBoundingClientRect(), all = part.ownerSVGElement.getBoundingClientRect();
    return at.left < all.left - 1 || at.right > all.right + 6 || at.top < all.top - 1 || at.bottom > all.bottom + 1;
  }).map((part) => part.textContent);
  document.body.append(html("pre", { id: "told", textContent: JSON.stringify(told) }));
}
touch();
</script>"##;

#[test]
#[ignore = "needs Chromium; .ci/long runs it"]
fn a_browser_moves_the_pictures_of_a_tree() {
    let Some(browser) = browser::find() else {
        println!("the page of a tree in a browser: skipped, there is no Chromium");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let file = copy(dir.path(), "tree.html", TOUCH_TREE);
    for (width, scheme) in browser::VIEWS {
        let (_, told) = browser::visit(browser, &file, width, scheme);
        for none in ["faults", "asked", "outside"] {
            assert_eq!(told[none], serde_json::json!([]), "{none}, {width} wide");
        }
        assert_eq!(told["wide"], 0, "{width} wide");
        let of = |name: &str| -> Vec<f64> {
            told[name].as_array().unwrap().iter().map(|figure| figure.as_f64().unwrap()).collect()
        };
        // The tree has four runs, and most present keys are in the last one. So without filters a
        // lookup reads four blocks for an absent key, and on average more than three for a present
        // key.
        assert!(of("lookups")[0] < 0.1 && of("lookups")[1] < 1.1, "{told}");
        assert!(of("plain")[0] == 4.0 && of("plain")[1] > 3.0, "{told}");
        assert!(told["columns"].as_u64().unwrap() > 5, "{told}");
        let [equal, best] = ["equal", "best"].map(|name| told[name].as_f64().unwrap());
        assert!(
            best < 0.45 * equal && best > 0.3 * equal,
            "the factor of the chapter is 2.7: {told}"
        );
        assert_eq!(told["moved"], 10.5);
        assert_eq!(of("found").iter().sum::<f64>(), 1000.0, "every present key is drawn: {told}");
        check_compaction(&told);
        // A killed process keeps what the operating system has: the record is step 2. A power loss
        // keeps what the device has: the synced log, or the table once the MANIFEST lists it.
        let crashes = &told["crashes"];
        assert_eq!(crashes["buffered kill"], "001111111", "{crashes}");
        assert_eq!(crashes["buffered power"], "000000011", "{crashes}");
        assert_eq!(crashes["sync kill"], "0011111111", "{crashes}");
        assert_eq!(crashes["sync power"], "0001111111", "{crashes}");
        let (small, large) = (of("small"), of("large"));
        assert!(small[0] > 5.0 * small[1], "whole filters fall off the cliff: {told}");
        assert!(large.iter().all(|&kib| kib < 0.2), "everything fits: {told}");
        for facts in told["facts"].as_array().unwrap() {
            let text = facts.as_str().unwrap();
            let odd = ["undefined", "NaN", "null"].iter().any(|odd| text.contains(odd));
            assert!(text.len() > 10 && !odd, "{text}");
        }
    }
}

/// Checks the steps of the compaction: one tombstone leaves when no older run can have its key, the
/// other one only when the last level is merged.
fn check_compaction(told: &Value) {
    let left: Vec<u64> = numbers(&told["tombstones"]);
    assert_eq!((left[0], left.last()), (2, Some(&0)), "{left:?}");
    assert!(left.contains(&1) && left.is_sorted_by(|before, after| before >= after), "{left:?}");
    let captions = told["captions"].as_array().unwrap();
    let has = |text: &str| captions.iter().any(|caption| caption.as_str().unwrap().contains(text));
    for text in ["cannot have bee", "dog is in the key range of level 2", "No run is older"] {
        assert!(has(text), "{captions:?}");
    }
}

/// Copies the pages to the directory `copy`. There it adds a second copy of `page`, which records
/// errors and also runs the script `touch`, and returns the path of this copy.
fn copy(copy: &Path, page: &str, touch: &str) -> PathBuf {
    fs::create_dir_all(copy).unwrap();
    for path in files(&folder(), "") {
        fs::copy(&path, copy.join(path.file_name().unwrap())).unwrap();
    }
    let page = fs::read_to_string(copy.join(page)).unwrap();
    let file = copy.join("watched.html");
    fs::write(&file, browser::watched(&page, touch)).unwrap();
    file
}

/// Returns a copy of `index.html` that makes the requests and runs [`TOUCH`]. It uses the
/// WebAssembly in the file `filters`.
fn watched(to: &Path, filters: &Path, requests: &[String]) -> PathBuf {
    let requests = serde_json::to_string(requests).unwrap();
    let touch = format!("<script>const REQUESTS = {requests};</script>{TOUCH}");
    let file = copy(to, "index.html", &touch);
    fs::copy(filters, to.join("filters.js")).unwrap();
    file
}

/// Compiles the filters to WebAssembly, if the target for it is installed.
fn fresh(directory: &Path) -> Option<PathBuf> {
    let targets = Command::new("rustup").args(["target", "list", "--installed"]).output().ok()?;
    if !String::from_utf8_lossy(&targets.stdout).contains("wasm32-unknown-unknown") {
        println!("the source as WebAssembly: skipped, rustup target add wasm32-unknown-unknown");
        return None;
    }
    let file = directory.join("fresh.js");
    let script = root().join("crates/filter/examples/playground/build");
    assert!(Command::new(script).arg(&file).status().unwrap().success());
    Some(file)
}

#[test]
#[ignore = "needs Chromium; .ci/long runs it"]
fn a_browser_computes_what_this_machine_does() {
    let Some(browser) = browser::find() else {
        println!("the playground in a browser: skipped, there is no Chromium");
        return;
    };
    let mut requests = vec![
        "full burr 7 5000 100000".into(),
        "full ribbon 7.5 2000 17".into(),
        with("bloom 10", &names("key", 60), &names("absent", 100)),
        with("bloom 3.5", &["ü \"<&>\\".into()], &["ü \"<&>\\".into(), "".into()]),
        with("ribbon 14", &animals(), &names("absent", 20)),
        with("burr 11", &animals(), &names("absent", 20)),
        with("ribbon 8", &animals(), &animals()),
        "nonsense".into(),
    ];
    for family in ["bloom", "ribbon", "burr", "fuse"] {
        for (bits, keys) in [(1, 1000), (7, 1000), (7, 30_000), (16, 1000), (9, 20)] {
            requests.push(format!("rate {family} {bits} {keys} 20000"));
        }
    }
    let expected: Vec<String> = requests.iter().map(|request| answer(request)).collect();
    let dir = tempfile::tempdir().unwrap();
    let mut filters = vec![folder().join("filters.js")];
    filters.extend(fresh(dir.path()));

    for (i, filters) in filters.iter().enumerate() {
        let file = watched(&dir.path().join(format!("copy{i}")), filters, &requests);
        for (width, scheme) in browser::VIEWS.into_iter().take(if i == 0 { usize::MAX } else { 1 })
        {
            let (_, told) = browser::visit(browser, &file, width, scheme);
            let raw = told["raw"].as_array().unwrap();
            assert_eq!(raw.len(), requests.len());
            for (request, (said, expected)) in requests.iter().zip(raw.iter().zip(&expected)) {
                let same = said.as_str() == Some(expected);
                assert!(
                    same,
                    "{}: crates/filter/examples/playground/build? {request}",
                    filters.display()
                );
            }
            check_pictures(&told, width);
        }
    }
    println!(
        "the playground in a browser: {} answers as on this machine, in {} builds; light and dark, at three widths",
        expected.len(),
        filters.len()
    );
}

/// Checks what the pictures show after [`TOUCH`].
fn check_pictures(told: &Value, width: u32) {
    let nothing = serde_json::json!([]);
    for none in ["faults", "asked", "outside"] {
        assert_eq!(told[none], nothing, "{none}, {width} wide");
    }
    assert_eq!(told["wide"], 0, "{width} wide");
    let added = ["apple", "pear", "plum"].map(String::from).into_iter();
    let added = added.chain((1..=25).map(|i| format!("key {i}"))).chain(["fig".into()]);
    let bloom = ask(&with("bloom 10", &added.collect::<Vec<_>>(), &["fig".into()]));
    assert_eq!(told["set"], set_bits(&bloom).len(), "bits drawn");
    assert_eq!(told["marked"], bits_of(&bloom["asked"][0]).len(), "bits of the key added last");
    for (mode, slots) in [("ribbon", 14), ("burr", 11)] {
        let answer = ask(&with(&format!("{mode} {slots}"), &animals(), &[]));
        let last = answer["bands"].as_array().unwrap().last().unwrap();
        let words: Vec<String> =
            numbers(&last["solution"]).iter().map(|slot| format!("{slot:04b}")).collect();
        assert_eq!(told[mode], serde_json::json!(words), "{mode}");
    }
    let full = |step: usize, mark: usize| told["full"][step][mark].as_u64().unwrap();
    assert!(full(0, 0) > 500 && full(0, 1) == 0, "nothing is added: {}", told["full"]);
    assert!(full(1, 0) < full(0, 0) && full(1, 1) > 0 && full(2, 0) == 0, "{}", told["full"]);
    assert!(full(2, 2) > full(0, 2), "the slots are solved: {}", told["full"]);
    assert!(told["path"].as_str().unwrap().contains("bump"), "{}", told["path"]);
    assert_eq!(told["visited"], 4, "two layers have the key's mark");
    let typed = told["typed"].as_array().unwrap();
    assert!(typed[0][0] == 1 && typed[0][1] == 2, "two keys were typed: {}", typed[0]);
    for (nothing, count) in [(&typed[1], "there are 0"), (&typed[2], "there are 60")] {
        assert_eq!((&nothing[0], &nothing[1]), (&0.into(), &0.into()), "the old picture stays");
        assert!(nothing[2].as_str().unwrap().contains(count), "{nothing}");
    }
    assert!(typed[3][0] == 1 && typed[3][1] == 12, "{}", typed[3]);
    assert!(told["reasons"].as_array().unwrap().iter().all(|reason| reason == ""));
    assert!(told["crowded"].as_str().unwrap().contains("at most 400"), "grey without a reason");
    assert_eq!(told["pieces"], 1, "several filters are built while the slider waits");
    assert!(told["most"].as_u64().unwrap() <= 200_000, "{}", told["most"]);
    let captions = told["captions"].as_array().unwrap();
    assert!(captions.len() > 100, "{} steps", captions.len());
    for caption in captions.iter().chain(told["table"].as_array().unwrap()) {
        let text = caption.as_str().unwrap();
        let odd = ["undefined", "NaN", "null", "…"].iter().any(|odd| text.contains(odd));
        assert!(text.len() > 10 && !odd, "{text}");
    }
}
