//! The figures, a file for each subject. A figure is a function that returns the text to print.

pub mod bloom;
pub mod bumping;
pub mod claims;
pub mod equations;
pub mod family;
pub mod hand;
pub mod hashing;
pub mod keys;
pub mod lines;
pub mod pictures;
pub mod rates;
pub mod ribbon;
pub mod runs;
pub mod table;
pub mod tree;

/// The name of a figure, and the function that prints it.
pub type Figure = (&'static str, fn() -> String);

/// All figures, in the order of the book.
pub const FIGURES: &[Figure] = &[
    ("why", tree::why),
    ("hand", hand::hand),
    ("mathematics", rates::mathematics),
    ("rate-by-k", rates::by_k),
    ("rate-by-m", rates::by_m),
    ("rate-by-n", rates::by_n),
    ("divisor", rates::divisor),
    ("hashing", hashing::quality),
    ("hash-width", hashing::width),
    ("line-sizes", lines::sizes),
    ("ribbon", ribbon::solved),
    ("bumping", bumping::bumped),
    ("burr-sizes", bumping::sizes),
    ("table", table::dump),
    ("read-path", tree::read_path),
    ("budgets", runs::budgets),
    ("compaction", tree::compaction),
    ("prefixes", tree::prefixes),
    ("deletions", tree::deletions),
    ("claims", claims::claims),
    ("monitoring", tree::monitoring),
    ("intervals", rates::intervals),
    ("family", family::family),
];

/// Figures that differ a little from run to run, because they depend on what a cache evicts.
pub const NEARLY_SAME: &[Figure] = &[("parts", pictures::cliff::counted)];
