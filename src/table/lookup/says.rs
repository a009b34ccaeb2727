//! [`FilterSays`]: the first step of a lookup in a table, and how the lookup continues.

/// What the filter of a table says of a key.
pub(crate) enum FilterSays {
    /// The table holds no entry of the key.
    No,
    Maybe,
    /// The filter was not queried. Either its part for the key, which is number `part`, is not in
    /// memory, or lookups pass the filter by, because data blocks would save more reads in its
    /// memory ([`worth`](crate::table::worth)).
    NotQueried {
        part: u32,
    },
}

impl FilterSays {
    #[inline(always)]
    pub(super) fn of(maybe: bool) -> FilterSays {
        if maybe { FilterSays::Maybe } else { FilterSays::No }
    }
}
