//! A page in headless Chromium: the errors in it, and the results of a script in it.
//!
//! The tests of pages in `cli` and `book` include this module.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Names of the browser in Debian and other systems.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A script that runs before everything else in a page, and records errors.
const WATCH: &str = r##"<script>
var faults = [];
addEventListener("error", (event) => faults.push(String(event.message || event.target)), true);
addEventListener("unhandledrejection", (event) => faults.push(String(event.reason)));
</script>"##;

/// The widths of a screen, of half a screen and of a phone, each in light (1) and dark (0).
pub const VIEWS: [(u32, u32); 6] = [(1400, 1), (1400, 0), (800, 1), (800, 0), (400, 1), (400, 0)];

/// Chromium makes no window narrower than this. A narrower page is shown in a frame.
const LEAST_WINDOW: u32 = 500;

/// A script for a page that is shown in a frame of another page. When the script under test has
/// added its results, this script sends the content of its page to the other page.
const SEND: &str = r##"<script>
const send = () => document.getElementById("told")
  && parent.postMessage(document.documentElement.outerHTML, "*");
if (parent !== window) new MutationObserver(send).observe(document.body, { childList: true });
</script>"##;

/// The name of an installed browser, if there is one.
pub fn find() -> Option<&'static str> {
    NAMES.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok())
}

/// Adds scripts to the page. The first one runs before everything else and records errors. `script`
/// runs last; it must add a `<pre id="told">` that holds its results as JSON. If the page is in a
/// frame, a third script sends its content to the page around it.
pub fn watched(page: &str, script: &str) -> String {
    let page = page.replacen("<head>", &format!("<head>{WATCH}"), 1);
    page.replacen("</body>", &format!("{SEND}{script}</body>"), 1)
}

/// A page that shows `file` in a frame of this width. When the framed page has sent its final
/// content, the page shows this content as text.
fn framed(file: &Path, width: u32) -> String {
    format!(
        "<!doctype html><meta name=\"color-scheme\" content=\"light dark\"><body>\
         <script>addEventListener(\"message\", (event) => {{ document.body.textContent = event.data; }});\
         </script><iframe width=\"{width}\" height=\"900\" style=\"border:0\" src=\"{}\"></iframe>",
        file.file_name().unwrap().display()
    )
}

/// Opens a watched page. Returns its final content, and the results of its script.
pub fn visit(browser: &str, file: &Path, width: u32, scheme: u32) -> (String, Value) {
    let mut shown = file.to_owned();
    if width < LEAST_WINDOW {
        shown = file.with_file_name("framed.html");
        fs::write(&shown, framed(file, width)).unwrap();
    }
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .arg("--virtual-time-budget=60000")
        .arg(format!("--user-data-dir={}", file.with_file_name("profile").display()))
        .arg(format!("--window-size={width},900"))
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .arg(format!("file://{}", shown.display()))
        .output()
        .unwrap();
    let unescape =
        |text: &str| text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let mut html = String::from_utf8(output.stdout).unwrap();
    if width < LEAST_WINDOW {
        html = unescape(&html);
    }
    let told = html.split("<pre id=\"told\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    let told = told.unwrap_or_else(|| panic!("the script did not end: {html}"));
    let told = serde_json::from_str(&unescape(told)).unwrap();
    (html, told)
}
