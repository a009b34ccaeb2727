//! [`FilterSays`]: the first step of a lookup in a table, and how the lookup continues.

/// What the filter of a table says of a key.
pub(crate) enum FilterSays {
    /// The table holds no entry of the key.
    No,
    /// `index_part` is the part of the index that leads to the key, if the query has found it.
    Maybe { index_part: Option<u32> },
    /// The filter was not queried, because its part for the key, which is number `part`, is not in
    /// memory.
    NotQueried { part: u32 },
}

impl FilterSays {
    #[inline(always)]
    pub(super) fn of(maybe: bool, index_part: impl FnOnce() -> Option<u32>) -> FilterSays {
        if maybe { FilterSays::Maybe { index_part: index_part() } } else { FilterSays::No }
    }
}
