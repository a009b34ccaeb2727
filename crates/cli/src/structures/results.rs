//! The figures of a run.

use super::claims::Claim;
use super::measure::Row;
use crate::show::about::Origin;

/// The command that pages name as their maker.
pub const MAKER: &str = "maypole structures";

pub struct Results {
    pub origin: Origin,
    pub keys: usize,
    /// The rate that each structure is made for. The claims have their own rates.
    pub rate: f64,
    pub rows: Vec<Row>,
    pub claims: Vec<Claim>,
}
