//! Every figure of a comparison. The terminal, the page, JSON and CSV show these figures, and
//! others that are computed from them alone.
//!
//! ```text
//! report   tables on the terminal                verdict   what the figures mean, in words
//! save     page, JSON and CSV into a directory   page/     the page
//! ```

mod page;
pub mod report;
mod rows;
pub mod save;
pub mod verdict;

pub use rows::*;
