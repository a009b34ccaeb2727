//! The arguments and replies of the BF commands. A *layer* is one of the Bloom filters of which a
//! filter that grows consists.

use core::fmt;

use super::super::shared::{Damaged, Full};

/// Why a command failed.
///
/// ```
/// use maypole_filter::textbook::redis::{CommandError, Growth, Keyspace};
///
/// let mut space = Keyspace::default();
/// space.reserve("seen", 0.01, 1, Growth::NonScaling)?;
/// space.add("seen", 1)?;
/// assert_eq!(space.add("seen", 2), Err(CommandError::Full));
/// # Ok::<(), CommandError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandError {
    /// There is a filter of this name already.
    Exists,
    /// There is no filter of this name.
    NotFound,
    /// The filter is full, and cannot grow.
    Full,
    /// Pieces of the filter are missing: load them first.
    Loading,
    /// The arguments are incompatible or out of range, or the filter does not fit into memory.
    Invalid(&'static str),
    /// A piece differs from the saved one, or does not follow the pieces that are loaded.
    Damaged(Damaged),
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::Exists => f.write_str("there is a filter of this name"),
            CommandError::NotFound => f.write_str("there is no filter of this name"),
            CommandError::Full => Full.fmt(f),
            CommandError::Loading => f.write_str("the filter is not loaded completely"),
            CommandError::Invalid(what) => f.write_str(what),
            CommandError::Damaged(damaged) => damaged.fmt(f),
        }
    }
}

impl core::error::Error for CommandError {}

impl From<Damaged> for CommandError {
    fn from(damaged: Damaged) -> CommandError {
        CommandError::Damaged(damaged)
    }
}

/// The result of a command.
///
/// ```
/// use maypole_filter::textbook::redis::{Keyspace, Reply};
///
/// fn first_visit(space: &mut Keyspace, page: u64) -> Reply<bool> {
///     space.add("seen", page)
/// }
///
/// let mut space = Keyspace::default();
/// assert_eq!((first_visit(&mut space, 7), first_visit(&mut space, 7)), (Ok(true), Ok(false)));
/// ```
pub type Reply<T> = Result<T, CommandError>;

/// How a new filter grows. It is an enum so that EXPANSION and NONSCALING exclude each other.
///
/// ```
/// use maypole_filter::textbook::redis::{Growth, Keyspace};
///
/// let mut space = Keyspace::default();
/// space.reserve("grows", 0.01, 100, Growth::Expansion(4))?;
/// space.reserve("fixed", 0.01, 100, Growth::NonScaling)?;
/// assert_eq!(space.info("grows")?.expansion, Some(4));
/// assert_eq!(space.info("fixed")?.expansion, None);
/// # Ok::<(), maypole_filter::textbook::redis::CommandError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// EXPANSION: the factor by which a layer is larger than the one before. There are at most 64
    /// layers, so with a factor of 1 the filter is full at 64 times its capacity.
    Expansion(u32),
    /// NONSCALING: a full filter rejects keys.
    NonScaling,
}

/// The options of BF.INSERT. Except for `no_create`, they are used only if there is no filter of
/// this name yet.
///
/// ```
/// use maypole_filter::textbook::redis::{CommandError, InsertOptions, Keyspace};
///
/// let mut space = Keyspace::default();
/// let options = InsertOptions { capacity: Some(1000), ..InsertOptions::default() };
/// space.insert("seen", options, &[1, 2, 3])?;
/// assert_eq!(space.info("seen")?.capacity, 1000);
///
/// let options = InsertOptions { no_create: true, ..InsertOptions::default() };
/// assert_eq!(space.insert("other", options, &[1]), Err(CommandError::NotFound));
/// # Ok::<(), CommandError>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct InsertOptions {
    /// CAPACITY: the keys of the first layer; 100 by default.
    pub capacity: Option<u64>,
    /// ERROR: the bound on the false-positive rate; 1 % by default.
    pub rate: Option<f64>,
    /// EXPANSION or NONSCALING; EXPANSION 2 by default.
    pub growth: Option<Growth>,
    /// NOCREATE: fail if there is no filter. It cannot be combined with CAPACITY or ERROR.
    pub no_create: bool,
}

/// The reply of BF.INFO.
///
/// ```
/// use maypole_filter::textbook::redis::Keyspace;
///
/// let mut space = Keyspace::default();
/// space.madd("seen", &[1, 2, 3])?;
/// let info = space.info("seen")?;
/// assert_eq!((info.capacity, info.filters, info.items), (100, 1, 3));
/// # Ok::<(), maypole_filter::textbook::redis::CommandError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Info {
    /// The capacity of all layers: the number of keys after which the filter grows, or is full if
    /// it does not grow.
    pub capacity: u64,
    /// Bytes of memory.
    pub size: usize,
    /// The number of layers.
    pub filters: usize,
    /// Keys that looked new when they were added.
    pub items: u64,
    /// `None` if the filter does not grow.
    pub expansion: Option<u32>,
}
