//! How figures are shown: as text, in tables that fit the screen, as records for JSON and CSV, as
//! curves and bars, on a page; and under what conditions they were measured.

pub mod about;
pub mod bars;
pub mod files;
pub mod html;
pub mod plot;
pub mod record;
pub mod sheet;
pub mod svg;
pub mod text;
