//! Tests of the folder that `cargo run --example book -- site DIR` writes.

use std::fs;
use std::path::{Path, PathBuf};

use super::browser;
use super::markdown::{chapters, files};
use super::site;

/// A text between two marks, as often as it occurs.
fn between<'a>(text: &'a str, start: &str, end: &str) -> Vec<&'a str> {
    text.split(start).skip(1).filter_map(|rest| rest.split(end).next()).collect()
}

/// The pages of the folder. The report of a comparison is a page of its own making.
fn pages(site: &Path) -> Vec<PathBuf> {
    files(site, ".html")
        .into_iter()
        .filter(|page| !page.starts_with(site.join("docs/pages")))
        .collect()
}

#[test]
fn the_site_has_every_chapter_and_every_link_in_it_leads_somewhere() {
    let dir = tempfile::tempdir().unwrap();
    let written = site::write(dir.path()).unwrap();
    let pages = pages(dir.path());
    assert!(pages.len() <= written && pages.len() > 100, "{} of {written}", pages.len());
    for chapter in chapters() {
        let name = chapter.path.with_extension("html");
        let page = dir.path().join(name.file_name().unwrap());
        let page = fs::read_to_string(&page).unwrap();
        let title = chapter.text.lines().next().unwrap().trim_start_matches("# ");
        assert!(page.contains(&format!("<title>{title}</title>")), "{}: its title", chapter.name());
    }
    let mut followed = 0;
    for page in &pages {
        let name = page.strip_prefix(dir.path()).unwrap().display();
        let text = fs::read_to_string(page).unwrap();
        let scripts = between(&text, " src=\"", "\"");
        let styles = between(&text, "<link rel=\"stylesheet\" href=\"", "\"");
        for loaded in scripts.iter().chain(&styles) {
            let file = page.parent().unwrap().join(loaded);
            assert!(!loaded.contains(':') && file.is_file(), "{name} loads {loaded}");
        }
        for link in between(&text, " href=\"", "\"") {
            let elsewhere = ["https:", "http:", "mailto:", "data:"];
            if elsewhere.iter().any(|start| link.starts_with(start)) {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let file =
                if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let there = fs::read_to_string(&file).unwrap_or_else(|_| panic!("{name}: no {link}"));
            let found = anchor.is_empty() || there.contains(&format!("id=\"{anchor}\""));
            assert!(found, "{name}: no element for {link}");
            followed += 1;
        }
    }
    assert!(followed > 500, "{followed} links");
}

/// Runs in a page of the site and reports what is wider than the page, and pictures that are not
/// shown.
const LOOK: &str = r##"<script>
addEventListener("load", () => {
  const told = { faults };
  told.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  told.missing = [...document.images].filter((image) => !image.naturalWidth).map((image) => image.src);
  told.asked = performance.getEntriesByType("resource").map((entry) => entry.name).filter((name) => !name.startsWith("file:"));
  const pre = document.createElement("pre");
  pre.id = "told";
  pre.textContent = JSON.stringify(told);
  document.body.append(pre);
});
</script>"##;

#[test]
#[ignore = "needs Chromium; .ci/long runs it"]
fn a_browser_shows_the_pages_of_the_site() {
    let Some(browser) = browser::find() else {
        println!("the site in a browser: skipped, there is no Chromium");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    site::write(dir.path()).unwrap();
    let shown = ["index.html", "contents.html", "why.html", "parts.html", "table.html"];
    for name in shown {
        let page = fs::read_to_string(dir.path().join(name)).unwrap();
        let file = dir.path().join("watched.html");
        fs::write(&file, browser::watched(&page, LOOK)).unwrap();
        for (width, scheme) in browser::VIEWS {
            let (_, told) = browser::visit(browser, &file, width, scheme);
            for none in ["faults", "missing", "asked"] {
                assert_eq!(told[none], serde_json::json!([]), "{none}: {name}, {width} wide");
            }
            assert_eq!(told["wide"], 0, "{name}, {width} wide");
        }
    }
    println!("the site in a browser: {} pages, light and dark, at three widths", shown.len());
}
