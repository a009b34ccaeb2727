//! The parts of a stored filter, for programs that draw it.

use super::layout::Layout;
use super::row::{equation, next_hash, start};
use crate::inspect::parts::{BandLayer, BandParts, Rows};

/// The parts of the filter in `block`; `None` if it is not a filter.
pub(super) fn parts(block: &[u8]) -> Option<BandParts> {
    let layout = Layout::decode(block).ok()?;
    let shape = layout.shape;
    let (_, thresholds_at) = layout.parts();
    let layers = layout.slots().iter().zip(thresholds_at).enumerate();
    let layers = layers.map(|(number, (&slots, at))| {
        let starts = slots - shape.width;
        let buckets = starts.div_ceil(shape.bucket()) as usize;
        let threshold = |bucket: usize| block[at + bucket / 4] >> (2 * (bucket % 4)) & 3;
        BandLayer {
            slots,
            starts,
            low_blocks: if number == 0 { layout.low_blocks } else { 0 },
            thresholds: (0..buckets).map(threshold).collect(),
        }
    });
    Some(BandParts {
        width: shape.width,
        columns: layout.columns,
        layers: layers.collect(),
        tags: layout.tags,
        bucket_starts: shape.bucket(),
        kept_starts: [0, shape.lo, shape.up, shape.bucket()],
        rows: Rows { parameter: shape.width, row: row_of, next: next_hash },
    })
}

/// Start, coefficients and all 32 fingerprint bits of a hash in a layer of `starts` start
/// positions.
fn row_of(hash: u64, width: u32, starts: u32) -> (u32, u128, u32) {
    let (coefficients, fingerprint) = match width {
        32 => {
            let (coefficients, fingerprint) = equation::<u32>(hash);
            (coefficients.into(), fingerprint)
        }
        _ => {
            let (coefficients, fingerprint) = equation::<u64>(hash);
            (coefficients.into(), fingerprint)
        }
    };
    (start(hash, starts), coefficients, fingerprint)
}
