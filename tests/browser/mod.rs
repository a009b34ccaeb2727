//! A page in headless Chromium: what goes wrong in it, and what a script in it has found out.
//!
//! A part of the tests that have pages, `tests/cli` and `tests/book`.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Of Debian and others.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Goes before everything else in a page: what goes wrong is kept.
const WATCH: &str = r##"<script>
var faults = [];
addEventListener("error", (event) => faults.push(String(event.message || event.target)), true);
addEventListener("unhandledrejection", (event) => faults.push(String(event.reason)));
</script>"##;

/// Wide and narrow, light (1) and dark (0).
pub const VIEWS: [(u32, u32); 4] = [(1280, 1), (1280, 0), (390, 1), (390, 0)];

/// The name of a browser, if there is one here.
pub fn find() -> Option<&'static str> {
    NAMES.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok())
}

/// The page, watched, with `script` behind everything else. The script adds an element `told` with
/// what it found out, as JSON.
pub fn watched(page: &str, script: &str) -> String {
    let page = page.replacen("<head>", &format!("<head>{WATCH}"), 1);
    page.replacen("</body>", &format!("{script}</body>"), 1)
}

/// Opens a watched page. What stands in it at the end, and what its script told.
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
