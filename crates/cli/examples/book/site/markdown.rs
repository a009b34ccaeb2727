//! Markdown to HTML, by the parser that rustdoc and mdBook use.

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

/// Comments above a figure or a listing that say where it comes from. Readers see them.
const SOURCES: [&str; 3] = ["printed by: ", "counted by: ", "from "];

/// A document as HTML, and its title, which is its first heading.
pub struct Rendered {
    pub title: String,
    pub html: String,
}

/// Renders a document. `link` says where a link or a picture of the document leads to in the site.
/// If it leads nowhere, only its text stays.
pub fn render(text: &str, link: &mut dyn FnMut(&str) -> Option<String>) -> Rendered {
    let mut events: Vec<Event> = Vec::new();
    let mut anchors: Vec<String> = Vec::new();
    let mut title = String::new();
    // The index of the open heading, and whether each open link is kept.
    let (mut heading, mut kept) = (0, Vec::new());
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Heading { .. }) => {
                heading = events.len();
                events.push(event);
            }
            Event::End(TagEnd::Heading(_)) => {
                let said = text_of(&events[heading..]);
                let found = anchor(&said, &anchors);
                if let Event::Start(Tag::Heading { id, .. }) = &mut events[heading] {
                    *id = Some(CowStr::from(found.clone()));
                }
                if anchors.is_empty() {
                    title = said;
                }
                anchors.push(found);
                events.push(event);
            }
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                let to = link(&dest_url);
                kept.push(to.is_some());
                if let Some(to) = to {
                    let dest_url = CowStr::from(to);
                    events.push(Event::Start(Tag::Link { link_type, dest_url, title, id }));
                }
            }
            Event::End(TagEnd::Link) => {
                if kept.pop() == Some(true) {
                    events.push(event);
                }
            }
            Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
                let dest_url = link(&dest_url).map_or(dest_url, CowStr::from);
                events.push(Event::Start(Tag::Image { link_type, dest_url, title, id }));
            }
            // Wide tables scroll by themselves.
            Event::Start(Tag::Table(_)) => {
                events.extend([Event::Html("<div class=\"scroll\">".into()), event]);
            }
            Event::End(TagEnd::Table) => events.extend([event, Event::Html("</div>".into())]),
            Event::Html(html) => events.push(Event::Html(source(&html).map_or(html, CowStr::from))),
            event => events.push(event),
        }
    }
    let mut out = String::new();
    html::push_html(&mut out, events.into_iter());
    Rendered { title, html: out }
}

/// A comment that says where the next figure comes from, as a line above it.
fn source(html: &str) -> Option<String> {
    let said = html.trim().strip_prefix("<!-- ")?.strip_suffix(" -->")?;
    let source = SOURCES.iter().find_map(|start| said.strip_prefix(start))?;
    let mut line = String::from("<p class=\"source\"><code>");
    line += &escaped(source);
    Some(line + "</code></p>\n")
}

fn text_of(events: &[Event]) -> String {
    let text = events.iter().map(|event| match event {
        Event::Text(text) | Event::Code(text) => text,
        _ => "",
    });
    text.collect()
}

/// The anchor of a heading, as GitHub makes it from the title. `before` are those of the headings
/// before it.
pub fn anchor(title: &str, before: &[String]) -> String {
    let keep = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let slug: String = title.trim().to_lowercase().chars().filter(keep).collect();
    let slug = slug.replace(' ', "-");
    let same = before.iter().filter(|anchor| **anchor == slug).count();
    if same == 0 { slug } else { format!("{slug}-{same}") }
}

pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
