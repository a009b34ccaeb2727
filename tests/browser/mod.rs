//! A page in headless Chromium: the errors in it, and the results of a script in it.
//!
//! Included by the tests that have pages, `tests/cli` and `tests/book`.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Names of the browser in Debian and other systems.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Runs before everything else in a page, and records errors.
const WATCH: &str = r##"<script>
var faults = [];
addEventListener("error", (event) => faults.push(String(event.message || event.target)), true);
addEventListener("unhandledrejection", (event) => faults.push(String(event.reason)));
</script>"##;

/// Wide, as half a screen, and as a phone; light (1) and dark (0).
pub const VIEWS: [(u32, u32); 6] = [(1400, 1), (1400, 0), (800, 1), (800, 0), (400, 1), (400, 0)];

/// The name of an installed browser, if there is one.
pub fn find() -> Option<&'static str> {
    NAMES.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok())
}

/// The page, watched, with `script` after everything else. The script adds an element `told` with
/// its results as JSON.
pub fn watched(page: &str, script: &str) -> String {
    let page = page.replacen("<head>", &format!("<head>{WATCH}"), 1);
    page.replacen("</body>", &format!("{script}</body>"), 1)
}

/// Opens a watched page. Returns its final content, and the results of its script.
pub fn visit(
    browser: &str,
    file: &Path,
    width: u32,
    scheme: u32,
    flags: &[&str],
) -> (String, Value) {
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .args(flags)
        .arg(format!("--user-data-dir={}", file.with_file_name("profile").display()))
        .arg(format!("--window-size={width},900"))
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .arg(format!("file://{}", file.display()))
        .output()
        .unwrap();
    let html = String::from_utf8(output.stdout).unwrap();
    let told = html.split("<pre id=\"told\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    let told = told.unwrap_or_else(|| panic!("the script did not end: {html}"));
    let plain = told.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let told = serde_json::from_str(&plain).unwrap();
    (html, told)
}
