//! How figures are shown: as text, in tables that fit the screen, as records for JSON and CSV, as curves,
//! on a page.

pub mod html;
pub mod plot;
pub mod record;
pub mod sheet;
pub mod text;
